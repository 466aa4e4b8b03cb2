/** A question that a run waits for, in place: approve, deny or answer, with edited arguments and a memory of the answer. */
import { Box, Button, Group, Select, Stack, Text, Textarea, TextInput, Tooltip } from "@mantine/core";
import { IconHelpCircle, IconShieldQuestion } from "@tabler/icons-react";
import { useState } from "react";

import { useMay } from "../../api/caller";
import { refreshKinds } from "../../api/queries";
import { chat as texts } from "../../texts/chat";
import { noteError } from "../../ui/notices";
import { showHidden } from "../../ui/hostileText";
import classes from "./Chat.module.css";
import { isFields } from "./generated/a2ui";
import { decide } from "./requests";
import { readAnswer, readArguments } from "./ticketForm";
import type { Ticket } from "./types";

type Scope = keyof typeof texts.scopes;

function findScopes(ticket: Ticket): Scope[] {
  const parameters = ticket.suspension.parameters;
  const remember = isFields(parameters) ? parameters.remember : undefined;
  const scopes: unknown = isFields(remember) ? remember.scopes : undefined;
  return Array.isArray(scopes) ? scopes.filter((it): it is Scope => typeof it === "string" && it in texts.scopes) : [];
}

export function TicketCard({ ticket }: { ticket: Ticket }) {
  const may = useMay();
  const [isBusy, setIsBusy] = useState(false);
  const [answer, setAnswer] = useState("");
  const [reason, setReason] = useState("");
  const [scope, setScope] = useState<string>("once");
  const [edited, setEdited] = useState<string | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const isPermission = ticket.asks === "permission";
  const scopes = findScopes(ticket);
  const isAllowed = may("decide");

  const send = async (isYes: boolean) => {
    const given = edited === null ? { value: undefined } : readArguments(edited);
    if (given === null) return setProblem(texts.notJson);
    const payload = !isYes || isPermission ? isYes : readAnswer(answer, ticket.suspension.response_schema);
    setProblem(null);
    setIsBusy(true);
    try {
      await decide(ticket.thread_id, {
        action: isYes ? "resume" : "cancel",
        ticket_id: ticket.ticket_id,
        ...(isYes ? { payload } : {}),
        ...(isYes && edited !== null ? { arguments: given.value } : {}),
        ...(edited === null ? { arguments_hash: ticket.arguments_hash } : {}),
        ...(reason === "" ? {} : { reason }),
        ...(isPermission && scope !== "once" ? { remember: { scope: scope as Scope, pattern: null } } : {}),
      });
      await refreshKinds("ticket", "run");
    } catch (error) {
      noteError(error);
      await refreshKinds("ticket");
    } finally {
      setIsBusy(false);
    }
  };

  const Icon = isPermission ? IconShieldQuestion : IconHelpCircle;
  return (
    <Box className={classes.ticket} role="group" aria-label={isPermission ? texts.asksPermission(ticket.tool_name) : texts.asksAnswer(ticket.tool_name)}>
      <Stack gap="xs">
        <Group gap={6} wrap="nowrap" align="flex-start">
          <Icon size={18} aria-hidden className={classes.ticketIcon} />
          <Box miw={0}>
            <Text size="sm" fw={600}>{isPermission ? texts.asksPermission(ticket.tool_name) : texts.asksAnswer(ticket.tool_name)}</Text>
            {ticket.suspension.message === undefined || ticket.suspension.message === "" ? null : <Text size="sm" style={{ overflowWrap: "anywhere" }}>{showHidden(ticket.suspension.message)}</Text>}
          </Box>
        </Group>
        {edited === null ? <pre className={classes.plain} tabIndex={0}>{showHidden(JSON.stringify(ticket.arguments, null, 2) ?? "")}</pre> : (
          <Textarea label={texts.arguments} value={edited} onChange={(event) => setEdited(event.currentTarget.value)} autosize minRows={2} maxRows={12} error={problem} styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)" } }} />
        )}
        {isPermission ? null : <Textarea label={texts.yourAnswer} value={answer} onChange={(event) => setAnswer(event.currentTarget.value)} autosize minRows={1} maxRows={8} />}
        <Group gap="xs" align="flex-end">
          <Tooltip label={texts.cannotDecide} disabled={isAllowed}>
            <Button variant="filled" loading={isBusy} disabled={!isAllowed || (!isPermission && ticket.asks === "answer" && answer.trim() === "")} onClick={() => void send(true)}>{isPermission ? texts.approve : texts.answer}</Button>
          </Tooltip>
          <Button disabled={!isAllowed || isBusy} onClick={() => void send(false)}>{isPermission ? texts.deny : texts.decline}</Button>
          {isPermission && edited === null ? <Button variant="subtle" onClick={() => setEdited(JSON.stringify(ticket.arguments, null, 2))}>{texts.editArguments}</Button> : null}
          {scopes.length < 2 ? null : <Select aria-label={texts.remember} data={scopes.map((value) => ({ value, label: texts.scopes[value] }))} value={scope} onChange={(value) => setScope(value ?? "once")} allowDeselect={false} w={170} />}
          <TextInput aria-label={texts.reason} placeholder={texts.reason} value={reason} onChange={(event) => setReason(event.currentTarget.value)} className={classes.reason} />
        </Group>
      </Stack>
    </Box>
  );
}
