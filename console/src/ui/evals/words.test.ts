import { expect, test } from "vitest";

import { describeBudget, describeSpent, formatPoints, formatRate, shortenReason } from "./words";

test("a rate close to an end is not rounded onto it", () => {
  expect(formatRate(0)).toBe("0 %");
  expect(formatRate(0.004)).toBe("0.4 %");
  expect(formatRate(0.996)).toBe("99.6 %");
  expect(formatRate(1)).toBe("100 %");
});

test("a difference has its sign, and nothing is no sign", () => {
  expect(formatPoints(0.12)).toBe("+12");
  expect(formatPoints(-0.004)).toBe("−0.4");
  expect(formatPoints(0)).toBe("±0");
});

test("what is not known of an amount is left out, and not zero", () => {
  expect(describeSpent({ tokens: 360, cost_usd: null })).toBe("360 tokens");
  expect(describeSpent({})).toBeNull();
  expect(describeSpent({ tokens: 0, cost_usd: 0 })).toBe("$0 · 0 tokens");
  expect(describeBudget({ cost_usd: 2 })).toBe("$2.00");
  expect(describeBudget(null)).toBeNull();
});

test("a reason is shown without the figures beside it, and other words are kept whole", () => {
  expect(shortenReason("+1.000 [-0.522, +1.000] (95 %, 5 cases): undecided")).toBe("");
  expect(shortenReason("+0.000 [-0.522, +0.522] (95 %, 5 cases): undecided; about 183 cases would decide it")).toBe("About 183 cases would decide it");
  expect(shortenReason("1 case is in both; at least two are needed")).toBe("1 case is in both; at least two are needed");
});
