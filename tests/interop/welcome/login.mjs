// A server that asks for a token, as a person meets it on the welcome page.
import { withPage } from "./browser.mjs";

const [browser, url, token] = process.argv.slice(2);
const seen = {};
await withPage(browser, async (page) => {
  await page.goto(url);
  await page.getByLabel("This server asks for a bearer token.").fill("wrong");
  await page.getByRole("button", { name: "Use it" }).click();
  await page.getByRole("alert").getByText("token").waitFor();
  seen.agentsBefore = await page.getByRole("radio").count();
  await page.getByLabel("This server asks for a bearer token.").fill(token);
  await page.getByRole("button", { name: "Use it" }).click();
  await page.getByRole("radio").first().waitFor();
  seen.isAskedAgain = await page.locator("#login").isVisible();
  await page.getByRole("button", { name: "Say hello" }).click();
  await page.locator(".said").getByText("Scripted response to: Hello!").waitFor();
  seen.snippet = await page.locator("#snippet code").textContent();
});
console.log(JSON.stringify(seen));
