/** Tabs about what the agent may call: its tools with the reason for each, and its rules with a trial of calls. */
import { Badge, Button, Group, JsonInput, Select, Stack, Table, TagsInput, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useMemo, useState } from "react";

import { api, need } from "../../api/client";
import { capabilitiesQuery, switchesQuery } from "../../api/config";
import { isSame, previewDraft, type Draft } from "../../api/drafts";
import { describeError } from "../../api/errors";
import { agent as texts } from "../../texts/agent";
import { ui } from "../../texts/ui";
import { SchemaForm } from "../../ui/SchemaForm";
import { isObject, problemsBelow, setAt, type Json, type JsonObject } from "../../ui/schema/model";
import { Failure, Loading } from "../../ui/states";
import { readTexts } from "./readTexts";
import { TurnOnRules, type TabProps } from "./tabs";
import { explainTools, splitNames } from "./tools";
import classes from "./AgentPage.module.css";

/** The publication on which the draft can be asked about; null: what is live. It is made once per revision of the draft. */
export function usePreviewNumber(draft: Draft | null, isChanged: boolean) {
  return useQuery({
    queryKey: ["config", "draft-preview", draft?.id, draft?.revision],
    queryFn: () => (draft === null ? null : previewDraft(draft.id)),
    enabled: draft !== null && isChanged,
    staleTime: Infinity,
    refetchInterval: false,
    retry: false,
  });
}

function usePermissions(agentId: string, draft: Draft | null, isChanged: boolean, isLive: boolean) {
  const preview = usePreviewNumber(draft, isChanged);
  const publication = isChanged ? preview.data ?? undefined : undefined;
  const isReady = isChanged ? publication !== undefined || (preview.isError && isLive) : isLive;
  const permissions = useQuery({
    queryKey: ["agent", "permissions", agentId, publication],
    queryFn: ({ signal }) => need(api.GET("/v1/agents/{agent_id}/permission-preview", { params: { path: { agent_id: agentId }, query: { publication } }, signal })),
    enabled: isReady,
  });
  return { permissions, previewError: preview.error };
}

export function ToolsTab({ agentId, editor, mine }: TabProps) {
  const { data: capabilities } = useQuery(capabilitiesQuery);
  const { data: switches = [] } = useQuery(switchesQuery);
  const { permissions, previewError } = usePermissions(agentId, editor.draft, editor.isChanged, editor.live !== null);
  const allowed = mine.allowed_tools === null || mine.allowed_tools === undefined ? (readTexts(mine.allowed_tool_patterns).length > 0 ? readTexts(mine.allowed_tool_patterns) : null) : [...readTexts(mine.allowed_tools), ...readTexts(mine.allowed_tool_patterns)];
  const excluded = [...readTexts(mine.excluded_tools), ...readTexts(mine.excluded_tool_patterns)];
  const tools = capabilities?.tools ?? [];
  const setNames = (field: "allowed" | "excluded", given: string[]) => {
    const { names, patterns } = splitNames(given.length === 0 ? null : given);
    editor.edit({ ...mine, [`${field}_tools`]: names, [`${field}_tool_patterns`]: patterns });
  };
  const known = tools.filter((it) => it.source.kind === "mcp" || it.source.id == null || it.source.id === agentId).map((it) => it.id);
  const rows = permissions.data === undefined ? [] : explainTools({
    known: allowed === null && excluded.length === 0 ? [] : known,
    candidates: permissions.data.candidate_tools,
    denied: permissions.data.unconditionally_denied,
    conditional: permissions.data.args_conditional_rules.map((it) => it.tool),
    allowed, excluded,
    switchedOff: switches.filter((it) => it.kind === "tool").map((it) => it.id),
  });
  const suggestions = [...new Set([...(permissions.data?.candidate_tools ?? []), ...tools.map((it) => it.id)])];
  const problem = (field: string) => problemsBelow(editor.problems, `agents/${agentId}/${field}`)[0]?.message;
  return (
    <Stack gap="md">
      <TagsInput size="xs" label={texts.tools.allowed} description={texts.tools.allowedHelp} data={suggestions} value={allowed ?? []} onChange={(next) => setNames("allowed", next)} error={problem("allowed_tools")} />
      <TagsInput size="xs" label={texts.tools.excluded} description={texts.tools.excludedHelp} data={suggestions} value={excluded} onChange={(next) => setNames("excluded", next)} error={problem("excluded_tools")} />
      <div>
        <Title order={2} size="h3" mb={4}>{texts.tools.table}</Title>
        {previewError === null ? null : <Text size="xs" c="dimmed" mb={4}>{texts.tools.stale}</Text>}
        {permissions.isError ? <Failure error={permissions.error} /> : permissions.isLoading ? <Loading rows={3} /> : rows.length === 0 ? <Text size="sm" c="dimmed">{texts.tools.none}</Text> : (
          <div className={classes.scroll} tabIndex={0} role="region" aria-label={texts.tools.table}>
            <Table fz="sm" verticalSpacing={4}>
              <Table.Thead><Table.Tr><Table.Th>{texts.tools.tool}</Table.Th><Table.Th>{texts.tools.verdict}</Table.Th><Table.Th>{texts.tools.reason}</Table.Th><Table.Th>{texts.tools.effect}</Table.Th><Table.Th>{texts.tools.source}</Table.Th></Table.Tr></Table.Thead>
              <Table.Tbody>
                {rows.map((it) => {
                  const tool = tools.find((row) => row.id === it.id);
                  return (
                    <Table.Tr key={it.id}>
                      <Table.Td><Link to="/tools" search={{ tool: it.id }}>{it.id}</Link></Table.Td>
                      <Table.Td><Badge variant="outline" color={it.isOffered ? "teal" : "gray"} c="inherit">{it.isOffered ? texts.tools.offered : texts.tools.hidden}</Badge></Table.Td>
                      <Table.Td><Text span size="sm" c="dimmed">{texts.tools.reasons[it.reason]}</Text></Table.Td>
                      <Table.Td>{tool?.effect ?? ui.none}</Table.Td>
                      <Table.Td>{tool === undefined ? ui.none : `${tool.source.kind}${tool.source.id == null ? "" : `: ${tool.source.id}`}`}</Table.Td>
                    </Table.Tr>
                  );
                })}
              </Table.Tbody>
            </Table>
          </div>
        )}
      </div>
    </Stack>
  );
}

export function RulesTab({ agentId, editor, mine }: TabProps) {
  const { data: capabilities } = useQuery(capabilitiesQuery);
  const schema = capabilities?.plugins.find((it) => it.id === "permission")?.config_schemas[0]?.schema;
  const isOn = readTexts(mine.plugin_ids).includes("permission");
  const section = isObject(mine.sections) && isObject(mine.sections.permission) ? mine.sections.permission : {};
  if (capabilities === undefined) return <Loading rows={4} />;
  if (!isOn || schema === undefined) return <TurnOnRules editor={editor} mine={mine} />;
  const tools = capabilities.tools.map((it) => it.id);
  return (
    <Stack gap="md">
      <Text size="sm" c="dimmed">{texts.rules.help}</Text>
      <SchemaForm label={texts.rules.title} schema={schema} value={section} problems={problemsBelow(editor.problems, `agents/${agentId}/sections/permission`)} suggestions={{ tool: tools }}
        onChange={(next) => editor.edit(setAt(mine, ["sections", "permission"], next) as JsonObject)} />
      <RuleTrial agentId={agentId} editor={editor} tools={tools} />
    </Stack>
  );
}

function readJson(text: string): { value: Json } | null {
  try {
    return { value: text.trim() === "" ? null : (JSON.parse(text) as Json) };
  } catch {
    return null;
  }
}

/** Asks the server what the rules of the draft would do to a call, again after every change of them. */
function RuleTrial({ agentId, editor, tools }: { agentId: string; editor: TabProps["editor"]; tools: readonly string[] }) {
  const [call, setCall] = useState<{ tool: string; arguments: Json } | null>(null);
  const [tool, setTool] = useState<string | null>(null);
  const [text, setText] = useState("{}");
  const { draft, isChanged } = editor;
  const preview = usePreviewNumber(draft, isChanged && call !== null);
  const parsed = useMemo(() => readJson(text), [text]);
  const publication = isChanged ? preview.data ?? null : null;
  const trial = useQuery({
    queryKey: ["agent", "rule-trial", agentId, publication, call],
    queryFn: ({ signal }) => need(api.POST("/v1/policy/preview", { body: { agent: agentId, publication, calls: call === null ? [] : [call] }, signal })),
    enabled: call !== null && (!isChanged || publication !== null),
    retry: false,
  });
  useEffect(() => {
    if (call !== null && tool !== null && parsed !== null && (tool !== call.tool || !isSame(parsed.value, call.arguments))) setCall({ tool, arguments: parsed.value });
  }, [call, tool, parsed]);
  const result = trial.data?.calls[0];
  const error = preview.error ?? trial.error;
  return (
    <div>
      <Title order={2} size="h3" mb={4}>{texts.rules.trial}</Title>
      <Group align="flex-start" gap="sm">
        <Select label={texts.rules.tool} data={[...tools]} searchable value={tool} onChange={setTool} w={200} />
        <JsonInput size="xs" label={texts.rules.arguments} value={text} onChange={setText} autosize minRows={1} maxRows={6} flex={1} miw={180} error={parsed === null ? texts.rules.badArguments : undefined} spellCheck={false} />
        <Button mt={22} disabled={tool === null || parsed === null} onClick={() => { if (tool !== null && parsed !== null) { void editor.flush().then(() => setCall({ tool, arguments: parsed.value })); } }}>{texts.rules.run}</Button>
      </Group>
      <Text size="sm" mt="xs" role="status" fw={500}>
        {call === null ? null : error !== null ? describeError(error) : result === undefined ? texts.rules.waiting : texts.rules.result(result.behavior, result.rule)}
      </Text>
    </div>
  );
}
