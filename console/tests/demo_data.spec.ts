import { expect, expectAccessible, open, Server, test, visit } from "./fixtures";

test("demo data fills a fresh server, stays out of what counts, and is removed whole", async ({ page }) => {
  const server = await Server.start();
  try {
    await open(page, server, "/");
    await page.getByRole("button", { name: "Add demo data" }).click();
    await expect(page.getByText("Demo data was added.", { exact: false })).toBeVisible();
    // What was added is a click away from where it was added.
    const places = page.getByRole("navigation", { name: "Where it is shown" });
    await expect(places.getByRole("link")).toHaveText(["Runs", "Workflows", "Threads", "Schedules", "Memory", "Datasets", "Evals"]);
    await expectAccessible(page, "main");
    await places.getByRole("link", { name: "Runs" }).click();
    await expect(page).toHaveURL(/runs\?kind=demo$/);
    await expect(page.getByRole("row").nth(2)).toBeVisible();
    await visit(page, "/runs");
    await expect(page.getByRole("heading", { name: "No runs yet" })).toBeVisible();
    await visit(page, "/threads");
    await expect(page.getByRole("heading", { name: "No threads yet" })).toBeVisible();
    await visit(page, "/threads?demo=true");
    await expect(page.getByRole("link", { name: "A refund that needs an approval" })).toBeVisible();
    // Each run of a conversation ends where its answer does, and an agent that the server does not have is named all the same.
    await visit(page, "/chat/demo-data-order");
    await expect.poll(() => page.locator("[data-turn]").evaluateAll((all) => all.map((it) => (it as HTMLElement).dataset.turn))).toEqual(["user", "assistant", "assistant", "end", "user", "assistant", "assistant", "end"]);
    await expect(page.getByRole("combobox", { name: "Agent" })).toHaveValue("demo-assistant");
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
    // What waits there is shown as it would be, and cannot be decided.
    const [refund] = (await server.ask<{ items: { run_id: string; status: string }[] }>("GET", "/v1/runs?kind=demo&thread_id=demo-data-refund")).items;
    await visit(page, `/runs/${refund?.run_id}`);
    for (const name of ["Approve", "Deny"]) await expect(page.getByRole("button", { name, exact: true })).toBeDisabled();
    await expect(page.locator("main")).toContainText("Demo data starts nothing and cannot be changed.");
    await expect(page.getByRole("button", { name: "Cancel" })).toHaveAttribute("aria-disabled", "true");
    await visit(page, "/memory");
    await show.click();
    await expect(page.getByText("Refunds above 40.00 EUR need an approval.")).toBeVisible();
    await visit(page, "/datasets");
    await show.click();
    await page.getByRole("link", { name: "demo-data-refunds" }).click();
    await expect(page.getByRole("heading", { level: 1, name: "demo-data-refunds" })).toBeVisible();
    await expect(page.getByRole("button", { name: "Start an eval" })).toBeDisabled();
    await visit(page, "/evals");
    await expect(page.getByRole("heading", { name: "No evals", exact: true })).toBeVisible();
    await show.click();
    await expect(page.getByText("gate failed")).toBeVisible();
    await page.getByRole("row").filter({ hasText: "gate passed" }).getByRole("link").first().click();
    await expect(page.getByRole("button", { name: "careful, sample 3: failed" })).toBeVisible();
    await expectAccessible(page, "main");
    await page.getByRole("link", { name: "Compare with another" }).click();
    await page.getByRole("combobox", { name: "First (before)" }).click();
    await page.getByRole("option").filter({ hasText: "· before ·" }).click();
    // Six cases do not decide it, and the page says how many would.
    await expect(page.getByText("about 11 cases would decide it", { exact: false }).first()).toBeVisible();
    await visit(page, "/settings");
    await page.getByRole("button", { name: "Remove demo data" }).click();
    await expect(page.getByRole("button", { name: "Add demo data" })).toBeVisible();
    for (const path of ["/v1/runs?kind=demo", "/v1/schedules?demo=true", "/v1/triggers?demo=true", "/v1/threads?demo=true"]) {
      expect((await server.ask<{ items: unknown[] }>("GET", path)).items, path).toEqual([]);
    }
    expect(await server.ask("GET", "/v1/eval/datasets?demo=true")).toEqual({ datasets: [] });
    expect(await server.ask("GET", "/v1/evals?demo=true")).toEqual({ evals: [] });
  } finally {
    await server.close();
  }
});
