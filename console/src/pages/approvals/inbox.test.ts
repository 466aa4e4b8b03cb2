import { describe, expect, it } from "vitest";

import { buildDecision } from "../../api/decisionBody";
import { readRule } from "../../ui/tickets/rule";
import { groupTickets, matchesFilter, pickNext, takesYes, type InboxTicket } from "./inbox";

function makeTicket(id: string, more: Partial<InboxTicket> = {}): InboxTicket {
  return {
    ticket_id: id, thread_id: "t", run_id: "r", tool_call_id: "c", tool_name: "delete_file", arguments: { path: "a" }, resume_mode: "replay_tool_call",
    suspension: { message: "Sure?", parameters: null, response_schema: null, choices: null }, asks: "permission", arguments_hash: `hash-${id}`, status: "open",
    expires_at: null, on_expiry: "cancel", deciders: null, asked_by: "", decision: null, closed_because: null, created_at: 0, updated_at: 0, agentId: "a", ...more,
  };
}

describe("the inbox", () => {
  it("groups by agent, tool and age, oldest first", () => {
    const tickets = [makeTicket("2", { created_at: 90_000_000, agentId: "b" }), makeTicket("1", { tool_name: "send" })];
    expect(groupTickets(tickets, "agent", 90_000_001).map((it) => it.name)).toEqual(["a", "b"]);
    expect(groupTickets(tickets, "tool", 90_000_001).map((it) => it.name)).toEqual(["send", "delete_file"]);
    expect(groupTickets(tickets, "age", 90_000_001).map((it) => it.name)).toEqual(["more than a day", "less than 5 minutes"]);
    expect(groupTickets(tickets, "none", 0)[0]?.tickets.map((it) => it.ticket_id)).toEqual(["1", "2"]);
  });

  it("filters by agent, tool and text, also of the arguments", () => {
    expect(matchesFilter(makeTicket("1"), { agent: "b" })).toBe(false);
    expect(matchesFilter(makeTicket("1", { arguments: { path: "REPORT" } }), { q: "report", tool: "delete_file" })).toBe(true);
  });

  it("decides on the arguments that were shown", () => {
    expect(buildDecision(makeTicket("1"), { action: "resume" })).toMatchObject({ ticket_id: "1", arguments_hash: "hash-1", payload: null, remember: null });
    expect(buildDecision(makeTicket("1", { asks: "either" }), { action: "resume" }).payload).toBe(true);
    expect(buildDecision(makeTicket("1"), { action: "cancel", reason: " no ", rememberScope: "thread" })).toMatchObject({ reason: "no", remember: { scope: "thread" } });
  });

  it("reads what the rule says, from whatever a plugin sends", () => {
    const parameters = { rule: "delete_*", remember: { scopes: ["once", "run"], pattern: "delete_*" } };
    expect(readRule(makeTicket("1", { suspension: { message: "", parameters, response_schema: null, choices: null } }))).toEqual({ rule: "delete_*", scopes: ["once", "run"], pattern: "delete_*", reason: null });
    expect(readRule(makeTicket("1", { suspension: { message: "", parameters: "text", response_schema: null, choices: null } })).scopes).toEqual([]);
  });

  it("goes on to the next open ticket", () => {
    const tickets = [makeTicket("1"), makeTicket("2"), makeTicket("3")];
    expect(pickNext(tickets, new Set(["2"]), "2")).toBe("3");
    expect(pickNext(tickets, new Set(["3"]), "3")).toBe("2");
    expect(pickNext(tickets, new Set(["1", "2", "3"]), "1")).toBeUndefined();
    expect(takesYes(makeTicket("1", { asks: "answer" }))).toBe(false);
  });
});
