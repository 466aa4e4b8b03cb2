import { expect, expectAccessible, open, test } from "./fixtures";

test("the node that serves is listed, with its load, the queue, the store and its health", async ({ page, server }) => {
  await open(page, server, "/cluster");
  const row = page.getByRole("row").nth(1);
  await expect(row).toContainText("0 / 64");
  await expect(row).toContainText("ok");
  await expect(page.getByText("sqlite", { exact: true }).first()).toBeVisible();
  await expect(page.getByRole("region", { name: "Queue and claims" })).toContainText("Dead letters");
  await expect(page.getByRole("region", { name: "Signals and store" })).toContainText("one for each thread");
  await expect(page.getByRole("region", { name: "Health of this process" })).toContainText("healthy");
  await expectAccessible(page);
  await page.locator("h1").click();
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("dialog")).toContainText('"loop_lag_ms"');
});

test("a node that is late, and what is stuck, are shown before all else", async ({ page, server }) => {
  const answer = await server.ask<{ nodes: { id: string; state: string }[]; problems: object[] }>("GET", "/v1/system/cluster");
  const [own] = answer.nodes;
  const nodes = [{ ...own, state: "draining" }, { ...own, id: "gone", state: "late", claims: 3 }];
  const problems = [{ code: "claims_of_dead_nodes", text: "3 threads are still held by nodes that are over." }];
  await page.route(/\/v1\/system\/cluster/, (route) => route.fulfill({ json: { ...answer, nodes, problems } }));
  await open(page, server, "/cluster");
  await expect(page.getByRole("alert").filter({ hasText: "Something is stuck" })).toContainText("3 threads are still held");
  await expect(page.getByRole("row", { name: /gone/ })).toContainText("late");
  await expect(page.getByRole("row").filter({ hasText: "draining" })).toHaveCount(1);
  await expectAccessible(page, "main");
});

test("settings show who calls, and change the look of this browser", async ({ page, server }) => {
  await open(page, server, "/settings");
  await expect(page.getByRole("region", { name: "Who am I" })).toContainText("local");
  await page.getByText("Dark", { exact: true }).click();
  await expect(page.locator("html")).toHaveAttribute("data-mantine-color-scheme", "dark");
  await page.getByText("Comfortable", { exact: true }).click();
  await page.getByRole("combobox", { name: "Time zone" }).click();
  await page.getByRole("combobox", { name: "Time zone" }).fill("Asia/Tokyo");
  await page.getByRole("option", { name: "Asia/Tokyo" }).click();
  await page.reload();
  await expect(page.getByRole("combobox", { name: "Time zone" })).toHaveValue("Asia/Tokyo");
  await expect(page.getByRole("radio", { name: "Comfortable" })).toBeChecked();
  await expect(page.getByRole("link", { name: "OpenAPI document" })).toHaveAttribute("href", "/openapi.json");
  await page.getByText("Like the system", { exact: true }).click();
  await expectAccessible(page);
});
