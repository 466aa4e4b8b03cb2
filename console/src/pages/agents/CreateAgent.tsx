/** Begins an agent in a draft: from scratch, or as a copy of another one. */
import { Button, Group, Select, Stack, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { capabilitiesQuery, loadRecord } from "../../api/config";
import { createDraft, fetchDrafts, findChange, loadDraft, pickDraft, saveRecord, stripAdded } from "../../api/drafts";
import { callerQuery, refreshKinds } from "../../api/queries";
import { agents as texts } from "../../texts/agents";
import { changes } from "../../texts/changes";
import { records } from "../../texts/records";
import { ui } from "../../texts/ui";
import { FormModal } from "../../ui/FormDialogs";
import { Refusal } from "../../ui/Problems";
import { isRecordId } from "../../ui/recordText";
import type { JsonObject } from "../../ui/schema/model";

type Props = { isOpen: boolean; onClose: () => void; taken: readonly string[] };

export function CreateAgent({ isOpen, onClose, taken }: Props) {
  const [id, setId] = useState("");
  const [source, setSource] = useState<string | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const navigate = useNavigate();
  const { data: caller } = useQuery(callerQuery);
  const { data: capabilities } = useQuery({ ...capabilitiesQuery, enabled: isOpen });
  const problem = !isRecordId(id) ? records.badId : taken.includes(id) ? records.taken : undefined;
  const create = async () => {
    if (problem !== undefined) return;
    setBusy(true);
    setError(null);
    try {
      const copied: JsonObject = source === null ? { model_id: await pickModel(capabilities?.models[0]?.id as string | undefined, taken[0]) } : stripAdded(await loadRecord("agents", source));
      const picked = pickDraft(await fetchDrafts(), caller?.id ?? "", "agents", id);
      const draft = picked === undefined ? await createDraft(records.defaultDraftTitle(id)) : await loadDraft(picked.id);
      // A record of the draft that nobody has seen here is not overwritten.
      if (findChange(draft, "agents", id) !== undefined) throw new Error(records.takenInDraft(draft.title || changes.untitled));
      const saved = await saveRecord(draft, "agents", id, { spec: { ...copied, id } });
      await refreshKinds("config");
      void navigate({ to: "/agents/$agentId", params: { agentId: id }, search: { draft: saved.id } });
    } catch (caught) {
      setError(caught);
    } finally {
      setBusy(false);
    }
  };
  return (
    <FormModal opened={isOpen} onClose={onClose} title={texts.new} closeButtonProps={{ "aria-label": ui.close }}>
      <form onSubmit={(event) => { event.preventDefault(); void create(); }}>
        <Stack gap="sm">
          <Text size="sm" c="dimmed">{texts.newHelp}</Text>
          <TextInput data-autofocus label={records.id} description={records.idHelp} required withAsterisk value={id} error={id === "" ? undefined : problem} onChange={(event) => setId(event.currentTarget.value)} />
          <Select label={texts.copyOf} description={texts.copyHelp} data={[...taken]} searchable clearable value={source} onChange={setSource} />
          <Refusal error={error} />
          <Group justify="flex-end" gap="xs">
            <Button onClick={onClose}>{ui.cancel}</Button>
            <Button type="submit" variant="filled" loading={isBusy} disabled={problem !== undefined}>{texts.create}</Button>
          </Group>
        </Stack>
      </form>
    </FormModal>
  );
}

/** A model that a new agent can begin with: a managed one, else that of an agent that works. */
async function pickModel(managed: string | undefined, agentId: string | undefined): Promise<string> {
  if (managed !== undefined) return managed;
  if (agentId === undefined) return "";
  return String((await loadRecord("agents", agentId)).model_id ?? "");
}
