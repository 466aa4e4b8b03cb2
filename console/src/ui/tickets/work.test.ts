import { describe, expect, it } from "vitest";

import { buildDecision, type Ticket } from "../../api/decisionBody";
import { parseExact, writeExact } from "../../api/exactJson";
import { setAt, type Json } from "../schema/model";
import { readTyped, writeTyped } from "../typed";
import { changeText, isChanged, makeDecision, readWork, startEdit, writeArguments } from "./work";

const ARGUMENTS = '{"account":12345678901234567890,"amount":1.0,"note":null}';

function makeTicket(): Ticket {
  return {
    ticket_id: "t1", thread_id: "t", run_id: "r", tool_call_id: "c", tool_name: "pay", arguments: (parseExact(`{"arguments":${ARGUMENTS}}`) as { arguments: unknown }).arguments, resume_mode: "replay_tool_call",
    suspension: { message: "", parameters: null, response_schema: null, choices: null }, asks: "permission", arguments_hash: "hash", status: "open",
    expires_at: null, on_expiry: "cancel", deciders: null, asked_by: "", decision: null, closed_because: null, created_at: 0, updated_at: 0,
  };
}

describe("what a person prepares for a ticket", () => {
  it("sends an edit with every other digit as it was", () => {
    const ticket = makeTicket();
    const edit = startEdit(ticket, "json");
    const byText = changeText(edit, edit.text.replace('"note": null', '"note": "x"'));
    const byForm = { ...edit, value: setAt(edit.value, ["note"], "x") as Json };
    for (const it of [byText, byForm]) {
      const body = buildDecision(ticket, makeDecision(ticket, { ...readWork(ticket), edit: it, reason: "so" }, "resume"));
      expect(writeExact(body.arguments)).toBe('{"account":12345678901234567890,"amount":1.0,"note":"x"}');
      expect(body).toMatchObject({ reason: "so", arguments_hash: "hash" });
    }
    expect(writeArguments(ticket.arguments)).toContain("12345678901234567890");
  });

  it("knows an edit that changes nothing, and one that is no JSON", () => {
    const ticket = makeTicket();
    const edit = startEdit(ticket, "json");
    expect(isChanged(ticket, changeText(edit, ` ${edit.text}`))).toBe(false);
    expect(changeText(edit, "{")).toMatchObject({ isBad: true, value: edit.value });
    expect(isChanged(ticket, changeText(edit, edit.text.replace("1.0", "1")))).toBe(true);
    expect(makeDecision(ticket, { ...readWork(ticket), edit: changeText(edit, "[]") }, "cancel").arguments).toBeUndefined();
  });
});

describe("what is typed", () => {
  it("stays at its place", () => {
    writeTyped("chat.a", "to a");
    expect([readTyped("chat.a", ""), readTyped("chat.b", "")]).toEqual(["to a", ""]);
  });
});
