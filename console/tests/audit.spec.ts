import { readFile } from "node:fs/promises";

import { enter, expect, expectAccessible, open, test, visit } from "./fixtures";
import { putAgent, unique } from "./govern";

test("events are filtered in the address, opened with the fields that changed, and the chain is verified", async ({ page, server }) => {
  const agent = unique("audited");
  await putAgent(server, agent, { system_prompt: "One." });
  await putAgent(server, agent, { system_prompt: "Two." });
  await open(page, server, "/audit");
  await expect(page.getByText("The chain is intact")).toBeVisible();
  await page.getByPlaceholder("Resource: agents/support").fill(`agents/${agent}`);
  await expect(page).toHaveURL(/resource=agents/);
  await expect(page.getByRole("row")).toHaveCount(3);
  await expectAccessible(page);
  await page.locator("body").click({ position: { x: 900, y: 8 } });
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog");
  await expect(dialog.getByRole("region", { name: `agents/${agent}` })).toContainText("system_prompt");
  await expect(dialog.getByText("Two.", { exact: true })).toBeVisible();
  await expectAccessible(page, "[role=dialog]");
});

test("the events that match are exported as lines of JSON; filters that nothing matches say so", async ({ page, server }) => {
  const agent = unique("exported");
  await putAgent(server, agent, {});
  await enter(page, server, `/audit?resource=agents/${agent}`);
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export as NDJSON" }).click();
  const lines = (await readFile(await (await download).path(), "utf8")).trim().split("\n");
  expect(lines.map((it) => (JSON.parse(it) as { resource: string }).resource)).toEqual([`agents/${agent}`]);
  await visit(page, "/audit?actor=no-one-has-this-name");
  await expect(page.getByText("No event matches the filters")).toBeVisible();
});
