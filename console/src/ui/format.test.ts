import { describe, expect, it } from "vitest";

import { formatAge, formatBytes, formatCost, formatDuration, formatOffset, formatSpent, formatTokens, formatUntil } from "./format";

describe("durations", () => {
  it.each([
    [0, "<1 ms"], [0.4, "<1 ms"], [999, "999 ms"], [1_210, "1.21 s"], [42_500, "42.5 s"],
    [86_000, "1 min 26 s"], [3_720_000, "1 h 2 min"], [90_000_000, "1 d 1 h"],
  ])("%d is %s", (ms, text) => expect(formatDuration(ms)).toBe(text));
  it("begin at nothing", () => expect([formatOffset(0), formatOffset(0.4), formatOffset(12)]).toEqual(["0 ms", "<1 ms", "12 ms"]));
});

describe("ages", () => {
  it("are never negative, whatever the clocks say", () => expect(formatAge(5_000, 1_000)).toBe("now"));
  it("have one unit", () => expect(formatAge(0, 7_300_000)).toBe("2 h ago"));
});

describe("times to come", () => {
  it.each([[-5, "now"], [90_000, "in 90 s"], [5_400_000, "in 90 min"], [172_800_000, "in 2 d"]])("%d ms is %s", (ms, text) => expect(formatUntil(1_000 + ms, 1_000)).toBe(text));
});

describe("money and sizes", () => {
  it("shows small costs without hiding that there are any", () => expect(formatCost(12)).toBe("<$0.0001"));
  it("shows nothing as nothing", () => expect(formatCost(0)).toBe("$0"));
  it("does not know what tokens without a price cost", () => expect([formatSpent(0, 30), formatSpent(0, 0), formatSpent(5e9, 30)]).toEqual([null, "$0", "$5.00"]));
  it("shortens tokens", () => expect([formatTokens(812), formatTokens(12_345), formatTokens(2_500_000)]).toEqual(["812", "12.3k", "2.50M"]));
  it("shortens bytes", () => expect([formatBytes(12), formatBytes(12_345)]).toEqual(["12 B", "12.3 kB"]));
});
