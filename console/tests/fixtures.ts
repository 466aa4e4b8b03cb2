/** What every test of the console has: a real server, which the tests of a worker share, and a page that may talk to nothing else. */
import { spawn, type ChildProcess } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { expect, test as base, type Browser, type BrowserContext, type Page } from "@playwright/test";

import { recordBodies } from "./bodies";
import { writeTokens } from "./tokens";

const AWAKEN = process.env.AWAKEN ?? join(import.meta.dirname, "../../.venv/bin/awaken");
const READY = /Ready: (http\S+?),/;
/** A start is two seconds of a processor; a machine that has ten other things to do gives it a tenth of one. */
const START_MS = 90_000;

async function findPort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve) => probe.listen(0, "127.0.0.1", resolve));
  const address = probe.address();
  await new Promise((resolve) => probe.close(resolve));
  if (address === null || typeof address === "string") throw new Error("No port was given.");
  return address.port;
}

/** A running `awaken serve`; it can be killed, started again on the same port and store, and asked over HTTP. */
export class Server {
  readonly url: string;
  private process: ChildProcess | null = null;
  private log = "";

  private constructor(readonly folder: string, readonly port: number, private readonly options: readonly string[], private readonly environment: NodeJS.ProcessEnv) {
    this.url = `http://127.0.0.1:${port}`;
  }

  /** Starts another process on the store of this one. */
  static async startBeside(other: Server): Promise<Server> {
    const server = new Server(other.folder, await findPort(), other.options, other.environment);
    await server.start();
    return server;
  }

  static async start(options: readonly string[] = [], environment: NodeJS.ProcessEnv = {}): Promise<Server> {
    const server = new Server(await mkdtemp(join(tmpdir(), "awaken-console-")), await findPort(), options, environment);
    await server.start();
    return server;
  }

  async start(): Promise<void> {
    const store = `sqlite:///${join(this.folder, "awaken.db")}`;
    const child = spawn(AWAKEN, ["serve", ...this.options, "--port", String(this.port), "--store", store], {
      // Playwright asks all that it starts for colours.
      env: { ...process.env, FORCE_COLOR: undefined, NO_COLOR: "1", ...this.environment },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.process = child;
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`The server did not start: ${this.log}`)), START_MS);
      const read = (chunk: Buffer) => {
        this.log += chunk.toString();
        if (READY.test(this.log)) { clearTimeout(timer); resolve(); }
      };
      child.stdout.on("data", read);
      child.stderr.on("data", read);
      child.once("exit", (code) => reject(new Error(`The server ended with ${code}: ${this.log}`)));
    });
    this.log = "";
  }

  /** Ends the process at once, as a crash would. */
  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const child = this.process;
    this.process = null;
    if (child === null || child.exitCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    await ended;
  }

  async close(): Promise<void> {
    await this.kill();
    await rm(this.folder, { recursive: true, force: true });
  }

  async ask<T>(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<T> {
    const response = await fetch(`${this.url}${path}`, {
      method,
      headers: { Accept: "application/json", ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return (text === "" ? null : JSON.parse(text)) as T;
  }

  /** Runs an agent to its end, or until it waits. */
  run(agent: string, text: string, threadId?: string): Promise<{ run_id: string; thread_id: string; status: string }> {
    return this.ask("POST", "/v1/runs", { agent_id: agent, thread_id: threadId, messages: [{ role: "user", content: text }] });
  }
}

const VIEWPORT = { width: 1360, height: 850 };

/**
 * The browser's window of a worker. Its tab goes from test to test: to begin the console in a new one costs twice as much as to load it again, and that
 * was most of the time of all tests. Between two tests it leaves the page and forgets what is stored, routed, heard and set; a test that fails ends the worker.
 */
class Window {
  private tab: Page | null = null;

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
    return tab;
  }

  async giveBack(tab: Page): Promise<void> {
    for (const other of this.context.pages()) if (other !== tab) await other.close();
    tab.removeAllListeners();
    await tab.unrouteAll({ behavior: "ignoreErrors" });
    if (tab.isClosed() || !(await leave(tab))) return tab.close();
    await tab.setViewportSize(VIEWPORT);
    await tab.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
    this.tab = tab;
  }
}

/** Leaves the console for a page without a script, and forgets what it stored in this browser. `false`: its server is gone. */
async function leave(tab: Page): Promise<boolean> {
  const { origin } = new URL(tab.url());
  if (origin === "null") return false;
  try {
    await tab.goto(`${origin}/health`);
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
    await window.giveBack(page);
  },
}) satisfies unknown as ReturnType<typeof base.extend<Fixtures>>;

export { expect };

/** Opens a page of the console and waits until it has loaded what it shows. */
export async function open(page: Page, server: Server, path: string): Promise<void> {
  await page.goto(`${server.url}/console${path}`);
  await expect(page.locator("h1")).toBeVisible();
  await expect(page.locator('[aria-busy="true"]')).toHaveCount(0);
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

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
/** The rules whose verdict depends on colours; the others say the same in both themes. */
const COLOUR_RULES = ["color-contrast", "link-in-text-block"];
type Part = string | null;
type Axe = { run: (place: object | string, options: object) => Promise<{ violations: { id: string; nodes: { target: unknown[] }[] }[] }> };

/** The rail is the same on every page: `expectAccessible` judges it where it is asked to, not a hundred times. */
const RAIL = "nav.mantine-AppShell-navbar";
const NO_RAIL = { exclude: [[RAIL]] };

/** Runs rules of axe on a part of the page as it is; axe is loaded once for each document. */
async function runAxe(page: Page, part: Part, runOnly: object): Promise<string[]> {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(AXE);
  return page.evaluate(async ({ place, only }) => {
    const { violations } = await (window as unknown as { axe: Axe }).axe.run(place, { runOnly: only, resultTypes: ["violations"] });
    return violations.map((it) => `${it.id}: ${it.nodes.map((node) => node.target.join(" ")).join(", ")}`);
  }, { place: part === "everything" ? { include: [["html"]] } : part ?? NO_RAIL, only: runOnly });
}

/** Waits until every colour is where it goes: on the way it has no contrast to judge. */
async function settleColours(page: Page): Promise<void> {
  await page.evaluate(async () => {
    await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    const ending = document.getAnimations().filter((it) => it.effect?.getComputedTiming().endTime !== Infinity);
    await Promise.allSettled(ending.map((it) => it.finished));
  });
}

/**
 * Fails if the page, in either theme, breaks a rule of WCAG 2.2 AA that axe can check: all rules in the theme it is in, those of colours in the other.
 * All but the rail, unless `everything` is wanted. With a selector, only that part is judged: for what opens on a page that was judged before.
 */
export async function expectAccessible(page: Page, part: Part = null): Promise<void> {
  const html = page.locator("html");
  const now = await html.getAttribute("data-mantine-color-scheme");
  const other = now === "dark" ? "light" : "dark";
  if (part !== null && part !== "everything") await expect(page.locator(part).first()).toBeVisible();
  await settleColours(page);
  const found = (await runAxe(page, part, { type: "tag", values: TAGS })).map((it) => `${now}: ${it}`);
  await page.emulateMedia({ colorScheme: other, reducedMotion: "reduce" });
  await expect(html).toHaveAttribute("data-mantine-color-scheme", other);
  expect(found).toEqual([]);
  // What the page draws again after the change of themes may be judged in between: it is judged until it stands.
  await expect(async () => {
    await settleColours(page);
    expect((await runAxe(page, part, { type: "rule", values: COLOUR_RULES })).map((it) => `${other}: ${it}`)).toEqual([]);
  }).toPass({ timeout: 10_000 });
}
