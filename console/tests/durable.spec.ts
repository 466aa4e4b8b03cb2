/** Schedules, triggers, memory, knowledge and workflows. */
import { createHmac } from "node:crypto";
import { join } from "node:path";

import type { Page, Route } from "@playwright/test";

import { enter, expect, expectAccessible, HOOK_SECRET, open, Server, test, visit } from "./fixtures";

const CYRILLIC = "\u0430";

type Journal = { waiting_events: string[]; steps: { path: string; status: string }[] };

async function expectNarrow(page: Page): Promise<void> {
  await page.setViewportSize({ width: 320, height: 640 });
  await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(320);
  await page.setViewportSize({ width: 1360, height: 850 });
}

test("a schedule is made in a form that shows its times, fired, paused, edited and deleted", async ({ page, apps }) => {
  await open(page, apps, "/schedules");
  await page.getByRole("button", { name: "New schedule" }).first().click();
  const form = page.getByRole("dialog", { name: "New schedule" });
  await form.getByLabel("ID", { exact: true }).fill("daily");
  await form.getByLabel(/^Agent ID/).fill("reporter");
  await form.getByLabel(/^Text/).fill("Write the report.");
  await form.getByLabel(/^Expression/).fill("0 8 * *");
  await expect(form.getByRole("region", { name: "Upcoming times of what is typed" })).toContainText("five fields");
  await form.getByLabel(/^Expression/).fill("0 8 * * *");
  await expect(form.getByRole("listitem").filter({ hasText: "8:00:00" })).toHaveCount(6);
  await expectAccessible(page, "[role=dialog]");
  await form.getByRole("button", { name: "Create" }).click();
  const drawer = page.getByRole("dialog", { name: /daily/ });
  await expect(drawer.getByText("Nothing was due yet.")).toBeVisible();
  await drawer.getByRole("button", { name: "Fire now" }).click();
  await expect(drawer.getByRole("region", { name: "History" })).toContainText("by hand");
  await expect(drawer.getByRole("region", { name: "History" }).getByRole("link")).toHaveAttribute("href", /\/runs\//);
  await expectAccessible(page, "[role=dialog]");
  await drawer.getByRole("button", { name: "Edit" }).click();
  await page.getByRole("dialog", { name: "Edit daily" }).getByLabel(/^Description/).fill("Report <b>of</b> the day");
  await page.getByRole("dialog", { name: "Edit daily" }).getByRole("button", { name: "Save" }).click();
  await expect(drawer.getByText("Report <b>of</b> the day").first()).toBeVisible();
  await page.keyboard.press("Escape");
  const row = page.getByRole("row").filter({ hasText: "daily" });
  await expect(row).toContainText("fired");
  await row.getByRole("button", { name: "Pause" }).click();
  await expect(row).toContainText("paused");
  await expect(row.getByRole("button", { name: "Resume" })).toBeVisible();
  await expectAccessible(page);
  await expectNarrow(page);
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await drawer.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog", { name: "Delete daily?" }).getByRole("button", { name: "Delete" }).click();
  await expect(page.getByRole("heading", { name: "No schedules" })).toBeVisible();
});

test("what someone else saved meanwhile is merged with what was typed, and nothing is lost", async ({ page, apps }) => {
  const id = "merged";
  const spec = (description: string, max: number | null) => ({ description, max_count: max, target: { agent_id: "reporter", input: "Report." }, timing: { type: "cron", expression: "0 8 * * *", zone: "UTC" } });
  await apps.ask("POST", "/v1/schedules", { ...spec("Before", null), id });
  await enter(page, apps, `/schedules?edit=${id}`);
  const form = page.getByRole("dialog", { name: `Edit ${id}` });
  await form.getByLabel(/^Description/).fill("Mine");
  await apps.ask("PUT", `/v1/schedules/${id}`, spec("Theirs", 7), { "If-Match": "*" });
  // The server says so by a conflict.
  const isIt = (url: URL) => url.pathname === `/v1/schedules/${id}`;
  const refuse = (route: Route) => (route.request().method() === "PUT" ? route.fulfill({ status: 409, contentType: "application/json", body: '{"error": "It was changed meanwhile.", "code": "revision_conflict"}' }) : route.fallback());
  await page.route(isIt, refuse);
  await form.getByRole("button", { name: "Save" }).click();
  const dialog = page.getByRole("dialog", { name: `Another person changed ${id}` });
  await expect(dialog.getByRole("group", { name: "max_count" })).toContainText("changed by them");
  for (const text of ["Before", "Theirs", "Mine"]) await expect(dialog.getByRole("group", { name: "description" }).getByText(text, { exact: true }).last()).toBeVisible();
  await expectAccessible(page, ".mantine-Modal-content");
  await dialog.getByRole("radiogroup").getByText("Mine", { exact: true }).click();
  await page.unroute(isIt, refuse);
  await dialog.getByRole("button", { name: "Save the merged version" }).click();
  await expect(page.getByRole("dialog", { name: new RegExp(id) }).getByText("Mine").first()).toBeVisible();
  expect(await apps.ask("GET", `/v1/schedules/${id}`)).toMatchObject({ description: "Mine", max_count: 7 });
  await apps.ask("DELETE", `/v1/schedules/${id}`);
});

test("a trigger shows its address and what was delivered, and never a secret", async ({ page, apps }) => {
  await enter(page, apps, "/schedules?view=triggers&edit=%2B");
  const form = page.getByRole("dialog", { name: "New trigger" });
  await form.getByLabel("ID", { exact: true }).fill("issues");
  await form.getByLabel(/^Agent ID/).fill("reporter");
  await form.getByLabel(/^Text/).fill("Look at {/issue/title}");
  await form.getByLabel(/^Secrets/).fill("env:GITHUB_HOOK");
  await page.keyboard.press("Enter");
  await form.getByRole("button", { name: "Create" }).click();
  const drawer = page.getByRole("dialog", { name: /issues/ });
  await expect(drawer.getByText(`${apps.url}/v1/triggers/issues`)).toBeVisible();
  const body = JSON.stringify({ action: "opened", issue: { title: "It is broken" } });
  const signature = `sha256=${createHmac("sha256", HOOK_SECRET).update(body).digest("hex")}`;
  const hook = { "Content-Type": "application/json", "X-GitHub-Delivery": "d-1", "X-GitHub-Event": "<i>issues</i>", "X-Hub-Signature-256": signature };
  expect((await fetch(`${apps.url}/v1/triggers/issues`, { method: "POST", headers: hook, body })).status).toBe(202);
  await expect(drawer.getByRole("region", { name: "Deliveries" })).toContainText("<i>issues</i>");
  await expectAccessible(page, "[role=dialog]");
  await page.keyboard.press("Escape");
  await expect(page.getByRole("row").filter({ hasText: "issues" })).toContainText("GitHub");
  expect(await page.content()).not.toContain(HOOK_SECRET);
  await expectAccessible(page);
  await expectNarrow(page);
});

test("facts are added, found, edited and forgotten, with the transcripts that still hold them", async ({ page, apps }) => {
  const told = "Ann drinks green tea at four";
  const { run_id: runId } = await apps.run("reporter", `Remember this: ${told}`);
  await apps.ask("POST", "/v1/eval/datasets", { id: "told", spec: { fixtures: [] } });
  const { meta } = await apps.ask<{ meta: { revision: number } }>("POST", "/v1/eval/datasets/told/items", { from_run_id: runId, fixture_id: "tea", recording: false });
  await apps.ask("POST", "/v1/memory/facts", { text: `<img src=x onerror="window.hacked=1"> p${CYRILLIC}ypal` });
  await open(page, apps, "/memory");
  await page.getByRole("button", { name: "Add a fact" }).first().click();
  await page.getByRole("dialog").getByLabel(/^Text/).fill(told);
  await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
  await page.getByLabel("Search the facts").fill("green tea");
  const rows = page.getByRole("region", { name: "Facts" }).getByRole("row");
  await expect(rows.filter({ hasText: told })).toBeVisible();
  await expect(rows).toHaveCount(2);
  await page.getByLabel("Search the facts").fill("");
  await expect(rows.filter({ hasText: "onerror" }).locator("mark")).toHaveText(CYRILLIC);
  expect(await page.evaluate(() => "hacked" in window)).toBe(false);
  await expectAccessible(page);
  await expectNarrow(page);
  await rows.filter({ hasText: told }).click();
  const drawer = page.getByRole("dialog").first();
  await expect(drawer.getByText("a person", { exact: true })).toBeVisible();
  await expectAccessible(page, "[role=dialog]");
  await drawer.getByRole("button", { name: "Edit" }).click();
  await drawer.getByLabel(/^Forget by itself/).fill("30");
  await drawer.getByRole("button", { name: "Save" }).click();
  await drawer.getByRole("button", { name: "Forget" }).click();
  await page.getByRole("dialog", { name: "Forget this fact?" }).getByRole("button", { name: "Forget" }).click();
  const held = page.getByRole("dialog", { name: "One fact was forgotten" });
  await expect(held.getByRole("status")).toContainText("1 transcript still holds");
  await expect(held.getByRole("link")).toHaveAttribute("href", /\/threads\//);
  await expect(held.getByText("1 case or recording of evals was made from it.")).toBeVisible();
  await apps.ask("DELETE", `/v1/eval/datasets/told?expected_revision=${meta.revision}`);
  await expectAccessible(page, "[role=dialog]");
  await page.keyboard.press("Escape");
  await expect(rows).toHaveCount(2);
});

test("a typo is corrected without a change of the day on which a fact expires, and Escape and a click beside it ask before the text is lost", async ({ page, apps }) => {
  type Stored = { id: string; text: string; expires_at: number };
  const made = await apps.ask<Stored>("POST", "/v1/memory/facts", { text: "Bob likes cofee", ttl_ms: 36 * 3_600_000 + 1_234 });
  await enter(page, apps, `/memory?open=${made.id}`);
  const drawer = page.getByRole("dialog").first();
  await drawer.getByRole("button", { name: "Edit" }).click();
  await expect(drawer.getByText(/^Empty: it expires as before, on /)).toBeVisible();
  const text = drawer.getByLabel(/^Text/);
  await text.fill("Bob likes coffee");
  const question = page.getByRole("dialog", { name: "Leave without saving?" });
  await page.keyboard.press("Escape");
  await expect(question).toBeVisible();
  // Escape answers the question, and leaves what is behind it as it is.
  await page.keyboard.press("Escape");
  await expect(question).toHaveCount(0);
  await expect(text).toHaveValue("Bob likes coffee");
  // What darkened the page behind the question fades for a moment, and takes a click that comes so early.
  await expect(async () => {
    await page.mouse.click(300, 400);
    await expect(question).toBeVisible({ timeout: 1000 });
  }).toPass();
  await expectAccessible(page, "[role=dialog]");
  await question.getByRole("button", { name: "Cancel" }).click();
  await expect(text).toHaveValue("Bob likes coffee");
  await drawer.getByRole("button", { name: "Save" }).click();
  await expect.poll(async () => (await apps.ask<Stored>("GET", `/v1/memory/facts/${made.id}`)).text).toBe("Bob likes coffee");
  expect((await apps.ask<Stored>("GET", `/v1/memory/facts/${made.id}`)).expires_at).toBe(made.expires_at);
  await drawer.getByRole("button", { name: "Edit" }).click();
  await drawer.getByLabel("It no longer expires").check();
  await drawer.getByRole("button", { name: "Save" }).click();
  await expect.poll(async () => (await apps.ask<Stored>("GET", `/v1/memory/facts/${made.id}`)).expires_at).toBeNull();
  // What was saved is not asked about; what is typed again is, and may be left.
  await drawer.getByRole("button", { name: "Edit" }).click();
  await text.fill("Nothing of this");
  await page.keyboard.press("Escape");
  await question.getByRole("button", { name: "Leave" }).click();
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await apps.ask("DELETE", `/v1/memory/facts/${made.id}`);
});

test("a fact that another person changed while it was edited is replaced only after that was read", async ({ page, apps }) => {
  const { id } = await apps.ask<{ id: string }>("POST", "/v1/memory/facts", { text: "The door code is old" });
  await enter(page, apps, `/memory?open=${encodeURIComponent(id)}`);
  const drawer = page.getByRole("dialog");
  await drawer.getByRole("button", { name: "Edit" }).click();
  await drawer.getByLabel(/^Text/).fill("The door code is mine");
  await apps.ask("PUT", `/v1/memory/facts/${encodeURIComponent(id)}`, { text: "The door code is theirs" });
  await drawer.getByRole("button", { name: "Save" }).click();
  await expect(drawer.getByRole("alert")).toContainText("The door code is theirs");
  await expect(drawer.getByLabel(/^Text/)).toHaveValue("The door code is mine");
  await drawer.getByRole("button", { name: "Save" }).click();
  await expect(drawer.getByText("The door code is mine").first()).toBeVisible();
  await apps.ask("DELETE", `/v1/memory/facts/${encodeURIComponent(id)}`);
});

test("documents are added, searched by passage and deleted", async ({ page, apps }) => {
  await enter(page, apps, "/memory?view=documents");
  await page.getByRole("button", { name: "Add a document" }).first().click();
  const form = page.getByRole("dialog", { name: "Add a document" });
  await form.getByLabel(/^Collection/).fill("handbook");
  const text = "# Leave\n\nParents take <script>window.hacked=1</script> twelve weeks of leave.\n\n# Travel\n\nTrains are booked early.\n";
  await form.locator('input[type="file"]').setInputFiles({ name: "handbook.md", mimeType: "text/markdown", buffer: Buffer.from(text) });
  await expect(form.getByLabel(/^Title/)).toHaveValue("handbook.md");
  await expectAccessible(page, "[role=dialog]");
  await form.getByRole("button", { name: "Add a document" }).click();
  const rows = page.getByRole("region", { name: "Documents" }).getByRole("row");
  await expect(rows.filter({ hasText: "handbook.md" })).toContainText("Markdown");
  await expectAccessible(page);
  await expectNarrow(page);
  await page.getByLabel("Search the passages").fill("parents leave");
  await expect(page.getByRole("listitem").filter({ hasText: "twelve weeks" })).toContainText("<script>");
  expect(await page.evaluate(() => "hacked" in window)).toBe(false);
  await expectAccessible(page, "main");
  await page.getByLabel("Search the passages").fill("");
  await rows.filter({ hasText: "handbook.md" }).getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog", { name: /^Delete handbook.md/ }).getByRole("button", { name: "Delete" }).click();
  await expect(page.getByRole("heading", { name: "No documents" })).toBeVisible();
});

test("the picture of a workflow has its branches as lanes, and an event is sent to it by a form", async ({ page, apps }) => {
  const { run_id: runId } = await apps.run("refund", "A-1");
  await open(page, apps, "/workflows");
  const row = page.getByRole("row").filter({ hasText: "refund" }).first();
  await expect(row).toContainText("waiting");
  await expectAccessible(page);
  await expectNarrow(page);
  await visit(page, `/runs/${runId}`);
  const picture = page.getByRole("region", { name: "Journal of the workflow" });
  await expect(picture.getByRole("group", { name: /^Branch/ })).toHaveCount(3);
  // The facts of the run count the steps that the journal has.
  const { steps } = await apps.ask<{ steps: unknown[] }>("GET", `/v1/runs/${runId}/workflow`);
  await expect(page.locator("dt", { hasText: /^Steps$/ }).first().locator("xpath=following-sibling::dd[1]")).toHaveText(String(steps.length));
  await expect(picture.getByRole("group", { name: "Branch 2" }).getByRole("button", { name: /3\.1\.2: sleep/ })).toContainText("in 3 d");
  await expect(page.getByText("One decision is open")).toBeVisible();
  // Other tests of this server may wait for a person as well.
  await expect(page.getByRole("navigation").getByRole("link", { name: /^Approvals/ })).toContainText(/[1-9]/);
  await expectAccessible(page);
  await expectNarrow(page);
  await picture.getByRole("button", { name: /^Step 2: call pay_back/ }).focus();
  await page.keyboard.press("Enter");
  const step = page.getByRole("region", { name: "Step 2" });
  await expect(step.getByRole("region", { name: "Result" })).toContainText("<img src=x onerror='window.hacked = 1'>\\u202efdp.exe\\u200b");
  await expectAccessible(page);
  await step.getByRole("button", { name: "Reset to here…" }).click();
  await expect(page.getByRole("dialog", { name: "Reset to step 2?" })).toContainText("2 pay_back (once)");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Send “payment”" }).click();
  const form = page.getByRole("dialog", { name: "Send “payment”" });
  await form.getByLabel(/^Order/).fill("A-1");
  await form.getByRole("button", { name: "Send", exact: true }).click();
  await expect(form.getByRole("alert")).toContainText("amount");
  await form.getByLabel(/^Amount/).fill("5");
  await expectAccessible(page, "[role=dialog]");
  await form.getByRole("button", { name: "Send", exact: true }).click();
  await expect(page.getByText("The workflow returned.")).toBeVisible();
  await expect(picture.getByRole("group", { name: "Branch 1" })).toContainText("won");
  expect(await page.evaluate(() => "hacked" in window)).toBe(false);
});

test("of very many steps those in view are drawn", async ({ page, apps }) => {
  const { run_id: runId } = await apps.run("many", "A-2");
  await expect.poll(async () => (await apps.ask<Journal>("GET", `/v1/runs/${runId}/workflow`)).waiting_events).toEqual(["stop"]);
  await open(page, apps, `/runs/${runId}`);
  const picture = page.getByRole("region", { name: "Journal of the workflow" });
  await expect(picture.getByRole("button", { name: /^Step 1:/ })).toBeVisible();
  expect(await picture.getByRole("button").count()).toBeLessThan(60);
  await picture.evaluate((it) => it.scrollTo(0, it.scrollHeight));
  await expect(picture.getByRole("button", { name: /^Step 601: wait for stop/ })).toBeVisible();
});

test("a workflow whose code has changed executes nothing until a person chooses a way out", async ({ page }) => {
  const app = join(import.meta.dirname, "apps/durable.py");
  const flag = { AWAKEN_TEST_CHANGED: "" };
  const server = await Server.start([app], flag);
  try {
    const { run_id: runId } = await server.run("steady", "A-3");
    await server.kill();
    flag.AWAKEN_TEST_CHANGED = "yes";
    await server.start();
    await server.ask("POST", `/v1/runs/${runId}/events/goods`, { payload: null });
    await open(page, server, `/runs/${runId}`);
    const alert = page.getByRole("alert").filter({ hasText: "The code does not match the journal" });
    await expect(alert).toContainText("pay_back");
    await expectAccessible(page);
    await alert.getByRole("button", { name: "Reset to step 1…" }).click();
    const dialog = page.getByRole("dialog", { name: "Reset to step 1?" });
    await expect(dialog).toContainText("may happen a second time");
    await dialog.getByRole("button", { name: "Confirm" }).click();
    await expect(alert).toHaveCount(0);
    await expect(page.getByRole("region", { name: "Journal of the workflow" }).getByRole("button", { name: /^Step 1: sleep/ })).toBeVisible();
  } finally {
    await server.close();
  }
});
