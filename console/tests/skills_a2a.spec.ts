import { expect, expectAccessible, open, test } from "./fixtures";
import { saveInNewDraft } from "./govern";

test("a skill is written, published, seen by an agent, and accessible", async ({ page, server }) => {
  const id = "greeting";
  await open(page, server, "/skills?edit=%2B");
  await page.getByRole("textbox", { name: "ID", exact: true }).fill(id);
  await page.getByRole("dialog").getByRole("textbox", { name: "Description" }).first().fill("How to greet people");
  await page.getByRole("textbox", { name: "Body", exact: true }).fill("Say hello.\nThen say your name.");
  await expectAccessible(page);
  await page.getByRole("button", { name: "Publish…" }).click();
  await page.getByRole("button", { name: "Publish now" }).click();
  const details = page.getByRole("dialog", { name: id });
  await expect(details.getByText("Then say your name.").first()).toBeVisible();
  await expect(details.getByRole("link", { name: "skills", exact: true })).toBeVisible();
  await expectAccessible(page);
  await page.keyboard.press("Escape");
  await expect(page.getByRole("row", { name: new RegExp(id) })).toBeVisible();
});

test("an A2A server that cannot be reached says why, and goes into a draft as well", async ({ page, server }) => {
  await server.ask("PUT", "/v1/config/a2a-servers/far", { base_url: "http://127.0.0.1:9" });
  await open(page, server, "/a2a");
  await expect(page.getByRole("row", { name: /far/ })).toContainText("http://127.0.0.1:9");
  await expectAccessible(page);
  await page.getByRole("link", { name: "far" }).click();
  await expect(page.getByRole("dialog", { name: "far" }).getByRole("alert")).toBeVisible({ timeout: 20_000 });
  await page.getByRole("button", { name: "Edit" }).click();
  await page.getByRole("textbox", { name: "Timeout (ms)" }).fill("2000");
  await saveInNewDraft(page);
  const { items } = await server.ask<{ items: { changes: { id: string }[] }[] }>("GET", "/v1/config/drafts");
  expect(items.flatMap((it) => it.changes.map((change) => change.id))).toContain("far");
});
