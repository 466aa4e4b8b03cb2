/** Asks before a thread is deleted, with what goes with it. */
import { Button, Group, List, Modal, Radio, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { api, need, type Schemas } from "../../api/client";
import { refreshKinds } from "../../api/queries";
import { threads as texts } from "../../texts/threads";
import { ui } from "../../texts/ui";
import { formatCount } from "../../ui/format";
import { noteDone, noteError } from "../../ui/notices";
import { childrenQuery, mailboxQuery, messageCountQuery, runsQuery, ticketsQuery } from "./queries";

type Strategy = Schemas["DeleteStrategy"];
const STRATEGIES: readonly Strategy[] = ["detach", "cascade", "reject"];
const SHOWN_CHILDREN = 10;

function WhatGoes({ threadId }: { threadId: string }) {
  const { data: messages } = useQuery(messageCountQuery(threadId));
  const { data: runs } = useQuery(runsQuery(threadId));
  const { data: tickets } = useQuery(ticketsQuery(threadId));
  const { data: mailbox } = useQuery(mailboxQuery(threadId));
  return (
    <List size="sm">
      <List.Item>{texts.deleteMessages(formatCount(messages ?? 0))}</List.Item>
      <List.Item>{texts.deleteRuns(formatCount(runs?.total ?? 0))}</List.Item>
      <List.Item>{texts.deleteTickets(formatCount(tickets?.total ?? 0))}</List.Item>
      <List.Item>{texts.deleteQueue(formatCount(mailbox?.total ?? 0))}</List.Item>
    </List>
  );
}

function DeleteBody({ threadId, onClose }: { threadId: string; onClose: () => void }) {
  const navigate = useNavigate();
  const [strategy, setStrategy] = useState<Strategy>("detach");
  const [isBusy, setIsBusy] = useState(false);
  const { data: children } = useQuery(childrenQuery(threadId));
  const count = children?.total ?? 0;
  const remove = async () => {
    setIsBusy(true);
    try {
      await need(api.DELETE("/v1/threads/{thread_id}", { params: { path: { thread_id: threadId }, query: { child_strategy: strategy } } }));
      noteDone(texts.deleted);
      await navigate({ to: "/threads" });
      await refreshKinds("thread", "run", "ticket", "dispatch");
    } catch (error) {
      noteError(error);
      setIsBusy(false);
    }
  };
  return (
    <Stack gap="sm">
      <Text size="sm">{texts.deleteIntro}</Text>
      <WhatGoes threadId={threadId} />
      {count === 0 ? null : (
        <>
          <Text size="sm">{texts.deleteChildren(formatCount(count))} {children?.items.slice(0, SHOWN_CHILDREN).map((it) => it.title ?? it.id).join(", ")}{count > SHOWN_CHILDREN ? " …" : ""}</Text>
          <Radio.Group label={texts.childStrategy} value={strategy} onChange={(it) => setStrategy(STRATEGIES.find((known) => known === it) ?? "detach")}>
            <Stack gap={6} mt={6}>{STRATEGIES.map((it) => <Radio key={it} size="xs" value={it} label={texts.strategies[it]} />)}</Stack>
          </Radio.Group>
        </>
      )}
      <Group justify="flex-end" gap="xs">
        <Button onClick={onClose}>{ui.cancel}</Button>
        <Button variant="filled" color="red" data-autofocus loading={isBusy} disabled={children === undefined} onClick={() => void remove()}>{texts.delete.replace("…", "")}</Button>
      </Group>
    </Stack>
  );
}

export function DeleteThread({ threadId, isOpen, onClose }: { threadId: string; isOpen: boolean; onClose: () => void }) {
  return (
    <Modal opened={isOpen} onClose={onClose} title={texts.deleteTitle} closeButtonProps={{ "aria-label": ui.close }}>
      {isOpen ? <DeleteBody threadId={threadId} onClose={onClose} /> : null}
    </Modal>
  );
}
