import { enter, expect, expectAccessible, open, type Server, test, visit } from "./fixtures";

type Listed = { items: { dispatch_id: string; status: string }[] };

/** Input that cannot work: its message has the id of another one. */
async function makeDeadLetter(server: Server): Promise<{ threadId: string; dispatchId: string }> {
  const { thread_id: threadId } = await server.run("default", "Hello");
  const id = `twice-${threadId}`;
  await server.ask("POST", "/v1/runs", { agent_id: "default", thread_id: threadId, messages: [{ id, content: "first" }] });
  await server.ask("POST", `/v1/threads/${threadId}/messages`, { agent_id: "default", messages: [{ id, content: "second" }] });
  let found: Listed = { items: [] };
  await expect.poll(async () => {
    found = await server.ask<Listed>("GET", `/v1/dispatches?status=dead_letter&thread_id=${threadId}`);
    return found.items.length;
  }).toBe(1);
  return { threadId, dispatchId: found.items[0]?.dispatch_id ?? "" };
}

test("every view says what belongs there when it is empty", async ({ page, server }) => {
  await open(page, server, "/queue?view=waiting&thread=no-such-thread");
  for (const view of ["waiting", "claimed", "dead", "outbox", "all"]) {
    await visit(page, `/queue?view=${view}&thread=${view === "outbox" ? "" : "no-such-thread"}`);
    await expect(page.getByRole("heading", { level: 2, name: view === "outbox" ? "Nothing in the outbox was given up" : "No delivery matches the filters" })).toBeVisible();
    await expectAccessible(page, view === "waiting" ? null : "main");
  }
});

test("a dead letter has its error and is sent again", async ({ page, server }) => {
  const { threadId, dispatchId } = await makeDeadLetter(server);
  await enter(page, server, `/queue?view=dead&thread=${threadId}`);
  const row = page.getByRole("row").filter({ hasText: "a message id is used twice" });
  await expect(row).toBeVisible();
  await expectAccessible(page);
  // On a usual screen no column is cut: the error takes the room that the others leave.
  await page.setViewportSize({ width: 1_440, height: 900 });
  for (const [view, name] of [["dead", "Dead letters"], ["all", "All"]] as const) {
    await visit(page, `/queue?view=${view}&thread=${threadId}`);
    const table = page.getByRole("region", { name, exact: true });
    await expect(table.getByRole("row").filter({ hasText: "InvalidRecord" })).toBeVisible();
    await expect.poll(() => table.evaluate((it) => it.scrollWidth - it.clientWidth), view).toBe(0);
  }
  await visit(page, `/queue?view=dead&thread=${threadId}&open=${dispatchId}`);
  const drawer = page.getByRole("dialog");
  await expect(drawer.getByRole("region", { name: "Error" })).toContainText("a message id is used twice");
  await expect(drawer.getByRole("region", { name: "Message of user" })).toContainText("second");
  await expect(drawer.getByText(/1 of \d+ attempts/)).toBeVisible();
  await drawer.getByRole("button", { name: "Replay" }).click();
  await page.getByRole("dialog", { name: "Send this dead letter again?" }).getByRole("button", { name: "Replay" }).click();
  await expect(page.getByText("1 queued again.")).toBeVisible();
  await expect.poll(async () => (await server.ask<Listed>("GET", `/v1/dispatches?thread_id=${threadId}`)).items.length).toBe(2);
});

test("dead letters are replayed together by keyboard alone, once", async ({ page, server }) => {
  const { threadId } = await makeDeadLetter(server);
  await enter(page, server, `/queue?view=dead&thread=${threadId}`);
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  await expect(page.getByText("1 selected")).toBeVisible();
  await page.getByRole("button", { name: "Replay" }).first().focus();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("dialog")).toContainText("can be replayed once");
  // The dialog takes the focus after it is shown.
  await expect(page.getByRole("dialog").locator(":focus")).toHaveText("Replay");
  await page.keyboard.press("Enter");
  await expect(page.getByText("1 queued again.")).toBeVisible();
});

test("what waits is counted by agent, and what is claimed has its lease", async ({ page, server }) => {
  const { thread_id: threadId } = await server.run("default", "Hello");
  const say = (content: string) => server.ask("POST", `/v1/threads/${threadId}/messages`, { agent_id: "default", messages: [{ content }] });
  await say("RUN_SLOW_TOOL");
  await expect.poll(async () => (await server.ask<Listed>("GET", `/v1/dispatches?status=claimed&thread_id=${threadId}`)).items.length).toBe(1);
  await say("Later");
  await enter(page, server, `/queue?view=claimed&thread=${threadId}`);
  await expect(page.getByRole("region", { name: "Waiting by agent" })).toContainText("default");
  await expect(page.getByRole("region", { name: "Claimed" })).toContainText("left");
  await expectAccessible(page);
});
