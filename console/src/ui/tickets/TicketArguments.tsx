/** The arguments of a call that waits: whole, digit by digit, with nothing hidden, and their edit. Every view of a ticket shows them by this. */
import { Box, Button, Group, Text, Title } from "@mantine/core";
import { IconPencil } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";

import { useMay } from "../../api/caller";
import type { Ticket } from "../../api/decisions";
import { approvals as texts } from "../../texts/approvals";
import { SafeJson } from "../SafeText";
import { isObject } from "../schema/model";
import { Loading } from "../states";
import { EditArguments } from "./EditArguments";
import { runQuery, toolSchemaQuery } from "./queries";
import { startEdit, useWork } from "./work";

type Props = { ticket: Ticket; isTitled?: boolean; maxHeight?: number };

export function TicketArguments({ ticket, isTitled = false, maxHeight }: Props) {
  const may = useMay();
  const [{ edit }, change] = useWork(ticket);
  const given = ticket.arguments ?? null;
  const isQuestion = ticket.asks === "answer";
  const isEditing = edit !== null && !isQuestion;
  const run = useQuery({ ...runQuery(ticket.run_id), enabled: isEditing });
  const schema = useQuery(toolSchemaQuery(ticket.run_id, run.data?.steps ?? 0, ticket.tool_name, isEditing && may("config")));
  const isSchemaPending = may("config") && (run.isPending || (schema.isPending && schema.fetchStatus !== "idle"));
  // A question is what it asks; most have no arguments beside it.
  if (isQuestion && (given === null || (isObject(given) && Object.keys(given).length === 0))) return null;
  return (
    <Box>
      <Group justify="space-between" mb={4}>
        {isTitled ? <Title order={3}>{texts.arguments}</Title> : <Text size="xs" c="dimmed">{texts.arguments}</Text>}
        {isQuestion ? null : <Button variant="subtle" leftSection={<IconPencil size={14} />} onClick={() => change({ edit: isEditing ? null : startEdit(ticket, "form") })}>{isEditing ? texts.keepOriginal : texts.edit}</Button>}
      </Group>
      <SafeJson value={given} label={`${texts.arguments}: ${ticket.ticket_id}`} maxHeight={maxHeight} mustRead={ticket.ticket_id} />
      {isQuestion ? null : <Text size="xs" c="dimmed" mt={2}>{texts.argumentsHelp}</Text>}
      {!isEditing ? null : isSchemaPending ? <Loading rows={2} /> : (
        <Box mt="sm"><EditArguments ticket={ticket} edit={edit} schema={schema.data ?? null} onEdit={(next) => change({ edit: next })} /></Box>
      )}
    </Box>
  );
}
