/** The audit: who changed what, with the fields that changed, and the proof that no event was. */
import { Alert, Button, Drawer, Group, Stack, Text } from "@mantine/core";
import { IconDownload, IconShieldCheck } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";

import { api, need } from "../../api/client";
import { readNow } from "../../api/clock";
import { usePagedList } from "../../api/paging";
import { audit as texts } from "../../texts/audit";
import { shell } from "../../texts/shell";
import { ui } from "../../texts/ui";
import { useChangeSearch } from "../../ui/address";
import { compareFields } from "../../ui/compare";
import { DataTable, type DataColumn } from "../../ui/DataTable";
import { RecordDiff } from "../../ui/FieldDiff";
import { Filters } from "../../ui/Filters";
import { noteDone, noteError } from "../../ui/notices";
import { Page } from "../../ui/Page";
import { Age, CopyableId, JsonText } from "../../ui/parts";
import { Empty, Failure, Loading } from "../../ui/states";
import { exportEvents, listEvents, type AuditEvent, type AuditFilters } from "./queries";

const route = getRouteApi("/audit");
const ACTIONS = ["create", "update", "delete", "restore", "rollback", "seed_apply", "canary", "promote", "switch", "secret_set", "secret_unset", "restart", "login", "repin", "replay_dead", "breaker", "batch", "cancel", "retry_outbox", "pin"];
const HOUR_MS = 3_600_000;
const PAGE = 100;

const COLUMNS: readonly DataColumn<AuditEvent>[] = [
  { id: "at", header: texts.columns.at, cell: (it) => <Age at={Date.parse(it.ts)} />, sortValue: (it) => it.ts },
  { id: "actor", header: texts.columns.actor, cell: (it) => it.actor, sortValue: (it) => it.actor },
  { id: "action", header: texts.columns.action, cell: (it) => it.action.replaceAll("_", " "), sortValue: (it) => it.action },
  { id: "resource", header: texts.columns.resource, cell: (it) => <Link to="/audit" search={{ event: it.id, resource: it.resource }}>{it.resource}</Link>, sortValue: (it) => it.resource },
  { id: "publication", header: texts.columns.publication, cell: (it) => (it.publication == null ? ui.none : <Link to="/changes" search={{ tab: "publications", publication: String(it.publication) }}>{it.publication}</Link>), sortValue: (it) => it.publication ?? null, isRight: true },
  { id: "message", header: texts.columns.message, cell: (it) => it.message || <Text span c="dimmed" size="sm">{ui.none}</Text> },
  { id: "ip", header: texts.columns.ip, cell: (it) => it.ip ?? ui.none, isHiddenAtFirst: true },
  { id: "request", header: texts.columns.request, cell: (it) => (it.request_id == null ? ui.none : <CopyableId id={it.request_id} />), isHiddenAtFirst: true },
];

/** When a period of some hours began, to the minute, so that the list is not loaded anew by itself. */
function beginOf(period: string | undefined): string | undefined {
  const hours = Number(period);
  return period === undefined || !(hours > 0) ? undefined : String(Math.floor((readNow() - hours * HOUR_MS) / 60_000) * 60_000);
}

function Chain() {
  const query = useQuery({ queryKey: ["audit", "verify"], queryFn: ({ signal }) => need(api.GET("/v1/audit-log/verify", { signal })), refetchInterval: false, staleTime: 60_000 });
  return (
    <Group gap="xs" role="status" mb="sm">
      {query.data === undefined ? <Text size="sm" c="dimmed">{query.isError ? query.error.message : texts.verifying}</Text> : query.data.is_intact ? (
        <><IconShieldCheck size={16} aria-hidden color="light-dark(var(--mantine-color-teal-8), var(--mantine-color-teal-4))" /><Text size="sm">{texts.intact(query.data.checked)}</Text></>
      ) : <Alert color="red" w="100%" title={texts.chain} role="alert">{texts.broken(query.data.broken_at ?? "?")}</Alert>}
      <Button variant="subtle" loading={query.isFetching} onClick={() => void query.refetch()}>{texts.verify}</Button>
    </Group>
  );
}

function EventView({ event }: { event: AuditEvent }) {
  const [ns = "", ...rest] = event.resource.split("/");
  const fields = compareFields(event.before, event.after);
  const state = event.before === undefined ? "added" : event.after === undefined ? "deleted" : "changed";
  return (
    <Stack gap="md">
      <Group gap="md"><Text size="sm">{event.actor}</Text><Age at={Date.parse(event.ts)} /><CopyableId id={event.id} /></Group>
      {event.message == null || event.message === "" ? null : <Text size="sm">{event.message}</Text>}
      {event.error == null ? null : <Alert color="red">{event.error}</Alert>}
      {fields.length === 0 ? <Text size="sm" c="dimmed">{texts.nothing}</Text> : <RecordDiff record={{ ns, id: rest.join("/"), state, fields }} />}
      <JsonText value={event} />
    </Stack>
  );
}

function ExportButton({ filters }: { filters: AuditFilters }) {
  const [count, setCount] = useState<number | null>(null);
  const download = async () => {
    setCount(0);
    try {
      const lines = await exportEvents(filters, setCount);
      const address = URL.createObjectURL(new Blob([lines.map((it) => `${it}\n`).join("")], { type: "application/x-ndjson" }));
      const link = document.createElement("a");
      link.href = address;
      link.download = "audit.ndjson";
      link.click();
      URL.revokeObjectURL(address);
      noteDone(texts.exported(lines.length));
    } catch (error) {
      noteError(error);
    } finally {
      setCount(null);
    }
  };
  return <Button leftSection={<IconDownload size={14} />} disabled={count !== null} onClick={() => void download()}>{count === null ? texts.download : texts.exporting(count)}</Button>;
}

export function AuditPage() {
  const search = route.useSearch();
  const change = useChangeSearch();
  const { sort, columns, event: eventId, ...shown } = search;
  const filters = useMemo((): AuditFilters => ({ resource: shown.resource, action: shown.action, actor: shown.actor, since: beginOf(shown.period) }), [shown.resource, shown.action, shown.actor, shown.period]);
  const list = usePagedList<AuditEvent>(["audit", "list", filters], (cursor, signal) => listEvents(filters, cursor, PAGE, signal));
  const actors = useMemo(() => [...new Set([...list.rows.map((it) => it.actor), ...(shown.actor === undefined ? [] : [shown.actor])])].sort(), [list.rows, shown.actor]);
  const choices = [
    { name: "action", label: texts.action, options: ACTIONS },
    { name: "actor", label: texts.actor, options: actors, width: 150 },
    { name: "period", label: texts.period, options: Object.entries(texts.periods).map(([value, label]) => ({ value, label })) },
  ];
  const event = list.rows.find((it) => it.id === eventId);
  const isFiltered = Object.values(shown).some((it) => it !== undefined);
  return (
    <Page title={shell.pages.audit} description={texts.description} actions={<ExportButton filters={filters} />}>
      <Chain />
      {list.isError ? <Failure error={list.error} onRetry={() => void list.refetch()} /> : list.isPending ? <Loading /> : (
        <DataTable
          label={shell.pages.audit}
          rows={list.rows}
          columns={COLUMNS}
          rowId={(it) => it.id}
          address={{ sort, columns }}
          onAddress={change}
          onOpen={(it) => change({ event: it.id })}
          hasMore={list.hasNextPage}
          isLoadingMore={list.isFetchingNextPage}
          onMore={() => void list.fetchNextPage()}
          toolbar={<Filters values={shown} onChange={change} choices={choices} text={{ name: "resource", placeholder: texts.resource }} />}
          empty={isFiltered ? <Empty title={texts.emptyFiltered} /> : <Empty title={texts.empty} command={texts.command}>{texts.emptyHelp}</Empty>}
        />
      )}
      <Drawer opened={event !== undefined} onClose={() => change({ event: undefined })} title={event === undefined ? "" : texts.event(event.action, event.resource)} size="xl" closeButtonProps={{ "aria-label": ui.close }}>
        {event === undefined ? null : <EventView event={event} />}
      </Drawer>
    </Page>
  );
}
