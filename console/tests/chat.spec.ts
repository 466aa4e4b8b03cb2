import type { Page, Request } from "@playwright/test";

import { enter, expect, expectAccessible, open, Server, test, tabTo, visit } from "./fixtures";

const field = (page: Page) => page.getByRole("textbox", { name: "Message" });
const turns = (page: Page, kind: string) => page.locator(`[data-turn="${kind}"]`);
const call = (page: Page, name: string) => page.locator(`[data-call="${name}"]`).last();

async function say(page: Page, text: string): Promise<void> {
  await field(page).fill(text);
  await field(page).press("Enter");
}

async function ended(page: Page, how = "natural_end"): Promise<void> {
  await expect(page.locator(`[data-turn="end"][data-end="${how}"]`).last()).toBeVisible();
}

test("a conversation: an answer, a tool, its details, and the same after a reload", async ({ page, server }) => {
  await open(page, server, "/chat?agent=default");
  await say(page, "Hello!");
  await expect(turns(page, "assistant").last()).toContainText("Scripted response to: Hello!");
  await ended(page);
  await expect(page).toHaveURL(/\/chat\/chat-/);
  await say(page, "RUN_WEATHER_TOOL");
  await expect(call(page, "get_weather")).toHaveAttribute("data-state", "succeeded");
  await call(page, "get_weather").locator("summary").click();
  await expect(call(page, "get_weather")).toContainText('"location": "Tokyo"');
  await page.getByRole("button", { name: "Details" }).click();
  await expect(page.getByRole("complementary", { name: "Details" })).toContainText("run_finish");
  await expect(page.getByRole("link", { name: "Open the run" }).last()).toHaveAttribute("href", /\/runs\//);
  await page.getByRole("tab", { name: "Waterfall" }).click();
  await expect(page.getByRole("region", { name: "Waterfall of the run" })).toContainText("get_weather");
  await expectAccessible(page);
  await page.getByRole("tab", { name: "Requests" }).click();
  await expect(page.getByRole("tabpanel")).toContainText("Messages");
  await expectAccessible(page, "aside");
  await page.reload();
  await expect(turns(page, "user")).toHaveText([/Hello!/, /RUN_WEATHER_TOOL/]);
  await expect(turns(page, "assistant").last()).toContainText("get_weather returned");
  await expect(turns(page, "end")).toHaveCount(2);
  await expect(page.locator("[data-link]")).toHaveAttribute("data-link", "live");
});

test("another model of the provider answers in a conversation; failures of earlier runs stay failures", async ({ page, server }) => {
  await server.ask("PUT", "/v1/config/models/second", { provider_id: "scripted", upstream_model: "second-1" });
  const { thread_id: threadId } = await server.run("default", "RUN_FAILING_TOOL");
  await server.run("default", "RUN_WEATHER_TOOL", threadId);
  await server.run("default", "Hello", threadId);
  await open(page, server, `/chat/${threadId}?agent=default`);
  await expect(page.locator("[data-call]").first()).toHaveAttribute("data-state", "failed");
  await expect(call(page, "get_weather")).toHaveAttribute("data-state", "succeeded");
  await page.getByRole("combobox", { name: "Model" }).click();
  await page.getByRole("option", { name: "second", exact: true }).click();
  await expect(page).toHaveURL(/model=second/);
  await say(page, "Who are you?");
  await expect(turns(page, "end")).toHaveCount(4);
  const { items } = await server.ask<{ items: { run_id: string }[] }>("GET", `/v1/threads/${threadId}/runs?order=desc&limit=1`);
  expect(JSON.stringify(await server.ask("GET", `/v1/runs/${items[0]?.run_id}/timeline`))).toContain("second-1");
});

test("a full conversation is accessible, with two panes and details", async ({ page, server }) => {
  for (const [agent, text] of [["thinking", "Why?"], ["a2ui", "RUN_A2UI_TOOL"], ["json-render", "RUN_JSON_UI_TOOL"], ["openui", "RUN_UI_TOOL"], ["permission", "RUN_DELETE_TOOL"]] as const) await server.run(agent, text, "full");
  await page.setViewportSize({ width: 1_900, height: 1_800 });
  await enter(page, server, "/chat/full?side=first&beside=new");
  await expect(page.getByRole("group", { name: "Interface by the agent" }).filter({ hasText: "Hello from A2UI" })).toBeVisible();
  await expect(page.getByRole("group", { name: "Interface by the agent" }).filter({ hasText: /^Demo$/ })).toBeVisible();
  await expect(page.getByText("OpenUI Lang. This format is shown as data.")).toBeVisible();
  await expect(page.getByRole("button", { name: "Approve" })).toBeVisible();
  await expectAccessible(page);
});

test("consent: approve after a reload, then deny, then decided elsewhere", async ({ page, server }) => {
  await enter(page, server, "/chat?agent=permission");
  await say(page, "RUN_DELETE_TOOL");
  await expect(page.getByRole("button", { name: "Approve" })).toBeVisible();
  await page.reload();
  await page.getByRole("button", { name: "Approve" }).click();
  await expect(turns(page, "assistant").last()).toContainText("delete_file returned: deleted old-report.txt");
  await expect(page.getByRole("button", { name: "Approve" })).toHaveCount(0);
  await say(page, "RUN_DELETE_TOOL again");
  await page.getByRole("textbox", { name: "Reason" }).fill("We need it.");
  await page.getByRole("button", { name: "Deny" }).click();
  await expect(call(page, "delete_file")).toHaveAttribute("data-state", "declined");
  await expect(turns(page, "assistant").last()).toContainText("We need it.");
  await page.reload();
  await expect(call(page, "delete_file")).toHaveAttribute("data-state", "declined");
  await say(page, "RUN_DELETE_TOOL once more");
  await expect(page.getByRole("button", { name: "Approve" })).toBeVisible();
  const thread = new URL(page.url()).pathname.split("/").at(-1) ?? "";
  const { items } = await server.ask<{ items: { ticket_id: string }[] }>("GET", `/v1/threads/${thread}/tickets`);
  await server.ask("POST", `/v1/threads/${thread}/decision`, { ticket_id: items[0]?.ticket_id, action: "cancel" });
  await expect(call(page, "delete_file")).toHaveAttribute("data-state", "declined");
  await expect(page.getByRole("button", { name: "Approve" })).toHaveCount(0);
});

test("consent with edited arguments, and an answer to a question", async ({ page, server }) => {
  await enter(page, server, "/chat?agent=permission");
  await say(page, "RUN_DELETE_TOOL");
  await page.getByRole("button", { name: "Edit arguments" }).click();
  await page.getByText("JSON", { exact: true }).click();
  const field = page.getByRole("textbox", { name: "Edited arguments as JSON" });
  await field.fill('{"path": ');
  // What is no JSON cannot be approved, but denied, and the original is one click away.
  await expect(page.getByRole("button", { name: "Approve" })).toBeDisabled();
  await expect(page.getByRole("button", { name: "Deny" })).toBeEnabled();
  await expect(page.getByRole("button", { name: "Keep the original" })).toBeVisible();
  await field.fill('{"path": "other.txt"}');
  await page.getByRole("button", { name: "Approve" }).click();
  await expect(turns(page, "assistant").last()).toContainText("deleted other.txt");
  // The call shows what it was made with.
  await expect(call(page, "delete_file")).toContainText('edited: {"path":"other.txt"}');
  await visit(page, "/chat?agent=default");
  await expect(turns(page, "end")).toHaveCount(0);
  await say(page, "RUN_QUESTION_TOOL");
  await page.getByRole("textbox", { name: "Your answer" }).fill("Kyoto");
  await page.getByRole("button", { name: "Send the answer" }).click();
  await expect(turns(page, "assistant").last()).toContainText("Kyoto");
});

async function focusField(page: Page): Promise<void> {
  await page.keyboard.press("/");
  await expect(field(page)).toBeFocused();
}

test("by keyboard alone: to the chat, a message, consent, stop", async ({ page, server }) => {
  await enter(page, server, "/chat?agent=permission");
  await focusField(page);
  await page.keyboard.type("RUN_DELETE_TOOL");
  await page.keyboard.press("Enter");
  await tabTo(page, page.getByRole("button", { name: "Approve" }), "Shift+Tab");
  await page.keyboard.press("Enter");
  await expect(turns(page, "assistant").last()).toContainText("deleted old-report.txt");
  await ended(page);
  // The card went with its decision; the focus stays in the conversation, not at the top of the page.
  await expect(page.getByRole("log")).toBeFocused();
  await visit(page, "/chat?agent=default");
  await expect(turns(page, "end")).toHaveCount(0);
  await focusField(page);
  await page.keyboard.type("RUN_SLOW_TOOL");
  await page.keyboard.press("Enter");
  await expect(call(page, "progress_demo")).toHaveAttribute("data-state", "running");
  await page.locator("h1").click();
  await page.keyboard.press(".");
  await ended(page, "cancelled");
});

test("a run that executes: progress, a queued message, a stop with its receipt, and the queued one answers", async ({ page, server }) => {
  await enter(page, server, "/chat?agent=default");
  await say(page, "RUN_SLOW_TOOL");
  await expect(page.getByRole("progressbar")).toBeVisible();
  await say(page, "And then?");
  await expect(turns(page, "user").last()).toContainText("queued");
  await page.getByText("Steer", { exact: true }).click();
  await say(page, "Mind this.");
  await expect(turns(page, "user").last()).toContainText("on its way into the run");
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await expect(page.getByText("Stop: cancel requested.")).toBeVisible();
  await ended(page, "cancelled");
  await expect(page.getByText("Scripted response to: And then?")).toBeVisible();
  await expect(page.getByText("Scripted response to: Mind this.")).toBeVisible();
  await expect(turns(page, "user")).toHaveCount(3);
  await expect(page.getByText("on its way into the run")).toHaveCount(0);
});

test("an interrupting message takes the run's place", async ({ page, server }) => {
  await enter(page, server, "/chat?agent=default");
  await say(page, "RUN_SLOW_TOOL");
  await expect(page.getByRole("progressbar")).toBeVisible();
  await page.getByText("Interrupt", { exact: true }).click();
  await say(page, "Rather this.");
  await expect(turns(page, "assistant").last()).toContainText("Scripted response to: Rather this.");
  await expect(page.locator('[data-end="cancelled"]')).toBeVisible();
});

test("an edited message begins a fork, and the conversation before stays", async ({ page, server }) => {
  await enter(page, server, "/chat?agent=default");
  await say(page, "First");
  await ended(page);
  await say(page, "Secnod");
  await expect(turns(page, "end")).toHaveCount(2);
  const before = page.url();
  await page.getByRole("button", { name: "Edit and resend" }).last().click();
  await page.getByRole("dialog").getByRole("textbox").fill("Second");
  await page.getByRole("button", { name: "Resend in a fork" }).click();
  await expect(turns(page, "assistant").last()).toContainText("Scripted response to: Second");
  await expect(turns(page, "user")).toHaveText([/First/, /Second/]);
  expect(page.url()).not.toBe(before);
  await page.goto(before);
  await expect(turns(page, "user")).toHaveText([/First/, /Secnod/]);

  // A resend that the server refuses is not lost: the text stands in the field of the fork.
  const isStart = (url: URL) => url.pathname === "/v1/runs";
  await page.route(isStart, (route) => route.request().method() === "POST" ? route.fulfill({ status: 429, contentType: "application/json", body: '{"error": "too many", "code": "rate_limited"}' }) : route.fallback());
  await page.getByRole("button", { name: "Edit and resend" }).last().click();
  await page.getByRole("dialog").getByRole("textbox").fill("Third");
  await page.getByRole("button", { name: "Resend in a fork" }).click();
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await expect(field(page)).toHaveValue("Third");
  expect(page.url()).not.toBe(before);
  await expect(turns(page, "user")).toHaveText([/First/]);
});

test("two panes have two agents, and both are in the address", async ({ page, server }) => {
  await enter(page, server, "/chat?agent=default&beside=new&besideAgent=thinking");
  const first = page.getByRole("region", { name: "Chat", exact: true });
  const second = page.getByRole("region", { name: "Chat, second pane" });
  await first.getByRole("textbox", { name: "Message" }).fill("one");
  await first.getByRole("textbox", { name: "Message" }).press("Enter");
  await second.getByRole("textbox", { name: "Message" }).fill("two");
  await second.getByRole("textbox", { name: "Message" }).press("Enter");
  await expect(first.locator('[data-turn="assistant"]')).toContainText("Scripted response to: one");
  await expect(second.locator('[data-turn="assistant"]')).toContainText("Scripted response to: two");
  await expect(second.getByText("Reasoning")).toBeVisible();
  await page.reload();
  await expect(first.locator('[data-turn="user"]')).toContainText("one");
  await expect(second.locator('[data-turn="user"]')).toContainText("two");
});

test("files go as content blocks", async ({ page, server }) => {
  await open(page, server, "/chat?agent=default");
  const pixel = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
  await page.locator('input[type="file"]').setInputFiles([{ name: "pixel.png", mimeType: "image/png", buffer: pixel }, { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("notes") }]);
  await expect(page.getByRole("button", { name: "Remove notes.txt" })).toBeVisible();
  await say(page, "Look at these");
  await expect(turns(page, "user").getByRole("img", { name: "Image" })).toBeVisible();
  await expect(turns(page, "user")).toContainText("notes.txt");
  const thread = await page.waitForURL(/chat-/).then(() => new URL(page.url()).pathname.split("/").at(-1) ?? "");
  // The page shows a message before the server has stored it.
  await ended(page);
  const { items } = await server.ask<{ items: { message: { content: { type: string }[] } }[] }>("GET", `/v1/threads/${thread}/messages`);
  expect(items[0]?.message.content.map((it) => it.type)).toEqual(["text", "image", "document"]);
});

test("a thread that does not exist says so", async ({ page, server }) => {
  await enter(page, server, "/chat/nowhere");
  await expect(page.getByRole("alert")).toContainText("thread not found");
});

test("runs that stream and that wait go on after the server was killed and started again", async ({ page }) => {
  test.setTimeout(120_000);
  const server = await Server.start();
  const restart = async () => {
    await server.kill();
    await expect(page.locator("[data-link]")).toHaveAttribute("data-link", "cut");
    await field(page).fill("typed meanwhile");
    await server.start();
    await expect(page.locator("[data-link]")).toHaveAttribute("data-link", "live", { timeout: 40_000 });
    await expect(field(page)).toHaveValue("typed meanwhile");
  };
  try {
    await open(page, server, "/chat?agent=default");
    await say(page, "RUN_SLOW_TOOL");
    await expect(page.getByRole("progressbar")).toBeVisible();
    await restart();
    await expect(page.getByRole("progressbar")).toBeVisible({ timeout: 45_000 });
    await expect(turns(page, "user")).toHaveCount(1);
    await expect(page.locator('[data-call="progress_demo"]')).toHaveCount(1);
    await page.getByRole("button", { name: "Stop", exact: true }).click();
    await ended(page, "cancelled");
    await visit(page, "/chat?agent=permission");
    await expect(turns(page, "end")).toHaveCount(0);
    await say(page, "RUN_DELETE_TOOL");
    await expect(page.getByRole("button", { name: "Approve" })).toBeVisible();
    await restart();
    await page.getByRole("button", { name: "Approve" }).click();
    await expect(turns(page, "assistant").last()).toContainText("deleted old-report.txt", { timeout: 30_000 });
  } finally {
    await server.close();
  }
});

test("a hostile agent's output does nothing but show; a fast one loses nothing; a reload goes on", async ({ page, apps: server }) => {
  await enter(page, server, "/chat?agent=hostile");
  await say(page, "go");
  await ended(page);
  const answer = turns(page, "assistant").last();
  await expect(answer).toContainText("<script>window.hacked = 1</script>");
  await expect(answer).toContainText("\\u001b[31mred");
  await expect(answer).toContainText("\\u202egnp.exe");
  await expect(answer).toContainText("[remote: https://evil.example/pixel.png]");
  expect(await answer.locator("a").evaluateAll((links) => links.map((it) => [it.getAttribute("href"), it.getAttribute("rel")]))).toEqual([["https://good.example/page", "noopener noreferrer nofollow"]]);
  await expect(answer.locator("script, iframe, img, h1, h2, input")).toHaveCount(0);
  await expectAccessible(page);
  await say(page, "TOOL");
  await expect(call(page, "echo")).toHaveAttribute("data-state", "succeeded");
  await call(page, "echo").locator("summary").click();
  await expect(call(page, "echo")).toContainText("<iframe");
  await say(page, "THINK");
  await page.getByText("Reasoning").last().click();
  await expect(turns(page, "assistant").last()).toContainText("\\u202egnp.exe");
  await say(page, "LONG");
  await expect(page.getByRole("button", { name: "Show all" })).toBeVisible();
  await say(page, "FAIL");
  await ended(page, "error");
  await say(page, "FAST");
  await expect(turns(page, "assistant").last()).toContainText("w1999", { timeout: 60_000 });
  expect((await turns(page, "assistant").last().innerText()).match(/w\d+/g)).toEqual(Array.from({ length: 2_000 }, (_, at) => `w${at}`));
  expect(await page.evaluate(() => "hacked" in window)).toBe(false);
  expect(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth)).toBe(true);
  await visit(page, "/chat?agent=hostile");
  await expect(turns(page, "end")).toHaveCount(0);
  await say(page, "SLOW");
  await expect(turns(page, "assistant").last()).toContainText("w5");
  await expect(page).toHaveURL(/chat-/);
  await page.reload();
  await expect(turns(page, "assistant").last()).toContainText("w99", { timeout: 30_000 });
  expect((await turns(page, "assistant").last().innerText()).match(/w\d+/g)?.slice(0, 100)).toEqual(Array.from({ length: 100 }, (_, at) => `w${at}`));
  await expect(turns(page, "user")).toHaveCount(1);
});

test("what is typed stays with its conversation; a late refusal, an unknown thread and a slow server lose nothing and move no person", async ({ page, server }) => {
  for (const thread of ["typed-a", "typed-b"]) await server.run("default", "hello", thread);
  await enter(page, server, "/chat/typed-a?agent=default");
  await field(page).fill("for a");
  await page.getByRole("button", { name: "Conversations" }).click();
  await page.getByRole("menuitem").filter({ hasText: "typed-b" }).click();
  await expect(page).toHaveURL(/typed-b/);
  await expect(field(page)).toHaveValue("");
  await page.getByRole("link", { name: "Runs", exact: true }).click();
  await expect(page).toHaveURL(/\/runs/);
  await page.goBack();
  await page.goBack();
  await expect(field(page)).toHaveValue("for a");
  await page.reload();
  await expect(field(page)).toHaveValue("for a");

  let refuse = () => {};
  const asked = new Promise<void>((resolve) => { refuse = resolve; });
  const isStart = (url: URL) => url.pathname === "/v1/runs";
  await page.route(isStart, async (route) => {
    if (route.request().method() !== "POST") return route.fallback();
    await asked;
    await route.fulfill({ status: 429, contentType: "application/json", body: '{"error": "too many", "code": "rate_limited"}' });
  });
  await page.locator('input[type="file"]').setInputFiles([{ name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("notes") }]);
  await expect(page.getByRole("button", { name: "Remove notes.txt" })).toBeVisible();
  await say(page, "first");
  await expect(page.getByRole("button", { name: "Remove notes.txt" })).toHaveCount(0);
  await field(page).fill("second");
  refuse();
  await expect(field(page)).toHaveValue("first\nsecond");
  await expect(page.getByRole("button", { name: "Remove notes.txt" })).toBeVisible();
  await page.unroute(isStart);

  await open(page, server, "/chat/typed-unknown?agent=default");
  await expect(page.getByRole("alert")).toContainText("thread not found");
  await say(page, "hello");
  await ended(page);
  await expect(page.getByRole("alert")).toHaveCount(0);

  await page.route(isStart, (route) => (route.request().method() === "POST" ? route.abort() : route.fallback()));
  await open(page, server, "/chat?agent=default");
  await say(page, "RUN_WEATHER_TOOL");
  await expect(turns(page, "user")).toContainText("sending…");
  await page.getByRole("link", { name: "Runs", exact: true }).click();
  const sent = page.waitForResponse((it) => it.request().method() === "POST" && isStart(new URL(it.url())));
  await page.unroute(isStart);
  await sent;
  await expect(page.getByRole("row").filter({ hasText: "default" }).first()).toBeVisible();
  expect(new URL(page.url()).pathname).toMatch(/\/runs$/);
});

test("a hidden window keeps no stream, and four visible ones share one of the server's, with connections left for requests", async ({ page, server, context }) => {
  const streams = new Map<unknown, string>();
  const count = (path: string, of?: Page) => [...streams].filter(([it, url]) => url.includes(path) && (of === undefined || (it as Request).frame().page() === of)).length;
  const begin = (it: Request) => { if (it.url().includes("/stream")) streams.set(it, new URL(it.url()).pathname); };
  const end = (it: Request) => void streams.delete(it);
  context.on("request", begin).on("requestfinished", end).on("requestfailed", end);
  try {
    await server.run("default", "hello", "window-0");
    await enter(page, server, "/chat/window-0");
    await expect(page.locator("[data-link]")).toHaveAttribute("data-link", "live");
    await expect.poll(() => [count("/v1/activity/"), count("/v1/threads/")]).toEqual([1, 1]);
    const show = (isHidden: boolean) => page.evaluate((is) => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => is });
      document.dispatchEvent(new Event("visibilitychange"));
    }, isHidden);
    await show(true);
    await expect.poll(() => streams.size).toBe(0);
    const later = server.run("default", "meanwhile", "window-0");
    await show(false);
    await later;
    await expect(turns(page, "user").last()).toContainText("meanwhile");
    const others: Page[] = [];
    for (let at = 1; at < 4; at += 1) {
      const other = await context.newPage();
      others.push(other);
      await open(other, server, at === 1 ? "/runs" : "/chat/window-0?agent=default");
      if (at > 1) await expect(other.locator("[data-link]")).toHaveAttribute("data-link", "live");
    }
    const [list, , last] = others as [Page, Page, Page];
    // One window follows what changes on the server; the others hear it from that one.
    await expect.poll(() => [count("/v1/activity/"), count("/v1/activity/", page)]).toEqual([1, 1]);
    await say(last, "from the last window");
    await expect(turns(last, "end")).toHaveCount(3);
    await expect(turns(page, "user").last()).toContainText("from the last window");
    const { run_id: told } = await server.run("travel", "told to all");
    await expect(list.getByTitle(told)).toBeVisible({ timeout: 15_000 });
    // When it is hidden, another one takes its place, and all are told again.
    await show(true);
    await expect.poll(() => [count("/v1/activity/"), count("/v1/activity/", page)]).toEqual([1, 0]);
    const { run_id: later2 } = await server.run("travel", "told by another");
    await expect(list.getByTitle(later2)).toBeVisible({ timeout: 15_000 });
  } finally {
    context.off("request", begin).off("requestfinished", end).off("requestfailed", end);
  }
});
