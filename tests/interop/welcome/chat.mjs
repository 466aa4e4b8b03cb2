// Everything that a person does on the welcome page, in a real browser. Prints what it saw.
import { createInterface } from "node:readline";
import { withPage } from "./browser.mjs";

const [browser, url, pictures] = process.argv.slice(2);
const seen = { problems: [], strangers: [] };
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

await withPage(browser, async (page) => {
  page.on("pageerror", (error) => seen.problems.push(error.message));
  page.on("console", (line) => /Content Security Policy|Uncaught/.test(line.text()) && seen.problems.push(line.text()));
  page.on("request", (request) => request.url().startsWith(url) || seen.strangers.push(request.url()));
  const choose = (agent) => page.getByRole("radio", { name: new RegExp(`^${agent}\\b`) }).click();
  const say = async (text) => {
    await page.getByLabel("Message").fill(text);
    await page.getByLabel("Message").press("Enter");
  };
  const turn = () => page.locator(".turn").last();
  const events = () => page.locator("#events summary").allTextContents();
  const picture = (name) => pictures && page.screenshot({ path: `${pictures}/${name}.png`, fullPage: true });

  await page.goto(url);
  await page.getByRole("status").getByText("Healthy").waitFor();
  await page.getByRole("radio").first().waitFor();
  seen.agents = await page.locator("#agents b").allTextContents();
  seen.about = await page.locator("#about").textContent();

  seen.snippets = {};
  for (const tab of await page.getByRole("tab").all()) {
    await tab.click();
    seen.snippets[await page.getByRole("tab", { selected: true }).textContent()] = await page.locator("#snippet code").textContent();
  }

  await say("Hello!");
  await page.locator(".said").getByText("Scripted response to: Hello!").waitFor();
  await page.locator("#events summary").getByText("run_finish").waitFor();
  seen.events = await events();

  await choose("permission");
  await say("RUN_DELETE_TOOL");
  await page.getByRole("button", { name: "Approve" }).waitFor();
  await picture("approval");
  await page.reload();
  await page.getByRole("button", { name: "Approve" }).waitFor();
  seen.restored = await page.locator(".me").allTextContents();
  await page.getByRole("button", { name: "Approve" }).click();
  await turn().getByText("delete_file returned: deleted old-report.txt").waitFor();
  seen.approved = await turn().locator(".tool").getAttribute("data-state");
  await page.reload();
  await turn().getByText("delete_file returned: deleted old-report.txt").waitFor();
  seen.approvedAfterReload = await turn().locator(".tool").getAttribute("data-state");
  seen.formsAfterReload = await page.locator(".ask").count();

  await say("RUN_DELETE_TOOL again");
  await page.getByRole("button", { name: "Decline" }).click();
  await turn().locator('.tool[data-state="declined"]').waitFor();
  await turn().locator(".said").first().waitFor();
  seen.declined = await turn().locator(".said").allTextContents();
  await picture("declined");
  await page.reload();
  await turn().locator('.tool[data-state="declined"]').waitFor();
  seen.declinedAfterReload = await turn().locator(".tool em").textContent();

  await say("RUN_DELETE_TOOL once more");
  await page.getByRole("button", { name: "Approve" }).waitFor();
  seen.elsewhere = await page.evaluate(async () => {
    const { items } = await (await fetch("v1/tickets")).json();
    const { run_id: runId, ticket_id: ticketId } = items.at(-1);
    const body = JSON.stringify({ ticketId, action: "resume", payload: { approved: false } });
    const headers = { "Content-Type": "application/json" };
    return (await fetch(`v1/runs/${runId}/decision`, { method: "POST", headers, body })).status;
  });
  await turn().locator('.tool[data-state="declined"]').waitFor();
  await page.locator(".ask").waitFor({ state: "detached" });
  seen.formsAfterElsewhere = await page.locator(".ask").count();

  await choose("default");
  await say("RUN_QUESTION_TOOL");
  await page.getByLabel("Answer").fill("Kyoto");
  await page.getByLabel("Answer").press("Enter");
  await turn().getByText('askUserQuestion returned: "Kyoto"').waitFor();

  await say("RUN_COLOR_TOOL");
  await page.getByRole("button", { name: "Apply" }).click();
  await turn().getByText('set_background_color returned: "applied"').waitFor();
  seen.color = await page.locator("#turns").evaluate((it) => it.style.background);

  await say("RUN_SLOW_TOOL");
  await turn().locator("progress").waitFor();
  await picture("progress");
  console.log("restart");
  await lines.next();
  await turn().getByText(/step \d+ of 60/).waitFor();
  await page.locator("#notice").waitFor({ state: "hidden" });
  seen.turnsAfterDrop = await page.locator(".turn").count();
  seen.toolsAfterDrop = await turn().locator(".tool").count();
  await page.getByRole("button", { name: "Stop" }).click();
  await turn().locator(".end").getByText("cancelled").waitFor();
  seen.canSayMore = await page.getByRole("button", { name: "Send" }).isVisible();

  await page.getByRole("button", { name: "New thread" }).click();
  await page.getByRole("button", { name: "Say hello" }).waitFor();
  seen.turnsOfNewThread = await page.locator(".turn").count();
});
console.log(JSON.stringify(seen));
process.exit(0);
