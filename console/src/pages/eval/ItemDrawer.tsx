/** One sample: what it answered and called, its scores with their reasons, and the ways to its run, its judges and the lab. */
import { Button, Drawer, Group, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { api, need } from "../../api/client";
import type { EvalItem } from "../../api/evals";
import { isGone } from "../../api/errors";
import { evals as texts } from "../../texts/evals";
import { ui } from "../../texts/ui";
import { Facts, Missing } from "../../ui/evals/parts";
import { ScoreLine } from "../../ui/evals/Samples";
import { addSpent } from "../../ui/evals/cells";
import { formatUsd } from "../../ui/evals/words";
import { formatDuration, formatTokens } from "../../ui/format";
import { noteError } from "../../ui/notices";
import { JsonDrawer } from "../../ui/parts";
import { SafeJson, SafeText } from "../../ui/SafeText";
import { runQuery } from "../run/queries";

type Props = { item: EvalItem | undefined; items: readonly EvalItem[]; datasetId: string; onOpen: (item: EvalItem | undefined) => void };

export function ItemDrawer({ item, items, datasetId, onOpen }: Props) {
  const at = item === undefined ? -1 : items.indexOf(item);
  return (
    <Drawer opened={item !== undefined} onClose={() => onOpen(undefined)} title={item === undefined ? "" : texts.item.title(item.case_id, item.variant, item.sample + 1)} size="lg" closeButtonProps={{ "aria-label": ui.close }}>
      {item === undefined ? null : <Details key={item.number} item={item} datasetId={datasetId} onStep={(by) => { const next = items[at + by]; if (next !== undefined) onOpen(next); }} />}
    </Drawer>
  );
}

function Details({ item, datasetId, onStep }: { item: EvalItem; datasetId: string; onStep: (by: number) => void }) {
  const [recording, setRecording] = useState<unknown>();
  const runId = item.run_id ?? null;
  const run = useQuery({ ...runQuery(runId ?? ""), enabled: runId !== null, retry: false });
  const isKept = runId !== null && !isGone(run.error);
  const spent = addSpent([item]);
  const showRecording = async () => {
    try {
      setRecording(await need(api.GET("/v1/runs/{run_id}/recording", { params: { path: { run_id: runId ?? "" }, query: {} } })));
    } catch (error) {
      noteError(error);
    }
  };
  return (
    <Stack gap="md" onKeyDown={(event) => { if (event.key === "[") onStep(-1); if (event.key === "]") onStep(1); }} tabIndex={-1}>
      <Facts facts={[
        [texts.item.status, item.status.replaceAll("_", " ")],
        [texts.item.tokens, spent.tokens === null ? <Missing key="t">{texts.notKnown}</Missing> : formatTokens(spent.tokens)],
        [texts.item.cost, spent.cost_usd === null ? <Missing key="c">{texts.notKnown}</Missing> : formatUsd(spent.cost_usd)],
        [texts.item.time, item.ms == null ? <Missing key="m">{texts.notKnown}</Missing> : formatDuration(item.ms)],
      ]} />
      {isKept ? (
        <Group gap="xs">
          <Button variant="filled" renderRoot={(props) => <Link to="/lab" search={{ run: runId }} {...props} />}>{texts.item.lab}</Button>
          <Button renderRoot={(props) => <Link to="/runs/$runId" params={{ runId }} {...props} />}>{texts.item.run}</Button>
          <Button onClick={() => void showRecording()}>{texts.item.recording}</Button>
          <Button renderRoot={(props) => <Link to="/datasets/$datasetId" params={{ datasetId }} search={{ case: item.case_id }} {...props} />}>{texts.item.case}</Button>
        </Group>
      ) : <Text size="sm" c="dimmed">{texts.item.gone}</Text>}
      <div><Title order={2} mb={4}>{texts.item.scores}</Title>{item.scores.length === 0 ? <Missing /> : <Stack gap={4}>{item.scores.map((it) => <ScoreLine key={it.name} score={it} />)}</Stack>}</div>
      <div><Title order={2} mb={4}>{texts.item.answer}</Title>{item.text === undefined || item.text === "" ? <Text size="sm" c="dimmed">{texts.item.noAnswer}</Text> : <SafeText text={item.text} label={texts.item.answer} maxHeight={320} />}</div>
      <div><Title order={2} mb={4}>{texts.item.calls}</Title><Text size="sm" ff="monospace" style={{ overflowWrap: "anywhere" }}>{(item.calls ?? []).join(" → ") || texts.item.noCalls}</Text></div>
      {item.error == null ? null : <div><Title order={2} mb={4}>{texts.item.error}</Title><SafeText text={item.error} label={texts.item.error} maxHeight={160} /></div>}
      {item.divergence == null ? null : <div><Title order={2} mb={4}>{texts.item.divergence}</Title><SafeJson value={item.divergence} label={texts.item.divergence} maxHeight={220} /></div>}
      <JsonDrawer title={texts.item.recording} value={recording} onClose={() => setRecording(undefined)} />
    </Stack>
  );
}
