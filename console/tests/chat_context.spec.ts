import type { Page } from "@playwright/test";

import { enter, expect, expectAccessible, type Server, test } from "./fixtures";

async function say(page: Page, text: string): Promise<void> {
  await page.getByRole("textbox", { name: "Message" }).fill(text);
  await page.getByRole("textbox", { name: "Message" }).press("Enter");
}

async function firstRequest(server: Server, page: Page): Promise<string> {
  await page.waitForURL(/\/chat\/chat-/);
  const thread = new URL(page.url()).pathname.split("/").at(-1) ?? "";
  await expect(page.locator('[data-turn="end"]').last()).toBeVisible();
  const { items } = await server.ask<{ items: { run_id: string }[] }>("GET", `/v1/threads/${thread}/runs?order=desc&limit=1`);
  return JSON.stringify(await server.ask("GET", `/v1/runs/${items[0]?.run_id}/steps/1/request`));
}

test("an agent that says what it wants has a form; what does not fit is not sent, and nothing typed is lost", async ({ page, apps }) => {
  await enter(page, apps, "/chat?agent=greeter");
  const button = page.getByRole("button", { name: /^Context/ });
  await expect(button).toHaveText("Context needed");
  await say(page, "Hello");
  await expect(page.getByRole("alert").filter({ hasText: "name" })).toBeVisible();
  await expect(page.getByRole("textbox", { name: "Message" })).toHaveValue("Hello");

  await button.click();
  const dialog = page.getByRole("dialog", { name: "Context of the runs" });
  await dialog.getByRole("textbox", { name: "Name" }).fill("Ann");
  await expectAccessible(page, "[role=dialog]");
  await dialog.getByRole("button", { name: "Done" }).click();
  await expect(button).toHaveText("Context: 1 field");
  await say(page, "Hello again");
  expect(await firstRequest(apps, page)).toContain("Greet Ann.");

  // It stays with its pane: the next start has it, after a reload as well; the other pane has its own.
  await page.reload();
  await expect(button).toHaveText("Context: 1 field");
  await say(page, "And now?");
  await expect(page.locator('[data-turn="end"]')).toHaveCount(2);
  expect(await firstRequest(apps, page)).toContain("Greet Ann.");
  await page.getByRole("button", { name: "Side by side" }).click();
  await expect(page.getByRole("region", { name: "Chat, second pane" }).getByRole("button", { name: /^Context/ })).not.toHaveText("Context: 1 field");
});

test("any object will do for an agent without a type, digit for digit; what is no object is refused here", async ({ page, apps }) => {
  await enter(page, apps, "/chat?agent=open-minded");
  await page.getByRole("button", { name: /^Context/ }).click();
  const json = page.getByRole("textbox", { name: "Context as JSON" });
  await json.fill("[1]");
  await expect(page.getByText("A context is a JSON object.")).toBeVisible();
  await json.fill('{"order": 12345678901234567890}');
  await page.getByRole("button", { name: "Done" }).click();
  await say(page, "Hello");
  expect(await firstRequest(apps, page)).toContain("Order 12345678901234567890.");
});
