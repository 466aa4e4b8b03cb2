import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { enter, expect, expectAccessible, open, test, visit } from "./fixtures";
import { unique } from "./govern";

test("the list shows why runs ended or wait, newest first, and is accessible", async ({ page, server }) => {
  test.slow();
  const done = await server.run("travel", "Hello");
  const waiting = await server.run("permission", "RUN_DELETE_TOOL");
  await open(page, server, `/runs`);
  const rows = page.getByRole("row").filter({ has: page.getByRole("link") });
  await expect(rows.first()).toBeVisible();
  await expectAccessible(page);
  const [newer, older] = [page.getByTitle(waiting.run_id), page.getByTitle(done.run_id)];
  await expect(newer).toBeVisible();
  const tops = await Promise.all([newer, older].map(async (it) => (await it.boundingBox())?.y ?? 0));
  expect(tops[0]).toBeLessThan(tops[1] ?? 0);
  await expect(page.getByRole("row").filter({ has: newer })).toContainText("waits until a person decides");
});

test("filters stand in the address, and a time range asks the server", async ({ page, server }) => {
  const { run_id } = await server.run("research", "Hello");
  await enter(page, server, `/runs?agent=research&range=1h`);
  await expect(page.getByTitle(run_id)).toBeVisible();
  await page.getByRole("textbox", { name: "Run or thread id" }).fill("nothing-begins-so");
  await expect(page.getByRole("heading", { name: "No run matches the filters" })).toBeVisible();
  await expect(page).toHaveURL(/q=nothing-begins-so/);
  await page.getByRole("button", { name: "Clear filters" }).click();
  await expect(page).not.toHaveURL(/agent=/);
  const asked = page.waitForRequest((it) => it.url().includes("/v1/runs?") && it.url().includes("until=86400000"));
  await visit(page, "/runs?since=0&until=86400000");
  await asked;
  await expect(page.getByRole("heading", { name: "No run matches the filters" })).toBeVisible();
  await expectAccessible(page);
});

test("a saved view is kept, exported and imported", async ({ page, server }, info) => {
  await server.run("travel", "Hello");
  await enter(page, server, "/runs?agent=travel");
  const menu = page.getByRole("button", { name: "Views" });
  await menu.click();
  await page.getByRole("menuitem", { name: "Save this view" }).click();
  await page.getByRole("textbox", { name: "Name of the view" }).fill("Journeys");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Clear filters" }).click();
  await expect(page).not.toHaveURL(/agent=/);
  await menu.click();
  await page.getByRole("menuitem", { name: "Journeys" }).click();
  await expect(page).toHaveURL(/agent=travel/);
  await menu.click();
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("menuitem", { name: "Export as JSON" }).click()]);
  const views = JSON.parse(await readFile(await file.path(), "utf8")) as { views: { name: string }[] };
  expect(views.views.map((it) => it.name)).toEqual(["Journeys"]);
  const other = join(info.outputPath("."), "views.json");
  await writeFile(other, JSON.stringify({ views: [{ name: "Failures", search: { ended: "error" } }] }));
  await page.getByLabel("Import from JSON").setInputFiles(other);
  await expect(page.getByText("1 view was imported.")).toBeVisible();
  await menu.click();
  await expect(page.getByRole("menuitem", { name: "Failures" })).toBeVisible();
  await expect(page.getByRole("menuitem", { name: "Journeys" })).toBeVisible();
});

test("runs are cancelled together by keyboard, after a preview", async ({ page, server }) => {
  const own = unique("together");
  await server.run("travel", "Hello", `${own}-1`);
  const waiting = await server.run("permission", "RUN_DELETE_TOOL", `${own}-2`);
  await enter(page, server, `/runs?q=${own}`);
  await expect(page.getByTitle(waiting.run_id)).toBeVisible();
  await page.keyboard.press("j");
  // A run that comes meanwhile does not move the cursor to another one.
  const { run_id: later } = await server.run("travel", "Later", `${own}-3`);
  await expect(page.getByTitle(later)).toBeVisible();
  for (const key of ["x", "j", "x"]) await page.keyboard.press(key);
  await expect(page.getByText("2 selected")).toBeVisible();
  const cancel = page.getByRole("button", { name: "Cancel runs" });
  await cancel.focus();
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog");
  await expect(dialog).toContainText("1 run will be asked to stop.");
  await expect(dialog).toContainText("1 run ended before");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("row").filter({ has: page.getByTitle(waiting.run_id) })).toContainText("cancelled");
  await page.getByRole("button", { name: `As JSON ${waiting.run_id}` }).click();
  await expect(page.getByRole("dialog")).toContainText('"type": "cancelled"');
});

test("a run that starts appears without a reload, and a click on a number filters", async ({ page, server }) => {
  await enter(page, server, "/runs");
  const { run_id } = await server.run("permission", "RUN_DELETE_TOOL");
  await expect(page.getByTitle(run_id)).toBeVisible();
  await page.getByRole("button", { name: /^Waiting/ }).click();
  await expect(page).toHaveURL(/status=waiting/);
  await expect(page.getByTitle(run_id)).toBeVisible();
});
