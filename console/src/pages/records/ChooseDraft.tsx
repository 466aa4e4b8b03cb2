/** Asks into which draft a record is saved; it says what the draft has of the record already. */
import { Alert, Button, Group, Modal, Select, Stack, Text } from "@mantine/core";
import { useState } from "react";

import type { Namespace } from "../../api/config";
import { pickDraft, type DraftSummary } from "../../api/drafts";
import { changes } from "../../texts/changes";
import { records as texts } from "../../texts/records";
import { ui } from "../../texts/ui";

/** What the choice says instead of an id for a draft that is to be begun; no id can have this character. */
const NEW = "+";

type Props = { drafts: readonly DraftSummary[]; person: string; namespace: Namespace; id: string; onClose: () => void; onChoose: (draftId: string | null) => void };

export function ChooseDraft({ drafts, person, namespace, id, onClose, onChoose }: Props) {
  const [chosen, setChosen] = useState(() => pickDraft(drafts, person, namespace, id)?.id ?? NEW);
  const draft = drafts.find((it) => it.id === chosen);
  const own = draft?.changes.find((it) => it.ns === namespace && it.id === id);
  const options = [
    ...drafts.map((it) => ({ value: it.id, label: texts.draftOption(it.title || changes.untitled, it.editors.join(", "), it.changes.length) })),
    { value: NEW, label: changes.newDraft },
  ];
  return (
    <Modal opened onClose={onClose} title={texts.chooseTitle(id)} closeButtonProps={{ "aria-label": ui.close }}>
      <form onSubmit={(event) => { event.preventDefault(); onChoose(draft?.id ?? null); }}>
        <Stack gap="sm">
          <Select label={texts.draft} data={options} value={chosen} allowDeselect={false} data-autofocus onChange={(value) => setChosen(value ?? NEW)} />
          {draft === undefined || draft.changes.length === 0 ? null : <Text size="xs" c="dimmed">{texts.draftHas(draft.changes.map((it) => `${it.ns}/${it.id}`))}</Text>}
          {own === undefined ? null : <Alert color="yellow">{own.type === "delete" ? texts.draftDeletes(id) : texts.draftHasOwn(id)}</Alert>}
          <Group justify="flex-end" gap="xs"><Button onClick={onClose}>{ui.cancel}</Button><Button type="submit" variant="filled">{texts.saveHere}</Button></Group>
        </Stack>
      </form>
    </Modal>
  );
}
