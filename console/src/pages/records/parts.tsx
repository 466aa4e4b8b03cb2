/** Parts of every page about records: who owns one, buttons that say which scope they need, the dialog that publishes. */
import { Badge, Button, Group, Modal, Stack, Text, Textarea, Tooltip, type ButtonProps } from "@mantine/core";
import { useState, type ReactNode } from "react";

import { useMay, type Scope } from "../../api/caller";
import { ApiError, describeError } from "../../api/errors";
import { records as texts } from "../../texts/records";
import { shell } from "../../texts/shell";
import { ui } from "../../texts/ui";

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

type ActionProps = ButtonProps & { scope: Scope; onClick: () => void; children: ReactNode; reason?: string };

/** A button for callers with a scope; for the others it is disabled and says why. */
export function ActionButton({ scope, onClick, children, reason, ...rest }: ActionProps) {
  const may = useMay();
  const why = may(scope) ? reason : shell.needsScope(scope);
  const button = <Button {...rest} data-disabled={why === undefined ? undefined : true} aria-disabled={why !== undefined || undefined} onClick={why === undefined ? onClick : (event) => event.preventDefault()}>{children}</Button>;
  return why === undefined ? button : <Tooltip label={why}>{button}</Tooltip>;
}

type PublishProps = { title: string; isOpen: boolean; onClose: () => void; onPublish: (message: string) => Promise<void>; children?: ReactNode };

/** Asks for the message of a publication; a refusal stays in the dialog with all its problems. */
export function PublishDialog({ title, isOpen, onClose, onPublish, children }: PublishProps) {
  const [message, setMessage] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const publish = async () => {
    setBusy(true);
    setError(null);
    try {
      await onPublish(message.trim());
      setMessage("");
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

/** Why the server refused something: its sentence, or every problem with its place. */
export function Refusal({ error }: { error: unknown }) {
  if (error === null || error === undefined) return null;
  const problems = error instanceof ApiError ? error.problems : [];
  return (
    <div role="alert">
      {problems.length === 0 ? <Text size="sm" c="var(--mantine-color-error)">{describeError(error)}</Text> : problems.map((it) => (
        <Text key={`${it.path} ${it.message}`} size="sm" c="var(--mantine-color-error)"><Text span ff="monospace" size="xs">{it.path}</Text> {it.message}</Text>
      ))}
    </div>
  );
}
