import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";

import type { Request } from "@playwright/test";

import { enter, expect, expectAccessible, open, test as base } from "./fixtures";
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

test("a reply that arrives in another tab, or with another state, is sent nowhere, and the login of the tab that began it is still good", async ({ page, server, vault, context }) => {
  const id = unique("vault");
  await server.ask("PUT", `/v1/config/mcp-servers/${id}`, { transport: "http", url: vault, allow_private: true, protocol: "legacy", oauth: { type: "login", file: join(server.folder, `${id}.json`) } });
  const replies: string[] = [];
  const note = (it: Request) => { if (it.url().endsWith("/login/reply")) replies.push(it.url()); };
  context.on("request", note);
  try {
    // The tab is held at the door of the authorization server; where it would have been sent back to is opened in another one.
    let door = "";
    const isElsewhere = (url: URL) => url.origin !== server.url;
    await page.route(isElsewhere, (route) => { door = route.request().url(); return route.fulfill({ status: 204 }); });
    await enter(page, server, `/mcp?id=${id}`);
    const log = page.getByRole("dialog", { name: id }).getByRole("button", { name: "Log in…" });
    await log.click();
    await expect.poll(() => door).toContain("state=");
    await page.unroute(isElsewhere);
    const back = (await fetch(door, { redirect: "manual" })).headers.get("location") ?? "";
    expect(back).toContain("code=");

    const other = await context.newPage();
    await other.goto(back);
    await expect(other.getByRole("alert")).toContainText("This tab did not begin this login");
    await other.close();

    const begun = await page.evaluate(() => ({ ...sessionStorage }));
    const foreign = new URL(back);
    foreign.searchParams.set("state", "of-another-login");
    await page.goto(foreign.href);
    await expect(page.getByRole("alert")).toContainText("This tab did not begin this login");
    expect(replies).toEqual([]);

    await page.evaluate((kept) => { for (const [name, value] of Object.entries(kept)) sessionStorage.setItem(name, value as string); }, begun);
    await page.goto(back);
    await expect(page.getByText(`Logged in to ${id}.`)).toBeVisible();
    expect(replies).toHaveLength(1);
  } finally {
    context.off("request", note);
  }
  await server.ask("DELETE", `/v1/config/mcp-servers/${id}`);
});

test("a person logs in to an MCP server in this tab, and a reply that it did not ask for is worth nothing", async ({ page, server, vault }) => {
  const id = unique("vault");
  await server.ask("PUT", `/v1/config/mcp-servers/${id}`, { transport: "http", url: vault, allow_private: true, protocol: "legacy", oauth: { type: "login", file: join(server.folder, `${id}.json`) } });
  await enter(page, server, `/mcp?id=${id}`);
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
