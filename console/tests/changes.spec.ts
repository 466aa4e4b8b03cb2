import { enter, expect, expectAccessible, open, Server, test, visit } from "./fixtures";
import { beginDraft, livePublication, putAgent, unique } from "./govern";

// The head of a server is one: what these tests do to it comes one after the other.
test.describe.configure({ mode: "default" });

test("a draft is compared, checked, judged, published with a message, and taken back", async ({ page, server }) => {
  const agent = unique("support");
  await putAgent(server, agent, { system_prompt: "Answer.\nBe kind.\nNever guess." });
  const before = await livePublication(server);
  await server.run("permission", "RUN_DELETE_TOOL");
  const draft = await beginDraft(server, "Shorter answers", { [agent]: { system_prompt: "Answer briefly.\nBe kind.\nNever guess.", max_rounds: 4 } });
  const rules = { permission: { default_behavior: "allow", rules: [] } };
  await server.ask("PUT", `/v1/config/drafts/${draft}/agents/permission`, { overrides: { sections: rules } });

  await open(page, server, "/changes");
  await page.getByRole("link", { name: "Shorter answers" }).click();
  await expect(page).toHaveURL(new RegExp(`draft=${draft}`));
  const record = page.getByRole("region", { name: `agents/${agent}` });
  await expect(record.getByText("− Answer.")).toBeHidden();
  await expect(record.locator('[data-kind="removed"]')).toContainText("Answer.");
  await expect(record.locator('[data-kind="added"]')).toContainText("Answer briefly.");
  await expect(page.getByText("It compiles with the code of this server.")).toBeVisible();
  const impact = page.getByRole("region", { name: "Impact" });
  await expect(impact.getByRole("alert")).toContainText("newly allowed");
  await expect(impact.getByText("delete_file").first()).toBeVisible();
  await expectAccessible(page);

  await server.ask("DELETE", `/v1/config/drafts/${draft}/agents/permission`);
  await page.reload();
  await page.getByRole("button", { name: "Publish…" }).click();
  await page.getByRole("textbox", { name: "Message" }).fill("Shorter answers for phones");
  await page.getByRole("button", { name: "Publish", exact: true }).click();
  await expect(page).toHaveURL(/tab=publications/);
  await expect(page.getByRole("dialog")).toContainText("Shorter answers for phones");
  const now = await livePublication(server);
  expect(now).toBeGreaterThan(before);

  // Back to what was live before, with a look at what that changes.
  await visit(page, `/changes?tab=publications&publication=${before}`);
  await page.getByRole("button", { name: "Go back to it…" }).click();
  const dialog = page.getByRole("dialog", { name: `Go back to publication ${before}` });
  await expect(dialog.locator('[data-kind="removed"]')).toContainText("Answer briefly.");
  await dialog.getByRole("textbox", { name: "Message" }).fill("Too short");
  await dialog.getByRole("button", { name: "Go back", exact: true }).click();
  await expect.poll(async () => (await server.ask<{ system_prompt: string }>("GET", `/v1/config/agents/${agent}`)).system_prompt).toContain("Answer.\n");
});

test("what both sides changed is chosen field by field, and never merged silently", async ({ page, server }) => {
  const agent = unique("sales");
  await putAgent(server, agent, { system_prompt: "Sell.\nBe kind.", description: "old", max_rounds: 5 });
  const draft = await beginDraft(server, "Sell more", { [agent]: { system_prompt: "Sell more.\nBe kind.", description: "mine", max_rounds: 5 } });
  await putAgent(server, agent, { system_prompt: "Sell less.\nBe kind.", description: "theirs", max_rounds: 6 });

  await enter(page, server, `/changes?draft=${draft}`);
  await expect(page.getByText("both sides changed it").first()).toBeVisible();
  await page.getByRole("button", { name: "Bring up to date" }).click();
  const dialog = page.getByRole("dialog", { name: "Both sides changed these fields" });
  await expect(dialog.getByRole("button", { name: "Use these choices" })).toBeDisabled();
  await expect(dialog.getByText("Sell less.")).toBeVisible();
  await expectAccessible(page);
  await dialog.getByRole("region", { name: `agents/${agent}/description` }).getByText("Take what is live").click();
  await dialog.getByRole("region", { name: `agents/${agent}/system_prompt` }).getByText("Keep the draft's").click();
  await dialog.getByRole("button", { name: "Use these choices" }).click();
  await expect(dialog).toBeHidden();
  await expect(page.getByRole("button", { name: "Bring up to date" })).toBeHidden();
  const { changes } = await server.ask<{ changes: { spec: Record<string, unknown> }[] }>("GET", `/v1/config/drafts/${draft}`);
  expect(changes[0]?.spec).toMatchObject({ system_prompt: "Sell more.\nBe kind.", description: "theirs", max_rounds: 6 });

  await page.getByRole("button", { name: "Discard" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Discard" }).click();
  await expect(page.locator("h1")).toHaveText("Changes");
});

test("a canary is begun from a draft, compared, and promoted", async ({ page, server }) => {
  const agent = unique("canary");
  await putAgent(server, agent, { system_prompt: "Old." });
  const draft = await beginDraft(server, "Try it", { [agent]: { system_prompt: "New." } });
  await enter(page, server, `/changes?draft=${draft}`);
  await page.getByRole("button", { name: "Publish…" }).click();
  await page.getByRole("checkbox", { name: "Try it on a share of new runs first" }).check();
  await page.getByLabel("Share of new runs, percent").fill("100");
  await page.getByRole("button", { name: "Begin the canary" }).click();
  await expect(page).toHaveURL(/tab=publications/);
  await server.run(agent, "Hello");

  await visit(page, "/changes?tab=canary");
  await expect(page.getByText("takes 100 % of new runs")).toBeVisible();
  await expect(page.getByRole("row", { name: /^Canary \d+ 1 / })).toBeVisible();
  await expectAccessible(page);
  await page.getByRole("button", { name: "Promote" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Promote" }).click();
  await expect(page.getByText("No canary runs")).toBeVisible();
  expect((await server.ask<{ system_prompt: string }>("GET", `/v1/config/agents/${agent}`)).system_prompt).toBe("New.");
});

test("a canary beside the code alone shows the figures of both sides", async ({ page }) => {
  // A server of its own: nothing was published there.
  const fresh = await Server.start();
  try {
    const draft = await beginDraft(fresh, "First", { newcomer: { system_prompt: "New." } });
    await fresh.ask("POST", `/v1/config/drafts/${draft}/publish`, { canary: { percent: 50 } }, { "If-Match": "*" });
    const sides = new Set<number | null>();
    for (let tries = 0; tries < 40 && sides.size < 2; tries += 1) {
      const { run_id } = await fresh.run("default", "Hello");
      sides.add((await fresh.ask<{ publication?: number }>("GET", `/v1/runs/${run_id}`)).publication ?? null);
    }
    await open(page, fresh, "/changes?tab=canary");
    await expect(page.getByRole("row", { name: /^Live code only [1-9]/ })).toBeVisible();
    await expect(page.getByRole("row", { name: /^Canary \d+ [1-9]/ })).toBeVisible();
  } finally {
    await fresh.close();
  }
});

test("an agent is switched off and on by keyboard alone; meanwhile its runs are refused", async ({ page, server }) => {
  const agent = unique("panic");
  await putAgent(server, agent, {});
  await enter(page, server, "/changes?tab=switches");
  await page.getByRole("button", { name: "Switch off…" }).focus();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("dialog").getByLabel("Id")).toBeFocused();
  // A misspelt id stops nothing: it is taken only if it is meant.
  await page.keyboard.type(`${agent}x`);
  await expect(page.getByText("This server has no agent of this name")).toBeVisible();
  await page.keyboard.press("Tab");
  await expect(page.getByLabel("I mean this name")).toBeFocused();
  await page.keyboard.press("Tab");
  await page.keyboard.type("It answers nonsense");
  await expect(page.getByRole("button", { name: "Switch it off" })).toBeDisabled();
  await expectAccessible(page);
  await page.getByRole("dialog").getByLabel("Id").fill(agent);
  await page.getByRole("button", { name: "Switch it off" }).focus();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("row", { name: new RegExp(`agent/${agent}`) })).toContainText("It answers nonsense");
  await expect(server.run(agent, "Hello")).rejects.toThrow(/agent_paused/);

  await page.getByRole("row", { name: new RegExp(`agent/${agent}`) }).getByRole("button", { name: "Release" }).focus();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("dialog").getByRole("button", { name: "Release" })).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("row", { name: new RegExp(`agent/${agent}`) })).toBeHidden();
  expect((await server.run(agent, "Hello")).status).toBe("done");
});

test("two publications are compared, and a preview leads to Chat", async ({ page, server }) => {
  const agent = unique("compared");
  await putAgent(server, agent, { max_rounds: 3 });
  const first = await livePublication(server);
  await putAgent(server, agent, { max_rounds: 7 });
  const second = await livePublication(server);
  await enter(page, server, "/changes?tab=publications");
  for (const no of [first, second]) await page.getByRole("checkbox", { name: new RegExp(`row ${no}$`) }).check();
  await page.getByRole("button", { name: "Compare" }).click();
  await expect(page).toHaveURL(new RegExp(`from=${first}&to=${second}`));
  await expect(page.getByRole("region", { name: `agents/${agent}` })).toContainText("max_rounds");
  await expectAccessible(page);

  const draft = await beginDraft(server, "Preview", { [agent]: { max_rounds: 9 } });
  await visit(page, `/changes?draft=${draft}`);
  await page.getByRole("button", { name: "Try it in Chat" }).click();
  await expect(page).toHaveURL(new RegExp(`/chat\\?publication=\\d+&agent=${agent}`));
  const publication = Number(/publication=(\d+)/.exec(page.url())?.[1]);
  await page.getByRole("textbox", { name: /message/i }).first().fill("Hello draft");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/\/chat\/[^?]/);
  const thread = /\/chat\/([^?]+)/.exec(page.url())?.[1] ?? "";
  await expect.poll(async () => (await server.ask<{ items: { publication?: number; agent_id: string }[] }>("GET", `/v1/runs?thread_id=${thread}&kind=any`)).items[0]).toMatchObject({ publication, agent_id: agent });
});

test("a draft that is gone says so", async ({ page, server }) => {
  await enter(page, server, "/changes?draft=none");
  await expect(page.locator("h1")).toHaveText("This draft is gone");
});
