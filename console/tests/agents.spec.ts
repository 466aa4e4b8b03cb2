import { join } from "node:path";

import type { Page } from "@playwright/test";

import { enter, expect, expectAccessible, open, Server, test, visit } from "./fixtures";

type Spec = { id: string; system_prompt: string; max_rounds: number; sections: Record<string, unknown> };

async function makeAgent(server: Server, id: string, prompt: string): Promise<void> {
  await server.ask("PUT", `/v1/config/agents/${id}`, { model_id: "scripted", system_prompt: prompt, description: `Made for ${id}` });
}

/** Opens an agent on a draft of its own, so that tests do not meet in one. */
async function openInDraft(page: Page, server: Server, id: string, tab: string): Promise<string> {
  const draft = await server.ask<{ id: string }>("POST", "/v1/config/drafts", { title: `Draft of ${id}` });
  await enter(page, server, `/agents/${id}?draft=${draft.id}&tab=${tab}`);
  return draft.id;
}

const prompt = (page: Page) => page.getByRole("textbox", { name: "System prompt" });
const status = (page: Page) => page.getByRole("main").getByRole("status").first();

async function write(page: Page, text: string): Promise<void> {
  await prompt(page).fill(text);
  await expect(page.getByText(/^Saved in draft/)).toBeVisible();
}

test("the list and every tab of the editor are accessible", async ({ page, server }) => {
  test.slow();
  await open(page, server, "/agents");
  await expect(page.getByRole("link", { name: "permission", exact: true })).toBeVisible();
  await expectAccessible(page);
  await visit(page, "/agents/permission");
  for (const tab of ["Basics", "Prompt", "Tools", "Rules", "Plugins", "Delegates", "Budgets", "JSON", "History", "Usage"]) {
    await page.getByRole("tab", { name: tab, exact: true }).click();
    await expect(page.locator('[aria-busy="true"]')).toHaveCount(0);
    await expectAccessible(page, tab === "Basics" ? null : "[role=tabpanel]:not(:empty)");
  }
});

test("a prompt is edited in a draft, tried in the preview, published, and used by the next run", async ({ page, server }) => {
  await makeAgent(server, "edited", "Old prompt.");
  await openInDraft(page, server, "edited", "prompt");
  await write(page, "You answer for the draft.");
  expect((await server.ask<Spec>("GET", "/v1/config/agents/edited")).system_prompt).toBe("Old prompt.");

  await page.getByRole("textbox", { name: "Message to the draft" }).fill("Hello there");
  await page.keyboard.press("Enter");
  const link = page.getByRole("link", { name: "Open the run" });
  await expect(link).toBeVisible();
  await expect(page.getByRole("button", { name: "Send" })).toBeVisible();
  const runId = (await link.getAttribute("href"))?.split("/").pop() ?? "";
  expect(JSON.stringify(await server.ask("GET", `/v1/runs/${runId}/steps/1/request`))).toContain("You answer for the draft.");

  await page.getByText("Diff to live").click();
  await expect(page.getByText("Old prompt.")).toBeVisible();
  await page.getByRole("button", { name: "Publish…" }).click();
  await page.getByRole("textbox", { name: "Message", exact: true }).fill("A better prompt");
  await page.getByRole("button", { name: "Publish now" }).click();
  await expect(page.getByText(/Publication \d+ is live/)).toBeVisible();
  await expect(status(page)).toContainText("As live");
  expect((await server.ask<Spec>("GET", "/v1/config/agents/edited")).system_prompt).toBe("You answer for the draft.");

  await page.getByRole("tab", { name: "History" }).click();
  await expect(page.getByText("A better prompt")).toBeVisible();
  await page.getByRole("button", { name: "Changes" }).first().click();
  await expect(page.getByText("Old prompt.")).toBeVisible();
  await page.getByRole("button", { name: "Restore…" }).last().click();
  await page.getByRole("dialog").getByRole("button", { name: "Restore" }).click();
  await expect.poll(async () => (await server.ask<Spec>("GET", "/v1/config/agents/edited")).system_prompt).toBe("Old prompt.");
});

test("two pages that edit one agent merge: other fields silently, the same field by choice", async ({ page, server, context }) => {
  await makeAgent(server, "shared", "Before.");
  const draft = await openInDraft(page, server, "shared", "prompt");
  const other = await context.newPage();
  await open(other, server, `/agents/shared?draft=${draft}&tab=basics`);
  await expect(other.getByRole("textbox", { name: "Description" })).toBeVisible();

  await write(page, "Theirs.");
  await other.getByRole("textbox", { name: "Description" }).fill("Described by the other page");
  await expect(other.getByText(/^Saved in draft/)).toBeVisible();
  await other.getByRole("tab", { name: "Prompt" }).click();
  await expect(prompt(other)).toHaveText("Theirs.");

  await prompt(page).fill("Mine.");
  await expect(page.getByText(/^Saved in draft/)).toBeVisible();
  await prompt(other).fill("The other page's.");
  const dialog = other.getByRole("dialog", { name: "Another person changed this agent" });
  await expect(dialog).toBeVisible();
  for (const text of ["Theirs.", "Mine.", "The other page's."]) await expect(dialog.getByText(text).first()).toBeVisible();
  await expectAccessible(other);
  await expect(dialog.getByRole("button", { name: "Save the merged version" })).toBeDisabled();
  await dialog.getByRole("radiogroup").getByText("Mine", { exact: true }).click();
  await dialog.getByRole("button", { name: "Save the merged version" }).click();
  await expect(dialog).toBeHidden();
  await expect(other.getByText(/^Saved in draft/)).toBeVisible();
  const { changes } = await server.ask<{ changes: { spec: Spec & { description: string } }[] }>("GET", `/v1/config/drafts/${draft}`);
  expect(changes[0]?.spec).toMatchObject({ system_prompt: "The other page's.", description: "Described by the other page" });
});

test("what is typed while a colleague's change is merged is kept", async ({ page, server }) => {
  await makeAgent(server, "typed-on", "Before.");
  const draft = await openInDraft(page, server, "typed-on", "prompt");
  await write(page, "First.");
  await server.ask("PUT", `/v1/config/drafts/${draft}/agents/typed-on`, { spec: { model_id: "scripted", system_prompt: "First.", description: "Theirs" } }, { "If-Match": "*" });
  // The save is refused, and the page reads the draft of the colleague: it gets it when more was typed.
  const path = `/v1/config/drafts/${draft}`;
  await page.route((url) => url.pathname === path, async (route) => {
    if (route.request().method() === "GET") await prompt(page).fill("Second, and more.");
    await route.fallback();
  }, { times: 1 });
  await prompt(page).fill("Second.");
  const isSaved = async () => (await server.ask<{ changes: { spec: Spec & { description: string } }[] }>("GET", path)).changes[0]?.spec;
  await expect.poll(isSaved).toMatchObject({ system_prompt: "Second, and more.", description: "Theirs" });
  await expect(prompt(page)).toHaveText("Second, and more.");
  await expect(page.getByText(/^Saved in draft/)).toBeVisible();
});

test("an agent of the code is edited as overrides, its rules are tried, and tools with effects ask first", async ({ page, server }) => {
  const draft = await openInDraft(page, server, "permission", "rules");
  await page.getByRole("button", { name: "Remove Rule 1" }).click();
  await expect(page.getByText(/^Saved in draft/)).toBeVisible();
  await page.getByRole("combobox", { name: "Tool", exact: true }).last().click();
  await page.getByRole("option", { name: "delete_file", exact: true }).click();
  await page.getByRole("button", { name: "Try it" }).click();
  await expect(page.getByText("allow, by the standard behaviour")).toBeVisible();
  const { changes } = await server.ask<{ changes: { type: string; overrides: Record<string, unknown> }[] }>("GET", `/v1/config/drafts/${draft}`);
  expect(changes[0]).toMatchObject({ type: "patch" });
  expect(Object.keys(changes[0]?.overrides ?? {})).toEqual(["sections"]);

  await page.getByRole("textbox", { name: "Message to the draft" }).fill("RUN_DELETE_TOOL");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Approve" }).click();
  await expect(page.getByText("delete_file returned: deleted old-report.txt")).toBeVisible();

  await page.getByRole("tab", { name: "Tools" }).click();
  await expect(page.getByRole("row", { name: /failingTool/ })).toContainText("a rule denies every call");
});

test("guardrails and reminders have editors of their own", async ({ page, server }) => {
  await server.ask("PUT", "/v1/config/agents/guarded", { model_id: "scripted", plugin_ids: ["guardrails", "reminder"] });
  const draft = await openInDraft(page, server, "guarded", "plugins");
  await expect(page.getByText("The standard holds: secrets are redacted.")).toBeVisible();
  await page.getByRole("button", { name: "Add to guardrails" }).click();
  await page.getByRole("menuitem", { name: "A pattern of your own" }).click();
  const rule = page.getByRole("region", { name: "pattern" });
  await rule.getByRole("textbox", { name: "Or for a pattern" }).fill("(?i)project falcon");
  await rule.getByText("Block", { exact: true }).click();
  await expect(rule.getByText("the run ends")).toBeVisible();
  await page.getByRole("button", { name: "Add to reminders" }).click();
  await page.getByRole("menuitem", { name: "After failed calls" }).click();
  const reminder = page.getByRole("region", { name: "Reminder 1 after *" });
  await reminder.getByRole("button", { name: "Look at a field of the result" }).click();
  await reminder.getByRole("textbox", { name: "Field" }).fill("exit_code");
  await reminder.getByRole("textbox", { name: "Value" }).fill("1");
  await reminder.getByRole("textbox", { name: "Text for the model" }).fill("Read the error first.");
  await expect(page.getByText(/^Saved in draft/)).toBeVisible();
  await expectAccessible(page);
  const { changes } = await server.ask<{ changes: { spec: Spec }[] }>("GET", `/v1/config/drafts/${draft}`);
  expect(changes[0]?.spec.sections).toMatchObject({
    guardrails: { rules: [{ name: "secrets" }, { name: "pattern", action: "block", pattern: "(?i)project falcon", on: ["output"] }] },
    reminder: { rules: [{ tool: "*", output: { status: "error", content: { fields: [{ path: "exit_code", op: "exact", value: "1" }] } }, message: { content: "Read the error first.", cooldown_turns: 3 } }] },
  });
  const { problems } = await server.ask<{ problems: unknown[] }>("POST", `/v1/config/drafts/${draft}/validate`);
  expect(problems).toEqual([]);
});

test("one overridden field of an agent of the code is taken back, and the others stay", async ({ page, server }) => {
  await server.ask("PATCH", "/v1/config/agents/travel/overrides", { system_prompt: "Mine.", max_rounds: 7 });
  await enter(page, server, "/agents/travel?preview=off");
  const overrides = page.getByRole("group", { name: "Overridden here" });
  await overrides.getByRole("button", { name: "system_prompt" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Take back" }).click();
  await expect(overrides.getByRole("button")).toHaveText(["max_rounds"]);
  const now = await server.ask<Spec>("GET", "/v1/config/agents/travel");
  expect(now.system_prompt).toContain("You plan journeys");
  expect(now.max_rounds).toBe(7);
  await server.ask("DELETE", "/v1/config/agents/travel/overrides");
});

test("what the server refuses lands on its field, and nothing typed is lost", async ({ page, server }) => {
  await makeAgent(server, "refused", "Hello.");
  await openInDraft(page, server, "refused", "basics");
  const rounds = page.getByRole("textbox", { name: "Max rounds" });
  await rounds.fill("-4");
  await expect(page.getByText("Not saved: see the problems")).toBeVisible();
  await expect(rounds).toHaveValue("-4");
  await page.getByRole("tab", { name: "JSON" }).click();
  const json = page.getByRole("textbox", { name: "The agent as JSON" });
  await json.fill('{ "id": "refused", "model_id": "scripted", "surprise": 1 }');
  await expect(page.getByText("There is no field 'surprise'.")).toBeVisible();
  await expect(json).toContainText("surprise");
});

test("text that cannot be saved is not lost by a tab or a link", async ({ page, server }) => {
  await makeAgent(server, "guarded-text", "Before.");
  await openInDraft(page, server, "guarded-text", "json");
  const json = page.getByRole("textbox", { name: "The agent as JSON" });
  await json.fill('{ "id": "guarded-text", "half');
  await page.getByRole("tab", { name: "Prompt" }).click();
  await expect(prompt(page)).toBeVisible();
  await page.getByRole("tab", { name: "JSON" }).click();
  await expect(json).toContainText('"half');
  await json.fill('{ "id": "guarded-text", "model_id": "scripted", "system_prompt": "Before." }');

  await page.route("**/v1/config/drafts/**", (route) => route.abort());
  await page.getByRole("tab", { name: "Prompt" }).click();
  await prompt(page).fill("Typed while the server is away.");
  await page.getByRole("navigation").getByRole("link", { name: "Runs" }).click();
  const dialog = page.getByRole("dialog", { name: "Leave without saving?" });
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await expect(prompt(page)).toHaveText("Typed while the server is away.");

  // What can be saved is saved on the way out, without a question.
  await page.unroute("**/v1/config/drafts/**");
  await page.getByRole("navigation").getByRole("link", { name: "Runs" }).click();
  await expect(page.locator("h1")).toHaveText("Runs");
  await expect(dialog).toHaveCount(0);
  await page.goBack();
  await expect(prompt(page)).toHaveText("Typed while the server is away.");
});

test("what others published meanwhile is settled field by field before one publishes", async ({ page, server }) => {
  await makeAgent(server, "overtaken", "Before.");
  await openInDraft(page, server, "overtaken", "prompt");
  await write(page, "Mine.");
  await makeAgent(server, "overtaken", "Theirs.");
  await page.getByRole("button", { name: "Publish…" }).click();
  await page.getByRole("textbox", { name: "Message", exact: true }).fill("Mine wins");
  await page.getByRole("button", { name: "Publish now" }).click();
  const dialog = page.getByRole("dialog", { name: "Both sides changed these fields" });
  await expect(dialog.getByRole("region", { name: "agents/overtaken/system_prompt" })).toContainText("Theirs.");
  await expectAccessible(page);
  await dialog.getByText("Keep the draft's").click();
  await dialog.getByRole("button", { name: "Use these choices" }).click();
  await expect(dialog).toBeHidden();
  await expect.poll(async () => (await server.ask<Spec>("GET", "/v1/config/agents/overtaken")).system_prompt).toBe("Mine.");
});

type Drafted = { id: string; revision: number; title: string; changes: { ns: string; id: string; spec: Spec }[] };

/** A draft that changes the prompt of an agent, made beside the page. */
async function draftPrompt(server: Server, title: string, id: string, prompt: string): Promise<Drafted> {
  const made = await server.ask<Drafted>("POST", "/v1/config/drafts", { title });
  const { created_at: _made, updated_at: _changed, ...spec } = await server.ask<Spec & { created_at: unknown; updated_at: unknown }>("GET", `/v1/config/agents/${id}`);
  return server.ask("PUT", `/v1/config/drafts/${made.id}/agents/${id}`, { spec: { ...spec, system_prompt: prompt }, overrides: null, hidden: false, delete: false }, { "If-Match": `"${made.revision}"` });
}

test("another draft in the address is shown before anything goes into it", async ({ page, server }) => {
  await makeAgent(server, "switched", "Before.");
  const [first, second] = [await draftPrompt(server, "First", "switched", "The first."), await draftPrompt(server, "Second", "switched", "The second.")];
  await enter(page, server, `/agents/switched?draft=${first.id}&tab=prompt`);
  await expect(prompt(page)).toHaveText("The first.");
  await prompt(page).fill("The first, typed.");
  // Before it is saved by itself.
  await visit(page, `/agents/switched?draft=${second.id}&tab=prompt`);
  await expect(prompt(page)).toHaveText("The second.");
  await prompt(page).fill("The second, typed.");
  await expect(page.getByText("Saved in draft “Second”")).toBeVisible();
  const read = async (it: Drafted) => (await server.ask<Drafted>("GET", `/v1/config/drafts/${it.id}`)).changes[0]?.spec.system_prompt;
  expect([await read(first), await read(second)]).toEqual(["The first, typed.", "The second, typed."]);
  // What is published is the draft that the question shows.
  await page.getByRole("button", { name: "Publish…" }).click();
  const dialog = page.getByRole("dialog", { name: "Publish this draft?" });
  await expect(dialog).toContainText("The draft “Second” changes this agent only.");
  const now = await server.ask<Drafted>("GET", `/v1/config/drafts/${second.id}`);
  await server.ask("PUT", `/v1/config/drafts/${second.id}/agents/switched`, { spec: { ...now.changes[0]?.spec, system_prompt: "Of a colleague." }, overrides: null, hidden: false, delete: false }, { "If-Match": `"${now.revision}"` });
  await dialog.getByRole("button", { name: "Publish now" }).click();
  await expect(dialog.getByRole("alert")).toBeVisible();
  expect((await server.ask<Spec>("GET", "/v1/config/agents/switched")).system_prompt).toBe("Before.");
  await dialog.getByRole("button", { name: "Cancel" }).click();
});

test("a page that is left while it loads says nothing into the address of the next one", async ({ page, server }) => {
  await makeAgent(server, "left", "Before.");
  await draftPrompt(server, "Of the left one", "left", "Mine.");
  await enter(page, server, "/settings");
  let answer = () => {};
  const held = new Promise<void>((resolve) => { answer = resolve; });
  let asked = () => {};
  const isAsked = new Promise<void>((resolve) => { asked = resolve; });
  await page.route(/\/v1\/config\/drafts\/[^/]+$/, async (route) => { asked(); await held; await route.continue(); });
  await page.keyboard.press("g");
  await page.keyboard.press("e");
  await page.getByRole("link", { name: "left", exact: true }).click();
  await isAsked;
  await page.getByRole("link", { name: "Runs", exact: true }).click();
  await expect(page.locator("h1")).toHaveText("Runs");
  const loaded = page.waitForResponse(/\/v1\/config\/drafts\/[^/]+$/);
  answer();
  await (await loaded).finished();
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
  expect(new URL(page.url()).search).toBe("");
});

test("what belongs to a draft that is gone stays on the page, and goes into a new one when a person says so", async ({ page, server }) => {
  await makeAgent(server, "orphaned", "Before.");
  const draft = await draftPrompt(server, "Soon gone", "orphaned", "Mine.");
  await enter(page, server, `/agents/orphaned?draft=${draft.id}&tab=prompt`);
  await expect(prompt(page)).toHaveText("Mine.");
  await server.ask("DELETE", `/v1/config/drafts/${draft.id}`, undefined, { "If-Match": `"${draft.revision}"` });
  const before = (await server.ask<{ items: unknown[] }>("GET", "/v1/config/drafts")).items.length;
  await prompt(page).fill("Mine, typed on.");
  const gone = page.getByRole("alert").filter({ hasText: "The draft “Soon gone” is gone" });
  await expect(gone).toBeVisible();
  await expectAccessible(page);
  await prompt(page).fill("Mine, typed on and on.");
  await expect(page.getByText("Not saved: the draft is gone")).toBeVisible();
  expect((await server.ask<{ items: unknown[] }>("GET", "/v1/config/drafts")).items).toHaveLength(before);
  await gone.getByRole("button", { name: "Begin a new draft with it" }).click();
  await expect(page.getByText(/^Saved in draft/)).toBeVisible();
  await expect(gone).toHaveCount(0);
  const { items } = await server.ask<{ items: { id: string; changes: { id: string }[] }[] }>("GET", "/v1/config/drafts");
  const made = items.find((it) => it.changes.some((change) => change.id === "orphaned"));
  expect((await server.ask<Drafted>("GET", `/v1/config/drafts/${made?.id}`)).changes[0]?.spec.system_prompt).toBe("Mine, typed on and on.");
});

test("an agent is made by keyboard alone, as a copy in a draft", async ({ page, server }) => {
  await enter(page, server, "/agents");
  await page.getByRole("button", { name: "New agent" }).focus();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("textbox", { name: "ID", exact: true })).toBeFocused();
  await page.keyboard.type("copied");
  await page.keyboard.press("Tab");
  await page.keyboard.type("travel");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Create in a draft" }).focus();
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/agents\/copied\?draft=/);
  await expect(page.getByText("Not live yet")).toBeVisible();
  await page.getByRole("tab", { name: "Prompt" }).focus();
  await page.keyboard.press("Enter");
  await expect(prompt(page)).toContainText("You plan journeys");
});

test("agents beyond the server's longest page are listed, chosen and found", async ({ page }) => {
  const many = await Server.start([join(import.meta.dirname, "apps/many.py")]);
  try {
    await open(page, many, "/agents");
    await expect(page.getByText("1002 rows")).toBeVisible();
    await visit(page, "/chat");
    await page.getByRole("combobox", { name: "Agent", exact: true }).fill("agent-1001");
    await expect(page.getByRole("option", { name: "agent-1001" })).toBeVisible();
    await page.keyboard.press("Escape");
    await page.keyboard.press("Control+k");
    await page.getByPlaceholder("Search…").fill("agent-1001");
    await expect(page.getByRole("button", { name: "agent-1001", exact: true })).toBeVisible();
    // The first entry: what is only guessed from an id stands after all that is known.
    await page.keyboard.press("Enter");
    await expect(page).toHaveURL(/agents\/agent-1001$/);
  } finally {
    await many.close();
  }
});

test("an unknown agent and a small screen", async ({ page, server }) => {
  await enter(page, server, "/agents/nothing-of-this-name");
  await expect(page.getByText("There is no such agent")).toBeVisible();
  await page.setViewportSize({ width: 320, height: 640 });
  for (const tab of ["basics", "tools", "rules"]) {
    await visit(page, `/agents/permission?tab=${tab}`);
    await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth), tab).toBeLessThanOrEqual(320);
  }
});
