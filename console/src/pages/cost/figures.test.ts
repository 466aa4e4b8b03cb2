import { describe, expect, it } from "vitest";

import { DAY_MS, forecastMonth, makeSeries, OTHERS, sumGroups, type UsageRow } from "./figures";

const DAY = Date.UTC(2026, 10, 10);
const row = (day: number, agent: string, nanos: number | null, tokens = 10): UsageRow => ({ day, agent_id: agent, sums: { runs: 1, input_tokens: tokens, output_tokens: 0, cost_nanos: nanos } });

describe("groups", () => {
  it("are summed, the most expensive first", () =>
    expect(sumGroups([row(DAY, "a", 1), row(DAY, "b", 5), row(DAY + DAY_MS, "a", 2)], "agent").map((it) => [it.name, it.nanos, it.runs])).toEqual([["b", 5, 1], ["a", 3, 2]]));
  it("know whether they have a price", () => expect(sumGroups([row(DAY, "a", null), row(DAY, "b", 0)], "agent").map((it) => it.hasPrice)).toEqual([false, true]));
});

describe("series", () => {
  it("have a point for every day, and sum what is small as others", () => {
    const rows = ["a", "b", "c", "d"].map((name, at) => row(DAY, name, (4 - at) * 1e9));
    const { names, points } = makeSeries(rows, "agent", "cost", DAY, DAY + 2 * DAY_MS, 3);
    expect(names).toEqual(["a", "b", OTHERS]);
    expect(points).toHaveLength(3);
    expect([points[0]?.a, points[0]?.[OTHERS], points[1]?.a]).toEqual([4, 3, 0]);
  });
});

describe("the forecast", () => {
  it("adds the average of the last whole days for each day that is left", () => {
    // The 10th and the 11th cost 4 and 2; today, the 12th, cost 1 so far; 18 days are left of November.
    const rows = [row(DAY, "a", 4e9), row(DAY + DAY_MS, "a", 2e9), row(DAY + 2 * DAY_MS, "a", 1e9)];
    expect(forecastMonth(rows, DAY + 2 * DAY_MS + 5)).toEqual({ monthNanos: 7e9, endNanos: 7e9 + 18 * 3e9 });
  });
  it("knows no sum of models without a price, and a sum of nothing where nothing was used", () => {
    expect(forecastMonth([row(DAY, "a", null), row(DAY + DAY_MS, "a", null)], DAY + 2 * DAY_MS)).toEqual({ monthNanos: null, endNanos: null });
    expect(forecastMonth([row(DAY, "a", 0), row(DAY + DAY_MS, "b", null)], DAY + DAY_MS)).toEqual({ monthNanos: 0, endNanos: 0 });
    expect(forecastMonth([], DAY).monthNanos).toBe(0);
  });
  it("is not made from a part of a day", () => expect(forecastMonth([row(DAY, "a", 4e9)], DAY + 5)).toEqual({ monthNanos: 4e9, endNanos: null }));
  it("counts days of the month before in the average only", () => {
    const begin = Date.UTC(2026, 10, 1);
    expect(forecastMonth([row(begin - DAY_MS, "a", 3e9)], begin + 1)).toEqual({ monthNanos: 0, endNanos: 29 * 3e9 });
  });
});
