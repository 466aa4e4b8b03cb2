/** Tries one case as it is saved, at once: an eval of it alone. */
import { Group, NumberInput, Stack, Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { startEval } from "../../api/evals";
import { datasets as texts } from "../../texts/datasets";
import { Samples } from "../../ui/evals/Samples";
import { GatedButton } from "../../ui/GatedButton";
import { Refusal } from "../../ui/Problems";

const REPEATS_MAX = 50;

export function TrialTab({ datasetId, caseId, isSaved }: { datasetId: string; caseId: string | null; isSaved: boolean }) {
  const [repeats, setRepeats] = useState(1);
  const [evalId, setEvalId] = useState<string | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const begin = async () => {
    if (caseId === null) return;
    setBusy(true);
    setError(null);
    try {
      setEvalId((await startEval({ dataset_id: datasetId, cases: [caseId], has_drafts: true, repeats })).eval_id);
    } catch (caught) {
      setError(caught);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Stack gap="sm">
      <Text size="sm" c="dimmed">{texts.case.trialHelp}</Text>
      <Group align="flex-end" gap="xs">
        <NumberInput label={texts.case.repeats} min={1} max={REPEATS_MAX} w={110} value={repeats} onChange={(value) => setRepeats(Math.max(1, Number(value) || 1))} />
        <GatedButton scope="eval" variant="filled" loading={isBusy} reason={isSaved ? undefined : texts.case.trialUnsaved} onClick={() => void begin()}>{texts.case.trial}</GatedButton>
      </Group>
      <Refusal error={error} />
      {evalId === null ? null : <><Samples evalId={evalId} /><Text size="sm"><Link to="/evals/$evalId" params={{ evalId }}>{texts.case.trialOpen}</Link></Text></>}
    </Stack>
  );
}
