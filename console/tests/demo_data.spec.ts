import { expect, open, Server, test, visit } from "./fixtures";

test("demo data fills a fresh server, stays out of what counts, and is removed whole", async ({ page }) => {
  const server = await Server.start();
  try {
    await open(page, server, "/");
    await page.getByRole("button", { name: "Add demo data" }).click();
    await expect(page.getByText("Demo data was added.", { exact: false })).toBeVisible();
    await visit(page, "/runs?kind=demo");
    await expect(page.getByRole("row").nth(2)).toBeVisible();
    await visit(page, "/runs");
    await expect(page.getByRole("heading", { name: "No runs yet" })).toBeVisible();
    await visit(page, "/threads");
    await expect(page.getByRole("heading", { name: "No threads yet" })).toBeVisible();
    await visit(page, "/threads?demo=true");
    await expect(page.getByRole("link", { name: "A refund that needs an approval" })).toBeVisible();
    await visit(page, "/approvals");
    await expect(page.getByRole("heading", { name: "Nothing waits for you" })).toBeVisible();
    await visit(page, "/settings");
    await page.getByRole("button", { name: "Remove demo data" }).click();
    await expect(page.getByRole("button", { name: "Add demo data" })).toBeVisible();
    expect((await server.ask<{ items: unknown[] }>("GET", "/v1/runs?kind=demo")).items).toEqual([]);
  } finally {
    await server.close();
  }
});
