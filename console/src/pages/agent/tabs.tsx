/** Tabs of the editor that are forms over the agent's own fields. */
import { Accordion, Alert, Button, Group, MultiSelect, SegmentedControl, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Suspense, useEffect, useMemo, useState, type ReactNode } from "react";

import { capabilitiesQuery, recordsQuery, schemaQuery } from "../../api/config";
import { agent as texts } from "../../texts/agent";
import { CodeEditor } from "../../ui/code/CodeEditor";
import { lazyPart } from "../../ui/loadPart";
import { SchemaForm } from "../../ui/SchemaForm";
import { isObject, problemsBelow, setAt, type Json, type JsonObject, type JsonSchema } from "../../ui/schema/model";
import { Loading } from "../../ui/states";
import classes from "./AgentPage.module.css";
import { readTexts } from "./readTexts";
import { GuardrailsEditor, ReminderEditor, type SectionProps } from "./sectionEditors";
import { estimateTokens, listDelegates, type DelegateNode } from "./tools";
import type { AgentEditor } from "./useAgentEditor";

const TextDiff = lazyPart(() => import("../../ui/TextDiff"));

export type TabProps = { agentId: string; editor: AgentEditor; mine: JsonObject };

/** A schema with some of its fields only. */
function pickFields(schema: JsonSchema, names: readonly string[]): JsonSchema {
  const properties = schema.properties as Record<string, JsonSchema>;
  return { ...schema, required: [], properties: Object.fromEntries(names.flatMap((it) => (properties[it] === undefined ? [] : [[it, properties[it]]]))) };
}

const BASICS = ["model_id", "description", "max_rounds", "max_continuation_retries", "reasoning_effort", "parallel_tools", "frontend_tools_may_replace", "context_policy"];

export function useModelNames(): string[] {
  const { data: capabilities } = useQuery(capabilitiesQuery);
  const { data: pools = [] } = useQuery(recordsQuery("model-pools"));
  const { data: agents = [] } = useQuery(recordsQuery("agents"));
  return useMemo(() => [...new Set([...(capabilities?.models ?? []).map((it) => String(it.id)), ...pools.map((it) => it.id), ...agents.map((it) => String(it.model_id ?? ""))])].filter((it) => it !== "").sort(), [capabilities, pools, agents]);
}

function FieldsTab({ agentId, editor, mine, names, label }: TabProps & { names: readonly string[]; label: string }) {
  const { data: schema } = useQuery(schemaQuery("agents"));
  const models = useModelNames();
  const picked = useMemo(() => (schema === undefined ? undefined : pickFields(schema, names)), [schema, names]);
  if (picked === undefined) return <Loading rows={4} />;
  return <SchemaForm label={label} schema={picked} value={mine} onChange={editor.edit} problems={problemsBelow(editor.problems, `agents/${agentId}`)} suggestions={{ model_id: models }} multiline={["description"]} />;
}

export function BasicsTab(props: TabProps) {
  return <FieldsTab {...props} names={BASICS} label={texts.tabs.basics} />;
}

const BUDGETS = ["budgets", "stop_conditions"];

export function BudgetsTab(props: TabProps) {
  return <Stack gap="sm"><Text size="sm" c="dimmed">{texts.budgets.help}</Text><FieldsTab {...props} names={BUDGETS} label={texts.tabs.budgets} /></Stack>;
}

export function PromptTab({ agentId, editor, mine }: TabProps) {
  const [look, setLook] = useState("edit");
  const text = typeof mine.system_prompt === "string" ? mine.system_prompt : "";
  const live = typeof editor.live?.system_prompt === "string" ? editor.live.system_prompt : "";
  const problems = problemsBelow(editor.problems, `agents/${agentId}/system_prompt`);
  return (
    <Stack gap="xs">
      <Group justify="space-between" gap="xs">
        <SegmentedControl aria-label={texts.prompt.label} data={[{ value: "edit", label: texts.prompt.edit }, { value: "diff", label: texts.prompt.diff }]} value={look} onChange={setLook} />
        <Text size="xs" c="dimmed" role="status">{texts.prompt.size(text.length, estimateTokens(text))}</Text>
      </Group>
      {look === "edit" ? <CodeEditor label={texts.prompt.label} language="markdown" value={text} onChange={(next) => editor.edit({ ...mine, system_prompt: next })} minHeight={320} maxHeight="62vh" /> : (
        <Suspense fallback={<Loading rows={4} />}><TextDiff label={texts.prompt.diff} before={live} after={text} /></Suspense>
      )}
      {problems.map((it) => <Text key={it.message} size="sm" c="var(--mantine-color-error)">{it.message}</Text>)}
      {text !== live && editor.live !== null ? <Text size="xs" c="dimmed">{texts.prompt.cache}</Text> : null}
    </Stack>
  );
}

/** Sections with an editor of their own; the others have a form from their schema. */
const EDITORS: Readonly<Record<string, (props: SectionProps) => ReactNode>> = { guardrails: GuardrailsEditor, reminder: ReminderEditor };

export function PluginsTab({ agentId, editor, mine }: TabProps) {
  const { data: capabilities } = useQuery(capabilitiesQuery);
  const on = readTexts(mine.plugin_ids);
  const sections = isObject(mine.sections) ? mine.sections : {};
  if (capabilities === undefined) return <Loading rows={4} />;
  const known = capabilities.plugins.filter((it) => it.id !== "ext-deferred-tools");
  const tools = capabilities.tools.map((it) => it.id);
  const shown = on.map((id) => known.find((it) => it.id === id) ?? { id, config_schemas: [] });
  const keys = new Set(shown.flatMap((it) => it.config_schemas.map((row) => row.key)));
  const others = Object.keys(sections).filter((it) => !keys.has(it));
  return (
    <Stack gap="md">
      <MultiSelect label={texts.plugins.on} description={texts.plugins.help} data={[...new Set([...known.map((it) => it.id), ...on])]} value={on} searchable onChange={(next) => editor.edit({ ...mine, plugin_ids: next })} error={problemsBelow(editor.problems, `agents/${agentId}/plugin_ids`)[0]?.message} />
      {shown.length === 0 ? <Text c="dimmed" size="sm">{texts.plugins.none}</Text> : (
        <Accordion multiple defaultValue={shown.map((it) => it.id)} variant="separated" order={2}>
          {shown.map((plugin) => (
            <Accordion.Item key={plugin.id} value={plugin.id}>
              <Accordion.Control>{plugin.config_schemas[0]?.display_name ?? plugin.id}</Accordion.Control>
              <Accordion.Panel>
                {plugin.id === "permission" ? <Link to="." search={(now: Record<string, unknown>) => ({ ...now, tab: "rules" })}>{texts.tabs.rules}</Link>
                  : plugin.config_schemas.length === 0 ? <Text c="dimmed" size="sm">{texts.plugins.noSection}</Text>
                  : plugin.config_schemas.map((it) => {
                    const section = isObject(sections[it.key]) ? (sections[it.key] as JsonObject) : {};
                    const problems = problemsBelow(editor.problems, `agents/${agentId}/sections/${it.key}`);
                    const change = (next: JsonObject) => editor.edit(setAt(mine, ["sections", it.key], next) as JsonObject);
                    const Own = EDITORS[it.key];
                    return Own === undefined ? <SchemaForm key={it.key} label={it.display_name} schema={it.schema} value={section} problems={problems} onChange={change} />
                      : <Own key={it.key} section={section} problems={problems} onChange={change} tools={tools} />;
                  })}
              </Accordion.Panel>
            </Accordion.Item>
          ))}
        </Accordion>
      )}
      {others.length === 0 ? null : <Text size="xs" c="dimmed">{texts.plugins.other}: {others.join(", ")}</Text>}
    </Stack>
  );
}

export function DelegatesTab({ agentId, editor, mine }: TabProps) {
  const { data: all = [] } = useQuery(recordsQuery("agents"));
  const chosen = readTexts(mine.delegates);
  const tree = useMemo(() => listDelegates(agentId, new Map([...all.map((it): [string, string[]] => [it.id, readTexts(it.delegates)]), [agentId, chosen]])), [agentId, all, chosen]);
  return (
    <Stack gap="md">
      <MultiSelect label={texts.delegates.label} description={texts.delegates.help} data={[...new Set([...all.map((it) => it.id).filter((it) => it !== agentId), ...chosen])]} value={chosen} searchable onChange={(next) => editor.edit({ ...mine, delegates: next })} error={problemsBelow(editor.problems, `agents/${agentId}/delegates`)[0]?.message} />
      <div>
        <Title order={2} size="h3" mb={4}>{texts.delegates.tree}</Title>
        {tree.children.length === 0 ? <Text c="dimmed" size="sm">{texts.delegates.none}</Text> : <ul className={classes.tree}><DelegateItem node={tree} /></ul>}
      </div>
    </Stack>
  );
}

function DelegateItem({ node }: { node: DelegateNode }) {
  return (
    <li>
      <Link to="/agents/$agentId" params={{ agentId: node.id }}>{node.id}</Link>
      {node.isLoop ? <Text span size="xs" c="dimmed"> {texts.delegates.loop}</Text> : null}
      {node.children.length === 0 ? null : <ul>{node.children.map((it) => <DelegateItem key={it.id} node={it} />)}</ul>}
    </li>
  );
}

function readAgent(text: string): JsonObject | null {
  try {
    const value = JSON.parse(text) as Json;
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}

/** The text stays as typed, also while another tab is open; the agent follows whenever it is valid JSON. */
export function JsonTab({ editor, mine }: TabProps) {
  const shown = useMemo(() => JSON.stringify(mine, null, 2), [mine]);
  const [text, setText] = useState(editor.unfinished ?? shown);
  const isBad = editor.unfinished !== null;
  useEffect(() => {
    setText((now) => {
      const typed = readAgent(now);
      return typed === null || JSON.stringify(typed, null, 2) === shown ? now : shown;
    });
  }, [shown]);
  const change = (next: string) => {
    setText(next);
    const value = readAgent(next);
    editor.setUnfinished(value === null ? next : null);
    if (value !== null) editor.edit(value);
  };
  return (
    <Stack gap="xs">
      <Text size="sm" c="dimmed">{texts.json.help}</Text>
      <CodeEditor label={texts.json.label} language="json" value={text} onChange={change} minHeight={360} maxHeight="66vh" />
      {isBad ? <Text size="sm" c="var(--mantine-color-error)" role="alert">{texts.json.bad}</Text> : null}
    </Stack>
  );
}

export function TurnOnRules({ editor, mine }: Omit<TabProps, "agentId">) {
  return (
    <Alert color="gray" variant="outline">
      <Group gap="sm"><Text size="sm">{texts.rules.noPlugin}</Text><Button onClick={() => editor.edit({ ...mine, plugin_ids: [...readTexts(mine.plugin_ids), "permission"] })}>{texts.rules.turnOn}</Button></Group>
    </Alert>
  );
}
