import { expect, test } from "vitest";

import type { Schemas } from "../../api/client";
import { acceptDrift, needsLogin, stateOf, targetOf } from "./servers";

const status = { connected: false, state: "login_required", last_error: null, permanently_failed: false, reconnecting: false } as unknown as Schemas["McpServerView"];

test("what drifted is pinned as it is offered, and other pins stay", () => {
  expect(acceptDrift({ id: "a", pins: { read: "1", write: "2" } }, [{ tool: "read", pinned: "1", offered: "9" }])).toEqual({ read: "9", write: "2" });
  expect(acceptDrift({ id: "a" }, [{ tool: "read", pinned: "1", offered: "9" }])).toEqual({ read: "9" });
});

test("a server that waits for a login says so", () => {
  expect(needsLogin({ record: { id: "a", oauth: { type: "login" } }, status })).toBe(true);
  expect(needsLogin({ record: { id: "a", oauth: { type: "client_credentials" } }, status })).toBe(false);
  expect(stateOf({ record: { id: "a" }, status })).toEqual({ value: "running", label: "login required" });
  expect(stateOf({ record: { id: "a", enabled: false }, status }).label).toBe("off");
});

test("a server is named by its command or its address", () => {
  expect(targetOf({ id: "a", transport: "stdio", command: "notes", args: ["-v"] })).toBe("notes -v");
  expect(targetOf({ id: "a", transport: "http", url: "https://a.b" })).toBe("https://a.b");
});
