import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

import { KEYS, matchesKey } from "./keys";

const press = (key: string, more = {}) => ({ key, ctrlKey: false, metaKey: false, altKey: false, ...more });

describe("keys", () => {
  it("binds no two actions of a page to the same keys", () => {
    const all = Object.values(KEYS).map((it) => it.keys);
    expect(new Set(all).size).toBe(all.length);
  });
  it("knows two keys in a row", () => {
    expect(matchesKey("g r", press("r"), "g")).toBe(true);
    expect(matchesKey("g r", press("r"), null)).toBe(false);
  });
  it("takes the second of two keys for nothing else", () => expect(matchesKey("a", press("a"), "g")).toBe(false));
  it("knows Ctrl and ⌘, and leaves other combinations to the browser", () => {
    expect(matchesKey("mod+k", press("k", { metaKey: true }), null)).toBe(true);
    expect(matchesKey("j", press("j", { ctrlKey: true }), null)).toBe(false);
  });
});

it("what the frame binds no page binds: which of two bindings comes first depends on which was drawn last", () => {
  const folder = join(import.meta.dirname, "pages");
  const sources = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((it) => it.endsWith(".tsx"));
  const bound = sources.flatMap((it) => readFileSync(join(folder, it), "utf8").split("\n").filter((line) => /\buseKeys\(.*\b(filter|palette|help):/.test(line)).map(() => it));
  expect(bound).toEqual([]);
});
