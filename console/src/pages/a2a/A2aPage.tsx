/** A2A servers: the records, and what the last read of each card gave. */
import { Drawer, Group, Stack, Text, Title } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useQueries, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { api, need, type Schemas } from "../../api/client";
import { recordsQuery } from "../../api/config";
import { ApiError } from "../../api/errors";
import { records } from "../../texts/records";
import { a2a as texts } from "../../texts/servers";
import { shell } from "../../texts/shell";
import { ui } from "../../texts/ui";
import { useChangeSearch } from "../../ui/address";
import { DataTable, type DataColumn } from "../../ui/DataTable";
import { Filters } from "../../ui/Filters";
import { Page } from "../../ui/Page";
import { Age, CopyableId, JsonText, Status } from "../../ui/parts";
import { Empty, Failure, Loading, NeedsScope } from "../../ui/states";
import { ActionButton, Owner } from "../records/parts";
import { RecordDrawer } from "../records/RecordDrawer";
import { useDelete, useRecords, type RecordRow } from "../records/useRecords";

const route = getRouteApi("/a2a");
type RemoteRow = RecordRow & { status: Schemas["RemoteView"] | null };

function stateOf({ status }: RemoteRow): { value: string; label: string } {
  if (status === null) return { value: "created", label: ui.none };
  if (status.connected) return { value: "ok", label: "connected" };
  return status.last_error == null ? { value: "running", label: "connecting" } : { value: "failed", label: "failed" };
}

const COLUMNS: readonly DataColumn<RemoteRow>[] = [
  { id: "server", header: texts.columns.server, cell: (it) => <Link to="/a2a" search={(now) => ({ ...now, id: it.id })}>{it.id}</Link>, sortValue: (it) => it.id },
  { id: "state", header: texts.columns.state, cell: (it) => <Status {...stateOf(it)} />, sortValue: (it) => stateOf(it).label },
  { id: "url", header: texts.columns.url, cell: (it) => <Text span ff="monospace" size="xs">{String(it.record.base_url ?? "")}</Text>, sortValue: (it) => String(it.record.base_url ?? "") },
  { id: "agent", header: texts.columns.agent, cell: (it) => it.status?.agent_id ?? ui.none },
  { id: "checked", header: texts.columns.checked, cell: (it) => <Age at={it.status?.checked_at == null ? null : it.status.checked_at * 1_000} /> },
  { id: "owner", header: texts.columns.owner, cell: (it) => <Owner owner={it.meta?.owner} hasDrift={it.meta?.drift} /> },
  { id: "error", header: texts.columns.error, cell: (it) => <Text span size="sm" c="dimmed" title={it.status?.last_error ?? undefined}>{it.status?.last_error ?? ui.none}</Text> },
];

function useStatuses(ids: readonly string[]) {
  return useQueries({
    queries: ids.map((id) => ({
      queryKey: ["config", "a2a-status", id],
      queryFn: async ({ signal }: { signal: AbortSignal }) => {
        try {
          return await need(api.GET("/v1/a2a-servers/{registry_id}/status", { params: { path: { registry_id: id } }, signal }));
        } catch (error) {
          if (error instanceof ApiError && error.status === 404) return null;
          throw error;
        }
      },
      refetchInterval: 5_000,
    })),
  });
}

export function A2aPage() {
  return <NeedsScope scope="config"><RemoteList /></NeedsScope>;
}

const TEMPLATE = { base_url: "" } as const;

function RemoteList() {
  const { q, id, edit, sort, columns } = route.useSearch();
  const change = useChangeSearch();
  const { list, rows } = useRecords("a2a-servers");
  const statuses = useStatuses(rows.map((it) => it.id));
  const all = rows.map((it, index): RemoteRow => ({ ...it, status: statuses[index]?.data ?? null }));
  const shown = all.filter((it) => q === undefined || it.id.toLowerCase().includes(q.toLowerCase()));
  const add = <ActionButton scope="config" variant="filled" leftSection={<IconPlus size={14} />} onClick={() => change({ edit: "new" })}>{texts.add}</ActionButton>;
  return (
    <Page title={shell.pages.a2a} description={texts.description} actions={add}>
      {list.isError ? <Failure error={list.error} onRetry={() => void list.refetch()} /> : list.isPending ? <Loading /> : (
        <DataTable
          label={shell.pages.a2a}
          rows={shown}
          columns={COLUMNS}
          rowId={(it) => it.id}
          address={{ sort, columns }}
          onAddress={change}
          onOpen={(it) => change({ id: it.id })}
          toolbar={all.length === 0 ? null : <Filters values={{ q }} onChange={change} text={{ name: "q", placeholder: texts.search }} />}
          empty={all.length > 0 ? <Empty title={texts.emptyFiltered} /> : <Empty title={texts.empty} action={add} command={texts.command}>{texts.emptyHelp}</Empty>}
        />
      )}
      <RemoteDrawer row={edit === undefined ? all.find((it) => it.id === id) : undefined} onClose={() => change({ id: undefined })} onEdit={(it) => change({ edit: it })} />
      <RecordDrawer namespace="a2a-servers" name={texts.one} id={edit === "new" ? "" : edit} onClose={() => change({ edit: undefined })} template={TEMPLATE} onPublished={(it) => change({ edit: undefined, id: it })} />
    </Page>
  );
}

function RemoteDrawer({ row, onClose, onEdit }: { row: RemoteRow | undefined; onClose: () => void; onEdit: (id: string) => void }) {
  const remove = useDelete("a2a-servers");
  const { data: agents = [] } = useQuery(recordsQuery("agents"));
  const users = agents.filter((it) => Array.isArray(it.delegates) && (it.delegates as unknown[]).includes(row?.status?.agent_id));
  return (
    <Drawer opened={row !== undefined} onClose={onClose} title={row?.id} size="lg" closeButtonProps={{ "aria-label": ui.close }}>
      {row === undefined ? null : (
        <Stack gap="md">
          <Group justify="space-between" gap="xs">
            <Group gap="sm"><CopyableId id={row.id} chars={32} /><Status {...stateOf(row)} /></Group>
            <Group gap="xs">
              <ActionButton scope="config" onClick={() => onEdit(row.id)}>{records.edit}</ActionButton>
              <ActionButton scope="publish" color="red" variant="outline" onClick={() => void remove(row.id).then((is) => is && onClose())}>{records.delete}</ActionButton>
            </Group>
          </Group>
          {row.status?.last_error == null ? null : <Text size="sm" c="var(--mantine-color-error)" role="alert" style={{ overflowWrap: "anywhere" }}>{row.status.last_error}</Text>}
          <Text size="sm">{texts.auth}: {row.record.has_auth === true ? texts.hasAuth : texts.noAuth}</Text>
          <div><Title order={3} mb={4}>{texts.usedBy}</Title>{users.length === 0 ? <Text size="sm" c="dimmed">{texts.nobody}</Text> : users.map((it) => <Link key={it.id} to="/agents/$agentId" params={{ agentId: it.id }}>{it.id}</Link>)}</div>
          <div><Title order={3} mb={4}>{texts.card}</Title>{row.status?.card == null ? <Text size="sm" c="dimmed">{texts.noCard}</Text> : <JsonText value={row.status.card} />}</div>
          <div><Title order={3} mb={4}>{records.asJson}</Title><JsonText value={row.record} /></div>
        </Stack>
      )}
    </Drawer>
  );
}
