import type { Page } from "@playwright/test";

import { expect, expectAccessible, open, Server, test, visit } from "./fixtures";
import { PAGES } from "./pages";

const LEAST_PX = 24;
const NARROW = { width: 320, height: 640 };
const WIDE = { width: 1360, height: 850 };
const MORE = ["/agents/permission?tab=plugins", "/agents/permission?tab=rules", "/mcp?edit=%2B", "/changes?tab=switches", "/schedules?view=triggers", "/schedules?edit=%2B", "/memory?view=documents"];
/** Links in running text are excepted; the field inside a box of pills is pressed by pressing the box. */
const TARGETS = 'button, [role="button"], [role="tab"], [role="menuitem"], [role="combobox"]:not([class*="inputField"]), input:not([type="hidden"]):not([type="checkbox"]):not([type="radio"]):not([class*="inputField"]), .mantine-SegmentedControl-label';

/** What is pressed and is smaller than a finger needs. */
async function listSmallTargets(page: Page, path: string): Promise<string[]> {
  const found = await page.locator(TARGETS).evaluateAll((all, least) => all.filter((it) => it.checkVisibility() && it.getAttribute("aria-hidden") !== "true" && !it.className.toString().includes("inputField")).flatMap((it) => {
    const { width, height } = it.getBoundingClientRect();
    if (width === 0 || height === 0) return [];
    return Math.min(width, height) < least - 0.5 ? [`${it.tagName.toLowerCase()} "${(it.getAttribute("aria-label") ?? it.textContent ?? "").trim().slice(0, 40)}" ${it.className.toString().slice(0, 60)} ${Math.round(width)}×${Math.round(height)}`] : [];
  }), LEAST_PX);
  return found.map((it) => `${path}: ${it}`);
}

async function expectNarrow(page: Page, path: string): Promise<void> {
  await page.setViewportSize(NARROW);
  await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth), path).toBeLessThanOrEqual(NARROW.width);
  await page.setViewportSize(WIDE);
}

/** Half of the pages each: both processors have work. */
for (const half of [0, 1]) {
  const own = [...PAGES, ...MORE].filter((_, at) => at % 2 === half);

  test(`pages of a server without data are accessible in both themes and fit a small screen (${half + 1} of 2)`, async ({ page }) => {
    test.setTimeout(180_000);
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
      }
      expect(small).toEqual([]);
    } finally {
      await server.close();
    }
  });
}
