/** What a draft would do: to agents, runs, tools, past calls, prompt caches, cost and secrets. */
import { Alert, Box, Code, Group, List, Stack, Text } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import { loadImpact, type Impact } from "../../api/drafts";
import { changes } from "../../texts/changes";
import { formatCost } from "../../ui/format";
import { Panel } from "../../ui/Panel";
import { ShortId } from "../../ui/parts";
import { Failure, Loading } from "../../ui/states";
import { isRebaseNeeded } from "./conflicts";
import { Tag } from "../../ui/Tag";

const texts = changes.impactTexts;

function Part({ title, children }: { title: string; children: ReactNode }) {
  return <Box><Text size="sm" fw={550} component="h3" mb={2}>{title}</Text>{children}</Box>;
}

function AgentName({ id }: { id: string }) {
  return <Link to="/agents/$agentId" params={{ agentId: id }} style={{ textDecoration: "underline" }}>{id}</Link>;
}

function Calls({ calls }: { calls: NonNullable<Impact["calls"]> }) {
  if (calls.newly_allowed + calls.newly_asked + calls.newly_denied === 0) return null;
  return (
    <Part title={texts.calls}>
      {calls.newly_allowed === 0 ? null : (
        <Alert color="red" icon={<IconAlertTriangle size={18} />} p="xs" mb={6} role="alert"><Text size="sm" fw={600}>{calls.newly_allowed} {texts.newlyAllowed}</Text></Alert>
      )}
      <Group gap="xs">
        {calls.newly_asked === 0 ? null : <Tag color="gray">{calls.newly_asked} {texts.newlyAsked}</Tag>}
        {calls.newly_denied === 0 ? null : <Tag color="gray">{calls.newly_denied} {texts.newlyDenied}</Tag>}
        <Text size="xs" c="dimmed">{texts.lookedAt(calls.calls)}</Text>
      </Group>
      <List size="sm" listStyleType="none" mt={6} spacing={4}>
        {calls.examples.map((it) => (
          <List.Item key={`${it.call.run_id}/${it.call.call_id}`}>
            <Code>{it.call.tool}</Code> {it.before} → <Text span fw={600} size="sm">{it.after}</Text>{" "}
            <Text span size="xs" c="dimmed">{texts.rule} {it.rule}</Text>{" "}
            {it.call.run_id === null || it.call.run_id === undefined ? null : <Link to="/runs/$runId" params={{ runId: it.call.run_id }} style={{ textDecoration: "underline" }}><ShortId id={it.call.run_id} /></Link>}
            <Text size="xs" c="dimmed" ff="monospace" lineClamp={2}>{JSON.stringify(it.call.arguments)}</Text>
          </List.Item>
        ))}
      </List>
    </Part>
  );
}

function isNothing(impact: Impact): boolean {
  return impact.agents.length === 0 && impact.tools.length === 0 && impact.secrets.length === 0 && (impact.runs ?? []).length === 0;
}

function Body({ impact }: { impact: Impact }) {
  const runs = impact.runs ?? [];
  const cost = impact.cost ?? [];
  if (isNothing(impact)) return <Text size="sm" c="dimmed">{texts.none}</Text>;
  return (
    <Stack gap="md">
      {impact.calls === null || impact.calls === undefined ? null : <Calls calls={impact.calls} />}
      {impact.secrets.length === 0 ? null : <Part title={texts.secrets}><List size="sm">{impact.secrets.map((it) => <List.Item key={it}><Code>{it}</Code></List.Item>)}</List></Part>}
      {impact.agents.length === 0 ? null : (
        <Part title={texts.agents}>
          <List size="sm" listStyleType="none" spacing={2}>
            {impact.agents.map((it) => <List.Item key={it.id}><AgentName id={it.id} /> <Text span size="sm">{texts[it.change as "added" | "changed" | "removed"] ?? it.change}</Text> <Text span size="xs" c="dimmed">{it.fields.join(", ")}</Text></List.Item>)}
          </List>
        </Part>
      )}
      {impact.tools.length === 0 ? null : (
        <Part title={texts.tools}>
          <List size="sm" listStyleType="none" spacing={2}>
            {impact.tools.map((it) => (
              <List.Item key={it.agent}><AgentName id={it.agent} />{it.added.length === 0 ? null : <> {texts.gains} <Code>{it.added.join(", ")}</Code></>}{it.removed.length === 0 ? null : <> {texts.loses} <Code>{it.removed.join(", ")}</Code></>}</List.Item>
            ))}
          </List>
        </Part>
      )}
      {runs.length === 0 ? null : (
        <Part title={texts.runs}><List size="sm" listStyleType="none">{runs.map((it) => <List.Item key={it.agent}><AgentName id={it.agent} /> {it.running} {texts.running}, {it.waiting} {texts.waiting}</List.Item>)}</List></Part>
      )}
      {impact.prompt_cache.length === 0 ? null : <Part title={texts.cache}><Text size="sm">{impact.prompt_cache.join(", ")}</Text></Part>}
      {cost.length === 0 ? null : (
        <Part title={texts.cost}>
          <List size="sm" listStyleType="none">
            {cost.map((it) => <List.Item key={it.agent}><AgentName id={it.agent} /> {it.before_nanos === null || it.after_nanos === null ? texts.noPrice : `${formatCost(it.before_nanos)} → ${formatCost(it.after_nanos)}`}</List.Item>)}
          </List>
        </Part>
      )}
    </Stack>
  );
}

export function ImpactPanel({ draftId, revision }: { draftId: string; revision: number }) {
  const query = useQuery({ queryKey: ["config", "impact", draftId, revision], queryFn: ({ signal }) => loadImpact(draftId, signal), refetchInterval: false });
  return (
    <Panel title={changes.impact}>
      {isRebaseNeeded(query.error) ? <Text size="sm">{changes.rebaseFirst}</Text> : query.isError ? <Failure error={query.error} onRetry={() => void query.refetch()} /> : query.data === undefined ? <Loading rows={3} /> : <Body impact={query.data} />}
    </Panel>
  );
}
