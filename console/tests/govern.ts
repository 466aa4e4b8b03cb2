/** What the tests of the pages that govern share: drafts and records over HTTP. */
import type { Page } from "@playwright/test";

import { expect, type Server } from "./fixtures";

type Draft = { id: string };

/** Ends a name that no other test has. */
export function unique(name: string): string {
  return `${name}-${Math.random().toString(36).slice(2, 8)}`;
}

export function putAgent(server: Server, id: string, spec: Record<string, unknown>): Promise<unknown> {
  return server.ask("PUT", `/v1/config/agents/${id}`, { model_id: "scripted", ...spec });
}

/** Begins a draft that writes whole agents. */
export async function beginDraft(server: Server, title: string, agents: Record<string, Record<string, unknown>>): Promise<string> {
  const draft = await server.ask<Draft>("POST", "/v1/config/drafts", { title });
  for (const [id, spec] of Object.entries(agents)) await server.ask("PUT", `/v1/config/drafts/${draft.id}/agents/${id}`, { spec: { model_id: "scripted", ...spec } });
  return draft.id;
}

export async function livePublication(server: Server): Promise<number> {
  return (await server.ask<{ publication: number }>("GET", "/v1/config/head")).publication;
}

/** Writes a record as JSON in its editor. */
export async function writeRecord(page: Page, value: unknown): Promise<void> {
  await page.getByRole("radiogroup", { name: "Edit as" }).getByText("JSON", { exact: true }).click();
  await writeJson(page, "Record as JSON", value);
}

/** Publishes what the editor of a record has. */
export async function publishRecord(page: Page, message: string): Promise<void> {
  await page.getByRole("button", { name: "Publish…" }).click();
  await page.getByRole("textbox", { name: "Message" }).fill(message);
  await page.getByRole("button", { name: "Publish now" }).click();
}

/** Saves what the editor of a record has in a draft of its own; it asks for one only if there are drafts. */
export async function saveInNewDraft(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Save in draft" }).click();
  const chooser = page.getByRole("dialog", { name: /in which draft/ });
  const opened = page.waitForURL(/changes\?draft=/).then(() => "saved");
  if ((await Promise.race([chooser.waitFor().then(() => "asked"), opened])) === "asked") {
    await chooseDraft(page, "New draft");
    await chooser.getByRole("button", { name: "Save in this draft" }).click();
  }
  await opened;
}

/** Chooses the draft in which a record is saved. */
export async function chooseDraft(page: Page, title: string): Promise<void> {
  await page.getByRole("dialog", { name: /in which draft/ }).getByRole("combobox", { name: "Draft" }).click();
  await page.getByRole("option", { name: title }).click();
}

/** Replaces the text of the JSON editor. */
export async function writeJson(page: Page, label: string, value: unknown): Promise<void> {
  const editor = page.getByRole("textbox", { name: label });
  await editor.click();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText(typeof value === "string" ? value : JSON.stringify(value, null, 2));
  await expect(editor).toContainText(typeof value === "string" ? value.slice(0, 10) : "{");
}
