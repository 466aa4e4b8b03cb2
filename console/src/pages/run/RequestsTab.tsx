/** The request of each step, built again: what the model saw, what was a cached prefix, and what changed since the step before. */
import { Accordion, Alert, Badge, Group, Stack, Switch, Text } from "@mantine/core";
import { IconCheck, IconInfoCircle } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";

import { loadPart } from "../../ui/loadPart";
import { NeedsScope } from "../../ui/states";
import type { Schemas } from "../../api/client";
import { ApiError } from "../../api/errors";
import { run as texts } from "../../texts/run";
import { CopyIcon, JsonText } from "../../ui/parts";
import { Empty, Failure, Loading } from "../../ui/states";
import { requestQuery } from "./queries";
import { listDiffLines, readRequest, writeRequest, type RequestMessage, type RequestParts } from "./requestText";
import classes from "./run.module.css";
import type { TabProps } from "./RunPage";
import { StepList } from "./StepList";

const MESSAGES_MAX = 300;
const TEXT_CHARS = 4_000;
/** A comparison that needs more edits than this is not worth the wait. */
const EDITS_MAX = 4_000;

function MessageView({ message, isStable }: { message: RequestMessage; isStable: boolean }) {
  return (
    <div className={classes.message} data-role={message.role} data-stable={isStable || undefined}>
      <Group gap={8}>
        <Text size="sm" fw={600}>{message.role}</Text>
        {message.callId === null ? null : <Text size="xs" c="dimmed">{texts.transcript.resultOf(message.callId)}</Text>}
        {isStable ? <Badge variant="default">{texts.requests.prefix}</Badge> : null}
      </Group>
      {message.text === "" ? null : <p className={classes.text}>{message.text.length > TEXT_CHARS ? `${message.text.slice(0, TEXT_CHARS)}…` : message.text}</p>}
      {message.calls.map((it, index) => <p key={index} className={classes.mono}>→ {it.name} {it.arguments.slice(0, TEXT_CHARS)}</p>)}
    </div>
  );
}

function Exactness({ found }: { found: Schemas["StepRequest"] }) {
  const stable = found.stable_messages ?? 0;
  return (
    <Group gap="xs">
      {found.is_exact ? <Badge variant="default" leftSection={<IconCheck size={12} />}>{texts.requests.exact}</Badge> : <Badge variant="default" leftSection={<IconInfoCircle size={12} />}>{found.logged_digest == null ? texts.requests.unproven : texts.requests.notExact}</Badge>}
      <Text size="sm" c="dimmed">{found.model}</Text>
      {found.reason == null ? null : <Text size="sm">{found.reason}</Text>}
      {stable === 0 ? null : <Text size="sm" c="dimmed">{texts.requests.stable(stable)}</Text>}
      <CopyIcon value={JSON.stringify(found, null, 2)} />
    </Group>
  );
}

function RequestView({ parts, stable }: { parts: RequestParts; stable: number }) {
  const first = Math.max(0, parts.messages.length - MESSAGES_MAX);
  return (
    <Accordion multiple defaultValue={["system", "messages"]} variant="separated" chevronPosition="left" order={2}>
      <Accordion.Item value="system"><Accordion.Control>{texts.requests.system}</Accordion.Control><Accordion.Panel><p className={classes.text}>{parts.system}</p></Accordion.Panel></Accordion.Item>
      <Accordion.Item value="messages">
        <Accordion.Control>{texts.requests.messages(parts.messages.length)}</Accordion.Control>
        <Accordion.Panel><Stack gap="xs">{parts.messages.slice(first).map((it, index) => <MessageView key={first + index} message={it} isStable={first + index < stable} />)}</Stack></Accordion.Panel>
      </Accordion.Item>
      <Accordion.Item value="tools"><Accordion.Control>{texts.requests.tools(parts.tools.length)}</Accordion.Control><Accordion.Panel><JsonText value={parts.tools.map((it) => it.value)} /></Accordion.Panel></Accordion.Item>
      <Accordion.Item value="rest"><Accordion.Control>{texts.requests.parameters}</Accordion.Control><Accordion.Panel><JsonText value={parts.rest} /></Accordion.Panel></Accordion.Item>
    </Accordion>
  );
}

function DiffView({ runId, step, parts }: { runId: string; step: number; parts: RequestParts }) {
  const before = useQuery({ ...requestQuery(runId, step - 1), enabled: step > 1 });
  const now = useMemo(() => writeRequest(parts), [parts]);
  const old = useMemo(() => (before.data === undefined ? null : writeRequest(readRequest(before.data.request))), [before.data]);
  const lines = useQuery({
    queryKey: ["run", "request-diff", runId, step],
    queryFn: async () => {
      const { diffLines } = await loadPart(() => import("diff"));
      return listDiffLines(diffLines(old ?? "", now, { maxEditLength: EDITS_MAX }) ?? [{ value: now, added: true }]);
    },
    enabled: old !== null,
    staleTime: Infinity,
    refetchInterval: false,
  });
  if (step <= 1) return <Text size="sm" c="dimmed">{texts.requests.noDiff}</Text>;
  if (before.error !== null) return <Failure error={before.error} />;
  if (lines.data === undefined) return <Loading rows={4} />;
  if (lines.data.every((it) => it.kind === "same" || it.kind === "skip")) return <Text size="sm" c="dimmed">{texts.requests.same}</Text>;
  return (
    <div className={classes.diff} tabIndex={0} role="region" aria-label={texts.requests.diff}>
      {lines.data.map((it, index) => (
        <span key={index} className={classes.line} data-kind={it.kind}>
          {it.kind === "skip" ? texts.requests.skipped(it.text) : <>{it.kind === "added" ? "+ " : it.kind === "removed" ? "− " : "  "}{it.text}</>}
        </span>
      ))}
    </div>
  );
}

function Requests({ run, search, onSearch }: Omit<TabProps, "log">) {
  const step = Math.max(1, Math.min(run.steps, Number(search.step) || run.steps));
  const { data, error, refetch } = useQuery(requestQuery(run.run_id, step));
  const parts = useMemo(() => readRequest(data?.request), [data]);
  const isDiff = search.diff === "1";
  return (
    <div className={classes.columnsIn}><div className={classes.columns}>
      <StepList label={texts.requests.steps} steps={Array.from({ length: run.steps }, (_, index) => index + 1)} chosen={step} name={texts.requests.step} onChoose={(it) => onSearch({ step: String(it) })} />
      {error !== null ? (error instanceof ApiError && error.status === 404 ? <Alert variant="default" title={texts.requests.gone}>{error.message}</Alert> : <Failure error={error} onRetry={() => void refetch()} />) : data === undefined ? <Loading /> : (
        <Stack gap="sm" miw={0}>
          <Group justify="space-between" gap="sm">
            <Exactness found={data} />
            <Switch label={texts.requests.diff} checked={isDiff} onChange={(event) => onSearch({ diff: event.currentTarget.checked ? "1" : undefined })} />
          </Group>
          {isDiff ? <DiffView runId={run.run_id} step={step} parts={parts} /> : <RequestView key={step} parts={parts} stable={data.stable_messages ?? 0} />}
        </Stack>
      )}
    </div></div>
  );
}

export function RequestsTab(props: Omit<TabProps, "log">) {
  if (props.run.steps === 0) return <Empty title={texts.requests.none}>{texts.requests.noneHelp}</Empty>;
  return <NeedsScope scope="config"><Requests {...props} /></NeedsScope>;
}
