/** One MCP server: its connection, what it offers, what changed in it, and what can be done with it. */
import { Alert, Badge, Code, Group, List, Stack, Text, Title } from "@mantine/core";
import { IconAlertTriangle, IconLogin2 } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { api, need } from "../../api/client";
import { publishRecord } from "../../api/config";
import { stripAdded } from "../../api/drafts";
import { refreshKinds } from "../../api/queries";
import { mcp as texts } from "../../texts/servers";
import { ui } from "../../texts/ui";
import { GatedButton } from "../../ui/GatedButton";
import { noteDone, noteError } from "../../ui/notices";
import { Age, CopyIcon } from "../../ui/parts";
import { PublishDialog } from "../records/parts";
import { Part } from "../records/RecordList";
import { beginLogin } from "./login";
import { acceptDrift, needsLogin, type ServerRow } from "./servers";

export function RestartButton({ row }: { row: ServerRow }) {
  const [isBusy, setBusy] = useState(false);
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
  return <GatedButton scope="operate" loading={isBusy} reason={row.status === null ? texts.notRunning : undefined} onClick={() => void restart()}>{texts.restart}</GatedButton>;
}

function readNames(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((it) => typeof it === "string") : [];
}

export function ServerDetails({ row }: { row: ServerRow }) {
  const { status, record } = row;
  const names = [...readNames(record.env_keys), ...readNames(record.header_keys)];
  return (
    <>
      {status === null ? <Text size="sm" c="dimmed">{texts.notRunning}</Text> : (
        <Group gap="lg">
          <Text size="sm">{texts.columns.protocol}: {status.protocol_version ?? ui.none}</Text>
          <Text size="sm">{texts.attempts}: {status.consecutive_failures}</Text>
          <Text size="sm">{texts.sessions}: {status.session_generation}</Text>
          <Text size="sm">{texts.lastSuccess}: <Age at={status.last_success_at == null ? null : status.last_success_at * 1_000} /></Text>
        </Group>
      )}
      {needsLogin(row) ? <Login id={row.id} /> : null}
      {status?.last_error == null ? null : <div role="alert"><Title order={3}>{texts.lastError}</Title><Text size="sm" c="var(--mantine-color-error)" style={{ overflowWrap: "anywhere" }}>{status.last_error}</Text></div>}
      {(status?.drift ?? []).length === 0 ? null : <Drift row={row} />}
      {(status?.problems ?? []).length === 0 ? null : <Part title={texts.problems}>{status?.problems?.map((it) => <Text key={it} size="sm">{it}</Text>)}</Part>}
      <Part title={texts.env}>
        <Group gap={6}>{names.length === 0 ? <Text size="sm" c="dimmed">{texts.none}</Text> : names.map((it) => <Badge key={it} variant="outline" color="gray" c="inherit" ff="monospace">{it}</Badge>)}</Group>
        <Text size="xs" c="dimmed">{texts.envHelp}</Text>
      </Part>
      {status?.connected === true ? <Inventory id={row.id} /> : null}
    </>
  );
}

/** A login leads this tab to the authorization server's page and back; where that cannot be, a command does the same. */
function Login({ id }: { id: string }) {
  const [isBusy, setBusy] = useState(false);
  const command = `awaken mcp-login APP ${id}`;
  const begin = async () => {
    setBusy(true);
    try {
      await beginLogin(id);
    } catch (error) {
      noteError(error);
      setBusy(false);
    }
  };
  return (
    <Alert color="yellow" icon={<IconLogin2 size={18} />} title={texts.loginTitle}>
      <Text size="sm">{texts.loginHelp}</Text>
      <Group mt={8}><GatedButton scope="publish" variant="filled" loading={isBusy} onClick={() => void begin()}>{texts.logIn}</GatedButton></Group>
      <Text size="xs" mt={8}>{texts.loginElsewhere}</Text>
      <Group gap={4} mt={2} wrap="nowrap"><Code>{command}</Code><CopyIcon value={command} label={texts.copyLogin} /></Group>
    </Alert>
  );
}

/** Tools that differ from their pinned version: they are accepted by publishing their hashes, so that every process does. */
function Drift({ row }: { row: ServerRow }) {
  const [isPublishing, setPublishing] = useState(false);
  const drift = row.status?.drift ?? [];
  const accept = async (message: string) => {
    await publishRecord("mcp-servers", row.id, { spec: { ...stripAdded(row.record), pins: acceptDrift(row.record, drift) } }, message, row.facts?.revision ?? 0);
    noteDone(texts.accepted(drift.length));
    await refreshKinds("config", "agent", "audit");
  };
  return (
    <Alert color="red" icon={<IconAlertTriangle size={18} />} title={texts.driftTitle(drift.length)} role="alert">
      <Stack gap="xs">
        <Text size="sm">{row.record.on_drift === "report" ? texts.driftReported : texts.driftRefused}</Text>
        <List size="sm" listStyleType="none">{drift.map((it) => <List.Item key={it.tool}><Code>{it.tool}</Code> <Text span size="xs">{texts.pinned} <Code>{it.pinned.slice(0, 8)}</Code>, {texts.offered} <Code>{it.offered.slice(0, 8)}</Code></Text></List.Item>)}</List>
        <Group><GatedButton scope="publish" onClick={() => setPublishing(true)}>{texts.accept}</GatedButton></Group>
      </Stack>
      <PublishDialog title={texts.acceptTitle(row.id)} isOpen={isPublishing} onClose={() => setPublishing(false)} onPublish={accept}><Text size="sm">{texts.acceptHelp}</Text></PublishDialog>
    </Alert>
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
    <Part title={texts.inventory}>
      {parts.map(([name, items]) => (
        <div key={name}>
          <Text size="xs" c="dimmed" mt={4}>{name} ({items.length})</Text>
          {items.map((it) => <Text key={it.name} size="sm"><Text span ff="monospace" size="xs" fw={500}>{it.name}</Text> <Text span c="dimmed" size="sm">{it.description}</Text></Text>)}
        </div>
      ))}
    </Part>
  );
}
