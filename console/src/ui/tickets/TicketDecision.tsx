/** The decision on one ticket: a yes, a no, a choice or an answer, with a reason and for how long it holds. Every view of a ticket decides by this. */
import { Alert, Button, Group, Select, Stack, Text, Textarea, Tooltip } from "@mantine/core";
import { useMemo, useState } from "react";

import { useMay } from "../../api/caller";
import { decideTicket, type Decision, type Ticket } from "../../api/decisions";
import { isDemoThread } from "../../api/demoThreads";
import { describeError } from "../../api/errors";
import { approvals as texts } from "../../texts/approvals";
import { demo } from "../../texts/demo";
import { DANGER_TEXT } from "../danger";
import { loadPart } from "../loadPart";
import { noteDone } from "../notices";
import { useReading } from "../reading";
import { fillDefaults, getOwn, type FieldProblem, type JsonSchema } from "../schema/model";
import { ValueForm } from "../SchemaForm";
import { ShownText } from "../SafeText";
import { useIsSettling } from "../settling";
import { ReadFirst } from "./ReadFirst";
import { readRule } from "./rule";
import { dropWork, isChanged, makeDecision, useWork } from "./work";

const ANY_ANSWER: JsonSchema = { type: "string" };

type Props = { ticket: Ticket; onDecided?: (ticketId: string) => void };

/** Sends decisions on a ticket; what the server says against one stays until the next try. */
function useDecide({ ticket, onDecided }: Props) {
  const [isBusy, setIsBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const decide = async (decision: Decision, done: string) => {
    setIsBusy(true);
    setError(null);
    try {
      await decideTicket(ticket, decision);
      dropWork(ticket);
      noteDone(done);
      onDecided?.(ticket.ticket_id);
    } catch (problem) {
      setError(problem);
    } finally {
      setIsBusy(false);
    }
  };
  return { decide, isBusy, error };
}

function RememberChoice({ ticket, value, onChange }: { ticket: Ticket; value: string; onChange: (scope: string) => void }) {
  const rule = readRule(ticket);
  if (rule.scopes.length === 0) return null;
  return (
    <Select
      label={texts.remember} value={value} onChange={(it) => onChange(it ?? "once")} allowDeselect={false} w={220}
      data={rule.scopes.map((it) => ({ value: it, label: getOwn(texts.scopes, it) ?? it }))}
      description={value === "once" || rule.pattern === null ? undefined : texts.rememberHelp(rule.pattern)}
      inputWrapperOrder={["label", "input", "description"]}
    />
  );
}

export function TicketDecision({ ticket, onDecided }: Props) {
  const may = useMay();
  const { decide, isBusy, error } = useDecide({ ticket, onDecided });
  const [work, change] = useWork(ticket);
  const isSettling = useIsSettling();
  const schema = ticket.suspension.response_schema as JsonSchema | null | undefined;
  const defaults = useMemo(() => fillDefaults(schema ?? ANY_ANSWER), [schema]);
  const answer = work.answer ?? defaults;
  const [problems, setProblems] = useState<readonly FieldProblem[]>([]);
  const choices = Object.entries(ticket.suspension.choices ?? {});
  const isQuestion = ticket.asks === "answer";
  const isDemo = isDemoThread(ticket.thread_id);
  const refusal = isDemo ? demo.only : may("decide") ? null : texts.needsDecide;
  const isAllowed = refusal === null;
  const { isRead } = useReading();
  const isHeld = !isAllowed || isSettling;
  // What was not on the screen is not agreed to; a no needs no reading.
  const isUnread = isHeld || !isRead;
  const isBlocked = isUnread || work.edit?.isBad === true;

  const send = async () => {
    const isBlank = (schema === null || schema === undefined) && String(answer ?? "").trim() === "";
    // The validator is loaded with the form that it checks.
    const { validateValue } = await loadPart(() => import("../schema/validate"));
    const found = isBlank ? [{ path: "", message: texts.answerNeeded }] : validateValue(schema ?? ANY_ANSWER, answer);
    setProblems(found);
    if (found.length === 0) await decide({ action: "resume", reason: work.reason, payload: answer }, texts.answered);
  };
  const approve = (payload?: unknown) => void decide(makeDecision(ticket, work, "resume", payload), texts.approved(ticket.tool_name));
  const deny = () => void decide(makeDecision(ticket, work, "cancel"), texts.denied(ticket.tool_name));

  return (
    <Stack gap="xs">
      {error === null ? null : <Alert color="red" role="alert" title={describeError(error)} />}
      {isQuestion ? <ValueForm schema={schema ?? ANY_ANSWER} value={answer} problems={problems} label={texts.yourAnswer} onChange={(next) => change({ answer: next })} onBadText={(is) => change({ isAnswerBad: is })} /> : null}
      <Group align="flex-start" gap="sm">
        <Textarea label={texts.reason} description={texts.reasonHelp} inputWrapperOrder={["label", "input", "description"]} value={work.reason} autosize maxRows={4} style={{ flex: "1 1 220px" }} onChange={(event) => change({ reason: event.currentTarget.value })} />
        {isQuestion ? null : <RememberChoice ticket={ticket} value={work.scope} onChange={(scope) => change({ scope })} />}
      </Group>
      {isAllowed ? <ReadFirst /> : null}
      <Tooltip label={refusal} disabled={isAllowed}>
        <Group gap="xs" w="fit-content">
          {isQuestion ? <Button variant="filled" loading={isBusy} disabled={isUnread || work.isAnswerBad} onClick={() => void send()}>{texts.answer}</Button> : choices.length > 0 ? choices.map(([name, isYes]) => (
            <Button key={name} variant={isYes ? "filled" : "default"} loading={isBusy} disabled={isBlocked && (isYes || isHeld || work.edit?.isBad === true)} onClick={() => approve(name)}><ShownText text={name} /></Button>
          )) : (
            <Button variant="filled" loading={isBusy} disabled={isBlocked} onClick={() => approve()}>{isChanged(ticket, work.edit) ? texts.approveEdited : texts.approve}</Button>
          )}
          <Button c={DANGER_TEXT} loading={isBusy} disabled={isHeld} onClick={deny}>{texts.deny}</Button>
        </Group>
      </Tooltip>
      {isAllowed ? null : <Text size="xs" c="dimmed">{refusal}</Text>}
    </Stack>
  );
}
