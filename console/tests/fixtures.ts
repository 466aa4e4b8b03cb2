/** What every test of the console has: a server of its own on a fresh store, and a page that may talk to nothing else. */
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import AxeBuilder from "@axe-core/playwright";
import { expect, test as base, type Page } from "@playwright/test";

const AWAKEN = process.env.AWAKEN ?? join(import.meta.dirname, "../../.venv/bin/awaken");
const READY = /Ready: (http\S+?),/;
const START_MS = 30_000;

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

type Fixtures = {
  /** A server that the tests of one worker share; tests use threads and records of their own. */
  server: Server;
  /** A page whose errors and requests to other origins fail the test. */
  page: Page;
};

export const test = base.extend<{ page: Page }, { server: Server }>({
  server: [
    async ({}, use) => {
      const server = await Server.start();
      await use(server);
      await server.close();
    },
    { scope: "worker" },
  ],
  page: async ({ page }, use) => {
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
  },
}) satisfies unknown as ReturnType<typeof base.extend<Fixtures>>;

export { expect };

/** Opens a page of the console and waits until it has loaded what it shows. */
export async function open(page: Page, server: Server, path: string): Promise<void> {
  await page.goto(`${server.url}/console${path}`);
  await expect(page.locator("h1")).toBeVisible();
  await expect(page.locator('[aria-busy="true"]')).toHaveCount(0);
}

const TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
/** The rules whose verdict depends on colours; the others say the same in both themes. */
const COLOUR_RULES = ["color-contrast", "link-in-text-block"];

/** Fails if the page, in either theme, breaks a rule of WCAG 2.2 AA that axe can check. */
export async function expectAccessible(page: Page): Promise<void> {
  for (const colorScheme of ["dark", "light"] as const) {
    // Colours that are still on their way from one theme to the other have no contrast to judge.
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await expect(page.locator("html")).toHaveAttribute("data-mantine-color-scheme", colorScheme);
    await page.evaluate(async () => {
      await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
      const ending = document.getAnimations().filter((it) => it.effect?.getComputedTiming().endTime !== Infinity);
      await Promise.allSettled(ending.map((it) => it.finished));
    });
    // Without frames of other origins axe needs no second page to gather what it found.
    const axe = new AxeBuilder({ page }).setLegacyMode(true).options({ resultTypes: ["violations"] });
    const { violations } = await (colorScheme === "dark" ? axe.withRules(COLOUR_RULES) : axe.withTags(TAGS)).analyze();
    expect(violations.map((it) => `${colorScheme}: ${it.id}: ${it.nodes.map((node) => node.target.join(" ")).join(", ")}`)).toEqual([]);
  }
}
