/** The console in a real browser against a real `awaken serve`. */
import { availableParallelism } from "node:os";

import { defineConfig } from "@playwright/test";

const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--js-flags=--no-opt"];

export default defineConfig({
  testDir: "tests",
  testMatch: "*.spec.ts",
  outputDir: "test-results",
  fullyParallel: true,
  // Not more than there are cores: a page that waits for a processor takes its keys later than a test presses them.
  workers: availableParallelism(),
  // A test that passes only when it is repeated shows a fault of the test or of the page: it is mended, not repeated.
  retries: 0,
  // Long enough for a machine that has other work: what arrives costs no waiting.
  timeout: 120_000,
  expect: { timeout: 30_000 },
  reporter: [["list"]],
  use: {
    headless: true,
    launchOptions: { executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS },
    screenshot: "only-on-failure",
  },
});
