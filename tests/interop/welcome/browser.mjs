// A headless browser that talks to nobody but the server under test.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];

export async function withPage(executablePath, use, options = {}) {
  const folder = mkdtempSync(join(tmpdir(), "welcome-"));
  const context = await chromium.launchPersistentContext(folder, {
    executablePath, args: FLAGS, headless: true, viewport: { width: 1360, height: 900 }, ...options,
  });
  context.setDefaultTimeout(10_000);
  try {
    return await use(context.pages()[0], context);
  } finally {
    await context.close();
    rmSync(folder, { recursive: true, force: true });
  }
}
