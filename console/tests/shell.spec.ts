import { enter, expect, expectAccessible, open, Server, test, visit } from "./fixtures";

test("the root of the server leads to the console", async ({ page, server }) => {
  await page.goto(server.url);
  await expect(page).toHaveURL(`${server.url}/console/`);
  await expect(page.locator("h1")).toHaveText("Home");
});

test("keys lead to pages, and the palette finds an agent, a run and its thread", async ({ page, server }) => {
  const threadId = `found-${Date.now()}`;
  const { run_id: runId } = await server.run("default", "Hello", threadId);
  await enter(page, server, "/");
  await page.keyboard.press("g");
  await page.keyboard.press("r");
  await expect(page.locator("h1")).toHaveText("Runs");
  // The keys of the frame work on a page that was drawn after it.
  for (const [key, field] of [["c", "Message"], ["r", "Run or thread id"]] as const) {
    await page.keyboard.press("g");
    await page.keyboard.press(key);
    await expect(page.getByRole("textbox", { name: field })).toBeVisible();
    await page.keyboard.press("/");
    await expect(page.getByRole("textbox", { name: field })).toBeFocused();
    await page.locator("h1").click();
  }
  await page.keyboard.press("Control+k");
  await page.getByPlaceholder("Search…").fill("travel");
  await expect(page.getByRole("button", { name: /^travel\b/ }).first()).toBeVisible();
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/agents\/travel/);
  // The page has the focus that was in the field of the other one.
  await expect(page.locator("main")).toBeFocused();
  await page.keyboard.press("Control+k");
  await expect(page.getByPlaceholder("Search…")).toBeFocused();
  await page.keyboard.press("Escape");
  await expect(page.locator("main")).toBeFocused();
  await page.getByRole("button", { name: "Search… Ctrl K" }).click();
  await page.getByPlaceholder("Search…").fill(threadId.slice(0, -3));
  await expect(page.getByRole("button", { name: threadId, exact: true })).toBeVisible();
  await page.getByRole("button", { name: new RegExp(`^${runId}`) }).click();
  await expect(page).toHaveURL(new RegExp(`runs/${runId}`));
});

test("a name that is entered before the agents are known waits for them, and is not taken for a run", async ({ page, server }) => {
  let answer = () => {};
  const asked = new Promise<void>((resolve) => { answer = resolve; });
  await page.route(/\/v1\/agents(\?|$)/, async (route) => { await asked; await route.continue(); });
  await open(page, server, "/settings");
  await page.keyboard.press("Control+k");
  await page.getByPlaceholder("Search…").fill("travel");
  await expect(page.getByRole("dialog").getByText("Loading…")).toBeVisible();
  await page.keyboard.press("Enter");
  answer();
  await expect(page.getByRole("button", { name: "Run travel" })).toBeVisible();
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/agents\/travel/);
});

test("what is found later is what Enter opens, unless a key has chosen; a guessed id stands last", async ({ page, server }) => {
  const threadId = `late-${Date.now()}`;
  await server.run("default", "Hello", `${threadId}-2`);
  await enter(page, server, "/settings");
  let answer = () => {};
  const asked = new Promise<void>((resolve) => { answer = resolve; });
  await page.route(/\/v1\/runs\?.*q=late/, async (route) => { await asked; await route.continue(); });
  await page.keyboard.press("Control+k");
  await page.getByPlaceholder("Search…").fill(threadId);
  await expect(page.getByRole("dialog").getByText("Loading…")).toBeVisible();
  await page.keyboard.press("Enter");
  await expect(page.getByPlaceholder("Search…")).toBeVisible();
  answer();
  const entries = page.locator("[data-action]");
  await expect(entries.first()).toHaveText(`${threadId}-2`);
  await expect(entries.last()).toHaveText(`Thread ${threadId}`);
  await expect(entries.first()).toHaveAttribute("data-selected");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(new RegExp(`threads/${threadId}-2`));
});

test("a tab that is older than the server's console offers the new version", async ({ page, server }) => {
  await open(page, server, "/agents/travel?preview=off");
  // A part that this tab would load next went with the build before.
  await page.route("**/assets/Editor-*.js", (route) => route.fulfill({ status: 404, body: "{}" }));
  await page.getByRole("tab", { name: "Prompt" }).click();
  const notice = page.getByRole("alert").filter({ hasText: "A newer version of the console is here" });
  await expect(notice).toBeVisible();
  await expectAccessible(page);
  await page.unroute("**/assets/Editor-*.js");
  await notice.getByRole("button", { name: "Reload" }).click();
  await expect(page.getByRole("textbox", { name: "System prompt" })).toBeVisible();
  await expect(notice).toHaveCount(0);
  // A part that was asked for while the server was away, before the page knew it: the server has it, this document cannot get it. Some browsers remember
  // such a module, others ask for it again; here none gets it.
  await page.route("**/assets/AuditPage-*.js", (route) => (route.request().method() === "HEAD" ? route.continue() : route.abort("connectionrefused")));
  await page.getByRole("navigation").getByRole("link", { name: "Audit" }).click();
  const failed = page.getByRole("alert").filter({ hasText: "A part of this page did not load" });
  await expect(failed).toBeVisible();
  await page.unroute("**/assets/AuditPage-*.js");
  await failed.getByRole("button", { name: "Reload" }).click();
  await expect(page.locator("h1")).toHaveText("Audit");
});

test("a page that is first visited while the server is away comes when it is back, and the rail stays", async ({ page }) => {
  const server = await Server.start();
  try {
    await open(page, server, "/chat");
    await server.kill();
    const rail = page.getByRole("navigation");
    const banner = page.getByRole("alert").filter({ hasText: "The server cannot be reached." });
    await expect(banner).toBeVisible();
    // The banner takes room; what a page has at its foot stays in view.
    await expect(page.getByRole("textbox", { name: "Message" })).toBeInViewport({ ratio: 1 });
    await expect.poll(() => page.evaluate(() => document.documentElement.scrollHeight - window.innerHeight)).toBeLessThanOrEqual(0);
    await rail.getByRole("link", { name: "Audit" }).click();
    await expect(page).toHaveURL(/audit/);
    await expect(rail.getByRole("link", { name: "Runs" })).toBeVisible();
    await server.start();
    await expect(page.locator("h1")).toHaveText("Audit");
    await expect(banner).toHaveCount(0);
  } finally {
    await server.close();
  }
});

test("a machine without a network still shows its own server: the browser's word that it is offline stops nothing", async ({ page, server }) => {
  const run = await server.run("default", "Before the network went away");
  await open(page, server, "/threads");
  // What the browser says when the last interface but the loopback one is gone.
  await page.evaluate(() => {
    Object.defineProperty(navigator, "onLine", { configurable: true, get: () => false });
    dispatchEvent(new Event("offline"));
  });
  try {
    await visit(page, `/runs/${run.run_id}?tab=transcript`);
    await expect(page.getByText("Before the network went away").first()).toBeVisible();
    await expect(page.getByRole("alert")).toHaveCount(0);
  } finally {
    await page.evaluate(() => {
      Reflect.deleteProperty(navigator, "onLine");
      dispatchEvent(new Event("online"));
    });
  }
});

test("a name in the address that every object has chooses no view", async ({ page, server }) => {
  const { thread_id: threadId } = await server.run("default", "Hello");
  await enter(page, server, "/settings");
  // What the address asks for is not there: the page shows what it shows without it.
  const pages = { "/queue?view=": "Queue", "/approvals?view=": "Approvals", "/agents/default?tab=": "default", [`/threads/${threadId}?tab=`]: "Untitled", "/cost?days=": "Cost" };
  for (const [path, title] of Object.entries(pages)) {
    await visit(page, `${path}constructor`);
    await expect(page.locator("h1")).toHaveText(title);
    await expect(page.locator("main").locator("[role=tab][aria-selected=true], input[type=radio]:checked").first(), path).toBeAttached();
    await visit(page, "/settings");
  }
});

test("a browser whose clock is wrong shows the ages and the spending of the server's time", async ({ page, server, context }) => {
  const { run_id: runId } = await server.run("default", "Hello");
  const DAYS_MS = 3 * 86_400_000;
  for (const wrong of [DAYS_MS, -DAYS_MS]) {
    const tab = await context.newPage();
    await tab.addInitScript((by) => { const now = Date.now; Date.now = () => now() + by; }, wrong);
    await open(tab, server, "/runs?range=24h");
    const row = tab.getByRole("row").filter({ has: tab.locator(`a[href*="${runId}"]`) });
    await expect(row).toContainText(/now|s ago/);
    await expect(row).not.toContainText("d ago");
    await visit(tab, "/");
    await expect(tab.locator('[data-tile="Last 24 hours"]')).not.toContainText(/^Last 24 hours0/);
    await tab.close();
  }
  await open(page, server, "/settings");
});
