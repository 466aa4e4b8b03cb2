import { expect, expectAccessible, open, Server, test, visit } from "./fixtures";
import { PAGES } from "./pages";
import { expectNarrow, expectZoomed, listSmallTargets } from "./sizes";

const MORE = ["/agents/permission?tab=plugins", "/agents/permission?tab=rules", "/mcp?edit=%2B", "/changes?tab=switches", "/schedules?view=triggers", "/schedules?edit=%2B", "/memory?view=documents", "/datasets?create=%2B", "/evals?new=%2B", "/compare", "/calibration"];

/** Half of the pages each: both processors have work. */
for (const half of [0, 1]) {
  const own = [...PAGES, ...MORE].filter((_, at) => at % 2 === half);

  test(`pages of a server without data are accessible in both themes and fit a small screen (${half + 1} of 2)`, async ({ page }) => {
    // Some thirty-five pages, each judged in both themes: on a machine with ten other things to do that takes minutes.
    test.setTimeout(300_000);
    const server = await Server.start();
    try {
      await open(page, server, own[0] ?? "/");
      for (const path of own) {
        if (path !== own[0]) await visit(page, path);
        await test.step(path, async () => {
          await expectAccessible(page, path === own[0] ? "everything" : null);
          await expectNarrow(page, path);
        });
      }
      // With data, whatever is pressed is at least 24 pixels high and wide, and the pages fit as well.
      await server.run("default", "Hello");
      await server.run("permission", "RUN_DELETE_TOOL");
      await open(page, server, own[0] ?? "/");
      const small: string[] = [];
      for (const path of own) {
        if (path !== own[0]) await visit(page, path);
        small.push(...(await listSmallTargets(page, path)));
        await expectNarrow(page, path);
        await expectZoomed(page, path);
      }
      expect(small).toEqual([]);
    } finally {
      await server.close();
    }
  });
}
