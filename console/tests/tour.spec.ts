import { join } from "node:path";

import { enter, expect, test, visit } from "./fixtures";

/** Where the pictures of the documentation go; without it the tour only looks. */
const PICTURES = process.env.AWAKEN_PICTURES;
/** How long a person thinks in the pictures: a run of two milliseconds has no waterfall to speak of. */
const THINKS_MS = PICTURES === undefined ? 0 : 4_000;

test("the tour of the documentation", async ({ page, server }) => {
  test.slow();
  for (const text of ["RUN_WEATHER_TOOL", "Hello!", "RUN_FAILING_TOOL"]) await server.run("default", text);
  const { run_id: runId, thread_id: threadId } = await server.run("permission", "RUN_DELETE_TOOL");
  const { items } = await server.ask<{ items: { ticket_id: string }[] }>("GET", `/v1/threads/${threadId}/tickets`);
  await page.waitForTimeout(THINKS_MS);
  await server.ask("POST", `/v1/threads/${threadId}/decision`, { ticket_id: items[0]?.ticket_id, action: "resume" });
  await expect.poll(async () => (await server.ask<{ status: string }>("GET", `/v1/runs/${runId}`)).status).toBe("done");
  await server.run("permission", "RUN_DELETE_TOOL");
  const stops = [
    { path: "/", title: "Home", picture: "console-home.png" },
    { path: `/runs/${runId}`, title: /^Run/, picture: "console-run.png" },
    { path: "/approvals", title: "Approvals", picture: "console-approvals.png" },
  ];
  await enter(page, server, "/settings");
  for (const { path, title, picture } of stops) {
    await visit(page, path);
    await expect(page.locator("h1")).toHaveText(title);
    await expect(page.locator('[aria-busy="true"]')).toHaveCount(0);
    if (path === "/approvals") await page.getByText("delete_file").first().click();
    if (PICTURES !== undefined) await page.screenshot({ path: join(PICTURES, picture), animations: "disabled" });
  }
});
