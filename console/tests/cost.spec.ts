import { expect, expectAccessible, open, test } from "./fixtures";
import { expectAccessibleInBoth, publishRecord, unique } from "./govern";

test("usage is shown as bars and as a table, by agent and by model", async ({ page, server }) => {
  // The sweeper counts ended runs within a minute.
  test.setTimeout(150_000);
  await server.run("default", "Hello");
  await expect.poll(async () => (await server.ask<{ rows: unknown[] }>("GET", "/v1/usage")).rows.length, { timeout: 90_000, intervals: [1_000] }).toBeGreaterThan(0);
  await open(page, server, "/cost");
  await expect(page.locator(".recharts-surface").first()).toBeVisible();
  await expect(page.getByText("the average of the last 7 whole days")).toBeVisible();
  await expect(page.getByRole("region", { name: "By agent", exact: true }).getByRole("link", { name: "default" })).toBeVisible();
  await expectAccessibleInBoth(page);
  await page.getByRole("button", { name: "As a table" }).click();
  await expect(page).toHaveURL(/view=table/);
  await expect(page.getByRole("region", { name: "Spend by day", exact: true }).getByRole("row").last()).toBeVisible();
  await page.getByText("Model", { exact: true }).click();
  await expect(page.getByRole("region", { name: "By model", exact: true })).toContainText("scripted");
  await expectAccessible(page);
});

test("a budget of tenants shows what one has used", async ({ page, server }) => {
  await server.ask("PUT", `/v1/config/budgets/${unique("all")}`, { scope: "tenant", tokens: 5_000 });
  await open(page, server, "/cost?tenant=acme");
  const budgets = page.getByRole("region", { name: "Budgets" }).first();
  await expect(budgets.getByRole("row", { name: /each tenant · acme/ }).first()).toContainText("5,000 tokens");
  await expectAccessible(page);
  await budgets.getByRole("link", { name: "Edit budget" }).first().click();
  await expect(page).toHaveURL(/edit=all-/);
  await page.getByRole("textbox", { name: "Tokens" }).fill("6000");
  await publishRecord(page, "More");
  await expect(budgets.getByRole("row", { name: /each tenant · acme/ }).first()).toContainText("6,000 tokens");
});
