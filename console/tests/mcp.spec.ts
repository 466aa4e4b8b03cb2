import { existsSync } from "node:fs";
import { join } from "node:path";

import { enter, expect, expectAccessible, open, test } from "./fixtures";

const VENV = join(import.meta.dirname, "../../.venv/bin/python");
const PYTHON = process.env.AWAKEN_PYTHON ?? (existsSync(VENV) ? VENV : "python");
const NOTES = join(import.meta.dirname, "notes_server.py");

test("a tool that changed since it was pinned is shown, and accepted for every process", async ({ page, server }) => {
  const spec = { transport: "stdio", command: PYTHON, args: [NOTES], env: { NOTES_KEY: "let-me-in" } };
  await server.ask("PUT", "/v1/config/mcp-servers/drifting", { ...spec, pins: { find_note: "00000000000000000000000000000000" } });
  await open(page, server, "/mcp?id=drifting");
  const details = page.getByRole("dialog", { name: "drifting" });
  await expect(details.getByRole("alert")).toContainText("1 tool has changed since it was pinned", { timeout: 30_000 });
  await expect(details.getByRole("alert")).toContainText("find_note");
  await expectAccessible(page);
  await details.getByRole("button", { name: "Accept the new versions…" }).click();
  await page.getByRole("textbox", { name: "Message" }).fill("Looked at");
  await page.getByRole("button", { name: "Publish now" }).click();
  await expect(details.getByRole("alert")).toHaveCount(0, { timeout: 30_000 });
  const { pins } = await server.ask<{ pins: Record<string, string> }>("GET", "/v1/config/mcp-servers/drifting");
  expect(pins.find_note).toMatch(/^(?!0{32})[0-9a-f]{32}$/);
  await server.ask("DELETE", "/v1/config/mcp-servers/drifting");
});

test("a stdio server is added, connected, inspected, restarted, edited and deleted", async ({ page, server }) => {
  await enter(page, server, "/mcp");
  await expect(page.getByText("No MCP servers yet")).toBeVisible();
  await page.getByRole("button", { name: "Add a server" }).first().click();
  await page.getByRole("textbox", { name: "ID", exact: true }).fill("notes");
  await page.getByRole("textbox", { name: "Command" }).fill(PYTHON);
  await page.getByLabel("Args").first().fill(NOTES);
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Add to env" }).click();
  await page.getByRole("textbox", { name: "Name", exact: true }).fill("NOTES_KEY");
  await page.getByLabel("Value").fill("let-me-in");
  await page.getByRole("button", { name: "Publish…" }).click();
  await page.getByRole("textbox", { name: "Message" }).fill("Notes");
  await page.getByRole("button", { name: "Publish now" }).click();

  const details = page.getByRole("dialog", { name: "notes" });
  await expect(details.getByText("find_note", { exact: true })).toBeVisible({ timeout: 30_000 });
  await expect(details.getByText("summarize", { exact: true })).toBeVisible();
  await expect(details.getByText("NOTES_KEY").first()).toBeVisible();
  expect(await page.content()).not.toContain("let-me-in");
  await expectAccessible(page);
  await details.getByRole("button", { name: "Restart" }).click();
  await expect(page.getByText("The connection is made anew.")).toBeVisible();

  await details.getByRole("button", { name: "Edit" }).click();
  await page.getByRole("switch", { name: "Enabled" }).first().uncheck({ force: true });
  await page.getByRole("button", { name: "Publish…" }).click();
  await page.getByRole("button", { name: "Publish now" }).click();
  await expect(details.getByText("off", { exact: true })).toBeVisible();
  await details.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog", { name: /^Delete/ }).getByRole("button", { name: "Delete" }).click();
  await expect(page.getByText("No MCP servers yet")).toBeVisible();
});
