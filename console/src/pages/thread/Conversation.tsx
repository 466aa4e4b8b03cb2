/** The conversation: messages with the runs that wrote them; a thread can be forked at each. */
import { Button, Group, Stack, Text, Tooltip } from "@mantine/core";
import { IconGitFork } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";

import { api, need } from "../../api/client";
import { useMay } from "../../api/caller";
import { usePagedList } from "../../api/paging";
import { refreshKinds } from "../../api/queries";
import { threads as texts } from "../../texts/threads";
import { useConfirm } from "../../ui/confirm";
import { MessageView, type MessageRecord } from "../../ui/MessageView";
import { noteDone, noteError } from "../../ui/notices";
import { ShortId, Status } from "../../ui/parts";
import { Empty, Failure, Loading } from "../../ui/states";
import { CompactionMark, CutMark } from "./Compaction";
import { foldConversation } from "./conversation";
import { contextQuery, runsQuery } from "./queries";
import classes from "./Thread.module.css";

const PAGE = 100;

function useFork(threadId: string): (record: MessageRecord) => Promise<void> {
  const confirm = useConfirm();
  const navigate = useNavigate();
  return async (record) => {
    if (!(await confirm({ title: texts.forkTitle, body: <Text size="sm">{texts.forkBody(record.seq)}</Text>, confirm: texts.fork }))) return;
    try {
      const forked = await need(api.POST("/v1/threads/{thread_id}/fork", { params: { path: { thread_id: threadId } }, body: { at: record.message_id, before: null } }));
      noteDone(texts.forked);
      await refreshKinds("thread");
      await navigate({ to: "/threads/$threadId", params: { threadId: forked.id } });
    } catch (error) {
      noteError(error);
    }
  };
}

function RunBoundary({ runId, threadId }: { runId: string; threadId: string }) {
  const { data } = useQuery(runsQuery(threadId));
  const run = data?.items.find((it) => it.run_id === runId);
  return (
    <Group gap="xs" className={classes.boundary}>
      <Link to="/runs/$runId" params={{ runId }}>{run === undefined ? <ShortId id={runId} /> : texts.runBoundary(run.active_agent_id ?? run.agent_id)}</Link>
      {run === undefined ? null : <Status value={run.status} />}
    </Group>
  );
}

export function Conversation({ threadId }: { threadId: string }) {
  const may = useMay();
  const fork = useFork(threadId);
  const list = usePagedList<MessageRecord>(["thread", "messages", threadId], (cursor, signal) => {
    const params = { path: { thread_id: threadId }, query: { order: "desc", limit: PAGE, cursor } } as const;
    return need(api.GET("/v1/threads/{thread_id}/messages", { signal, params }));
  });
  const { data: context } = useQuery(contextQuery(threadId));
  const items = useMemo(() => foldConversation(list.rows, context), [list.rows, context]);
  if (list.isError) return <Failure error={list.error} onRetry={() => void list.refetch()} />;
  if (list.isPending) return <Loading />;
  if (items.length === 0) return <Empty title={texts.noMessages} />;
  return (
    <Stack gap="xs" maw={860}>
      {list.hasNextPage ? <Group justify="center"><Button loading={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>{texts.olderMessages}</Button></Group> : null}
      {items.map((it) => {
        if (it.kind === "run") return <RunBoundary key={it.key} runId={it.runId} threadId={threadId} />;
        if (it.kind === "mark") return <CompactionMark key={it.key} threadId={threadId} mark={it.mark} isLatest={it.isLatest} />;
        if (it.kind === "cut") return <CutMark key={it.key} threadId={threadId} seq={it.seq} />;
        return (
          <MessageView
            key={it.key}
            record={it.record}
            actions={(
              <Tooltip label={may("invoke") ? texts.fork : texts.needsInvoke}>
                <Button variant="subtle" size="compact-xs" h={24} disabled={!may("invoke")} aria-label={texts.forkLabel(it.record.seq)} leftSection={<IconGitFork size={13} />} onClick={() => void fork(it.record)}>{texts.fork}</Button>
              </Tooltip>
            )}
          />
        );
      })}
    </Stack>
  );
}
