import { expect, test } from "vitest";

import { fromLocalField, toLocalField } from "../../ui/localTime";
import { readRange } from "./ranges";

test("a range that ends now begins at a whole minute", () => {
  expect(readRange({ range: "1h" }, 3_600_000 + 61_234)).toEqual({ since: 60_000 });
  expect(readRange({ range: "1h" }, 3_600_000 + 61_999)).toEqual({ since: 60_000 });
});

test("given times are taken, and what is none is left out", () => {
  expect(readRange({ since: "5", until: "9.7" }, 0)).toEqual({ since: 5, until: 9 });
  expect(readRange({ since: "x", until: "-1", range: "toString" }, 0)).toEqual({ since: undefined, until: undefined });
});

test("a field of a chosen zone has the clocks of that zone, on both sides of their change", () => {
  expect(toLocalField("1794909120000", "Asia/Tokyo")).toBe("2026-11-17T18:52");
  expect(fromLocalField("2026-11-17T18:52", "Asia/Tokyo")).toBe("1794909120000");
  for (const at of ["1774745940000", "1774746060000", "1792886340000", "1792893660000"]) expect(fromLocalField(toLocalField(at, "Europe/Berlin"), "Europe/Berlin")).toBe(at);
});

test("a local field keeps its time", () => {
  expect(fromLocalField(toLocalField("1794909120000"))).toBe("1794909120000");
  expect(toLocalField(undefined)).toBe("");
  expect(fromLocalField("")).toBeUndefined();
});
