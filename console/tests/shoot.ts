/** Takes pictures of pages of a running server: `node tests/shoot.ts URL FOLDER /runs /chat …`, wide and at 320 px, light and dark. */
import { chromium } from "@playwright/test";

const [url = "http://127.0.0.1:38080", folder = "/tmp/shots", ...paths] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const WIDE = { width: 1440, height: 900 };
const NARROW = { width: 320, height: 700 };
const context = await browser.newContext({ reducedMotion: "reduce" });
const page = await context.newPage();
page.on("console", (message) => message.type() === "error" && console.log(message.text()));
page.on("pageerror", (error) => console.log(error.message));
for (const path of paths) {
  const name = path.replaceAll(/[^a-z0-9]+/gi, "_") || "home";
  await page.setViewportSize(WIDE);
  await page.goto(`${url}/console${path}`);
  await page.waitForSelector("h1");
  await page.waitForFunction(() => document.querySelector('[aria-busy="true"]') === null);
  for (const [size, viewport] of [["wide", WIDE], ["narrow", NARROW]] as const) {
    await page.setViewportSize(viewport);
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      // Colours and icons of the other theme are drawn over several frames.
      await page.waitForTimeout(1_000);
      await page.screenshot({ path: `${folder}/${name}-${size}-${colorScheme}.png` });
    }
  }
}
await browser.close();
