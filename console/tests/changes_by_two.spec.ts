/** Two people change the configuration: each acts on what they have seen, and on nothing that the other did meanwhile. */
import type { Locator } from "@playwright/test";

import { enter, expect, expectAccessible, open, Server, test, visit } from "./fixtures";
import { beginDraft, chooseDraft, livePublication, publishRecord, putAgent, unique } from "./govern";

// The head of a server is one: what these tests do to it comes one after the other.
test.describe.configure({ mode: "default" });

type Head = { publication: number; canary: { publication: number } | null };
const ANY = { "If-Match": "*" };

/** Begins a canary as a colleague would, and returns its publication. */
async function beginCanary(server: Server, agent: string, prompt: string): Promise<number> {
  const draft = await beginDraft(server, prompt, { [agent]: { system_prompt: prompt } });
  return (await server.ask<{ publication: number }>("POST", `/v1/config/drafts/${draft}/publish`, { canary: { percent: 20 } }, ANY)).publication;
}

/** Sends a form, whether or not the page has heard already of what others did: then it sends nothing. */
const submit = (dialog: Locator) => dialog.locator("form").evaluate((form: HTMLFormElement) => form.requestSubmit());

const readPrompt = async (server: Server, agent: string) => (await server.ask<{ system_prompt: string }>("GET", `/v1/config/agents/${agent}`)).system_prompt;

test("a canary that a colleague began meanwhile is neither promoted nor stopped", async ({ page }) => {
  const fresh = await Server.start();
  try {
    await putAgent(fresh, "two", { system_prompt: "Old." });
    const first = await beginCanary(fresh, "two", "First.");
    await open(page, fresh, "/changes?tab=canary");
    await expect(page.getByText(`Publication ${first} takes 20 %`)).toBeVisible();
    await page.getByRole("button", { name: "Promote" }).click();
    await expect(page.getByRole("dialog")).toContainText(`Publication ${first} becomes live`);
    // The dialog is open while a colleague stops that canary and begins another one.
    await fresh.ask("DELETE", `/v1/config/canary?publication=${first}`);
    const second = await beginCanary(fresh, "two", "Second.");
    await page.getByRole("dialog").getByRole("button", { name: "Promote" }).click();
    await expect(page.getByText(`one of publication ${second} runs`)).toBeVisible();
    await expect(page.getByText(`Publication ${second} takes 20 %`)).toBeVisible();
    expect(await fresh.ask<Head>("GET", "/v1/config/head")).toMatchObject({ canary: { publication: second } });
    expect(await readPrompt(fresh, "two")).toBe("Old.");

    // Going back says which canary it would end, and does so only if that is wanted.
    const live = await livePublication(fresh);
    await fresh.ask("DELETE", `/v1/config/canary?publication=${second}`);
    await putAgent(fresh, "two", { system_prompt: "Newer." });
    const third = await beginCanary(fresh, "two", "Third.");
    await visit(page, `/changes?tab=publications&publication=${live}`);
    await page.getByRole("button", { name: "Go back to it…" }).click();
    const back = page.getByRole("dialog", { name: `Go back to publication ${live}` });
    await expect(back.getByRole("region", { name: "One publication is undone" })).toContainText("agents/two");
    const ends = back.getByRole("checkbox", { name: `End the canary of publication ${third}` });
    await expect(ends).not.toBeChecked();
    await expect(back.getByRole("button", { name: "Go back", exact: true })).toBeDisabled();
    await ends.check();
    await expectAccessible(page);
    // Meanwhile the canary becomes live: this would undo it unseen.
    await fresh.ask("POST", "/v1/config/canary/promote", { publication: third });
    await submit(back);
    await expect(back.getByText(`Live was publication ${third - 1}, and is publication ${third} now`)).toBeVisible();
    expect(await readPrompt(fresh, "two")).toBe("Third.");
    await back.getByRole("button", { name: "Look at it now" }).click();
    await expect(back.getByRole("region", { name: "2 publications are undone" })).toBeVisible();
    await back.getByRole("button", { name: "Go back", exact: true }).click();
    await expect.poll(() => readPrompt(fresh, "two")).toBe("Old.");
  } finally {
    await fresh.close();
  }
});

test("a draft that a colleague changed while it was read is published only after that was read too", async ({ page, server }) => {
  const agent = unique("reviewed");
  await putAgent(server, agent, { system_prompt: "Old." });
  const draft = await beginDraft(server, "Reviewed", { [agent]: { system_prompt: "Seen." } });
  await enter(page, server, `/changes?draft=${draft}`);
  await expect(page.getByRole("region", { name: `agents/${agent}` })).toContainText("Seen.");
  await page.getByRole("button", { name: "Publish…" }).click();
  const dialog = page.getByRole("dialog", { name: "Make this draft live" });
  await server.ask("PUT", `/v1/config/drafts/${draft}/agents/${agent}`, { spec: { model_id: "scripted", system_prompt: "Unseen." } });
  await submit(dialog);
  await expect(dialog.getByRole("alert")).toContainText("Others changed this while it was open");
  await expect(dialog.getByRole("alert")).toContainText("Unseen.");
  await expect(dialog.getByRole("button", { name: "Publish", exact: true })).toBeDisabled();
  await expectAccessible(page);
  expect(await readPrompt(server, agent)).toBe("Old.");
  await dialog.getByRole("button", { name: "I have read this" }).click();
  await dialog.getByRole("button", { name: "Publish", exact: true }).click();
  await expect.poll(() => readPrompt(server, agent)).toBe("Unseen.");
});

test("a record that a colleague published while it was edited is merged, not overwritten", async ({ page, server }) => {
  const skill = unique("skill");
  const first = { id: skill, name: skill, description: "old", body: "Old." };
  await server.ask("PUT", `/v1/config/skills/${skill}`, first);
  await enter(page, server, `/skills?edit=${skill}`);
  const drawer = page.getByRole("dialog", { name: `Edit ${skill}` });
  await drawer.getByRole("textbox", { name: "Description" }).fill("mine");
  await server.ask("PUT", `/v1/config/skills/${skill}`, { ...first, body: "Theirs." });
  await publishRecord(page, "My description");
  const merge = page.getByRole("dialog", { name: `Another person published ${skill} while you edited it` });
  await expect(merge.getByRole("group", { name: "body" })).toContainText("Theirs.");
  await expectAccessible(page);
  await merge.getByRole("button", { name: "Go on with this" }).click();
  await expect(drawer.getByText("This is a change of what is live now")).toBeVisible();
  await publishRecord(page, "My description, on theirs");
  await expect(drawer).toBeHidden();
  expect(await server.ask("GET", `/v1/config/skills/${skill}`)).toMatchObject({ description: "mine", body: "Theirs." });
});

test("a record is saved in the draft that was chosen, and what the draft has of it is kept", async ({ page, server }) => {
  const skill = unique("skill");
  const first = { id: skill, name: skill, description: "old", body: "Old." };
  await server.ask("PUT", `/v1/config/skills/${skill}`, first);
  const title = `Chosen ${skill}`;
  const { id: chosen } = await server.ask<{ id: string }>("POST", "/v1/config/drafts", { title });
  await server.ask("PUT", `/v1/config/drafts/${chosen}/skills/${skill}`, { spec: { ...first, body: "In the draft." } });
  const { id: later } = await server.ask<{ id: string }>("POST", "/v1/config/drafts", { title: `Later ${skill}` });
  await enter(page, server, `/skills?edit=${skill}`);
  await page.getByRole("dialog", { name: `Edit ${skill}` }).getByRole("textbox", { name: "Description" }).fill("mine");
  await page.getByRole("button", { name: "Save in draft" }).click();
  await chooseDraft(page, title);
  const chooser = page.getByRole("dialog", { name: `Save ${skill} in which draft?` });
  await expect(chooser).toContainText(`It has a change of ${skill} already`);
  await expectAccessible(page);
  await chooser.getByRole("button", { name: "Save in this draft" }).click();
  const merge = page.getByRole("dialog", { name: `The draft “${title}” has another change of this record` });
  await expect(merge.getByRole("group", { name: "body" })).toContainText("In the draft.");
  await merge.getByRole("button", { name: "Save in this draft" }).click();
  await expect(page).toHaveURL(new RegExp(`draft=${chosen}`));
  const { changes } = await server.ask<{ changes: { spec: unknown }[] }>("GET", `/v1/config/drafts/${chosen}`);
  expect(changes).toHaveLength(1);
  expect(changes[0]?.spec).toMatchObject({ description: "mine", body: "In the draft." });
  expect((await server.ask<{ changes: unknown[] }>("GET", `/v1/config/drafts/${later}`)).changes).toHaveLength(0);
});

test("a record that a colleague published while it was edited is merged before it is saved in a draft", async ({ page, server }) => {
  const skill = unique("skill");
  const first = { id: skill, name: skill, description: "old", body: "Old." };
  await server.ask("PUT", `/v1/config/skills/${skill}`, first);
  await enter(page, server, `/skills?edit=${skill}`);
  const drawer = page.getByRole("dialog", { name: `Edit ${skill}` });
  await drawer.getByRole("textbox", { name: "Description" }).fill("mine");
  await server.ask("PUT", `/v1/config/skills/${skill}`, { ...first, body: "Theirs." });
  // The draft is begun on what the colleague made live.
  const title = `Begun after ${skill}`;
  const { id } = await server.ask<{ id: string }>("POST", "/v1/config/drafts", { title });
  await page.getByRole("button", { name: "Save in draft" }).click();
  await chooseDraft(page, title);
  await page.getByRole("dialog", { name: /in which draft/ }).getByRole("button", { name: "Save in this draft" }).click();
  const merge = page.getByRole("dialog", { name: `Another person published ${skill} while you edited it` });
  await expect(merge.getByRole("group", { name: "body" })).toContainText("Theirs.");
  await merge.getByRole("button", { name: "Save in this draft" }).click();
  await expect(page).toHaveURL(new RegExp(`draft=${id}`));
  const { changes } = await server.ask<{ changes: { spec: unknown }[] }>("GET", `/v1/config/drafts/${id}`);
  expect(changes[0]?.spec).toMatchObject({ description: "mine", body: "Theirs." });
});

test("an agent that a colleague published before one began to type keeps that in the new draft", async ({ page }) => {
  const fresh = await Server.start();
  try {
    await putAgent(fresh, "kept", { system_prompt: "Old.", description: "Old" });
    await putAgent(fresh, "asked", { system_prompt: "Old." });
    const prompt = page.getByRole("textbox", { name: "System prompt" });
    const readDraft = async (id: string) => {
      const { items } = await fresh.ask<{ items: { id: string; changes: { id: string }[] }[] }>("GET", "/v1/config/drafts");
      const made = items.find((it) => it.changes.some((change) => change.id === id));
      return made === undefined ? undefined : (await fresh.ask<{ changes: { id: string; spec: unknown }[] }>("GET", `/v1/config/drafts/${made.id}`)).changes.find((it) => it.id === id)?.spec;
    };
    await open(page, fresh, "/agents/kept?tab=prompt");
    await expect(prompt).toHaveText("Old.");
    await putAgent(fresh, "kept", { system_prompt: "Old.", description: "Theirs" });
    await prompt.fill("Mine.");
    await expect.poll(() => readDraft("kept")).toMatchObject({ system_prompt: "Mine.", description: "Theirs" });
    for (const { id } of (await fresh.ask<{ items: { id: string }[] }>("GET", "/v1/config/drafts")).items) await fresh.ask("DELETE", `/v1/config/drafts/${id}`, undefined, ANY);

    // The same field: a person chooses.
    await visit(page, "/agents/asked?tab=prompt");
    await expect(prompt).toHaveText("Old.");
    await putAgent(fresh, "asked", { system_prompt: "Theirs." });
    await prompt.fill("Mine.");
    const merge = page.getByRole("dialog", { name: "Another person changed this agent" });
    await expect(merge.getByRole("group", { name: "system_prompt" })).toContainText("Theirs.");
    expect(await readDraft("asked")).toBeUndefined();
    await merge.getByRole("radiogroup").getByText("Mine", { exact: true }).click();
    await merge.getByRole("button", { name: "Save the merged version" }).click();
    await expect.poll(() => readDraft("asked")).toMatchObject({ system_prompt: "Mine." });
    await expect(page.getByText(/^Saved in draft/)).toBeVisible();
  } finally {
    await fresh.close();
  }
});

test("an earlier version of an agent is restored over what its history lists, and over nothing newer", async ({ page, server }) => {
  const agent = unique("restored");
  for (const prompt of ["First.", "Second."]) await putAgent(server, agent, { system_prompt: prompt });
  await enter(page, server, `/agents/${agent}?tab=history`);
  const restore = async (beside: () => Promise<unknown>) => {
    await page.getByRole("button", { name: "Restore…" }).last().click();
    const dialog = page.getByRole("dialog", { name: /^Restore the version of publication/ });
    await beside();
    await dialog.getByRole("button", { name: "Restore", exact: true }).click();
    await expect(dialog).toBeHidden();
  };
  await restore(() => putAgent(server, agent, { system_prompt: "Of a colleague." }));
  await expect(page.getByRole("alert").filter({ hasText: "revision" })).toBeVisible();
  expect(await readPrompt(server, agent)).toBe("Of a colleague.");
  await expect(page.getByRole("button", { name: "Restore…" })).toHaveCount(2);
  await restore(() => Promise.resolve());
  await expect.poll(() => readPrompt(server, agent)).toBe("First.");
});

test("a switch that a colleague set again for another reason is not released unread", async ({ page, server }) => {
  const agent = unique("stopped");
  await putAgent(server, agent, {});
  await server.ask("PUT", `/v1/config/switches/agent/${agent}`, { state: "paused", reason: "slow" });
  await enter(page, server, "/changes?tab=switches");
  const row = page.getByRole("row", { name: new RegExp(`agent/${agent}`) });
  await expect(row).toContainText("slow");
  await row.getByRole("button", { name: "Release" }).click();
  await server.ask("PUT", `/v1/config/switches/agent/${agent}`, { state: "paused", reason: "it deletes data" });
  await page.getByRole("dialog").getByRole("button", { name: "Release" }).click();
  await expect(row).toContainText("it deletes data");
  await expect(server.run(agent, "Hello")).rejects.toThrow(/agent_paused/);
  await server.ask("DELETE", `/v1/config/switches/agent/${agent}`);
});

test("a switch that a colleague set while the reason was typed is replaced only after theirs was read", async ({ page, server }) => {
  const agent = unique("reasons");
  await putAgent(server, agent, {});
  await enter(page, server, "/changes?tab=switches");
  await page.getByRole("button", { name: "Switch off…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel(/^Id/).fill(agent);
  await dialog.getByLabel(/^Reason/).fill("slow");
  // The page does not hear of it before it asks.
  const refused = page.waitForResponse((it) => it.request().method() === "PUT" && it.status() === 409);
  await page.route("**/v1/config/switches/agent/*", async (route) => {
    await server.ask("PUT", `/v1/config/switches/agent/${agent}`, { state: "paused", reason: "it deletes data" });
    await route.fallback();
  }, { times: 1 });
  await dialog.getByRole("button", { name: "Switch it off" }).click();
  await refused;
  await expect(dialog.getByRole("status").filter({ hasText: "it deletes data" })).toBeVisible();
  await expect(dialog.getByLabel(/^Reason/)).toHaveValue("slow");
  await dialog.getByRole("button", { name: "Switch it off" }).click();
  await expect(page.getByRole("row", { name: new RegExp(`agent/${agent}`) })).toContainText("slow");
  await server.ask("DELETE", `/v1/config/switches/agent/${agent}`);
});
