import { enter, expect, expectAccessible, open, test, visit } from "./fixtures";

const TABS = ["Waterfall", "Transcript", "Events", "Requests", "State", "Cost", "Lineage"] as const;

test("every tab of a run is accessible", async ({ page, server }) => {
  test.slow();
  const { run_id } = await server.run("openui", "RUN_UI_TOOL");
  await open(page, server, `/runs/${run_id}`);
  await expect(page.getByRole("status").filter({ hasText: "The model answered" })).toBeVisible();
  for (const tab of TABS) {
    await page.getByRole("tab", { name: tab }).click();
    await expect(page.getByRole("tab", { name: tab })).toHaveAttribute("aria-selected", "true");
    await expect(page.locator('[aria-busy="true"]')).toHaveCount(0);
    await expectAccessible(page, tab === "Waterfall" ? null : "[role=tabpanel]:not(:empty)");
  }
});

test("no tab of a run is wider than a small screen", async ({ page, server }) => {
  const { run_id } = await server.run("permission", "RUN_DELETE_TOOL");
  await page.setViewportSize({ width: 320, height: 640 });
  await enter(page, server, `/runs/${run_id}`);
  for (const tab of TABS) {
    await visit(page, `/runs/${run_id}?tab=${tab.toLowerCase()}`);
    await expect(page.getByRole("tab", { name: tab })).toHaveAttribute("aria-selected", "true");
    await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth), tab).toBeLessThanOrEqual(320);
  }
});

test("a span opens its arguments and its result, and its child run is nested", async ({ page, server }) => {
  const { run_id } = await server.run("openui", "RUN_UI_TOOL");
  await enter(page, server, `/runs/${run_id}`);
  const chart = page.getByRole("region", { name: "Waterfall of the run" });
  await expect(chart.getByRole("button", { name: /^Step 1/ })).toHaveCount(2);
  await chart.getByRole("button", { name: /^render_openui/ }).click();
  const panel = page.getByRole("region", { name: "render_openui" });
  await expect(panel).toContainText("a title and a summary");
  await expect(panel).toContainText('"rendered": true');
  await expect(page).toHaveURL(/span=tool-/);
  await page.reload();
  await expect(panel).toContainText("a title and a summary");
  await page.getByText("Table", { exact: true }).click();
  await expect(page.getByRole("row").filter({ hasText: "render_openui" })).toContainText("succeeded");
  await expectAccessible(page);
});

test("the waterfall is walked by keyboard alone", async ({ page, server }) => {
  const { run_id } = await server.run("default", "RUN_WEATHER_TOOL");
  await enter(page, server, `/runs/${run_id}`);
  await expect(page.getByRole("button", { name: /^get_weather/ })).toBeVisible();
  for (const key of ["j", "j", "j", "Enter"]) await page.keyboard.press(key);
  const panel = page.getByRole("region", { name: "get_weather" });
  await expect(panel).toContainText('"location": "Tokyo"');
  await page.keyboard.press("Escape");
  await expect(panel).toHaveCount(0);
  await page.keyboard.press("]");
  await expect(page).toHaveURL(/step=.*2/);
  await page.keyboard.press("[");
  await expect(page).toHaveURL(/step=.*1/);
});

test("problems only keeps the failed call and its step", async ({ page, server }) => {
  const { run_id } = await server.run("default", "RUN_FAILING_TOOL");
  await enter(page, server, `/runs/${run_id}`);
  await page.getByRole("switch", { name: "Problems only" }).focus();
  await page.keyboard.press("Space");
  const chart = page.getByRole("region", { name: "Waterfall of the run" });
  await expect(chart.getByRole("listitem")).toHaveCount(2);
  await expect(chart.getByRole("button", { name: /^failingTool problem/ })).toBeVisible();
});

test("a decision is made on the page of the run, and the run goes on", async ({ page, server }) => {
  const { run_id } = await server.run("permission", "RUN_DELETE_TOOL");
  await enter(page, server, `/runs/${run_id}`);
  await expect(page.getByRole("status").filter({ hasText: "waits until a person decides" })).toBeVisible();
  await expectAccessible(page);
  await page.getByRole("button", { name: "Approve" }).click();
  await expect(page.getByRole("status").filter({ hasText: "The model answered" })).toBeVisible();
  await expect(page.getByRole("button", { name: "Approve" })).toHaveCount(0);
  await expect(page.getByRole("button", { name: /^Step 2/ })).toBeVisible();
});

test("events are filtered, opened and linked", async ({ page, server }) => {
  const { run_id } = await server.run("default", "RUN_WEATHER_TOOL");
  await enter(page, server, `/runs/${run_id}?tab=events`);
  const list = page.getByRole("region", { name: "Events of the run" });
  await expect(list.getByRole("button")).toHaveCount(12);
  await page.getByRole("textbox", { name: "Text in the events" }).fill("tokyo");
  await expect(list.getByRole("button", { name: /tool_call_done/ })).toBeVisible();
  await expect(list.getByRole("button", { name: /step_end/ })).toHaveCount(0);
  await list.getByRole("button", { name: /tool_call_done/ }).click();
  await expect(page.getByRole("region", { name: "Event 6" })).toContainText('"temperature": 21');
  await expect(page).toHaveURL(/seq=/);
});

test("a live run is followed, and cancelled from its page", async ({ page, server }) => {
  const started = fetch(`${server.url}/v1/runs`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ agent_id: "default", messages: [{ role: "user", content: "RUN_SLOW_TOOL" }] }) });
  const run_id = (await started).headers.get("x-run-id") ?? "";
  await enter(page, server, `/runs/${run_id}?tab=events`);
  await expect(page.getByText("Live", { exact: true })).toBeVisible();
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel", exact: true }).last().click();
  await expect(page.getByRole("status").filter({ hasText: "cancelled" }).first()).toBeVisible();
  await expect(page.getByRole("button", { name: /run_finish/ })).toBeVisible();
});

test("the request of a step marks its prefix and is compared with the step before", async ({ page, server }) => {
  const { run_id } = await server.run("default", "RUN_WEATHER_TOOL");
  await enter(page, server, `/runs/${run_id}?tab=requests&step=2`);
  await expect(page.getByText("Exactly what was sent")).toBeVisible();
  await expect(page.getByText("cached prefix")).toBeVisible();
  await page.getByRole("switch", { name: "Difference to the step before" }).check({ force: true });
  await expect(page.getByRole("region", { name: "Difference to the step before" })).toContainText("+ → get_weather");
  await expectAccessible(page);
});

test("a run is forked at its start into a thread without its messages", async ({ page, server }) => {
  const first = await server.run("travel", "Hello");
  const second = await server.run("travel", "And now?", first.thread_id);
  await enter(page, server, `/runs/${second.run_id}`);
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Fork at its start" }).click();
  await expect(page).toHaveURL(/\/chat\/.+/);
  const branch = new URL(page.url()).pathname.split("/").at(-1) ?? "";
  expect(branch).not.toBe(first.thread_id);
  const { items } = await server.ask<{ items: unknown[] }>("GET", `/v1/threads/${branch}/messages`);
  expect(items).toHaveLength(2);
});

test("a run that does not exist says so, and what cannot be done says why", async ({ page, server }) => {
  await enter(page, server, "/runs/no-such-run");
  await expect(page.getByRole("heading", { name: "There is no such run" })).toBeVisible();
  await expectAccessible(page);
  const { run_id } = await server.run("travel", "Hello");
  await visit(page, `/runs/${run_id}`);
  await page.getByRole("button", { name: "Cancel", exact: true }).hover();
  await expect(page.getByRole("tooltip")).toHaveText("The run has ended.");
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Keep from the purge" }).click();
  await expect(page.getByText("are kept.")).toBeVisible();
});

test("what a hostile agent wrote is shown as text", async ({ page, server }) => {
  const evil = "<img src=x onerror=alert(1)><script>window.hacked=1</script> [x](javascript:alert(1)) \u202Egnp.exe \u001b[31m";
  const { run_id } = await server.run("creative", evil);
  await enter(page, server, `/runs/${run_id}`);
  for (const tab of ["transcript", "events", "requests"]) {
    await visit(page, `/runs/${run_id}?tab=${tab}`);
    await expect(page.getByRole("tab", { name: new RegExp(tab, "i"), selected: true })).toBeVisible();
    await expect(page.getByText("window.hacked=1").first()).toBeVisible();
    expect(await page.evaluate(() => (window as unknown as { hacked?: number }).hacked)).toBeUndefined();
    await expect(page.locator("main img")).toHaveCount(0);
  }
});

test("the state at each step is read from its history, also after the run has ended", async ({ page, server }) => {
  const { thread_id, run_id: first } = await server.run("default", "RUN_NOTE_TOOL");
  const { run_id: second } = await server.run("default", "RUN_NOTE_TOOL", thread_id);
  await enter(page, server, `/runs/${second}?tab=state`);
  const steps = page.getByRole("region", { name: "Steps" });
  await expect(steps.getByRole("button", { name: "Step 1" })).toHaveAttribute("aria-current", "step");
  await expect(page.getByRole("table")).toContainText("notes");
  const { values } = await server.ask<{ values: { thread: Record<string, unknown[]> } }>("GET", `/v1/runs/${first}/state`);
  expect(Object.values(values.thread).some((it) => Array.isArray(it) && it.length === 1)).toBe(true);
});
