/** What a person has prepared for a ticket: an edit, a reason, an answer. It is the same in every view of the ticket. Pure but for the store. */
import { isSame } from "../../api/changes";
import { parseExact, writeExact } from "../../api/exactJson";
import type { Decision, Ticket } from "../../api/decisions";
import type { Json } from "../schema/model";
import { forgetSeen } from "../reading";
import { dropTyped, readTyped, useTyped, writeTyped } from "../typed";

/** An edit of the arguments: the text as typed, and the last value that it had while it was JSON. */
export type Edit = { mode: "form" | "json"; text: string; value: Json; isBad: boolean };
export type Work = { reason: string; scope: string; answer: Json | undefined; isAnswerBad: boolean; edit: Edit | null };

const NOTHING: Work = { reason: "", scope: "once", answer: undefined, isAnswerBad: false, edit: null };
const placeOf = (ticketId: string): string => `ticket.${ticketId}`;

export function useWork({ ticket_id: id }: Ticket): [Work, (change: Partial<Work>) => void] {
  const [work, set] = useTyped(placeOf(id), NOTHING);
  return [work, (change) => set((now) => ({ ...now, ...change }))];
}

export function readWork({ ticket_id: id }: Ticket): Work {
  return readTyped(placeOf(id), NOTHING);
}

/** Begins to edit a ticket; an edit that was begun goes on. */
export function editTicket(ticket: Ticket): void {
  const work = readWork(ticket);
  if (work.edit === null) writeTyped(placeOf(ticket.ticket_id), { ...work, edit: startEdit(ticket, "form") });
}

export function dropWork({ ticket_id: id }: Ticket): void {
  dropTyped(placeOf(id));
  forgetSeen(id);
}

export function writeArguments(value: unknown): string {
  return writeExact(value, 2) ?? "null";
}

export function startEdit(ticket: Ticket, mode: Edit["mode"]): Edit {
  const value = (ticket.arguments ?? null) as Json;
  return { mode, text: writeArguments(value), value, isBad: false };
}

/** An edit after its text was changed: what is no JSON leaves the value as it was. */
export function changeText(edit: Edit, text: string): Edit {
  try {
    return { ...edit, text, value: parseExact(text, true) as Json, isBad: false };
  } catch {
    return { ...edit, text, isBad: true };
  }
}

export function isChanged(ticket: Ticket, edit: Edit | null): boolean {
  return edit !== null && (edit.isBad || !isSame(edit.value, (ticket.arguments ?? null) as Json));
}

/** What is shown and sent: the arguments of the call, or the edited ones. */
export function readArguments(ticket: Ticket, edit: Edit | null): unknown {
  return edit === null ? (ticket.arguments ?? null) : edit.value;
}

/** Whether more than a plain yes or no was prepared: an edit, which a no does not take, or that the answer is remembered. */
export function isPrepared(ticket: Ticket, action: Decision["action"]): boolean {
  const { edit, scope } = readWork(ticket);
  return scope !== "once" || (action === "resume" && isChanged(ticket, edit));
}

/** A yes or a no with everything that was prepared for it. A no takes no arguments. */
export function makeDecision(ticket: Ticket, work: Work, action: Decision["action"], payload?: unknown): Decision {
  const edited = action === "resume" && isChanged(ticket, work.edit) ? work.edit?.value : undefined;
  return { action, reason: work.reason, rememberScope: work.scope, payload, arguments: edited };
}
