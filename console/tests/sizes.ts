/** Whether a page fits a small screen, and whether what is pressed is large enough. */
import type { Page } from "@playwright/test";

import { expect } from "./fixtures";

const LEAST_PX = 24;
const NARROW = { width: 320, height: 640 };
const WIDE = { width: 1360, height: 850 };
/** Links in running text are excepted; the field inside a box of pills is pressed by pressing the box. */
const TARGETS = 'button, [role="button"], [role="tab"], [role="menuitem"], [role="combobox"]:not([class*="inputField"]), input:not([type="hidden"]):not([type="checkbox"]):not([type="radio"]):not([class*="inputField"]), .mantine-SegmentedControl-label';

/** What is pressed and is smaller than a finger needs. */
export async function listSmallTargets(page: Page, path: string): Promise<string[]> {
  const found = await page.locator(TARGETS).evaluateAll((all, least) => all.filter((it) => it.checkVisibility() && it.getAttribute("aria-hidden") !== "true" && !it.className.toString().includes("inputField")).flatMap((it) => {
    const { width, height } = it.getBoundingClientRect();
    if (width === 0 || height === 0) return [];
    return Math.min(width, height) < least - 0.5 ? [`${it.tagName.toLowerCase()} "${(it.getAttribute("aria-label") ?? it.textContent ?? "").trim().slice(0, 40)}" ${it.className.toString().slice(0, 60)} ${Math.round(width)}×${Math.round(height)}`] : [];
  }), LEAST_PX);
  return found.map((it) => `${path}: ${it}`);
}

export async function expectNarrow(page: Page, path: string): Promise<void> {
  await page.setViewportSize(NARROW);
  await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth), path).toBeLessThanOrEqual(NARROW.width);
  await page.setViewportSize(WIDE);
}
