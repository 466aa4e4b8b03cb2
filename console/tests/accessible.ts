/** Whether a page breaks a rule of WCAG 2.2 AA that axe can check, in either theme. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

import { expect, type Page } from "@playwright/test";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
/** The rules whose verdict depends on colours; the others say the same in both themes. */
const COLOUR_RULES = ["color-contrast", "link-in-text-block"];
type Part = string | null;
type Found = { id: string; nodes: { target: unknown[]; element?: Element }[] };
type Axe = { run: (place: object | string, options: object) => Promise<{ violations: Found[]; passes: Found[] }> };

/** The rail is the same on every page: `expectAccessible` judges it where it is asked to, not a hundred times. */
const RAIL = "nav.mantine-AppShell-navbar";

/** Runs the rules that have nothing to do with colours. */
function judgeStructure(page: Page, part: Part): Promise<string[]> {
  const place = part === "everything" ? { include: [["html"]] } : part ?? { exclude: [[RAIL]] };
  return page.evaluate(async ({ place, tags, colours }) => {
    const rules = Object.fromEntries(colours.map((it) => [it, { enabled: false }]));
    const { violations } = await (window as unknown as { axe: Axe }).axe.run(place, { runOnly: { type: "tag", values: tags }, rules, resultTypes: ["violations"] });
    return violations.map((it) => `${it.id}: ${it.nodes.map((node) => node.target.join(" ")).join(", ")}`);
  }, { place, tags: TAGS, colours: COLOUR_RULES });
}

/**
 * Runs the rules of colours on texts and fields. What has the colours, the size and the backgrounds of something that passed in this document is not judged
 * again: a table has a hundred cells in three looks, and this was most of the work of axe.
 */
function judgeColours(page: Page, part: Part): Promise<string[]> {
  return page.evaluate(async ({ part, rail, colours }) => {
    const own = window as unknown as { axe: Axe; passedLooks?: Set<string> };
    const passed = (own.passedLooks ??= new Set());
    const grounds = new Map<Element, string>();
    const groundOf = (it: Element | null): string => {
      if (it === null) return "";
      let found = grounds.get(it);
      if (found === undefined) {
        const { backgroundColor, backgroundImage, opacity, position, filter } = getComputedStyle(it);
        const isPlain = backgroundColor === "rgba(0, 0, 0, 0)" && backgroundImage === "none" && opacity === "1" && filter === "none" && (position === "static" || position === "relative");
        found = groundOf(it.parentElement) + (isPlain ? "" : `/${backgroundColor} ${backgroundImage} ${opacity} ${position} ${filter}`);
        grounds.set(it, found);
      }
      return found;
    };
    const lookOf = (it: Element): string => {
      const { color, fontSize, fontWeight, textDecorationLine, textShadow } = getComputedStyle(it);
      const around = it.parentElement === null ? "" : getComputedStyle(it.parentElement).color;
      return [it.tagName, color, fontSize, fontWeight, textDecorationLine, textShadow, around, groundOf(it)].join(" ");
    };
    const isJudged = (it: Element) => it.matches("input, textarea, select, [contenteditable]") || [...it.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent?.trim() !== "");
    const roots = part === null || part === "everything" ? [document.body] : [...document.querySelectorAll(part)];
    const texts = roots.flatMap((root) => [root, ...root.querySelectorAll("*")]).filter((it) => isJudged(it) && it.checkVisibility() && (part === "everything" || it.closest(rail) === null));
    const isNew = new Map<string, number>();
    // A few of each look: one may be covered by something else, and then axe says nothing about it.
    const include = texts.filter((it) => {
      const look = lookOf(it);
      const count = isNew.get(look) ?? 0;
      isNew.set(look, count + 1);
      return !passed.has(look) && count < 3;
    });
    if (include.length === 0) return [];
    const { violations, passes } = await own.axe.run({ include }, { runOnly: { type: "rule", values: colours }, resultTypes: ["violations", "passes"], elementRef: true });
    for (const { element } of passes.flatMap((it) => (it.id === "color-contrast" ? it.nodes : []))) if (element !== undefined) passed.add(lookOf(element));
    return violations.map((it) => `${it.id}: ${it.nodes.map((node) => node.target.join(" ")).join(", ")}`);
  }, { part, rail: RAIL, colours: COLOUR_RULES });
}

/** Waits until every colour is where it goes: on the way it has no contrast to judge. */
async function settleColours(page: Page): Promise<void> {
  await page.evaluate(async () => {
    await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    const ending = document.getAnimations().filter((it) => it.effect?.getComputedTiming().endTime !== Infinity);
    await Promise.allSettled(ending.map((it) => it.finished));
  });
}

/**
 * Fails if the page breaks a rule: all rules in the theme it is in, those of colours in the other too. All but the rail, unless `everything` is wanted.
 * With a selector, only that part is judged: for what opens on a page that was judged before.
 */
export async function expectAccessible(page: Page, part: Part = null): Promise<void> {
  const html = page.locator("html");
  const now = await html.getAttribute("data-mantine-color-scheme");
  const other = now === "dark" ? "light" : "dark";
  if (part !== null && part !== "everything") await expect(page.locator(part).first()).toBeVisible();
  await settleColours(page);
  // It is loaded once for each document.
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(AXE);
  const found = [...(await judgeStructure(page, part)), ...(await judgeColours(page, part))].map((it) => `${now}: ${it}`);
  await page.emulateMedia({ colorScheme: other, reducedMotion: "reduce" });
  await expect(html).toHaveAttribute("data-mantine-color-scheme", other);
  expect(found).toEqual([]);
  // What the page draws again after the change of themes may be judged in between: it is judged until it stands.
  await expect(async () => {
    await settleColours(page);
    expect((await judgeColours(page, part)).map((it) => `${other}: ${it}`)).toEqual([]);
  }).toPass({ timeout: 10_000 });
}
