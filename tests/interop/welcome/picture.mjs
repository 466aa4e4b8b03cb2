// The picture in the README: a chat, and a tool call that waits for a person.
// usage, from a checkout after `make interop`, with `awaken serve` running:
//   .venv/bin/node tests/interop/welcome/picture.mjs /usr/bin/chromium http://127.0.0.1:38080 docs/images/welcome-page.png
import { withPage } from "./browser.mjs";

const [browser, url, path] = process.argv.slice(2);
await withPage(browser, async (page) => {
  const say = async (text) => {
    await page.getByLabel("Message").fill(text);
    await page.getByLabel("Message").press("Enter");
  };
  await page.goto(url);
  await page.getByRole("status").getByText("Healthy").waitFor();
  await page.getByRole("radio", { name: /^permission\b/ }).click();
  await say("Hello!");
  await page.locator("#events summary").getByText("run_finish").waitFor();
  await say("RUN_DELETE_TOOL, please");
  await page.getByRole("button", { name: "Approve" }).waitFor();
  await page.getByRole("log").evaluate((log) => log.scrollTo(0, log.scrollHeight));
  await page.screenshot({ path });
}, { viewport: { width: 1200, height: 760 } });
