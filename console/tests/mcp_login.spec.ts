import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";

import { expect, expectAccessible, open, test as base } from "./fixtures";
import { unique } from "./govern";

const VENV = join(import.meta.dirname, "../../.venv/bin/python");
const PYTHON = process.env.AWAKEN_PYTHON ?? (existsSync(VENV) ? VENV : "python");

/** The address of an MCP server that wants a login. */
const test = base.extend<{ vault: string }>({
  vault: async ({}, use) => {
    const child = spawn(PYTHON, [join(import.meta.dirname, "authority_server.py")], { stdio: ["ignore", "pipe", "inherit"] });
    const url = await new Promise<string>((resolve, reject) => {
      child.stdout.on("data", (chunk: Buffer) => { const found = /Ready: (\S+)/.exec(chunk.toString())?.[1]; if (found !== undefined) resolve(found); });
      child.once("exit", (code) => reject(new Error(`The authorization server ended with ${code}.`)));
    });
    await use(url);
    child.kill("SIGKILL");
  },
});

test("a person logs in to an MCP server in this tab, and a reply that it did not ask for is worth nothing", async ({ page, server, vault }) => {
  const id = unique("vault");
  await server.ask("PUT", `/v1/config/mcp-servers/${id}`, { transport: "http", url: vault, allow_private: true, protocol: "legacy", oauth: { type: "login", file: join(server.folder, `${id}.json`) } });
  await open(page, server, `/mcp?id=${id}`);
  const details = page.getByRole("dialog", { name: id });
  await expect(details.getByText("It waits for a login")).toBeVisible();
  await expectAccessible(page);

  // A link that another person sends, with the code of their own account.
  await page.goto(`${server.url}/console/mcp-login?code=theirs&state=theirs`);
  await expect(page.getByRole("alert")).toContainText("This tab did not begin this login");
  await expect(page).toHaveURL(`${server.url}/console/mcp-login`);
  await expectAccessible(page);
  await page.getByRole("link", { name: "Back to the MCP servers" }).click();
  await expect(page.locator("h1")).toHaveText("MCP servers");

  await open(page, server, `/mcp?id=${id}`);
  await details.getByRole("button", { name: "Log in…" }).click();
  await expect(page.getByText(`Logged in to ${id}.`)).toBeVisible();
  await expect(page).toHaveURL(`${server.url}/console/mcp-login`);
  await expectAccessible(page);
  await page.getByRole("link", { name: `Look at ${id}` }).click();
  await expect(details).toBeVisible();
  await expect(details.getByText("It waits for a login")).toHaveCount(0);
  await expect.poll(async () => (await server.ask<{ connected: boolean }>("GET", `/v1/mcp-servers/${id}/status`)).connected).toBe(true);
  // Neither the address nor what the tab keeps has the code.
  expect(await page.evaluate(() => JSON.stringify({ ...sessionStorage, ...localStorage, href: location.href }))).not.toContain("canary");
  await server.ask("DELETE", `/v1/config/mcp-servers/${id}`);
});
