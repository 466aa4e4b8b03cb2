/** What a run is: agent, thread, pin, times, worker, tokens, cost. */
import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import { run as texts } from "../../texts/run";
import { formatCost, formatCount, formatTokens } from "../../ui/format";
import { Age, CopyIcon, ShortId, Time, Took } from "../../ui/parts";
import { deliveryQuery, workflowQuery, type Run } from "./queries";
import classes from "./run.module.css";

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return <div className={classes.fact}><dt>{name}</dt><dd>{children}</dd></div>;
}

/** A workflow's steps are those of its journal: it asks no model by itself. */
function WorkflowSteps({ runId }: { runId: string }) {
  const { data: view } = useQuery(workflowQuery(runId));
  return view === undefined ? "…" : formatCount(view.steps.length);
}

export function RunFacts({ run }: { run: Run }) {
  const { data: delivery } = useQuery(deliveryQuery(run));
  const cost = run.usage.cost_nanos;
  return (
    <dl className={classes.facts}>
      <Fact name={texts.facts.agent}>
        <Link to="/agents/$agentId" params={{ agentId: run.agent_id }}>{run.agent_id}</Link>
        {run.active_agent_id == null || run.active_agent_id === run.agent_id ? null : <Text span size="xs" c="dimmed"> {texts.activeAgent(run.active_agent_id)}</Text>}
      </Fact>
      <Fact name={texts.facts.thread}>
        <Link to="/threads/$threadId" params={{ threadId: run.thread_id }} aria-label={texts.openThread}><ShortId id={run.thread_id} /></Link>
        <CopyIcon value={run.thread_id} />
      </Fact>
      {run.parent_run_id == null ? null : <Fact name={texts.facts.parent}><Link to="/runs/$runId" params={{ runId: run.parent_run_id }}><ShortId id={run.parent_run_id} /></Link></Fact>}
      <Fact name={texts.facts.publication}>{run.publication ?? texts.noPublication}</Fact>
      <Fact name={texts.facts.kind}>{run.kind}</Fact>
      <Fact name={texts.facts.origin}>{run.adapter === "internal" ? run.origin : run.adapter.replaceAll("_", "-")}</Fact>
      <Fact name={texts.facts.started}><Age at={run.started_at ?? run.created_at} /></Fact>
      <Fact name={texts.facts.took}><Took from={run.started_at} to={run.finished_at} /></Fact>
      <Fact name={texts.facts.steps}>{run.is_workflow ? <WorkflowSteps runId={run.run_id} /> : formatCount(run.steps)}</Fact>
      <Fact name={texts.facts.tokens}>{texts.tokensInOut(formatTokens(run.input_tokens ?? 0), formatTokens(run.output_tokens ?? 0))}</Fact>
      {cost == null ? null : <Fact name={texts.facts.cost}>{formatCost(cost)}</Fact>}
      {delivery == null ? null : (
        <>
          {delivery.claimed_by == null ? null : <Fact name={texts.facts.worker}><ShortId id={delivery.claimed_by} chars={24} /></Fact>}
          {delivery.lease_until == null ? null : <Fact name={texts.facts.lease}><Time at={delivery.lease_until} /></Fact>}
          <Fact name={texts.facts.attempts}>{texts.attemptsOf(delivery.attempt_count, delivery.max_attempts)}</Fact>
          {delivery.last_error == null ? null : <Text size="xs" c="dimmed" style={{ overflowWrap: "anywhere", alignSelf: "end" }}>{texts.lastError(delivery.last_error)}</Text>}
        </>
      )}
    </dl>
  );
}
