import { enter, expect, expectAccessible, open, test, visit } from "./fixtures";
import { publishRecord, unique, writeJson } from "./govern";

test("a ruleset is made and listed", async ({ page, server }) => {
  const id = unique("careful");
  await open(page, server, "/policy?edit=%2B");
  await page.getByRole("textbox", { name: "ID", exact: true }).fill(id);
  await page.getByRole("combobox", { name: "Behavior", exact: true }).click();
  await page.getByRole("option", { name: "deny" }).click();
  await expect(page.getByText("It compiles.")).toBeVisible();
  await publishRecord(page, "Careful");
  await expect(page.getByRole("row", { name: new RegExp(id) })).toContainText("deny delete_*");
  await expectAccessible(page);
});

test("a call is tried, and the rule that decides is named", async ({ page, server }) => {
  await enter(page, server, "/policy?tab=bench&agent=permission");
  await page.getByRole("textbox", { name: "Tool" }).fill("delete_file");
  await page.getByRole("textbox", { name: "Arguments as JSON" }).fill('{"path": "a.txt"}');
  await expect(page.getByRole("row", { name: /delete_file asked about delete_file/ })).toBeVisible();
  await expect(page).toHaveURL(/tool=delete_file/);
  await expectAccessible(page);
  await page.getByRole("textbox", { name: "Arguments as JSON" }).fill("{");
  await expect(page.getByText("This is not JSON.")).toBeVisible();

  await visit(page, "/policy?tab=bench&agent=default");
  await expect(page.getByText("every call passes")).toBeVisible();
});

test("other rules are compared over stored calls, and what they would newly allow leads to its run", async ({ page, server }) => {
  const { run_id } = await server.run("permission", "RUN_DELETE_TOOL");
  await enter(page, server, "/policy?tab=compare&agent=permission");
  await writeJson(page, "Rules to compare with, as the section “permission” of an agent", { default_behavior: "allow", rules: [] });
  await page.getByRole("button", { name: "Compare", exact: true }).click();
  await expect(page.getByRole("alert")).toContainText("newly allowed");
  await expectAccessible(page);
  await expect(page.getByRole("region", { name: "Examples: newly allowed" }).getByRole("link").first()).toHaveAttribute("href", /\/runs\//);
  expect(run_id).toBeTruthy();
});
