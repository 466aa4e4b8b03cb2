/** The right side of the inbox: everything that a person needs to decide on one ticket. */
import { Box, Button, Group, List, Stack, Text, Title } from "@mantine/core";
import { IconArrowLeft, IconBraces, IconPencil } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { useMay } from "../../api/caller";
import { approvals as texts } from "../../texts/approvals";
import { ui } from "../../texts/ui";
import { MessageView } from "../../ui/MessageView";
import { JsonDrawer } from "../../ui/parts";
import { SafeJson, ShownText } from "../../ui/SafeText";
import { Failure, Loading } from "../../ui/states";
import classes from "./Approvals.module.css";
import { DecisionBar } from "./DecisionBar";
import { EditArguments, type Edit } from "./EditArguments";
import type { InboxTicket } from "./inbox";
import { lastMessagesQuery, runQuery, toolSchemaQuery } from "./queries";
import { TicketFacts } from "./TicketFacts";

function LastMessages({ threadId }: { threadId: string }) {
  const list = useQuery(lastMessagesQuery(threadId));
  return (
    <Stack gap="xs">
      <Group justify="space-between">
        <Title order={3}>{texts.conversation}</Title>
        <Link to="/threads/$threadId" params={{ threadId }}>{texts.openThread}</Link>
      </Group>
      {list.isError ? <Failure error={list.error} onRetry={() => void list.refetch()} /> : list.isPending ? <Loading rows={3} /> : list.data.map((it) => <MessageView key={it.message_id} record={it} />)}
    </Stack>
  );
}

function Effects({ ticket }: { ticket: InboxTicket }) {
  const means = ticket.asks === "answer" ? texts.answerMeans : texts.approveMeans;
  return (
    <Box>
      <Title order={3} mb={4}>{texts.whatHappens}</Title>
      <List size="sm" spacing={2}>
        <List.Item>{means[ticket.resume_mode]}</List.Item>
        <List.Item>{texts.denyMeans}</List.Item>
      </List>
    </Box>
  );
}

type Props = { ticket: InboxTicket; isEditing: boolean; onEditing: (is: boolean) => void; onBack: () => void; onDecided: (ticketId: string) => void };

export function TicketCard({ ticket, isEditing, onEditing, onBack, onDecided }: Props) {
  const may = useMay();
  const [edit, setEdit] = useState<Edit | null>(null);
  const [shown, setShown] = useState<unknown>(undefined);
  const { data: run } = useQuery(runQuery(ticket.run_id));
  const agentId = ticket.agentId ?? run?.active_agent_id ?? run?.agent_id ?? null;
  const schema = useQuery(toolSchemaQuery(ticket.run_id, run?.steps ?? 0, ticket.tool_name, isEditing && may("config")));
  const isQuestion = ticket.asks === "answer";
  const isSchemaPending = isEditing && may("config") && schema.isPending && schema.fetchStatus !== "idle";
  return (
    <Box component="section" className={classes.card} aria-label={ticket.tool_name}>
      <Stack gap="md">
        <Group justify="space-between" align="flex-start" gap="xs">
          <Box miw={0} style={{ flex: "1 1 240px" }}>
            <Button className={classes.back} variant="subtle" leftSection={<IconArrowLeft size={14} />} onClick={onBack}>{texts.back}</Button>
            <Text size="xs" c="dimmed">{texts.asks[ticket.asks](agentId ?? "…")}</Text>
            <Title order={2} ff="monospace" style={{ overflowWrap: "anywhere" }}><ShownText text={ticket.tool_name} /></Title>
            {(ticket.suspension.message ?? "") === "" ? null : <Text mt={4} style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}><ShownText text={ticket.suspension.message} /></Text>}
          </Box>
          <Button variant="subtle" leftSection={<IconBraces size={14} />} onClick={() => setShown(ticket)}>{ui.asJson}</Button>
        </Group>
        <Box>
          <Group justify="space-between" mb={4}>
            <Title order={3}>{texts.arguments}</Title>
            {isQuestion ? null : (
              <Button variant="subtle" leftSection={<IconPencil size={14} />} onClick={() => { setEdit(null); onEditing(!isEditing); }}>{isEditing ? texts.keepOriginal : texts.edit}</Button>
            )}
          </Group>
          <SafeJson value={ticket.arguments ?? null} label={texts.arguments} />
          {isQuestion ? null : <Text size="xs" c="dimmed" mt={2}>{texts.argumentsHelp}</Text>}
          {!isEditing || isQuestion ? null : isSchemaPending ? <Loading rows={2} /> : (
            <Box mt="sm"><EditArguments original={ticket.arguments ?? null} schema={schema.data ?? null} onEdit={setEdit} /></Box>
          )}
        </Box>
        <Effects ticket={ticket} />
        <TicketFacts ticket={{ ...ticket, agentId }} />
        <LastMessages threadId={ticket.thread_id} />
        <DecisionBar ticket={ticket} edit={isEditing ? edit : null} onDecided={onDecided} />
      </Stack>
      <JsonDrawer title={ticket.tool_name} value={shown} onClose={() => setShown(undefined)} />
    </Box>
  );
}
