/** A call of a tool: its arguments as they are written, what it shows while it runs, its result, and the question it waits for. */
import { Box, Group, Progress, Stack, Text } from "@mantine/core";
import { memo, Suspense } from "react";

import { writeExact } from "../../api/exactJson";
import { chat as texts } from "../../texts/chat";
import { lazyPart } from "../../ui/loadPart";
import { JsonText, Status } from "../../ui/parts";
import { showHidden } from "../../ui/hostileText";
import { SafeJson, SafeText, ShownText } from "../../ui/SafeText";
import classes from "./Chat.module.css";
import type { Call } from "./fold";
import { isFields } from "./generated/a2ui";
import { readSpec, type Interface } from "./generated/interfaces";
import { PlainText } from "./RichText";

const A2uiView = lazyPart(() => import("./generated/A2uiView"));
const JsonRenderView = lazyPart(() => import("./generated/JsonRenderView"));
const PROGRESS = "tool-call-progress";
const STATUS: Partial<Record<Call["state"], string>> = { writing: "running", returned: "done", declined: "stopped" };
const SUMMARY_CHARS = 160;

function summarize(call: Call, edited: unknown): string {
  const text = edited !== undefined ? (writeExact(edited) ?? "") : call.arguments === undefined ? call.argumentsText : (writeExact(call.arguments) ?? "");
  return text.length > SUMMARY_CHARS ? `${text.slice(0, SUMMARY_CHARS)}…` : text;
}

function Value({ value }: { value: unknown }) {
  return typeof value === "string" ? <PlainText text={value} /> : <JsonText value={value} maxHeight={320} />;
}

function ProgressLine({ content }: { content: unknown }) {
  if (!isFields(content)) return null;
  const share = typeof content.progress === "number" ? content.progress : null;
  const note = content.message ?? content.status;
  return (
    <Group gap="xs" wrap="nowrap">
      {share === null ? null : <Progress value={share * 100} w={140} size="sm" aria-label={texts.activity} />}
      <Text size="xs" c="dimmed" lineClamp={1}>{showHidden(typeof note === "string" ? note : JSON.stringify(note ?? content))}{share === null ? "" : ` · ${Math.round(share * 100)} %`}</Text>
    </Group>
  );
}

function Shown({ shown, onAction }: { shown: Interface; onAction: (text: string) => void }) {
  const spec = shown.kind === "json-render" ? readSpec(shown.spec) : null;
  return (
    <Box className={classes.interface} role="group" aria-label={texts.interfaceOf}>
      <Suspense fallback={null}>
        {shown.kind === "a2ui" ? shown.surfaces.map((it) => <A2uiView key={it.id} surface={it} onAction={onAction} />) : null}
        {shown.kind === "json-render" ? (spec === null ? <JsonText value={shown.spec} /> : <JsonRenderView spec={spec} onAction={onAction} />) : null}
        {shown.kind === "openui" ? <Box><Text size="xs" c="dimmed">OpenUI Lang. {texts.interfaceData}</Text><PlainText text={shown.program} /></Box> : null}
      </Suspense>
    </Box>
  );
}

type Props = { call: Call; /** What a person made of the arguments before the call was made. */ edited?: unknown; shown?: Interface; onAction: (text: string) => void };

export const CallView = memo(function CallView({ call, edited, shown, onAction }: Props) {
  const progress = call.state === "running" ? call.activities[PROGRESS] : undefined;
  const others = Object.entries(call.activities).filter(([kind]) => kind !== PROGRESS && !kind.startsWith("generative-ui.") && kind !== "a2ui-surface");
  return (
    <Stack gap={6}>
      <details className={classes.call} data-call={call.name} data-state={call.state}>
        <summary>
          <Status value={STATUS[call.state] ?? call.state} label={texts.calls[call.state]} />
          <Text span ff="monospace" size="sm" fw={550}><ShownText text={call.name} /></Text>
          <Text span ff="monospace" size="xs" c="dimmed" truncate className={classes.summary}>{edited === undefined ? null : `${texts.edited} `}<ShownText text={summarize(call, edited)} /></Text>
        </summary>
        <Stack gap={6} p="sm" pt={4}>
          {edited === undefined ? null : <><Text size="xs" c="dimmed">{texts.editedArguments}</Text><SafeJson value={edited} label={`${texts.editedArguments}: ${call.id}`} maxHeight={240} /></>}
          <Text size="xs" c="dimmed">{edited === undefined ? texts.arguments : texts.askedArguments}</Text>
          {call.arguments === undefined ? <SafeText text={call.argumentsText} label={`${texts.arguments}: ${call.id}`} maxHeight={240} /> : <SafeJson value={call.arguments} label={`${texts.arguments}: ${call.id}`} maxHeight={240} />}
          {call.result === undefined ? null : <><Text size="xs" c="dimmed">{texts.result}</Text><Value value={call.result} /></>}
          {call.result === undefined && call.message !== undefined && call.state !== "suspended" ? <Text size="sm">{showHidden(call.message)}</Text> : null}
          {others.map(([kind, content]) => <Box key={kind}><Text size="xs" c="dimmed">{showHidden(kind)}</Text><JsonText value={content} maxHeight={240} /></Box>)}
        </Stack>
      </details>
      {progress === undefined ? null : <ProgressLine content={progress} />}
      {call.output === "" ? null : <Box><Text size="xs" c="dimmed">{texts.output}</Text><PlainText text={call.output} /></Box>}
      {call.state === "failed" ? <Text size="xs" className={classes.problem}>{showHidden(call.message ?? (typeof call.result === "string" ? call.result : "")).slice(0, 1_000)}</Text> : null}
      {shown === undefined ? null : <Shown shown={shown} onAction={onAction} />}
    </Stack>
  );
});
