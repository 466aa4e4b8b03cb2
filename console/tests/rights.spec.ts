import type { Page } from "@playwright/test";

import { expect, expectAccessible, open, Server, test, visit } from "./fixtures";
import { giveToken, tokenOf, type TokenName } from "./tokens";

/** The pages of someone who may only read. */
const READ_PAGES = ["Home", "Approvals", "Schedules", "Runs", "Workflows", "Threads", "Queue", "Agents", "Memory", "Models", "Cost", "Cluster", "Settings"];

async function openAs(page: Page, server: Server, name: TokenName, path: string): Promise<void> {
  await giveToken(page, server.url, name);
  await open(page, server, path);
}

test("without a token the dialog asks for one, and the request is sent again with it", async ({ page, guarded }) => {
  await page.goto(`${guarded.url}/console/cluster`);
  const dialog = page.getByRole("dialog", { name: "This server asks for a token" });
  await expect(dialog).toBeVisible();
  await expectAccessible(page, "everything");
  await dialog.getByLabel(/^Token/).fill(tokenOf("reader"));
  await page.keyboard.press("Enter");
  await expect(dialog).toBeHidden();
  await expect(page.locator("h1")).toHaveText("Cluster");
  await expect(page.getByText("sqlite", { exact: true }).first()).toBeVisible();
});

test("pages without their scope are absent from the rail, and say what they need at their address", async ({ page, guarded }) => {
  await openAs(page, guarded, "reader", "/runs");
  const rail = page.getByRole("navigation");
  await expect(rail.getByRole("link", { name: "Runs" })).toBeVisible();
  await expect(rail.getByRole("link")).toHaveText([...READ_PAGES.slice(0, 1), /^Approvals/, ...READ_PAGES.slice(2)]);
  for (const [path, scope] of [["/changes", "config"], ["/audit", "admin"]] as const) {
    await visit(page, path);
    await expect(page.getByText(`This needs the scope “${scope}”.`)).toBeVisible();
  }
  // Whoever may read sees what there is; the actions say what they need.
  for (const [path, name, scope] of [["/schedules", "New schedule", "invoke"], ["/memory?view=documents", "Add a document", "decide"]] as const) {
    await visit(page, path);
    await expect(page.getByRole("button", { name })).toHaveAttribute("title", `This needs the scope “${scope}”.`);
  }
  // What an agent is needs no right to change it.
  await visit(page, "/agents/travel");
  await expect(page.getByText("You see this agent and cannot change it here.")).toBeVisible();
  await expectAccessible(page);
});

test("a token without the right to read is told so, and another one is given on the spot", async ({ page, guarded }) => {
  await page.goto(`${guarded.url}/console/settings`);
  const dialog = page.getByRole("dialog", { name: "This server asks for a token" });
  await dialog.getByLabel(/^Token/).fill(tokenOf("caller"));
  await page.keyboard.press("Enter");
  await expect(page.getByRole("region", { name: "Who am I" })).toContainText("caller");
  await visit(page, "/chat");
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
    await open(page, server, "/settings");
    for (const path of ["/tools", "/policy", "/changes", "/audit"]) {
      await visit(page, path);
      await expect(page.getByRole("heading", { name: "This server has no managed configuration" })).toBeVisible();
      await expect(page.getByText("managed=True")).toBeVisible();
    }
    await expectAccessible(page);
    await visit(page, "/agents");
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
  // It may invoke, so it has the chat; what all tenants share is not shown to one of them.
  await expect(page.getByRole("navigation").getByRole("link")).toHaveText(["Home", "Chat", /^Approvals/, "Schedules", "Runs", "Workflows", "Threads", "Queue", "Agents", "Memory", "Cost", "Settings"]);
  await visit(page, "/settings");
  await expect(page.getByRole("region", { name: "Who am I" })).toContainText("acme");
  await visit(page, "/cluster");
  await expect(page.getByRole("main").getByText(/tenant/i).first()).toBeVisible();

  // Another token makes another caller, without a trace of the one before.
  await visit(page, "/settings");
  await page.getByLabel("Give another token").fill(tokenOf("reader"));
  await page.getByRole("button", { name: "Use it" }).click();
  await expect(page.getByRole("region", { name: "Who am I" })).toContainText("reader");
});
