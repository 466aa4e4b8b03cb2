/** Measures the page of a run with more than 10,000 events in a real browser: `node --experimental-transform-types tests/bench_run.ts`, with AWAKEN as for the tests.
 *
 *  Prints how long it takes to open, the longest task of the main thread while it scrolls, and the heap after a collection. */
import { join } from "node:path";

import { chromium, type CDPSession, type Page } from "@playwright/test";

import { Server } from "./fixtures.ts";

const LIMITS = { openMs: 1_000, taskMs: 50, heapMb: 120 };
const SCROLLS = 60;

type Figures = { name: string; openMs: number; taskMs: number; tasks: number; heapMb: number };

/** Notes every task of the main thread that took longer than 50 ms. */
async function watchTasks(page: Page): Promise<void> {
  await page.addInitScript(() => {
    const held = window as unknown as { longTasks: number[] };
    held.longTasks = [];
    new PerformanceObserver((list) => held.longTasks.push(...list.getEntries().map((it) => it.duration))).observe({ type: "longtask", buffered: true });
  });
}

async function readTasks(page: Page): Promise<number[]> {
  return page.evaluate(() => {
    const held = window as unknown as { longTasks: number[] };
    return held.longTasks.splice(0);
  });
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
  await readTasks(page);
  await scroll(page, region);
  const tasks = await readTasks(page);
  return { name, openMs, taskMs: Math.max(0, ...tasks), tasks: tasks.length, heapMb: await readHeap(session) };
}

const server = await Server.start([join(import.meta.dirname, "bench_app.py")]);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"] });
try {
  const { run_id: runId } = await server.run("reader", "Look everything up.");
  for (;;) {
    const { status } = await server.ask<{ status: string }>("GET", `/v1/runs/${runId}`);
    if (status === "done") break;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  const page = await browser.newPage({ viewport: { width: 1360, height: 850 } });
  await watchTasks(page);
  const session = await page.context().newCDPSession(page);
  // The first visit fills the browser's cache, as for a person who comes from the list of runs.
  await page.goto(`${server.url}/console/runs`);
  await page.getByRole("link", { name: /…/ }).first().waitFor();
  const url = `${server.url}/console/runs/${runId}`;
  const results = [
    await measure(page, session, url, "waterfall", "Waterfall of the run", (it) => it.getByText(/^\d+ spans$/).waitFor({ timeout: 60_000 })),
    await measure(page, session, `${url}?tab=events`, "events", "Events of the run", (it) => it.getByText("Up to date").waitFor({ timeout: 60_000 })),
  ];
  const count = await page.getByText(/^\d+ events$/).textContent();
  console.log(`A run with ${count}:`);
  for (const it of results) {
    const isGood = it.openMs <= LIMITS.openMs && it.taskMs <= LIMITS.taskMs && it.heapMb <= LIMITS.heapMb;
    console.log(`${it.name.padEnd(10)} opens in ${it.openMs.toFixed(0)} ms; scrolling: ${it.tasks} tasks over 50 ms, the longest ${it.taskMs.toFixed(0)} ms; heap ${it.heapMb.toFixed(1)} MB ${isGood ? "ok" : "TOO MUCH"}`);
  }
} finally {
  await browser.close();
  await server.close();
}
