/** The schedules: when each is due next and what became of it last. */
import { Button } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useMemo } from "react";

import { api, need, type Schemas } from "../../api/client";
import { describeError } from "../../api/errors";
import { usePagedList } from "../../api/paging";
import { agentsQuery } from "../../api/queries";
import { schedules as texts } from "../../texts/schedules";
import { ui } from "../../texts/ui";
import { useChangeSearch } from "../../ui/address";
import { DataTable, type DataColumn } from "../../ui/DataTable";
import { ShowDemo } from "../../ui/DemoData";
import { Filters, WITH_DEMO } from "../../ui/Filters";
import { formatCount } from "../../ui/format";
import { GatedButton } from "../../ui/GatedButton";
import { Panel } from "../../ui/Panel";
import { Age, Status, Until } from "../../ui/parts";
import type { JsonObject } from "../../ui/schema/model";
import { useSettings } from "../../ui/settings";
import { Empty, Failure, Loading } from "../../ui/states";
import { loadScheduleSpec, saveSchedule } from "./actions";
import { Named, Outcome } from "./parts";
import { ScheduleActions, ScheduleDrawer, scheduleQuery, Times } from "./ScheduleDrawer";
import { NEW, SpecDrawer } from "./SpecDrawer";
import { describeTiming, NEW_SCHEDULE, SCHEDULE_EXTRAS, takeSpec, type Schedule } from "./words";

const route = getRouteApi("/schedules");
const TYPING_MS = 400;
const PREVIEWED = 6;

function buildColumns(timeZone: string | undefined): readonly DataColumn<Schedule>[] {
  const named = texts.columns;
  return [
    { id: "id", header: named.id, cell: (it) => <Named {...it} />, sortValue: (it) => it.id },
    { id: "actions", header: named.actions, cell: (it) => <ScheduleActions schedule={it} /> },
    { id: "status", header: named.status, cell: (it) => <Status value={it.status} />, sortValue: (it) => it.status },
    { id: "timing", header: named.timing, cell: (it) => describeTiming(it.timing, timeZone) },
    { id: "next", header: named.next, cell: (it) => <Until at={it.next_due} />, sortValue: (it) => it.next_due },
    { id: "last", header: named.last, cell: (it) => <Outcome last={it.last} at={it.last?.fired_at} />, sortValue: (it) => it.last?.fired_at ?? null },
    { id: "agent", header: named.agent, cell: (it) => it.target.agent_id, sortValue: (it) => it.target.agent_id },
    { id: "fired", header: named.fired, cell: (it) => formatCount(it.fired_count), sortValue: (it) => it.fired_count, isRight: true },
    { id: "skipped", header: named.skipped, cell: (it) => formatCount(it.skipped_count), sortValue: (it) => it.skipped_count, isRight: true, isHiddenAtFirst: true },
    { id: "by", header: named.by, cell: (it) => it.created_by ?? ui.none, sortValue: (it) => it.created_by, isHiddenAtFirst: true },
    { id: "created", header: named.created, cell: (it) => <Age at={it.created_at} />, sortValue: (it) => it.created_at, isHiddenAtFirst: true },
  ];
}

/** The times that what is typed would have, or why it has none. */
function Preview({ spec }: { spec: JsonObject }) {
  const wanted = useMemo(() => ({ timing: spec.timing, end_at: spec.end_at ?? null, count: PREVIEWED }) as unknown as Schemas["PreviewSchedule"], [spec.timing, spec.end_at]);
  const [asked] = useDebouncedValue(wanted, TYPING_MS);
  const { data, error } = useQuery({
    queryKey: ["schedule", "preview", asked],
    queryFn: ({ signal }) => need(api.POST("/v1/schedules/preview", { signal, body: asked })),
    placeholderData: keepPreviousData,
    retry: false,
    refetchInterval: false,
  });
  return (
    <Panel title={texts.previewing}>
      <div role="status">{error !== null ? describeError(error) : data === undefined ? <Loading rows={2} /> : <Times due={data.due} timing={asked.timing} />}</div>
    </Panel>
  );
}

export function ScheduleList() {
  const { agent, status, demo: withDemo, open, edit, sort, columns } = route.useSearch();
  const change = useChangeSearch();
  const { timeZone } = useSettings();
  const { data: agents = [] } = useQuery(agentsQuery);
  const list = usePagedList<Schedule>(["schedule", "list", agent, status, withDemo], (cursor, signal) => {
    const query = { agent_id: agent, status: status as Schedule["status"] | undefined, demo: withDemo === "true" ? true : undefined, cursor, limit: 100 };
    return need(api.GET("/v1/schedules", { signal, params: { query } }));
  });
  const shownColumns = useMemo(() => buildColumns(timeZone), [timeZone]);
  const isNew = edit === NEW;
  const edited = useQuery({ ...scheduleQuery(edit ?? ""), enabled: edit !== undefined && !isNew });
  const create = <GatedButton scope="invoke" variant="filled" onClick={() => change({ edit: NEW })}>{texts.new}</GatedButton>;
  const isFiltered = agent !== undefined || status !== undefined || withDemo !== undefined;
  const choices = [{ name: "agent", label: texts.search, options: agents.map((it) => it.id), width: 170 }, { name: "status", label: texts.status, options: texts.statuses, width: 120 }, WITH_DEMO];
  return (
    <>
      {list.isError ? <Failure error={list.error} onRetry={() => void list.refetch()} /> : list.isPending ? <Loading /> : (
        <DataTable
          label={texts.views.schedules}
          rows={list.rows}
          columns={shownColumns}
          rowId={(it) => it.id}
          address={{ sort, columns }}
          onAddress={change}
          onOpen={(it) => change({ open: it.id })}
          hasMore={list.hasNextPage}
          isLoadingMore={list.isFetchingNextPage}
          onMore={() => void list.fetchNextPage()}
          toolbar={<>{list.rows.length === 0 && !isFiltered ? null : <><Filters values={{ agent, status, demo: withDemo }} onChange={change} choices={choices} />{create}</>}</>}
          empty={isFiltered ? <Empty title={texts.emptyFiltered} action={<Button onClick={() => change({ agent: undefined, status: undefined, demo: undefined })}>{ui.clear}</Button>} /> : <Empty title={texts.empty} action={<>{create}<ShowDemo onShow={() => change({ demo: "true" })} /></>} command={texts.command}>{texts.emptyHelp}</Empty>}
          height="calc(100vh - 220px)"
        />
      )}
      <ScheduleDrawer id={edit === undefined ? open : undefined} onClose={() => change({ open: undefined })} onEdit={(id) => change({ edit: id })} />
      <SpecDrawer
        title={isNew ? texts.new : texts.editTitle(edit ?? "")}
        schema={{ name: "ScheduleSpec", extras: SCHEDULE_EXTRAS, first: ["timing", "target"] }}
        id={edit}
        spec={isNew ? NEW_SCHEDULE : edited.data === undefined ? undefined : takeSpec(edited.data)}
        revision={edited.data?.revision}
        save={saveSchedule}
        load={loadScheduleSpec}
        onClose={(saved) => change({ edit: undefined, open: saved ?? open })}
        beside={(spec) => <Preview spec={spec} />}
      />
    </>
  );
}
