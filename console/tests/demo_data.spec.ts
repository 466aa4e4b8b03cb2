import { expect, expectAccessible, open, Server, test, visit } from "./fixtures";

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
    // A page that would be empty leads to it; what starts runs elsewhere has a history here, and no button.
    const show = page.getByRole("button", { name: "Show demo data" });
    await visit(page, "/schedules");
    await expect(page.getByRole("heading", { name: "No schedules" })).toBeVisible();
    await show.click();
    const daily = page.getByRole("row", { name: /demo-data-orders/ });
    await expect(daily).toContainText("paused");
    await expect(page.getByRole("button", { name: /^(Fire now|Resume|Pause)$/ })).toHaveCount(0);
    await expectAccessible(page, "main");
    await daily.click();
    const history = page.getByRole("dialog").getByRole("region", { name: "History" });
    await expect(history.getByRole("row")).toHaveCount(4);
    await expect(page.getByRole("dialog")).toContainText("Demo data starts nothing and cannot be changed.");
    await visit(page, "/schedules?view=triggers");
    await show.click();
    await expect(page.getByRole("row", { name: /demo-data-parcels/ })).toContainText("ignored");
    await visit(page, "/workflows");
    await show.click();
    await page.getByRole("row", { name: /waiting/ }).getByRole("link").click();
    await expect(page.locator("main")).toContainText("demo-return");
    await visit(page, "/memory");
    await show.click();
    await expect(page.getByText("Refunds above 40.00 EUR need an approval.")).toBeVisible();
    await visit(page, "/settings");
    await page.getByRole("button", { name: "Remove demo data" }).click();
    await expect(page.getByRole("button", { name: "Add demo data" })).toBeVisible();
    for (const path of ["/v1/runs?kind=demo", "/v1/schedules?demo=true", "/v1/triggers?demo=true", "/v1/threads?demo=true"]) {
      expect((await server.ask<{ items: unknown[] }>("GET", path)).items, path).toEqual([]);
    }
  } finally {
    await server.close();
  }
});
