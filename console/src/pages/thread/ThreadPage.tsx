/** One thread: its conversation, runs, queue, tickets, children, log and fields. */
import { Button, Menu, Tabs, Text, Tooltip } from "@mantine/core";
import { IconChevronDown } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState, type ReactNode } from "react";

import { api, need, type Schemas } from "../../api/client";
import { useMay } from "../../api/caller";
import { ApiError } from "../../api/errors";
import { refreshKinds } from "../../api/queries";
import { shell } from "../../texts/shell";
import { threads as texts } from "../../texts/threads";
import { useChangeSearch } from "../../ui/address";
import { useConfirm } from "../../ui/confirm";
import { DANGER_TEXT } from "../../ui/danger";
import { noteDone, noteError } from "../../ui/notices";
import { Page } from "../../ui/Page";
import { Age, CopyableId, ShortId, Status } from "../../ui/parts";
import { ShownText } from "../../ui/SafeText";
import { Empty, Failure, Loading } from "../../ui/states";
import { spellStatus } from "../queue/depth";
import { Conversation } from "./Conversation";
import { DeleteThread } from "./DeleteThread";
import { childrenQuery, mailboxQuery, runsQuery, threadQuery, ticketsQuery } from "./queries";
import classes from "./Thread.module.css";
import { ThreadDetails } from "./ThreadDetails";
import { ThreadChildren, ThreadQueue, ThreadRuns, ThreadTickets } from "./ThreadLists";
import { ThreadLog } from "./ThreadLog";

type Thread = Schemas["NativeThreadView"];
type Tab = keyof typeof texts.tabs;
const route = getRouteApi("/threads/$threadId");

function Facts({ thread }: { thread: Thread }) {
  const { data: runs } = useQuery(runsQuery(thread.id));
  const latest = runs?.items[0];
  const parent = thread.parent_thread_id ?? null;
  const fork = thread.forked_from ?? null;
  const state = thread.active_run_id ? <Status value="running" label={texts.executes} /> : thread.open_run_id ? <Status value="waiting" label={texts.waits} /> : <Status value="queued" label={texts.idle} />;
  const facts: [string, ReactNode][] = [[texts.facts.status, state]];
  if (latest !== undefined) facts.push([texts.facts.agent, latest.active_agent_id ?? latest.agent_id]);
  if (thread.open_run_id) facts.push([texts.facts.run, <Link key="run" to="/runs/$runId" params={{ runId: thread.open_run_id }}><ShortId id={thread.open_run_id} /></Link>]);
  if (thread.resource_id) facts.push([texts.facts.owner, <ShownText key="owner" text={thread.resource_id} />]);
  if (parent !== null) facts.push([texts.facts.parent, <Link key="parent" to="/threads/$threadId" params={{ threadId: parent }}><ShortId id={parent} /></Link>]);
  if (fork !== null) facts.push([texts.facts.forkedFrom, <Link key="fork" to="/threads/$threadId" params={{ threadId: fork.thread_id }}><ShortId id={fork.thread_id} /></Link>]);
  facts.push([texts.facts.created, <Age key="created" at={thread.metadata.created_at} />], [texts.facts.updated, <Age key="updated" at={thread.metadata.updated_at} />]);
  return <dl className={classes.facts}>{facts.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>;
}

function useStopThread(threadId: string): { cancel: () => Promise<void>; interrupt: () => Promise<void> } {
  const confirm = useConfirm();
  const act = async (question: { title: string; body: string; confirm: string }, perform: () => Promise<string>) => {
    if (!(await confirm({ ...question, body: <Text size="sm">{question.body}</Text>, isDangerous: true }))) return;
    try {
      noteDone(await perform());
    } catch (error) {
      noteError(error);
    }
    await refreshKinds("thread", "run", "dispatch", "ticket");
  };
  const params = { path: { thread_id: threadId } };
  return {
    cancel: () => act({ title: texts.cancelTitle, body: texts.cancelBody, confirm: texts.cancelRun }, async () => {
      await need(api.POST("/v1/threads/{thread_id}/cancel", { params }));
      return texts.cancelled;
    }),
    interrupt: () => act({ title: texts.interruptTitle, body: texts.interruptBody, confirm: texts.interrupt }, async () => {
      const { superseded_dispatches: dropped } = await need(api.POST("/v1/threads/{thread_id}/interrupt", { params }));
      return texts.interrupted(dropped ?? 0);
    }),
  };
}

function Actions({ thread }: { thread: Thread }) {
  const threadId = thread.id;
  const may = useMay();
  const { data: mailbox } = useQuery(mailboxQuery(threadId));
  const isQueued = mailbox?.items.some((it) => spellStatus(it.status) === "queued") ?? false;
  const isBusy = Boolean(thread.active_run_id ?? thread.open_run_id) || isQueued;
  const { cancel, interrupt } = useStopThread(threadId);
  const [isDeleting, setIsDeleting] = useState(false);
  const isAllowed = may("invoke");
  return (
    <>
      <Tooltip label={texts.needsInvoke} disabled={isAllowed}>
        <Button variant="filled" disabled={!isAllowed} renderRoot={(props) => <Link to="/chat/{-$threadId}" params={{ threadId }} {...props} />}>{texts.continueInChat}</Button>
      </Tooltip>
      <Tooltip label={isAllowed ? texts.nothingRuns : texts.needsInvoke} disabled={isAllowed && isBusy}><Button disabled={!isAllowed || !isBusy} onClick={() => void cancel()}>{texts.cancelRun}</Button></Tooltip>
      <Menu position="bottom-end">
        <Menu.Target><Button rightSection={<IconChevronDown size={14} />} disabled={!isAllowed}>{texts.more}</Button></Menu.Target>
        <Menu.Dropdown>
          <Menu.Item disabled={!isBusy} onClick={() => void interrupt()}>{texts.interrupt}</Menu.Item>
          <Menu.Item c={DANGER_TEXT} onClick={() => setIsDeleting(true)}>{texts.delete}</Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <DeleteThread threadId={threadId} isOpen={isDeleting} onClose={() => setIsDeleting(false)} />
    </>
  );
}

function TabContent({ tab, thread }: { tab: Tab; thread: Thread }) {
  switch (tab) {
    case "conversation": return <Conversation threadId={thread.id} />;
    case "runs": return <ThreadRuns threadId={thread.id} />;
    case "queue": return <ThreadQueue threadId={thread.id} />;
    case "tickets": return <ThreadTickets threadId={thread.id} />;
    case "children": return <ThreadChildren threadId={thread.id} />;
    case "log": return <ThreadLog threadId={thread.id} />;
    case "details": return <ThreadDetails thread={thread} />;
  }
}

function ThreadTabs({ thread }: { thread: Thread }) {
  const { tab } = route.useSearch();
  const change = useChangeSearch();
  const { data: runs } = useQuery(runsQuery(thread.id));
  const { data: tickets } = useQuery(ticketsQuery(thread.id));
  const { data: children } = useQuery(childrenQuery(thread.id));
  const { data: mailbox } = useQuery(mailboxQuery(thread.id));
  const counts: Partial<Record<Tab, number>> = { runs: runs?.total, tickets: tickets?.total, children: children?.total, queue: mailbox?.total };
  const current: Tab = tab !== undefined && Object.hasOwn(texts.tabs, tab) ? (tab as Tab) : "conversation";
  const names = Object.keys(texts.tabs) as Tab[];
  return (
    <Tabs value={current} onChange={(it) => change({ tab: it === null || it === "conversation" ? undefined : it, type: undefined })} keepMounted={false}>
      <Tabs.List mb="md" className={classes.tabs} aria-label={texts.tabsLabel}>
        {names.map((it) => <Tabs.Tab key={it} value={it} rightSection={counts[it] ? <span className={classes.count}>{counts[it]}</span> : undefined}>{texts.tabs[it]}</Tabs.Tab>)}
      </Tabs.List>
      {names.map((it) => <Tabs.Panel key={it} value={it}><TabContent tab={it} thread={thread} /></Tabs.Panel>)}
    </Tabs>
  );
}

export function ThreadPage() {
  const { threadId } = route.useParams();
  const found = useQuery(threadQuery(threadId));
  if (found.isError && found.error instanceof ApiError && found.error.status === 404) {
    return <Page title={shell.pages.threads}><Empty title={texts.notFound} action={<Button renderRoot={(props) => <Link to="/threads" {...props} />}>{texts.backToList}</Button>}>{texts.notFoundHelp}</Empty></Page>;
  }
  const title = found.data?.metadata.title ?? null;
  return (
    <Page title={title === null || title === "" ? texts.untitled : <ShownText text={title} />} name={title ?? texts.untitled} description={<CopyableId id={threadId} chars={40} />} actions={found.data === undefined ? undefined : <Actions thread={found.data} />}>
      {found.isError ? <Failure error={found.error} onRetry={() => void found.refetch()} /> : found.isPending ? <Loading /> : <><Facts thread={found.data} /><ThreadTabs key={threadId} thread={found.data} /></>}
    </Page>
  );
}
