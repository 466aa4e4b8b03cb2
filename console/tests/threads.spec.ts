import { sentTo } from "./bodies";
import { enter, expect, expectAccessible, open, type Server, test, visit } from "./fixtures";

type Thread = { id: string; metadata: { title?: string; custom: Record<string, unknown> }; resource_id?: string };

/** A thread with two runs, and a title of its own. */
async function makeThread(server: Server, title: string): Promise<string> {
  const { thread_id: id } = await server.run("default", "Hello <b>there</b>\u202e");
  await server.run("default", "RUN_WEATHER_TOOL", id);
  await server.ask("PATCH", `/v1/threads/${id}`, { title, custom: { colour: "red" } });
  return id;
}

test("the parts of a thread are accessible", async ({ page, server }) => {
  await enter(page, server, `/threads/${await makeThread(server, "Parts")}`);
  for (const tab of ["Runs", "Queue", "Log", "Tickets", "Lineage", "Details"]) {
    await page.getByRole("tab", { name: tab }).click();
    await expect(page.locator('[aria-busy="true"]')).toHaveCount(0);
    await expectAccessible(page, tab === "Runs" ? null : "[role=tabpanel]:not(:empty)");
  }
});

test("a thread shows its conversation with the runs that wrote it", async ({ page, server }) => {
  const id = await makeThread(server, "Shown in the list");
  await open(page, server, "/threads");
  await page.getByRole("link", { name: "Shown in the list" }).click();
  await expect(page.locator("h1")).toHaveText("Shown in the list");
  // What a person wrote is text, and what is invisible in it is not.
  await expect(page.getByText("Hello <b>there</b>\\u202e").first()).toBeVisible();
  await expect(page.getByRole("link", { name: "Run of default" })).toHaveCount(2);
  await expect(page.getByText("Calls get_weather")).toBeVisible();
  await expectAccessible(page);
  await page.setViewportSize({ width: 320, height: 640 });
  const long = "a-title-of-one-word-".repeat(8);
  await server.ask("PATCH", `/v1/threads/${id}`, { title: long });
  await page.reload();
  await expect(page.locator("h1")).toHaveText(long);
  await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(320);
});

test("a thread is forked at a message, and the fork says where it comes from", async ({ page, server }) => {
  const id = await makeThread(server, "The trunk");
  await enter(page, server, `/threads/${id}`);
  await page.getByRole("button", { name: "Fork at message 2" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Fork here" }).click();
  await expect(page.getByText("Forked from")).toBeVisible();
  await expect(page.getByRole("article")).toHaveCount(2);
  expect(page.url()).not.toContain(id);
  await page.getByText("Forked from").locator("..").getByRole("link").click();
  await expect(page).toHaveURL(new RegExp(id));
  await page.getByRole("tab", { name: "Lineage" }).click();
  await expect(page.getByRole("region", { name: "Forked from it" }).getByRole("row")).toHaveCount(2);
  await expect(page.getByText(/^Among (all|the) /)).toBeVisible();
});

test("threads are found by their title, and the page says how far it looked", async ({ page, server }) => {
  const word = `quince${Date.now()}`;
  await makeThread(server, `About ${word}`);
  await enter(page, server, `/threads?q=${word}`);
  await expect(page.getByRole("link", { name: `About ${word}` })).toBeVisible();
  await expect(page.getByText("1 row", { exact: true })).toBeVisible();
  await expect(page.getByText(/^Searched /)).toBeVisible();
  await expectAccessible(page);
  await page.getByRole("textbox", { name: "Title, id, owner or data" }).fill("no such words");
  await expect(page.getByText("No thread matches the filters")).toBeVisible();
});

test("title, owner and custom data are changed; only what changed is sent", async ({ page, server }) => {
  const id = await makeThread(server, "Before");
  await enter(page, server, `/threads/${id}?tab=details`);
  await expect(page.getByRole("button", { name: "Save" })).toBeDisabled();
  await page.getByLabel("Custom data").fill("[1]");
  await expect(page.getByText("This must be a JSON object.")).toBeVisible();
  await page.getByLabel("Custom data").fill('{"colour": "red", "size": 2}');
  await page.getByRole("textbox", { name: "Title" }).fill("After");
  await page.getByLabel("Owner (resource id)").fill("ann");
  await page.getByRole("button", { name: "Save" }).click();
  await expect.poll(() => sentTo(page, id)).toEqual({ title: "After", resource_id: "ann", custom: { size: 2 } });
  await expect(page.locator("h1")).toHaveText("After");
  const thread = await server.ask<Thread>("GET", `/v1/threads/${id}`);
  expect([thread.resource_id, thread.metadata.custom]).toEqual(["ann", { colour: "red", size: 2 }]);
  await visit(page, "/threads?owner=ann");
  await expect(page.getByRole("link", { name: "After" })).toBeVisible();
});

test("the log follows the thread live", async ({ page, server }) => {
  const id = await makeThread(server, "Followed");
  await enter(page, server, `/threads/${id}?tab=log`);
  await expect(page.getByText("Live", { exact: true })).toBeVisible();
  await expect(page.getByRole("button", { name: /^1\s*run_start/ })).toBeVisible();
  const before = (await server.ask<{ items: unknown[] }>("GET", `/v1/threads/${id}/events?limit=200`)).items.length;
  await expect(page.getByText(`${before} rows`)).toBeVisible();
  await server.run("default", "Once more", id);
  const after = (await server.ask<{ items: unknown[] }>("GET", `/v1/threads/${id}/events?limit=200`)).items.length;
  await expect(page.getByText(`${after} rows`)).toBeVisible();
  await page.getByRole("button", { name: /^1\s*run_start/ }).click();
  await expect(page.getByRole("dialog")).toContainText('"event_type": "run_start"');
});

test("a thread that waits is cancelled, and one is deleted with a preview of what goes", async ({ page, server }) => {
  const run = await server.run("permission", "RUN_DELETE_TOOL");
  await enter(page, server, `/threads/${run.thread_id}?tab=tickets`);
  await expect(page.getByRole("link", { name: "Decide in the inbox" })).toBeVisible();
  await page.getByRole("button", { name: "Cancel the run" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel the run" }).click();
  await expect(page.getByText("Nothing waits for a decision here.")).toBeVisible();
  await expect(page.getByRole("button", { name: "Cancel the run" })).toBeDisabled();
  await page.getByRole("button", { name: "More" }).click();
  await page.getByRole("menuitem", { name: "Delete…" }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog).toContainText("1 runs with their logs");
  await expect(dialog).toContainText("messages");
  await dialog.getByRole("button", { name: "Delete" }).click();
  await expect(page.locator("h1")).toHaveText("Threads");
  await visit(page, `/threads/${run.thread_id}`);
  await expect(page.getByText("There is no such thread")).toBeVisible();
  await expectAccessible(page);
});

test("the children of a deleted thread go or stay, as a person says", async ({ page, server }) => {
  const parent = await server.ask<Thread>("POST", "/v1/threads", { title: "Parent" });
  const child = await server.ask<Thread>("POST", "/v1/threads", { title: "Child", parent_thread_id: parent.id });
  await enter(page, server, `/threads/${parent.id}?tab=children`);
  await expect(page.getByRole("link", { name: "Child" })).toBeVisible();
  await page.getByRole("button", { name: "More" }).click();
  await page.getByRole("menuitem", { name: "Delete…" }).click();
  await page.getByLabel("They are deleted too").check();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await expect(page.locator("h1")).toHaveText("Threads");
  await visit(page, `/threads/${child.id}`);
  await expect(page.getByText("There is no such thread")).toBeVisible();
});

test("a thread is found, opened and left by keyboard alone", async ({ page, server }) => {
  const owner = `keys-${Date.now()}`;
  const id = await makeThread(server, "By keys");
  await server.ask("PATCH", `/v1/threads/${id}`, { resource_id: owner });
  await enter(page, server, "/");
  await page.keyboard.press("g");
  await page.keyboard.press("t");
  await expect(page.locator("[data-page-filter]")).toBeVisible();
  await page.keyboard.press("/");
  await page.keyboard.type(owner);
  await expect(page.getByText("1 row", { exact: true })).toBeVisible();
  await page.evaluate(() => (document.activeElement as HTMLElement).blur());
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await expect(page.locator("h1")).toHaveText("By keys");
});
