/** The gates of a draft: every dataset that has one, what it said of this draft, and the button that runs it. */
import { Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { useMay } from "../../api/caller";
import type { Draft } from "../../api/drafts";
import { datasetsQuery, findEval, isOpen, startEval, type EvalRecord } from "../../api/evals";
import { changes as texts } from "../../texts/changes";
import { GateTag } from "../../ui/evals/parts";
import { useEvalStream } from "../../ui/evals/useEvalStream";
import { GatedButton } from "../../ui/GatedButton";
import { noteDone, noteError } from "../../ui/notices";
import { Panel } from "../../ui/Panel";
import { Age, Status } from "../../ui/parts";
import { Failure, Loading } from "../../ui/states";

const named = texts.gates;

/** The eval whose gate judges a draft: its last variant is the draft. Pure. */
export function isOfDraft(record: EvalRecord, draftId: string): boolean {
  return record.spec.variants?.at(-1)?.draft_id === draftId;
}

function Latest({ record, draft }: { record: EvalRecord; draft: Draft }) {
  const isLive = isOpen(record);
  useEvalStream(record.eval_id, isLive);
  const gate = record.summary?.gate;
  return (
    <Group gap="xs">
      {isLive ? <Status value="running" label={named.goesOn(String(record.planned))} /> : gate == null ? <Status value={record.status} /> : <GateTag status={gate.status} />}
      <Text span size="sm"><Link to="/evals/$evalId" params={{ evalId: record.eval_id }}>{named.open}</Link></Text>
      <Text span size="xs" c="dimmed"><Age at={record.created_at} /></Text>
      {!isLive && record.created_at < draft.updated_at ? <Text span size="xs">{named.stale}</Text> : null}
    </Group>
  );
}

function OneGate({ datasetId, draft }: { datasetId: string; draft: Draft }) {
  const [isBusy, setBusy] = useState(false);
  // However many evals others have made of the dataset since: none is older than the draft.
  const latest = useQuery({ queryKey: ["eval", "gate", datasetId, draft.id], queryFn: async ({ signal }) => (await findEval(datasetId, draft.created_at, (it) => isOfDraft(it, draft.id), signal)) ?? null });
  const begin = async () => {
    setBusy(true);
    try {
      await startEval({ dataset_id: datasetId, variants: [{ name: "live" }, { name: "draft", draft_id: draft.id }] });
      noteDone(named.started);
    } catch (error) {
      noteError(error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <section aria-label={datasetId}>
      <Group justify="space-between" gap="xs">
        <Text size="sm" fw={550}><Link to="/datasets/$datasetId" params={{ datasetId }} search={{ tab: "settings" }}>{datasetId}</Link></Text>
        <GatedButton scope="eval" loading={isBusy} onClick={() => void begin()}>{named.run}</GatedButton>
      </Group>
      <div role="status">{latest.isError ? <Failure error={latest.error} onRetry={() => void latest.refetch()} /> : latest.data === undefined ? <Loading rows={1} /> : latest.data === null ? <Text size="sm" c="dimmed">{named.never}</Text> : <Latest record={latest.data} draft={draft} />}</div>
    </section>
  );
}

export function DraftGates({ draft }: { draft: Draft }) {
  const may = useMay();
  const list = useQuery(datasetsQuery);
  const gated = (list.data ?? []).filter((it) => it.has_gate === true).map((it) => it.id);
  if (!may("config")) return null;
  return (
    <Panel title={named.title} description={named.help}>
      {list.isError ? <Failure error={list.error} onRetry={() => void list.refetch()} /> : list.data === undefined ? <Loading rows={2} /> : gated.length === 0 ? <Text size="sm" c="dimmed">{named.none} <Link to="/datasets" style={{ textDecoration: "underline" }}>{named.make}</Link></Text> : (
        <Stack gap="sm">{gated.map((it) => <OneGate key={it} datasetId={it} draft={draft} />)}</Stack>
      )}
    </Panel>
  );
}
