/** Parts of every page about records: who owns one, when it changed, the dialog that publishes. */
import { Badge, Button, Group, Modal, Stack, Text, Textarea } from "@mantine/core";
import { useState, type ReactNode } from "react";

import { records as texts } from "../../texts/records";
import { ui } from "../../texts/ui";
import type { DataColumn } from "../../ui/DataTable";
import { Age } from "../../ui/parts";
import { Refusal } from "../../ui/Problems";
import type { RecordRow } from "./useRecords";

export function Owner({ owner, hasDrift = false }: { owner: string | undefined; hasDrift?: boolean }) {
  if (owner === undefined) return <Text span c="dimmed">{ui.none}</Text>;
  const kind = owner.startsWith("file:") ? "file" : owner;
  return (
    <Group gap={4} wrap="nowrap" component="span" display="inline-flex">
      <Text span size="sm" title={texts.ownerHelp[kind]}>{texts.owners[owner] ?? owner}</Text>
      {hasDrift ? <Badge variant="outline" color="orange" c="inherit" title={texts.driftHelp}>{texts.drift}</Badge> : null}
    </Group>
  );
}

export const OWNER_COLUMN: DataColumn<RecordRow> = { id: "owner", header: texts.owner, cell: (it) => <Owner owner={it.facts?.owner} hasDrift={it.facts?.drift} />, sortValue: (it) => it.facts?.owner ?? "" };
export const UPDATED_COLUMN: DataColumn<RecordRow> = { id: "updated", header: texts.updated, cell: (it) => <Age at={it.facts === undefined || it.facts.updated_at === 0 ? null : it.facts.updated_at} />, sortValue: (it) => it.facts?.updated_at ?? 0 };

type PublishProps = { title: string; isOpen: boolean; onClose: () => void; onPublish: (message: string) => Promise<boolean | void>; children?: ReactNode };

/** Asks for the message of a publication; a refusal stays in the dialog with all its problems. After false the message stays for the next try. */
export function PublishDialog({ title, isOpen, onClose, onPublish, children }: PublishProps) {
  const [message, setMessage] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const publish = async () => {
    setBusy(true);
    setError(null);
    try {
      if ((await onPublish(message.trim())) !== false) setMessage("");
      onClose();
    } catch (caught) {
      setError(caught);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Modal opened={isOpen} onClose={onClose} title={title} closeButtonProps={{ "aria-label": ui.close }}>
      <form onSubmit={(event) => { event.preventDefault(); void publish(); }}>
        <Stack gap="sm">
          <Text size="sm" c="dimmed">{texts.publishHelp}</Text>
          {children}
          <Textarea data-autofocus label={texts.message} placeholder={texts.messagePlaceholder} autosize minRows={2} value={message} onChange={(event) => setMessage(event.currentTarget.value)} />
          <Refusal error={error} />
          <Group justify="flex-end" gap="xs">
            <Button onClick={onClose}>{ui.cancel}</Button>
            <Button type="submit" variant="filled" loading={isBusy}>{texts.publishNow}</Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
