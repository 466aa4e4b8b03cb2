/** Takes pictures of pages of a running server: `node tests/shoot.ts URL FOLDER /runs /chat …`, light and dark, and at 320 px. */
import { chromium } from "@playwright/test";

const [url = "http://127.0.0.1:38080", folder = "/tmp/shots", ...paths] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const looks = [
  { name: "light", colorScheme: "light" as const, viewport: { width: 1360, height: 850 } },
  { name: "dark", colorScheme: "dark" as const, viewport: { width: 1360, height: 850 } },
  { name: "narrow", colorScheme: "light" as const, viewport: { width: 320, height: 700 } },
];
for (const look of looks) {
  const page = await browser.newPage(look);
  page.on("console", (message) => message.type() === "error" && console.log(`${look.name}: ${message.text()}`));
  page.on("pageerror", (error) => console.log(`${look.name}: ${error.message}`));
  for (const path of paths) {
    await page.goto(`${url}/console${path}`);
    await page.waitForSelector("h1");
    await page.waitForTimeout(600);
    await page.screenshot({ path: `${folder}/${path.replaceAll(/[^a-z0-9]+/gi, "_") || "home"}-${look.name}.png` });
  }
  await page.close();
}
await browser.close();
