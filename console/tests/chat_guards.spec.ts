import type { Page } from "@playwright/test";

import { enter, expect, open, type Server, test } from "./fixtures";

type Waiting = { run_id: string; thread_id: string };

const ask = (server: Server, agent: string): Promise<Waiting> => server.run(agent, "go");
const statusOf = async (server: Server, run: Waiting) => (await server.ask<{ status: string }>("GET", `/v1/runs/${run.run_id}`)).status;
const pane = (page: Page, name: string) => page.getByRole("region", { name, exact: true });

test("the chat shows a call digit for digit, and the tool gets these digits", async ({ page, apps }) => {
  const run = await ask(apps, "payer");
  await enter(page, apps, `/chat/${run.thread_id}`);
  const shown = page.getByRole("region", { name: /^Arguments/ }).first();
  await expect(shown).toContainText('"account": 12345678901234567890');
  await expect(shown).toContainText('"amount": 1.0');
  await page.getByRole("button", { name: "Approve" }).click();
  await expect(page.locator('[data-turn="assistant"]').last()).toContainText("paid 12345678901234567890 1.0 None");
});

test("for a moment after a decision in one pane, the other pane takes none", async ({ page, apps }) => {
  const [first, second] = [await ask(apps, "cleaner"), await ask(apps, "cleaner")];
  await enter(page, apps, `/chat/${first.thread_id}?beside=${second.thread_id}`);
  const approve = pane(page, "Chat, second pane").getByRole("button", { name: "Approve" });
  await expect(approve).toBeEnabled();
  // The moment is looked for where it is: by the clock of a busy machine it may be over before a click arrives.
  const pressed = approve.evaluate((button: HTMLButtonElement) => new Promise<boolean>((resolve) => {
    new MutationObserver(() => { if (button.disabled) { button.click(); resolve(true); } }).observe(button, { attributes: true });
  }));
  await pane(page, "Chat").getByRole("button", { name: "Approve" }).click();
  expect(await pressed).toBe(true);
  await expect(pane(page, "Chat").locator('[data-turn="assistant"]').last()).toContainText("wiped /tmp/old");
  expect(await statusOf(apps, second)).toBe("waiting");
  await expect(approve).toBeEnabled();
  await approve.click();
  await expect(pane(page, "Chat, second pane").locator('[data-turn="assistant"]').last()).toContainText("wiped /tmp/old");
});

test("a decision that does not arrive keeps the reason that was typed, and is made by the next click", async ({ page, apps }) => {
  const run = await ask(apps, "cleaner");
  await enter(page, apps, `/chat/${run.thread_id}`);
  await page.getByRole("textbox", { name: "Reason" }).fill("Not today.");
  const isDecision = (url: URL) => url.pathname.endsWith("/decision") || url.pathname.endsWith("/decisions");
  await page.route(isDecision, (route) => route.fulfill({ status: 500, contentType: "application/json", body: '{"error": "the store is away", "code": "internal"}' }));
  await page.getByRole("button", { name: "Deny" }).click();
  await expect(page.getByText("the store is away")).toBeVisible();
  await expect(page.getByRole("textbox", { name: "Reason" })).toHaveValue("Not today.");
  await page.unroute(isDecision);
  await page.getByRole("button", { name: "Deny" }).click();
  await expect(page.locator('[data-turn="assistant"]').last()).toContainText("Not today.");
});

test("a call that was decided in another tab is offered in none, and each tab keeps what is typed in it", async ({ page, apps, context }) => {
  const run = await ask(apps, "cleaner");
  const other = await context.newPage();
  for (const tab of [page, other]) {
    await open(tab, apps, `/chat/${run.thread_id}`);
    await expect(tab.getByRole("button", { name: "Approve" })).toBeVisible();
  }
  await page.getByRole("textbox", { name: "Message" }).fill("typed here");
  await other.getByRole("button", { name: "Approve" }).click();
  for (const tab of [page, other]) {
    await expect(tab.getByRole("button", { name: "Approve" })).toHaveCount(0);
    await expect(tab.locator('[data-turn="assistant"]').last()).toContainText("wiped /tmp/old");
  }
  await expect(page.getByRole("textbox", { name: "Message" })).toHaveValue("typed here");
  await expect(other.getByRole("textbox", { name: "Message" })).toHaveValue("");
});
