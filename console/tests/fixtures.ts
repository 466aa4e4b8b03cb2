/** What every test of the console has: a real server, which the tests of a worker share, and a page that may talk to nothing else. */
import { join } from "node:path";

import { expect, test as base, type Browser, type BrowserContext, type Locator, type Page } from "@playwright/test";

import { SETTLE_MS } from "../src/ui/settling";
import { recordBodies, type Sent } from "./bodies";
import { Server } from "./server";
import { writeTokens } from "./tokens";

const VIEWPORT = { width: 1360, height: 850 };

/** The address of a page that does not exist: it shows nothing, asks nothing, and is left by every other one. */
const NOWHERE = "/nowhere";
/** What the console stores before a person chooses anything: its settings, no cards on Home, no views. */
const UNCHOSEN = ['{"density":"compact"}', "false", "[]"];
/** How long a tab may take to leave its last page. Longer: the next test loads the console again. */
const LEAVE_MS = 2_000;

/**
 * The browser's window of a worker. Its tab goes from test to test: to begin the console in a new one costs twice as much as to load it again, and that
 * was most of the time of all tests. Between two tests it forgets what is stored, routed, heard and set; a test that fails ends the worker.
 */
class Window {
  private tab: Page | null = null;
  /** The server whose console the tab shows as it was when it came: see `enter`. */
  private cleanAt: string | null = null;

  private constructor(readonly context: BrowserContext) {}

  static async open(browser: Browser): Promise<Window> {
    // Colours are judged when they are still, not on their way.
    const context = await browser.newContext({ viewport: VIEWPORT, reducedMotion: "reduce", colorScheme: "light" });
    await recordBodies(context);
    return new Window(context);
  }

  async take(): Promise<Page> {
    const tab = this.tab ?? (await this.context.newPage());
    this.tab = null;
    if (this.cleanAt !== null) CLEAN.set(tab, this.cleanAt);
    return tab;
  }

  /** `isTouched`: the test changed what the server answered, so that the console may remember things that never were. */
  async giveBack(tab: Page, isTouched: boolean): Promise<void> {
    const others = this.context.pages().filter((it) => it !== tab);
    for (const other of others) await other.close();
    tab.removeAllListeners();
    await tab.unrouteAll({ behavior: "ignoreErrors" });
    CLEAN.delete(tab);
    this.cleanAt = null;
    if (tab.isClosed() || !tab.url().startsWith("http")) return tab.close();
    await tab.setViewportSize(VIEWPORT);
    await tab.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
    // A mouse that rests on what the next test shows there would open its help.
    await tab.mouse.move(0, 0);
    const isClean = !isTouched && others.length === 0 && (await leavePage(tab));
    if (!(await forget(tab))) return tab.close();
    this.cleanAt = isClean ? new URL(tab.url()).origin : null;
    this.tab = tab;
  }
}

const CLEAN = new WeakMap<Page, string>();

/** Leaves the page that a test was on. `false`: something of the test is left, stored, asked or said, or the page keeps one who leaves. */
async function leavePage(tab: Page): Promise<boolean> {
  if (!new URL(tab.url()).pathname.startsWith("/console")) return false;
  try {
    return await tab.evaluate(async ({ nowhere, limit, unchosen, settleMs }) => {
      const stored = [localStorage, sessionStorage].flatMap((it) => Object.entries(it)).filter(([name, value]) => !name.startsWith("tsr-") && !unchosen.includes(String(value)));
      if (stored.length > 0) return false;
      for (const notice of document.querySelectorAll<HTMLElement>(".mantine-Notification-closeButton")) notice.click();
      history.pushState(null, "", nowhere);
      dispatchEvent(new PopStateEvent("popstate"));
      // For a moment after a decision the console takes no other one: that moment is the test's that decided.
      const { sentBodies } = window as unknown as { sentBodies: Sent[] };
      const decided = sentBodies.findLast((it) => /\/(decision|batch)$/.test(it.path));
      const settledAt = decided === undefined ? 0 : (decided.answeredAt ?? Infinity) + settleMs;
      const end = performance.now() + limit;
      while (performance.now() < end) {
        await new Promise((resolve) => setTimeout(resolve, 20));
        const isThere = document.querySelector("h1")?.textContent === "There is no such page" && performance.now() > settledAt;
        if (isThere && ![...document.querySelectorAll("[role=dialog], [role=alert]")].some((it) => it.checkVisibility())) return true;
      }
      return false;
    }, { nowhere: `/console${NOWHERE}`, limit: LEAVE_MS, unchosen: UNCHOSEN, settleMs: SETTLE_MS });
  } catch {
    return false;
  }
}

/** Forgets what the console of a tab stored in this browser. `false`: the tab shows no page of a server. */
async function forget(tab: Page): Promise<boolean> {
  try {
    await tab.evaluate(() => { localStorage.clear(); sessionStorage.clear(); });
    return true;
  } catch {
    return false;
  }
}

/** Agents that ask, are told who asks, answer as a hostile one would, and workflows: see `apps`. */
const APPS = join(import.meta.dirname, "apps/all.py");
/** The secret of a webhook that the server of the apps knows. */
export const HOOK_SECRET = "a-secret-of-the-sender";

type Fixtures = {
  /** A server that the tests of one worker share; tests use threads and records of their own. */
  server: Server;
  /** A server with the apps of these tests, shared as well. */
  apps: Server;
  /** A server with tokens of different scopes, shared as well: see `tokens.ts`. */
  guarded: Server;
  /** A page whose errors and requests to other origins fail the test. */
  page: Page;
};

/** Starts a server when the first test of a worker asks for it. All tests have these fixtures: those with fixtures of their own would need a worker, and a browser, of their own. */
const shared = (begin: () => Promise<Server>) => [
  async ({}, use: (server: Server) => Promise<void>) => {
    const server = await begin();
    await use(server);
    await server.close();
  },
  { scope: "worker" as const },
];

export const test = base.extend<{ page: Page; context: BrowserContext }, { server: Server; apps: Server; guarded: Server; window: Window }>({
  server: shared(() => Server.start()) as never,
  apps: shared(() => Server.start([APPS], { GITHUB_HOOK: HOOK_SECRET })) as never,
  guarded: shared(async () => Server.start([], { AWAKEN_TOKENS_FILE: await writeTokens() })) as never,
  window: [
    async ({ browser }, use) => {
      const window = await Window.open(browser);
      await use(window);
      await window.context.close();
    },
    { scope: "worker" },
  ],
  context: async ({ window }, use) => use(window.context),
  page: async ({ window }, use) => {
    const page = await window.take();
    const problems: string[] = [];
    const route = page.route;
    let isTouched = false;
    page.route = (...given) => { isTouched = true; return route.apply(page, given); };
    page.on("pageerror", (error) => problems.push(error.message));
    page.on("console", (message) => {
      // The browser reports refused and failed requests by itself; tests of those look at the page.
      if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) problems.push(message.text());
    });
    page.on("request", (request) => {
      const { hostname, protocol } = new URL(request.url());
      if (protocol !== "data:" && protocol !== "blob:" && hostname !== "127.0.0.1") problems.push(`A request went to ${request.url()}`);
    });
    await use(page);
    expect(problems).toEqual([]);
    page.route = route;
    await window.giveBack(page, isTouched);
  },
}) satisfies unknown as ReturnType<typeof base.extend<Fixtures>>;

export { expect, Server };

/** Goes to a control by Tab alone, as a person does: once it can be used, and until it has the focus. */
export async function tabTo(page: Page, target: Locator, key: "Tab" | "Shift+Tab" = "Tab"): Promise<void> {
  await expect(target).toBeEnabled();
  for (let presses = 0; presses < 40; presses += 1) {
    if (await target.evaluate((it) => it === document.activeElement)) break;
    await page.keyboard.press(key);
  }
  await expect(target).toBeFocused();
}

export { expectAccessible } from "./accessible";

/** Opens a page of the console and waits until it has loaded what it shows. */
export async function open(page: Page, server: Server, path: string): Promise<void> {
  await page.goto(`${server.url}/console${path}`);
  await expect(page.locator("h1")).toBeVisible();
  await expect(page.locator('[aria-busy="true"]')).toHaveCount(0);
}

/**
 * Opens a page in the console that the test before left, if that was of this server and is as it was when it came; loads it else. For tests that do not care
 * what the console knows already: a test of each page opens it cold.
 */
export async function enter(page: Page, server: Server, path: string): Promise<void> {
  if (CLEAN.get(page) !== server.url) return open(page, server, path);
  CLEAN.delete(page);
  await visit(page, path);
}

/**
 * Goes to a page without loading the console again, as a link does: a fifth of the cost. Another page of the rail is waited for; what the same page shows
 * next is for the test to expect.
 */
export async function visit(page: Page, path: string): Promise<void> {
  const to = new URL(page.url()).pathname.replace(/\/console.*/, `/console${path}`);
  await page.evaluate(async (address) => {
    const nameOf = (path: string) => /\/console\/([^/]*)/.exec(path)?.[1];
    const isOther = nameOf(location.pathname) !== nameOf(new URL(address, location.href).pathname);
    if (isOther) for (const heading of document.querySelectorAll("h1")) heading.dataset.left = heading.textContent;
    history.pushState(null, "", address);
    dispatchEvent(new PopStateEvent("popstate"));
    await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  }, to);
  // The heading of the other page may be the same element with another text.
  await page.waitForFunction(() => [...document.querySelectorAll("h1")].some((it) => it.checkVisibility() && (it.dataset.left === undefined || it.dataset.left !== it.textContent)));
  await expect(page.locator('[aria-busy="true"]')).toHaveCount(0);
}
