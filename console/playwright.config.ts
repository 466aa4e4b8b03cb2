/** The console in a real browser against a real `awaken serve`. */
import { defineConfig } from "@playwright/test";

const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

export default defineConfig({
  testDir: "tests",
  testMatch: "*.spec.ts",
  outputDir: "test-results",
  fullyParallel: true,
  workers: 2,
  // A test that passes only when it is repeated is listed as flaky: a fault of the test or of the page, to be mended.
  retries: 1,
  timeout: 60_000,
  expect: { timeout: 15_000 },
  reporter: [["list"]],
  use: {
    headless: true,
    // Colours are judged when they are still, not on their way.
    contextOptions: { reducedMotion: "reduce" },
    viewport: { width: 1360, height: 850 },
    launchOptions: { executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS },
    screenshot: "only-on-failure",
  },
});
