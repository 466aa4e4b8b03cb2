import { expect, open, test } from "./fixtures";
import { PAGES } from "./pages";

const LEAST_PX = 24;
/** Links in running text are excepted; the field inside a box of pills is pressed by pressing the box. */
const TARGETS = 'button, [role="button"], [role="tab"], [role="menuitem"], [role="combobox"]:not([class*="inputField"]), input:not([type="hidden"]):not([type="checkbox"]):not([type="radio"]):not([class*="inputField"]), .mantine-SegmentedControl-label';

test("whatever is pressed is at least 24 pixels high and wide, on every page", async ({ page, server }) => {
  await server.run("default", "Hello");
  const small: string[] = [];
  for (const path of [...PAGES, "/agents/permission?tab=plugins", "/agents/permission?tab=rules", "/mcp?edit=%2B", "/changes?tab=switches"]) {
    await open(page, server, path);
    const found = await page.locator(TARGETS).evaluateAll((all, least) => all.filter((it) => it.checkVisibility() && it.getAttribute("aria-hidden") !== "true" && !it.className.toString().includes("inputField")).flatMap((it) => {
      const { width, height } = it.getBoundingClientRect();
      if (width === 0 || height === 0) return [];
      return Math.min(width, height) < least - 0.5 ? [`${it.tagName.toLowerCase()} "${(it.getAttribute("aria-label") ?? it.textContent ?? "").trim().slice(0, 40)}" ${it.className.toString().slice(0, 60)} ${Math.round(width)}×${Math.round(height)}`] : [];
    }), LEAST_PX);
    small.push(...found.map((it) => `${path}: ${it}`));
  }
  expect(small).toEqual([]);
});
