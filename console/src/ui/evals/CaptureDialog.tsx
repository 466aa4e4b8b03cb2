/** Saves a run as a case of a dataset; from a run, a step of it, and a conversation. */
import { Autocomplete, Button, Group, Stack, TagsInput, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { captureRun, createDataset, datasetsQuery } from "../../api/evals";
import { datasets as texts } from "../../texts/datasets";
import { ui } from "../../texts/ui";
import { FormModal } from "../FormDialogs";
import { noteDone } from "../notices";
import { Refusal } from "../Problems";
import { isEvalId } from "./ids";

type Props = { runId: string; step?: number; isOpen: boolean; onClose: () => void };

export function CaptureDialog(props: Props) {
  const { isOpen, onClose } = props;
  return (
    <FormModal opened={isOpen} onClose={onClose} title={texts.capture.title} closeButtonProps={{ "aria-label": ui.close }}>
      {isOpen ? <CaptureForm {...props} /> : null}
    </FormModal>
  );
}

function CaptureForm({ runId, step, onClose }: Props) {
  const { capture } = texts;
  const known = useQuery(datasetsQuery);
  const navigate = useNavigate();
  const [datasetId, setDatasetId] = useState("");
  const [caseId, setCaseId] = useState("");
  const [tags, setTags] = useState<string[]>(step === undefined ? [] : [capture.ofStep(step)]);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const names = (known.data ?? []).map((it) => it.id);
  const isNew = known.data !== undefined && datasetId !== "" && !names.includes(datasetId);
  const isBad = (datasetId !== "" && !isEvalId(datasetId)) || (caseId !== "" && !isEvalId(caseId));
  const save = async () => {
    if (datasetId === "" || isBad || isBusy) return;
    setBusy(true);
    setError(null);
    try {
      if (isNew) await createDataset(datasetId, "");
      const made = await captureRun(datasetId, runId, caseId === "" ? undefined : caseId, tags);
      noteDone(capture.saved);
      onClose();
      await navigate({ to: "/datasets/$datasetId", params: { datasetId }, search: { case: made.id } });
    } catch (caught) {
      setError(caught);
      await known.refetch();
    } finally {
      setBusy(false);
    }
  };
  return (
    <form onSubmit={(event) => { event.preventDefault(); void save(); }}>
      <Stack gap="sm">
        <Text size="sm" c="dimmed">{capture.help}</Text>
        <Autocomplete data-autofocus label={capture.dataset} description={isNew ? capture.willMake(datasetId) : capture.datasetHelp} required withAsterisk data={names} value={datasetId} error={datasetId !== "" && !isEvalId(datasetId) ? texts.badId : undefined} onChange={setDatasetId} />
        <TextInput label={capture.case} description={capture.caseHelp} value={caseId} error={caseId !== "" && !isEvalId(caseId) ? texts.badId : undefined} onChange={(event) => setCaseId(event.currentTarget.value)} />
        <TagsInput label={capture.tags} description={capture.tagsHelp} value={tags} onChange={setTags} />
        <Refusal error={error} />
        <Group justify="flex-end" gap="xs">
          <Button onClick={onClose}>{ui.cancel}</Button>
          <Button type="submit" variant="filled" loading={isBusy} disabled={datasetId === "" || isBad}>{capture.save}</Button>
        </Group>
      </Stack>
    </form>
  );
}
