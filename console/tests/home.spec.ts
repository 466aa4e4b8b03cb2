import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

import { enter, expect, expectAccessible, open, Server, test, visit } from "./fixtures";
import { PYTHON } from "./server";
import { tokenOf } from "./tokens";

const run = promisify(execFile);
/** Does what a client of MCP or ACP does with the configuration that the page prints. */
const CLIENTS = join(import.meta.dirname, "snippet_clients.py");

test("a first start: three cards, a way to the chat; what the server does not tell is not known, and nothing is calm", async ({ page }) => {
  const server = await Server.start();
  try {
    await open(page, server, "/");
    await expect(page.getByRole("region", { name: "Talk to an agent now" })).toBeVisible();
    await expect(page.getByRole("region", { name: "Make your own agent" })).toContainText("awaken serve agent.py");
    await expectAccessible(page);
    await expect(page.getByText("Nothing needs a person.")).toBeVisible();
    await page.getByRole("link", { name: "Start a chat" }).click();
    await expect(page.locator("h1")).toHaveText("Chat");
    await page.getByRole("textbox", { name: "Message" }).fill("Hello");
    await page.getByRole("textbox", { name: "Message" }).press("Enter");
    // The text is Markdown once its part of the console has come.
    await expect(page.locator('[data-turn="assistant"] p').filter({ hasText: "Scripted response to: Hello" })).toBeVisible();
    // The first run does not take the other two ways away.
    await page.getByRole("navigation").getByRole("link", { name: "Home" }).click();
    await expect(page.getByRole("region", { name: "Make your own agent" })).toContainText(`awaken serve agent.py --port ${Number(new URL(server.url).port) + 1}`);
    await page.getByRole("button", { name: "Hide these cards" }).click();
    await expect(page.getByRole("region", { name: "Make your own agent" })).toHaveCount(0);
    await expect(page.getByText("Nothing needs a person.")).toBeVisible();
    await page.route("**/v1/tickets?*", (route) => route.fulfill({ status: 500, json: { error: "The store failed.", code: "internal" } }));
    await page.reload();
    await expect(page.locator('[data-need="unknown:tickets"]')).toContainText("Not known: what waits for an answer");
    await expect(page.getByText("Nothing needs a person.")).toHaveCount(0);
    await expectAccessible(page, "main");
  } finally {
    await server.close();
  }
});

test("snippets work as they are printed", async ({ page, server }) => {
  // Five programs, each of which loads a library of a client.
  test.setTimeout(240_000);
  await enter(page, server, "/settings");
  // The cards of a first start stay until they are hidden.
  await page.evaluate(() => localStorage.setItem("awaken.first", "true"));
  await visit(page, "/");
  for (const name of ["curl", "Python", "OpenAI"]) {
    await page.getByRole("tab", { name }).click();
    const text = await page.locator(`[data-snippet="${name}"]`).innerText();
    expect(text).toContain(server.url);
    const { stdout } = name === "curl" ? await run("sh", ["-c", `${text} --silent --max-time 20`]) : await run(PYTHON, ["-c", text]);
    expect(stdout, name).toContain("Scripted response to: Hello");
  }
  await writeFile(join(server.folder, "agent.py"), await page.getByRole("region", { name: "Make your own agent" }).locator("pre").first().innerText());
  for (const [name, ended] of [["MCP", "Scripted response to: Hello"], ["ACP", "sunny in Tokyo"]] as const) {
    await page.getByRole("tab", { name, exact: true }).click();
    const text = await page.locator(`[data-snippet="${name}"]`).innerText();
    const { stdout } = await run(PYTHON, [CLIENTS, name, text], { cwd: server.folder });
    expect(stdout, name).toContain(ended);
  }
  await expect(page.getByText("Without a file the program serves the demo.", { exact: false })).toBeVisible();
});

test("a server with work: what needs a person is first, and leads to its page", async ({ page, server }) => {
  await server.run("permission", "RUN_DELETE_TOOL");
  await open(page, server, "/");
  await expect(page.locator('[data-need="approvals"]')).toContainText(/questions? waits? for an answer/);
  await expect(page.locator('[data-tile="Last 24 hours"]')).toContainText("started");
  await expect(page.locator('[data-tile="Processes"]')).toContainText("slots");
  await expectAccessible(page);
  await page.locator('[data-need="approvals"]').click();
  await expect(page.locator("h1")).toHaveText("Approvals");
});

test("a server that fails: what is wrong is first, and leads to where it is mended", async ({ page, server }) => {
  await server.run("default", "RUN_FAILING_TOOL");
  const { thread_id: threadId } = await server.run("default", "Hello");
  const id = `dead-${threadId}`;
  await server.ask("POST", "/v1/runs", { agent_id: "default", thread_id: threadId, messages: [{ id, content: "first" }] });
  await server.ask("POST", `/v1/threads/${threadId}/messages`, { agent_id: "default", messages: [{ id, content: "second" }] });
  await enter(page, server, "/");
  await expect(page.locator('[data-need="dead"]')).toContainText("dead letter");
  await expect(page.locator('[data-tile="Dead letters"][data-bad]')).toBeVisible();
  await expectAccessible(page);
  await page.locator('[data-need="dead"]').click();
  await expect(page).toHaveURL(/view=dead/);
});

test("a token: the refused requests are repeated with it, and no snippet has it", async ({ page, guarded: server }) => {
  await page.goto(`${server.url}/console/`);
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Token").fill("wrong");
  await dialog.getByRole("button", { name: "Use it" }).click();
  await expect(dialog.getByText("The server refused this token.")).toBeVisible();
  await expect(dialog.getByLabel("Token")).toHaveValue("");
  await dialog.getByLabel("Token").fill(tokenOf("all"));
  await dialog.getByRole("button", { name: "Use it" }).click();
  await expect(page.getByRole("region", { name: "Connect a client" })).toBeVisible();
  await expect(dialog).toHaveCount(0);
  const snippet = page.locator('[data-snippet="curl"]');
  await expect(snippet).toContainText("Authorization: Bearer $AWAKEN_TOKEN");
  await expect(page.locator("body")).not.toContainText(tokenOf("all"));
  await page.getByRole("navigation").getByRole("link", { name: "Chat" }).click();
  await page.getByRole("textbox", { name: "Message" }).fill("Hello");
  await page.getByRole("textbox", { name: "Message" }).press("Enter");
  await expect(page.locator('[data-turn="assistant"]')).toContainText("Scripted response to: Hello");
});
