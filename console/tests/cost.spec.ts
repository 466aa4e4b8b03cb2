import { execFileSync } from "node:child_process";
import { join } from "node:path";

import { enter, expect, expectAccessible, open, Server, test } from "./fixtures";
import { publishRecord, unique } from "./govern";

const AGE = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('UPDATE runs SET finished_at = finished_at - 120000'); db.commit()";

/** A server whose run ended two minutes ago: the sweeper counts a run half a minute after its end, and at once after a start. */
async function startWithUsage(): Promise<Server> {
  const server = await Server.start();
  await server.run("default", "Hello");
  await server.run("default", "RUN_WEATHER_TOOL");
  await server.kill("SIGTERM");
  execFileSync("python3", ["-c", AGE, join(server.folder, "awaken.db")]);
  await server.start();
  return server;
}

test("usage is shown as bars and as a table, by agent and by model, with the most expensive runs", async ({ page }) => {
  const server = await startWithUsage();
  await expect.poll(async () => (await server.ask<{ rows: unknown[] }>("GET", "/v1/usage")).rows.length).toBeGreaterThan(0);
  await open(page, server, "/cost");
  const costly = page.getByRole("region", { name: "Most expensive runs", exact: true });
  await expect(costly).toContainText("Of all 2 runs that began in this period");
  await expect(costly.getByRole("row")).toHaveCount(3);
  await expect(page.locator(".recharts-surface").first()).toBeVisible();
  await expect(page.getByText("the average of the last 7 whole days")).toBeVisible();
  await expect(page.getByRole("region", { name: "By agent", exact: true }).getByRole("link", { name: "default" })).toBeVisible();
  await expectAccessible(page);
  await page.getByRole("button", { name: "As a table" }).click();
  await expect(page).toHaveURL(/view=table/);
  await expect(page.getByRole("region", { name: /^(Spend|Tokens) by day$/ }).getByRole("row").last()).toBeVisible();
  await page.getByText("Model", { exact: true }).click();
  await expect(page.getByRole("region", { name: "By model", exact: true })).toContainText("scripted");
  await expectAccessible(page);
  await costly.getByRole("link").first().click();
  await expect(page).toHaveURL(/\/runs\/.*tab=cost/);
  await server.close();
});

test("a budget of tenants shows what one has used", async ({ page, server }) => {
  await server.ask("PUT", `/v1/config/budgets/${unique("all")}`, { scope: "tenant", tokens: 5_000 });
  await enter(page, server, "/cost?tenant=acme");
  const budgets = page.getByRole("region", { name: "Budgets" }).first();
  await expect(budgets.getByRole("row", { name: /each tenant · acme/ }).first()).toContainText("5,000 tokens");
  await expectAccessible(page);
  await budgets.getByRole("link", { name: "Edit budget" }).first().click();
  await expect(page).toHaveURL(/edit=all-/);
  await page.getByRole("textbox", { name: "Tokens" }).fill("6000");
  await publishRecord(page, "More");
  await expect(budgets.getByRole("row", { name: /each tenant · acme/ }).first()).toContainText("6,000 tokens");
});
