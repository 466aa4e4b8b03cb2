/** A place where the thread was compacted, with what the model is sent in place of what stands above it. */
import { Group, Text } from "@mantine/core";
import { IconFoldDown, IconScissors } from "@tabler/icons-react";
import type { ReactNode } from "react";

import { api, need } from "../../api/client";
import { refreshKinds } from "../../api/queries";
import { threads as texts } from "../../texts/threads";
import { useConfirm } from "../../ui/confirm";
import { formatCount, formatTokens } from "../../ui/format";
import { GatedButton } from "../../ui/GatedButton";
import { noteDone, noteError } from "../../ui/notices";
import { Age } from "../../ui/parts";
import { SafeText } from "../../ui/SafeText";
import type { Mark } from "./conversation";
import classes from "./Thread.module.css";

function useUndo(threadId: string): () => Promise<void> {
  const confirm = useConfirm();
  return async () => {
    if (!(await confirm({ title: texts.undoTitle, body: <Text size="sm">{texts.undoBody}</Text>, confirm: texts.undoCompaction }))) return;
    try {
      await need(api.DELETE("/v1/threads/{thread_id}/context", { params: { path: { thread_id: threadId } } }));
      noteDone(texts.undone);
    } catch (error) {
      noteError(error);
    }
    await refreshKinds("thread");
  };
}

function Line({ threadId, icon, hasUndo, children }: { threadId: string; icon: ReactNode; hasUndo: boolean; children: ReactNode }) {
  const undo = useUndo(threadId);
  return (
    <Group gap="xs" className={classes.compaction} role="note" wrap="nowrap" align="flex-start">
      {icon}
      <div style={{ flex: 1, minWidth: 0 }}>{children}</div>
      {hasUndo ? <GatedButton scope="invoke" size="compact-sm" h={24} onClick={() => void undo()}>{texts.undoCompaction}</GatedButton> : null}
    </Group>
  );
}

export function CompactionMark({ threadId, mark, isLatest }: { threadId: string; mark: Mark; isLatest: boolean }) {
  const count = formatCount(mark.seq);
  return (
    <Line threadId={threadId} hasUndo={isLatest} icon={<IconFoldDown size={16} aria-hidden />}>
      <Text size="sm">{isLatest ? texts.compacted(count) : texts.compactedEarlier(count)} <Text span size="xs" c="dimmed">{texts.savedTokens(formatTokens(mark.pre_tokens), formatTokens(mark.post_tokens))} <Age at={mark.at} /></Text></Text>
      <details className={classes.summary}><summary>{texts.showSummary}</summary><SafeText text={mark.summary} label={texts.showSummary} maxHeight={320} /></details>
    </Line>
  );
}

export function CutMark({ threadId, seq }: { threadId: string; seq: number }) {
  return <Line threadId={threadId} hasUndo icon={<IconScissors size={16} aria-hidden />}><Text size="sm">{texts.cutHere(formatCount(seq - 1))}</Text></Line>;
}
