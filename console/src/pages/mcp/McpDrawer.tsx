/** One MCP server: its connection, what it offers, and what can be done with it. */
import { Badge, Drawer, Group, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { api, need } from "../../api/client";
import { refreshKinds } from "../../api/queries";
import { records } from "../../texts/records";
import { mcp as texts } from "../../texts/servers";
import { ui } from "../../texts/ui";
import { noteDone, noteError } from "../../ui/notices";
import { Age, CopyableId, JsonText, Status } from "../../ui/parts";
import { ActionButton } from "../records/parts";
import { useDelete } from "../records/useRecords";
import { stateOf, type ServerRow } from "./McpPage";

type Props = { row: ServerRow | undefined; onClose: () => void; onEdit: (id: string) => void };

export function McpDrawer({ row, onClose, onEdit }: Props) {
  return (
    <Drawer opened={row !== undefined} onClose={onClose} title={row?.id} size="lg" closeButtonProps={{ "aria-label": ui.close }}>
      {row === undefined ? null : <ServerDetails row={row} onClose={onClose} onEdit={onEdit} />}
    </Drawer>
  );
}

function readNames(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((it) => typeof it === "string") : [];
}

function ServerDetails({ row, onClose, onEdit }: Omit<Props, "row"> & { row: ServerRow }) {
  const remove = useDelete("mcp-servers");
  const [isBusy, setBusy] = useState(false);
  const { status, record } = row;
  const restart = async () => {
    setBusy(true);
    try {
      await need(api.POST("/v1/mcp-servers/{server_id}/restart", { params: { path: { server_id: row.id } } }));
      noteDone(texts.restarted);
      await refreshKinds("config");
    } catch (error) {
      noteError(error);
    } finally {
      setBusy(false);
    }
  };
  const names = [...readNames(record.env_keys), ...readNames(record.header_keys)];
  return (
    <Stack gap="md">
      <Group justify="space-between" gap="xs">
        <Group gap="sm"><CopyableId id={row.id} chars={32} /><Status {...stateOf(row)} /></Group>
        <Group gap="xs">
          <ActionButton scope="operate" loading={isBusy} reason={status === null ? texts.notRunning : undefined} onClick={() => void restart()}>{texts.restart}</ActionButton>
          <ActionButton scope="config" onClick={() => onEdit(row.id)}>{records.edit}</ActionButton>
          <ActionButton scope="publish" color="red" variant="outline" onClick={() => void remove(row.id).then((is) => is && onClose())}>{records.delete}</ActionButton>
        </Group>
      </Group>
      {status === null ? <Text size="sm" c="dimmed">{texts.notRunning}</Text> : (
        <Group gap="lg">
          <Text size="sm">{texts.columns.protocol}: {status.protocol_version ?? ui.none}</Text>
          <Text size="sm">{texts.attempts}: {status.consecutive_failures}</Text>
          <Text size="sm">{texts.sessions}: {status.session_generation}</Text>
          <Text size="sm">{texts.lastSuccess}: <Age at={status.last_success_at == null ? null : status.last_success_at * 1_000} /></Text>
        </Group>
      )}
      {status?.last_error == null ? null : <div role="alert"><Title order={3}>{texts.lastError}</Title><Text size="sm" c="var(--mantine-color-error)" style={{ overflowWrap: "anywhere" }}>{status.last_error}</Text></div>}
      {(status?.problems ?? []).length === 0 ? null : <div><Title order={3}>{texts.problems}</Title>{status?.problems?.map((it) => <Text key={it} size="sm">{it}</Text>)}</div>}
      <div>
        <Title order={3} mb={4}>{texts.env}</Title>
        <Group gap={6}>{names.length === 0 ? <Text size="sm" c="dimmed">{texts.none}</Text> : names.map((it) => <Badge key={it} variant="outline" color="gray" c="inherit" ff="monospace">{it}</Badge>)}</Group>
        <Text size="xs" c="dimmed">{texts.envHelp}</Text>
      </div>
      {status?.connected === true ? <Inventory id={row.id} /> : null}
      <div><Title order={3} mb={4}>{records.asJson}</Title><JsonText value={record} /></div>
    </Stack>
  );
}

/** A prompt or resource, which stands in the reply below the name of its kind. */
function readOffer(item: object, kind: "prompt" | "resource"): { name: string; description: string } {
  const offer = ((item as Record<string, unknown>)[kind] ?? item) as { uri?: unknown; name?: unknown; description?: unknown };
  return { name: String(offer.uri ?? offer.name ?? ui.none), description: String(offer.description ?? "") };
}

function Inventory({ id }: { id: string }) {
  const { data } = useQuery({
    queryKey: ["config", "mcp-inventory", id],
    queryFn: ({ signal }) => need(api.GET("/v1/mcp-servers/{server_id}/inventory", { params: { path: { server_id: id } }, signal })),
  });
  if (data === undefined) return null;
  const parts: [string, { name: string; description: string }[]][] = [
    [texts.tools, (data.tools ?? []).map((it) => ({ name: it.name, description: it.description ?? "" }))],
    [texts.prompts, (data.prompts ?? []).map((it) => readOffer(it, "prompt"))],
    [texts.resources, (data.resources ?? []).map((it) => readOffer(it, "resource"))],
  ];
  return (
    <div>
      <Title order={3} mb={4}>{texts.inventory}</Title>
      {parts.map(([name, items]) => (
        <div key={name}>
          <Text size="xs" c="dimmed" mt={4}>{name} ({items.length})</Text>
          {items.map((it) => <Text key={it.name} size="sm"><Text span ff="monospace" size="xs" fw={500}>{it.name}</Text> <Text span c="dimmed" size="sm">{it.description}</Text></Text>)}
        </div>
      ))}
    </div>
  );
}
