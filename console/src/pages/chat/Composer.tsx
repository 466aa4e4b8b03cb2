/** Where a person writes: text, files, and what the message does to a run that executes. */
import { ActionIcon, Badge, Button, CloseButton, FileButton, Group, SegmentedControl, Text, Textarea, Tooltip } from "@mantine/core";
import { IconPaperclip, IconPlayerStop, IconSend2 } from "@tabler/icons-react";
import { memo, useState, type RefObject } from "react";

import { useMay } from "../../api/caller";
import { chat as texts } from "../../texts/chat";
import { noteError } from "../../ui/notices";
import { useTyped } from "../../ui/typed";
import { MAX_BYTES, readAttachment } from "./attachments";
import classes from "./Chat.module.css";
import type { PendingTurn } from "./fold";
import type { Part } from "./types";

type Mode = PendingTurn["mode"];
type Props = {
  agent: string;
  /** The conversation that what is typed belongs to. */
  place: string;
  isBusy: boolean;
  isWaiting: boolean;
  field: RefObject<HTMLTextAreaElement | null>;
  onSend: (parts: Part[], mode: Mode) => Promise<void>;
  onStop: (isInterrupt: boolean) => void;
};

type Attached = { name: string; part: Part };
const NO_FILES: readonly Attached[] = [];

/** Drawn anew when something in it changes, not with every piece of an answer: its field measures itself. */
export const Composer = memo(function Composer({ agent, place, isBusy, isWaiting, field, onSend, onStop }: Props) {
  const may = useMay();
  const [mode, setMode] = useState<Mode>("queue");
  const [draft, onDraft] = useTyped(place, "");
  const [attached, setAttached] = useTyped(`${place}.files`, NO_FILES);
  const isAllowed = may("invoke");
  const isReady = isAllowed && agent !== "" && (draft.trim() !== "" || attached.length > 0);

  const attach = async (files: File[]) => {
    for (const file of files) {
      if (file.size > MAX_BYTES) noteError(new Error(texts.tooLarge(file.name)));
      else {
        const part = await readAttachment(file);
        setAttached((now) => [...now, { name: file.name, part }]);
      }
    }
  };
  const submit = async () => {
    if (!isReady) return;
    const parts: Part[] = [...(draft.trim() === "" ? [] : [{ type: "text" as const, text: draft }]), ...attached.map((it) => it.part)];
    onDraft("");
    setAttached([]);
    try {
      await onSend(parts, isBusy ? mode : "queue");
    } catch (error) {
      // Nothing that was typed is lost: neither this, nor what was typed since.
      onDraft((now) => [draft, now].filter((it) => it.trim() !== "").join("\n"));
      setAttached((now) => [...attached, ...now]);
      noteError(error);
    }
  };

  return (
    <form className={classes.composer} onSubmit={(event) => { event.preventDefault(); void submit(); }}>
      <div className={classes.composerIn}>
        {attached.length === 0 ? null : (
          <Group gap={6} mb={6}>
            {attached.map((it, index) => (
              <Badge key={index} variant="outline" color="gray" c="var(--mantine-color-text)" size="lg" rightSection={<CloseButton size={24} aria-label={texts.remove(it.name)} onClick={() => setAttached((now) => now.filter((_, at) => at !== index))} />}>{it.name}</Badge>
            ))}
          </Group>
        )}
        <Textarea
          data-page-filter ref={field} aria-label={texts.message} placeholder={texts.placeholder(agent)} value={draft} autosize minRows={1} maxRows={10} size="sm" disabled={!isAllowed}
          onChange={(event) => onDraft(event.currentTarget.value)}
          onPaste={(event) => { if (event.clipboardData.files.length > 0) { event.preventDefault(); void attach([...event.clipboardData.files]); } }}
          onKeyDown={(event) => { if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) { event.preventDefault(); void submit(); } }}
        />
        <Group justify="space-between" gap="xs" mt={6}>
          <Group gap="xs">
            <FileButton multiple onChange={(files) => void attach(files)} accept="image/*,audio/*,video/*,application/pdf,text/*,application/json">
              {(props) => <Tooltip label={texts.attach}><ActionIcon size={28} aria-label={texts.attach} disabled={!isAllowed} {...props}><IconPaperclip size={16} /></ActionIcon></Tooltip>}
            </FileButton>
            {isBusy ? (
              <Tooltip label={`${texts.modeLabel} ${texts.modes[mode]}.`}>
                <SegmentedControl aria-label={texts.modeLabel} value={mode} onChange={(value) => setMode(value)} data={[{ value: "queue", label: texts.queue }, { value: "steer", label: texts.steer }, { value: "interrupt", label: texts.interrupt }]} />
              </Tooltip>
            ) : <Text size="xs" c="dimmed" visibleFrom="sm">{texts.sendHelp}</Text>}
          </Group>
          <Group gap="xs">
            {isBusy || isWaiting ? (
              <>
                <Button leftSection={<IconPlayerStop size={14} />} disabled={!isAllowed} onClick={() => onStop(false)}>{texts.stop}</Button>
                <Button variant="subtle" disabled={!isAllowed} onClick={() => onStop(true)}>{texts.stopAll}</Button>
              </>
            ) : null}
            <Tooltip label={texts.cannotInvoke} disabled={isAllowed}>
              <Button type="submit" variant="filled" disabled={!isReady} leftSection={<IconSend2 size={14} />}>{texts.send}</Button>
            </Tooltip>
          </Group>
        </Group>
      </div>
    </form>
  );
});
