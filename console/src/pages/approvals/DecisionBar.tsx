/** The decision on one ticket: a yes, a no, a choice or an answer, with a reason and for how long it holds. */
import { Alert, Button, Group, Select, Stack, Text, Textarea, Tooltip } from "@mantine/core";
import { useState } from "react";

import { useMay } from "../../api/caller";
import { describeError } from "../../api/errors";
import { approvals as texts } from "../../texts/approvals";
import { DANGER_TEXT } from "../../ui/danger";
import { loadPart } from "../../ui/loadPart";
import { noteDone } from "../../ui/notices";
import { fillDefaults, type FieldProblem, type Json, type JsonSchema } from "../../ui/schema/model";
import { ValueForm } from "../../ui/SchemaForm";
import classes from "./Approvals.module.css";
import type { Edit } from "./EditArguments";
import { readRule, type Decision, type InboxTicket } from "./inbox";
import { decideTicket } from "./queries";

const ANY_ANSWER: JsonSchema = { type: "string" };

type Props = { ticket: InboxTicket; edit: Edit | null; onDecided: (ticketId: string) => void };

/** Sends decisions on a ticket; what the server says against one stays until the next try. */
function useDecide({ ticket, onDecided }: Pick<Props, "ticket" | "onDecided">) {
  const [isBusy, setIsBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const decide = async (decision: Decision, done: string) => {
    setIsBusy(true);
    setError(null);
    try {
      await decideTicket(ticket, decision);
      noteDone(done);
      onDecided(ticket.ticket_id);
    } catch (problem) {
      setError(problem);
    } finally {
      setIsBusy(false);
    }
  };
  return { decide, isBusy, error };
}

function RememberChoice({ ticket, value, onChange }: { ticket: InboxTicket; value: string; onChange: (scope: string) => void }) {
  const rule = readRule(ticket);
  if (rule.scopes.length === 0) return null;
  return (
    <Select
      label={texts.remember} value={value} onChange={(it) => onChange(it ?? "once")} allowDeselect={false} w={220}
      data={rule.scopes.map((it) => ({ value: it, label: texts.scopes[it] ?? it }))}
      description={value === "once" || rule.pattern === null ? undefined : texts.rememberHelp(rule.pattern)}
      inputWrapperOrder={["label", "input", "description"]}
    />
  );
}

export function DecisionBar({ ticket, edit, onDecided }: Props) {
  const may = useMay();
  const { decide, isBusy, error } = useDecide({ ticket, onDecided });
  const [reason, setReason] = useState("");
  const [scope, setScope] = useState("once");
  const schema = ticket.suspension.response_schema as JsonSchema | null | undefined;
  const [given, setGiven] = useState<Json | undefined>(() => fillDefaults(schema ?? ANY_ANSWER));
  const [problems, setProblems] = useState<readonly FieldProblem[]>([]);
  const [isBad, setIsBad] = useState(false);
  const choices = Object.entries(ticket.suspension.choices ?? {});
  const isQuestion = ticket.asks === "answer";
  const isAllowed = may("decide");
  const isBlocked = !isAllowed || (edit !== null && !edit.isValid);

  const common = { reason, rememberScope: scope, arguments: edit?.isChanged === true ? edit.value : undefined };
  const answer = async () => {
    const isBlank = (schema === null || schema === undefined) && String(given ?? "").trim() === "";
    // The validator is loaded with the form that it checks.
    const { validateValue } = await loadPart(() => import("../../ui/schema/validate"));
    const found = isBlank ? [{ path: "", message: texts.answerNeeded }] : validateValue(schema ?? ANY_ANSWER, given);
    setProblems(found);
    if (found.length === 0) await decide({ action: "resume", reason, payload: given }, texts.answered);
  };
  const approve = (payload?: unknown) => void decide({ action: "resume", payload, ...common }, texts.approved(ticket.tool_name));
  const deny = () => void decide({ action: "cancel", reason, rememberScope: scope }, texts.denied(ticket.tool_name));

  return (
    <div className={classes.bar}>
      <Stack gap="xs">
        {error === null ? null : <Alert color="red" role="alert" title={describeError(error)} />}
        {isQuestion ? <ValueForm schema={schema ?? ANY_ANSWER} value={given} problems={problems} label={texts.yourAnswer} onChange={setGiven} onBadText={setIsBad} /> : null}
        <Group align="flex-start" gap="sm">
          <Textarea label={texts.reason} description={texts.reasonHelp} inputWrapperOrder={["label", "input", "description"]} value={reason} autosize maxRows={4} style={{ flex: "1 1 220px" }} onChange={(event) => setReason(event.currentTarget.value)} />
          {isQuestion ? null : <RememberChoice ticket={ticket} value={scope} onChange={setScope} />}
        </Group>
        <Tooltip label={texts.needsDecide} disabled={isAllowed}>
          <Group gap="xs" w="fit-content">
            {isQuestion ? <Button variant="filled" loading={isBusy} disabled={!isAllowed || isBad} onClick={() => void answer()}>{texts.answer}</Button> : choices.length > 0 ? choices.map(([name, isYes]) => (
              <Button key={name} variant={isYes ? "filled" : "default"} loading={isBusy} disabled={isBlocked} onClick={() => approve(name)}>{name}</Button>
            )) : (
              <Button variant="filled" loading={isBusy} disabled={isBlocked} onClick={() => approve()}>{edit?.isChanged === true ? texts.approveEdited : texts.approve}</Button>
            )}
            <Button c={DANGER_TEXT} loading={isBusy} disabled={!isAllowed} onClick={deny}>{texts.deny}</Button>
          </Group>
        </Tooltip>
        {isAllowed ? null : <Text size="xs" c="dimmed">{texts.needsDecide}</Text>}
      </Stack>
    </div>
  );
}
