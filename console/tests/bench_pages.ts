/** Measures the console in a real browser against the numbers it must hold: `make console-bench`, or here
 *  `node --experimental-transform-types tests/bench_pages.ts`, with AWAKEN as for the tests.
 *
 *  The first page, cold: from an empty cache until it shows what the server knows. A run with more than 10,000 events: how long its page takes to open, the
 *  longest task of the main thread while it scrolls, and the heap after a collection. A chat that gets 500 deltas a second: how busy the main thread is,
 *  and whether the page shows each of them. Exits with 1 if a number does not hold.
 *  A task is measured in time of the processor: on a machine that does other work as well, the clock measures that work too. */
import { join } from "node:path";

import { chromium, type Browser, type CDPSession, type Page } from "@playwright/test";

import { Server } from "./server.ts";

const LIMITS = { firstMs: 1_000, openMs: 1_000, taskMs: 50, heapMb: 120, busy: 0.4 };
const ROUNDS = 5;
const SCROLLS = 60;
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const VIEWPORT = { width: 1360, height: 850 };
/** As `bench_app.py` streams them. */
const DELTAS = 5_000;

type Task = { cpu: number; wall: number };
type TraceEvent = { name: string; ph: string; tid: number; pid: number; dur?: number; tdur?: number; args?: { name?: string } };
type Figure = { text: string; isGood: boolean };

/** The tasks of the page's main thread in a trace, in milliseconds of the processor and of the clock. */
function readTasks(trace: Buffer): Task[] {
  const { traceEvents } = JSON.parse(trace.toString()) as { traceEvents: TraceEvent[] };
  const mains = new Set(traceEvents.filter((it) => it.name === "thread_name" && it.args?.name === "CrRendererMain").map((it) => `${it.pid}-${it.tid}`));
  return traceEvents
    .filter((it) => it.ph === "X" && (it.name === "RunTask" || it.name === "ThreadControllerImpl::RunTask") && mains.has(`${it.pid}-${it.tid}`))
    .map((it) => ({ cpu: (it.tdur ?? it.dur ?? 0) / 1_000, wall: (it.dur ?? 0) / 1_000 }));
}

async function trace(browser: Browser, page: Page, act: () => Promise<void>): Promise<Task[]> {
  await browser.startTracing(page, { categories: ["toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline"] });
  await act();
  return readTasks(await browser.stopTracing());
}

async function readHeap(session: CDPSession): Promise<number> {
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  return usedSize / 1_000_000;
}

/** Scrolls a region with the wheel from its start to its end, one frame after the other. */
async function scroll(page: Page, region: string): Promise<void> {
  const box = page.getByRole("region", { name: region, exact: true });
  const height = await box.evaluate((it) => it.scrollHeight);
  for (let step = 0; step < SCROLLS; step += 1) {
    await box.evaluate((it, by) => new Promise((resolve) => { it.scrollBy(0, by); requestAnimationFrame(() => setTimeout(resolve, 0)); }), height / SCROLLS);
  }
}

/** The first page in a browser that has nothing of it: until what the server said is on the page. */
async function measureFirstPage(browser: Browser, server: Server): Promise<Figure> {
  const rounds: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const context = await browser.newContext({ viewport: VIEWPORT });
    const page = await context.newPage();
    const begin = performance.now();
    await page.goto(`${server.url}/`);
    await page.locator("h1").waitFor();
    await page.locator('main:not(:has([aria-busy="true"]))').waitFor();
    rounds.push(performance.now() - begin);
    await context.close();
  }
  const [fastest, median, slowest] = [0, Math.floor(ROUNDS / 2), ROUNDS - 1].map((it) => rounds.toSorted((a, b) => a - b)[it] ?? Number.NaN);
  return { text: `first page, cold: ${median?.toFixed(0)} ms (${fastest?.toFixed(0)} to ${slowest?.toFixed(0)} in ${ROUNDS} rounds)`, isGood: (median ?? Infinity) <= LIMITS.firstMs };
}

async function measureRun(browser: Browser, page: Page, session: CDPSession, url: string, region: string, isReady: (page: Page) => Promise<unknown>): Promise<Figure> {
  const begin = performance.now();
  await page.goto(url);
  await page.getByRole("region", { name: region, exact: true }).getByRole("button").first().waitFor();
  const openMs = performance.now() - begin;
  await isReady(page);
  const tasks = await trace(browser, page, () => scroll(page, region));
  const taskMs = tasks.reduce((longest, it) => Math.max(longest, it.cpu), 0);
  const wallMs = tasks.reduce((longest, it) => Math.max(longest, it.wall), 0);
  const heapMb = await readHeap(session);
  return {
    text: `${region}: opens in ${openMs.toFixed(0)} ms; longest task while scrolling ${taskMs.toFixed(0)} ms of the processor, ${wallMs.toFixed(0)} ms by the clock; heap ${heapMb.toFixed(1)} MB`,
    isGood: openMs <= LIMITS.openMs && taskMs <= LIMITS.taskMs && heapMb <= LIMITS.heapMb,
  };
}

async function makeRun(server: Server): Promise<string> {
  const { run_id: runId } = await server.run("reader", "Look everything up.");
  for (;;) {
    const { status } = await server.ask<{ status: string }>("GET", `/v1/runs/${runId}`);
    if (status === "done") return runId;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

async function measureRuns(browser: Browser, page: Page, session: CDPSession, server: Server): Promise<Figure[]> {
  const runId = await makeRun(server);
  // The first visit fills the browser's cache, as for a person who comes from the list of runs.
  await page.goto(`${server.url}/console/runs`);
  await page.getByRole("link", { name: /…/ }).first().waitFor();
  const url = `${server.url}/console/runs/${runId}`;
  const waterfall = await measureRun(browser, page, session, url, "Waterfall of the run", (it) => it.getByText(/^\d+ spans$/).waitFor({ timeout: 60_000 }));
  const events = await measureRun(browser, page, session, `${url}?tab=events`, "Events of the run", (it) => it.getByText("Up to date").waitFor({ timeout: 60_000 }));
  console.log(`A run with ${await page.getByText(/^\d+ events$/).textContent()}:`);
  return [waterfall, events];
}

/** How long the main thread has worked so far, in seconds. */
async function readWork(session: CDPSession): Promise<number> {
  const { metrics } = await session.send("Performance.getMetrics");
  return metrics.find((it) => it.name === "TaskDuration")?.value ?? Number.NaN;
}

/** A chat that is told 5,000 words at 500 a second. */
async function measureChat(page: Page, session: CDPSession, server: Server): Promise<Figure> {
  await page.goto(`${server.url}/console/chat?agent=speaker`);
  const field = page.getByRole("textbox", { name: "Message" });
  // Not by a trace, which costs the page as much as its own work.
  await session.send("Performance.enable");
  await field.fill("Speak.");
  await field.press("Enter");
  await page.locator('[data-turn="assistant"]').last().waitFor();
  const [begin, worked] = [performance.now(), await readWork(session)];
  await page.locator('[data-turn="end"]').last().waitFor({ timeout: 60_000 });
  const seconds = (performance.now() - begin) / 1_000;
  const busy = ((await readWork(session)) - worked) / seconds;
  const text = (await page.locator('[data-turn="assistant"]').last().textContent()) ?? "";
  const shown = new Set(text.match(/w\d+/g)).size;
  return {
    text: `chat: ${shown} of ${DELTAS} deltas shown in ${seconds.toFixed(1)} s (${(DELTAS / seconds).toFixed(0)} a second); main thread ${(busy * 100).toFixed(0)} % busy`,
    isGood: shown === DELTAS && busy <= LIMITS.busy,
  };
}

const server = await Server.start([join(import.meta.dirname, "bench_app.py")]);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
try {
  const first = await measureFirstPage(browser, server);
  const page = await browser.newPage({ viewport: VIEWPORT });
  const session = await page.context().newCDPSession(page);
  const figures = [first, ...(await measureRuns(browser, page, session, server)), await measureChat(page, session, server)];
  for (const it of figures) console.log(`${it.isGood ? "ok      " : "TOO MUCH"} ${it.text}`);
  process.exitCode = figures.every((it) => it.isGood) ? 0 : 1;
} finally {
  await browser.close();
  await server.close();
}
