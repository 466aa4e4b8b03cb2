import { join } from "node:path";

import { expect, open, test, visit } from "./fixtures";

/** Where the pictures of the documentation go; without it the tour only looks. */
const PICTURES = process.env.AWAKEN_PICTURES;

test("the tour of the documentation", async ({ page, server }) => {
  test.slow();
  for (const text of ["RUN_WEATHER_TOOL", "Hello!", "RUN_FAILING_TOOL"]) await server.run("default", text);
  const { run_id: runId } = await server.run("default", "RUN_WEATHER_TOOL");
  await server.run("permission", "RUN_DELETE_TOOL");
  const stops = [
    { path: "/", picture: "console-home.png" },
    { path: `/runs/${runId}`, picture: "console-run.png" },
    { path: "/approvals", picture: "console-approvals.png" },
  ];
  await open(page, server, "/settings");
  for (const { path, picture } of stops) {
    await visit(page, path);
    await expect(page.locator("main")).not.toHaveText("");
    if (path === "/approvals") await page.getByText("delete_file").first().click();
    if (PICTURES !== undefined) await page.screenshot({ path: join(PICTURES, picture), animations: "disabled" });
  }
});
