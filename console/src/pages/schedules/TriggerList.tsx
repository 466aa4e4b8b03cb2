/** The webhook triggers: how their senders are proven, and what they delivered last. */
import { Button, Code } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";

import { api, need } from "../../api/client";
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
import { Status } from "../../ui/parts";
import { Empty, Failure, Loading } from "../../ui/states";
import { loadTriggerSpec, saveTrigger } from "./actions";
import { Named, Outcome } from "./parts";
import { NEW, SpecDrawer } from "./SpecDrawer";
import { TriggerActions, TriggerDrawer, triggerQuery } from "./TriggerDrawer";
import { NEW_TRIGGER, takeSpec, TRIGGER_EXTRAS, type Trigger } from "./words";

const route = getRouteApi("/schedules");
const named = texts.triggerColumns;

const COLUMNS: readonly DataColumn<Trigger>[] = [
  { id: "id", header: named.id, cell: (it) => <Named {...it} />, sortValue: (it) => it.id },
  { id: "actions", header: named.actions, cell: (it) => <TriggerActions trigger={it} /> },
  { id: "status", header: named.status, cell: (it) => <Status value={it.is_paused ? "paused" : "active"} />, sortValue: (it) => String(it.is_paused) },
  { id: "scheme", header: named.scheme, cell: (it) => texts.schemes[it.scheme] ?? it.scheme, sortValue: (it) => it.scheme },
  { id: "last", header: named.last, cell: (it) => <Outcome last={it.last} at={it.last?.received_at} />, sortValue: (it) => it.last?.received_at ?? null },
  { id: "agent", header: named.agent, cell: (it) => it.target.agent_id, sortValue: (it) => it.target.agent_id },
  { id: "path", header: named.path, cell: (it) => <Code title={it.path}>{it.path}</Code>, isFlexible: true },
  { id: "secrets", header: named.secrets, cell: (it) => it.secrets.join(", ") },
  { id: "fired", header: named.fired, cell: (it) => formatCount(it.fired_count), sortValue: (it) => it.fired_count, isRight: true },
  { id: "by", header: named.by, cell: (it) => it.created_by ?? ui.none, sortValue: (it) => it.created_by, isHiddenAtFirst: true },
];

export function TriggerList() {
  const { agent, demo, open, edit, sort, columns } = route.useSearch();
  const change = useChangeSearch();
  const { data: agents = [] } = useQuery(agentsQuery);
  const list = usePagedList<Trigger>(["schedule", "triggers", agent, demo], (cursor, signal) => need(api.GET("/v1/triggers", { signal, params: { query: { agent_id: agent, demo: demo === "true" ? true : undefined, cursor, limit: 100 } } })));
  const isNew = edit === NEW;
  const edited = useQuery({ ...triggerQuery(edit ?? ""), enabled: edit !== undefined && !isNew });
  const create = <GatedButton scope="invoke" variant="filled" onClick={() => change({ edit: NEW })}>{texts.newTrigger}</GatedButton>;
  const isFiltered = agent !== undefined || demo !== undefined;
  return (
    <>
      {list.isError ? <Failure error={list.error} onRetry={() => void list.refetch()} /> : list.isPending ? <Loading /> : (
        <DataTable
          label={texts.views.triggers}
          rows={list.rows}
          columns={COLUMNS}
          rowId={(it) => it.id}
          address={{ sort, columns }}
          onAddress={change}
          onOpen={(it) => change({ open: it.id })}
          hasMore={list.hasNextPage}
          isLoadingMore={list.isFetchingNextPage}
          onMore={() => void list.fetchNextPage()}
          toolbar={list.rows.length === 0 && !isFiltered ? null : <><Filters values={{ agent, demo }} onChange={change} choices={[{ name: "agent", label: texts.search, options: agents.map((it) => it.id), width: 170 }, WITH_DEMO]} />{create}</>}
          empty={isFiltered ? <Empty title={texts.emptyFiltered} action={<Button onClick={() => change({ agent: undefined, demo: undefined })}>{ui.clear}</Button>} /> : <Empty title={texts.emptyTriggers} action={<>{create}<ShowDemo onShow={() => change({ demo: "true" })} /></>} command={texts.triggerCommand}>{texts.emptyTriggersHelp}</Empty>}
          height="calc(100vh - 220px)"
        />
      )}
      <TriggerDrawer id={edit === undefined ? open : undefined} onClose={() => change({ open: undefined })} onEdit={(id) => change({ edit: id })} />
      <SpecDrawer
        title={isNew ? texts.newTrigger : texts.editTitle(edit ?? "")}
        schema={{ name: "TriggerSpec", extras: TRIGGER_EXTRAS, first: ["scheme", "secrets", "target"] }}
        id={edit}
        spec={isNew ? NEW_TRIGGER : edited.data === undefined ? undefined : takeSpec(edited.data)}
        revision={edited.data?.revision}
        save={saveTrigger}
        load={loadTriggerSpec}
        onClose={(saved) => change({ edit: undefined, open: saved ?? open })}
      />
    </>
  );
}
