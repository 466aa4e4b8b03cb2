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

/** A window of 1360 by 850 at 200 %: as many pixels of CSS as a browser leaves at that zoom, each of them four of the screen. */
const ZOOMED = { width: 680, height: 425 };

/** What a page shows at 200 % fits the width, and each of its controls can be pressed: it is under nothing when it is scrolled to. */
export async function expectZoomed(page: Page, path: string): Promise<void> {
  const session = await page.context().newCDPSession(page);
  await session.send("Emulation.setDeviceMetricsOverride", { ...ZOOMED, deviceScaleFactor: 2, mobile: false });
  try {
    await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth), path).toBeLessThanOrEqual(ZOOMED.width);
    const covered = await page.evaluate(() => {
      // A dialog covers its page.
      const place = [...document.querySelectorAll<HTMLElement>("[role=dialog]")].findLast((it) => it.checkVisibility()) ?? document.querySelector("main");
      const controls = [...(place?.querySelectorAll<HTMLElement>("button, a[href], input, select, textarea") ?? [])].filter((it) => it.checkVisibility() && it.getAttribute("aria-hidden") !== "true" && !it.hasAttribute("disabled") && it.tabIndex >= 0);
      return controls.flatMap((it) => {
        it.scrollIntoView({ block: "center", inline: "center" });
        const { left, top, width, height } = it.getBoundingClientRect();
        if (width === 0 || height === 0) return [];
        const seen = document.elementFromPoint(left + width / 2, top + height / 2);
        const isFree = seen !== null && (it.contains(seen) || seen.contains(it) || seen.closest("label") !== null);
        return isFree ? [] : [`${it.tagName.toLowerCase()} "${(it.getAttribute("aria-label") ?? it.textContent ?? "").trim().slice(0, 40)}" is under ${seen?.tagName.toLowerCase() ?? "nothing"}.${seen?.className.toString().slice(0, 40) ?? ""}`];
      });
    });
    expect(covered, path).toEqual([]);
  } finally {
    await session.send("Emulation.clearDeviceMetricsOverride");
    await session.detach();
    await page.setViewportSize(WIDE);
  }
}

export async function expectNarrow(page: Page, path: string): Promise<void> {
  await page.setViewportSize(NARROW);
  await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth), path).toBeLessThanOrEqual(NARROW.width);
  await page.setViewportSize(WIDE);
}
