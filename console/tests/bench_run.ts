/** Measures the page of a run with more than 10,000 events in a real browser: `node --experimental-transform-types tests/bench_run.ts`, with AWAKEN as for the tests;
 *  with `URL RUN` behind it, it measures that run of that server.
 *
 *  Prints how long the page takes to open, the longest task of its main thread while it scrolls, and its heap after a collection.
 *  A task is measured in time of the processor: on a machine that does other work as well, the clock measures that work too. */
import { join } from "node:path";

import { chromium, type CDPSession, type Page } from "@playwright/test";

import { Server } from "./fixtures.ts";

const LIMITS = { openMs: 1_000, taskMs: 50, heapMb: 120 };
const SCROLLS = 60;

type Figures = { name: string; openMs: number; taskMs: number; wallMs: number; heapMb: number };

type TraceEvent = { name: string; ph: string; tid: number; pid: number; dur?: number; tdur?: number; args?: { name?: string } };

/** The tasks of the page's main thread in a trace, in milliseconds of the processor and of the clock. */
function readTasks(trace: Buffer): { cpu: number; wall: number }[] {
  const { traceEvents } = JSON.parse(trace.toString()) as { traceEvents: TraceEvent[] };
  const mains = new Set(traceEvents.filter((it) => it.name === "thread_name" && it.args?.name === "CrRendererMain").map((it) => `${it.pid}-${it.tid}`));
  return traceEvents
    .filter((it) => it.ph === "X" && (it.name === "RunTask" || it.name === "ThreadControllerImpl::RunTask") && mains.has(`${it.pid}-${it.tid}`))
    .map((it) => ({ cpu: (it.tdur ?? it.dur ?? 0) / 1_000, wall: (it.dur ?? 0) / 1_000 }));
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

async function measure(page: Page, session: CDPSession, url: string, name: string, region: string, isReady: (page: Page) => Promise<unknown>): Promise<Figures> {
  const begin = performance.now();
  await page.goto(url);
  await page.getByRole("region", { name: region, exact: true }).getByRole("button").first().waitFor();
  const openMs = performance.now() - begin;
  await isReady(page);
  await page.waitForLoadState("networkidle").catch(() => undefined);
  await browser.startTracing(page, { categories: ["toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline"] });
  await scroll(page, region);
  const tasks = readTasks(await browser.stopTracing());
  const taskMs = tasks.reduce((longest, it) => Math.max(longest, it.cpu), 0);
  const wallMs = tasks.reduce((longest, it) => Math.max(longest, it.wall), 0);
  return { name, openMs, taskMs, wallMs, heapMb: await readHeap(session) };
}

async function makeRun(at: Server): Promise<string> {
  const { run_id: runId } = await at.run("reader", "Look everything up.");
  for (;;) {
    const { status } = await at.ask<{ status: string }>("GET", `/v1/runs/${runId}`);
    if (status === "done") return runId;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

const [givenUrl, givenRun] = process.argv.slice(2);
const server = givenUrl === undefined ? await Server.start([join(import.meta.dirname, "bench_app.py")]) : null;
const origin = server?.url ?? givenUrl;
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"] });
try {
  const runId = givenRun ?? (server === null ? "" : await makeRun(server));
  const page = await browser.newPage({ viewport: { width: 1360, height: 850 } });
  const session = await page.context().newCDPSession(page);
  // The first visit fills the browser's cache, as for a person who comes from the list of runs.
  await page.goto(`${origin}/console/runs`);
  await page.getByRole("link", { name: /…/ }).first().waitFor();
  const url = `${origin}/console/runs/${runId}`;
  const results = [
    await measure(page, session, url, "waterfall", "Waterfall of the run", (it) => it.getByText(/^\d+ spans$/).waitFor({ timeout: 60_000 })),
    await measure(page, session, `${url}?tab=events`, "events", "Events of the run", (it) => it.getByText("Up to date").waitFor({ timeout: 60_000 })),
  ];
  const count = await page.getByText(/^\d+ events$/).textContent();
  console.log(`A run with ${count}:`);
  for (const it of results) {
    const isGood = it.openMs <= LIMITS.openMs && it.taskMs <= LIMITS.taskMs && it.heapMb <= LIMITS.heapMb;
    console.log(`${it.name.padEnd(10)} opens in ${it.openMs.toFixed(0)} ms; longest task while scrolling ${it.taskMs.toFixed(0)} ms of the processor, ${it.wallMs.toFixed(0)} ms by the clock; heap ${it.heapMb.toFixed(1)} MB ${isGood ? "ok" : "TOO MUCH"}`);
  }
} finally {
  await browser.close();
  await server?.close();
}
