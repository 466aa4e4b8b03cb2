import { expect, it } from "vitest";

import { groupBy } from "./groups";

it("counts by value, the most common first", () =>
  expect(groupBy(["0.1", "0.2", "0.1"], (it) => it)).toEqual([{ value: "0.1", count: 2 }, { value: "0.2", count: 1 }]));
