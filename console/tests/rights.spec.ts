import { createHash } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import type { Page } from "@playwright/test";

import { expect, expectAccessible, Server, test as base } from "./fixtures";

const TOKENS = {
  reader: { access: ["read"] },
  config: { access: ["read", "config"] },
  caller: { access: ["invoke"] },
  acme: { access: ["read", "invoke"], tenant_id: "acme" },
  umbrella: { access: ["read", "invoke"], tenant_id: "umbrella" },
} as const;
type TokenName = keyof typeof TOKENS;

function tokenOf(name: TokenName): string {
  return `token-of-${name}-that-is-long-enough`;
}

/** A server with tokens of different scopes. */
const test = base.extend<object, { guarded: Server }>({
  guarded: [
    async ({}, use) => {
      const folder = await mkdtemp(join(tmpdir(), "awaken-tokens-"));
      const specs = Object.entries(TOKENS).map(([id, it]) => ({ id, sha256: createHash("sha256").update(tokenOf(id as TokenName)).digest("hex"), ...it }));
      await writeFile(join(folder, "tokens.json"), JSON.stringify(specs));
      const server = await Server.start([], { AWAKEN_TOKENS_FILE: join(folder, "tokens.json") });
      await use(server);
      await server.close();
      await rm(folder, { recursive: true });
    },
    { scope: "worker" },
  ],
});

async function openAs(page: Page, server: Server, name: TokenName, path: string): Promise<void> {
  await page.addInitScript((token) => sessionStorage.setItem("awaken.token", token), tokenOf(name));
  await page.goto(`${server.url}/console${path}`);
}

test("without a token the dialog asks for one, and the request is sent again with it", async ({ page, guarded }) => {
  await page.goto(`${guarded.url}/console/workers`);
  const dialog = page.getByRole("dialog", { name: "This server asks for a token" });
  await expect(dialog).toBeVisible();
  await expectAccessible(page);
  await dialog.getByLabel(/^Token/).fill(tokenOf("reader"));
  await page.keyboard.press("Enter");
  await expect(dialog).toBeHidden();
  await expect(page.locator("h1")).toHaveText("Workers");
  await expect(page.getByText("sqlite", { exact: true }).first()).toBeVisible();
});

test("pages without their scope are absent from the rail, and say what they need at their address", async ({ page, guarded }) => {
  await openAs(page, guarded, "reader", "/runs");
  const rail = page.getByRole("navigation");
  await expect(rail.getByRole("link", { name: "Runs" })).toBeVisible();
  for (const name of ["Policy", "Changes", "Audit", "Chat"]) await expect(rail.getByRole("link", { name, exact: true })).toHaveCount(0);
  for (const [path, scope] of [["/changes", "config"], ["/audit", "admin"]]) {
    await page.goto(`${guarded.url}/console${path}`);
    await expect(page.getByText(`This needs the scope “${scope}”.`)).toBeVisible();
  }
  // Whoever may read sees what there is; the actions say what they need.
  for (const [path, name, scope] of [["/schedules", "New schedule", "invoke"], ["/memory?view=documents", "Add a document", "decide"]] as const) {
    await page.goto(`${guarded.url}/console${path}`);
    await expect(page.getByRole("button", { name })).toHaveAttribute("title", `This needs the scope “${scope}”.`);
  }
  // What an agent is needs no right to change it.
  await page.goto(`${guarded.url}/console/agents/travel`);
  await expect(page.getByText("You see this agent and cannot change it here.")).toBeVisible();
  await expectAccessible(page);
});

test("a token without the right to read is told so, and another one is given on the spot", async ({ page, guarded }) => {
  await page.goto(`${guarded.url}/console/settings`);
  const dialog = page.getByRole("dialog", { name: "This server asks for a token" });
  await dialog.getByLabel(/^Token/).fill(tokenOf("caller"));
  await page.keyboard.press("Enter");
  await expect(page.getByRole("region", { name: "Who am I" })).toContainText("caller");
  await page.goto(`${guarded.url}/console/chat`);
  await expect(page.getByText("This needs the scope “read”.")).toBeVisible();
  await expectAccessible(page);
  await page.getByRole("button", { name: "Give another token…" }).click();
  await dialog.getByLabel(/^Token/).fill(tokenOf("acme"));
  await page.keyboard.press("Enter");
  await expect(page.getByRole("textbox", { name: "Message" })).toBeVisible();
});

test("a server without managed configuration says so, and how it gets one", async ({ page }) => {
  const server = await Server.start(["--no-managed"]);
  try {
    for (const path of ["/tools", "/policy", "/changes", "/audit"]) {
      await page.goto(`${server.url}/console${path}`);
      await expect(page.getByRole("heading", { name: "This server has no managed configuration" })).toBeVisible();
      await expect(page.getByText("managed=True")).toBeVisible();
    }
    await expectAccessible(page);
    await page.goto(`${server.url}/console/agents`);
    await expect(page.getByRole("button", { name: "New agent" })).toHaveAttribute("title", "This server has no managed configuration.");
    await page.getByRole("link", { name: "travel", exact: true }).click();
    await expect(page.getByText("You see this agent and cannot change it here.")).toBeVisible();
  } finally {
    await server.close();
  }
});

test("actions without their scope are disabled, and say why", async ({ page, guarded }) => {
  await openAs(page, guarded, "config", "/changes?tab=switches");
  const button = page.getByRole("button", { name: "Switch off…" });
  await expect(button).toHaveAttribute("aria-disabled", "true");
  await expect(button).toHaveAttribute("title", "This needs the scope “operate”.");
  await expectAccessible(page);
});

test("a tenant's token sees its own runs only, and settings show whose it is", async ({ page, guarded }) => {
  const run = (name: TokenName) => guarded.ask<{ run_id: string }>("POST", "/v1/runs", { agent_id: "default", messages: [{ role: "user", content: `From ${name}` }] }, { Authorization: `Bearer ${tokenOf(name)}` });
  await run("acme");
  await run("umbrella");
  await openAs(page, guarded, "acme", "/runs");
  await expect(page.getByText("1 row", { exact: true })).toBeVisible();
  for (const name of ["Models", "Workers"]) await expect(page.getByRole("navigation").getByRole("link", { name, exact: true })).toHaveCount(0);
  await page.goto(`${guarded.url}/console/settings`);
  await expect(page.getByRole("region", { name: "Who am I" })).toContainText("acme");
  await page.goto(`${guarded.url}/console/workers`);
  await expect(page.getByRole("main").getByText(/tenant/i).first()).toBeVisible();

  // Another token makes another caller, without a trace of the one before.
  await page.goto(`${guarded.url}/console/settings`);
  await page.getByLabel("Give another token").fill(tokenOf("reader"));
  await page.getByRole("button", { name: "Use it" }).click();
  await expect(page.getByRole("region", { name: "Who am I" })).toContainText("reader");
});
