import { expect, test } from "vitest";

import { findChosen } from "./useVirtualRows";

test("the chosen row stays the same one when rows come before it, and is none when it went away", () => {
  const key = (row: string) => row;
  expect(findChosen(["a", "b"], { index: 1, key: "b" }, key)).toBe(1);
  expect(findChosen(["new", "a", "b"], { index: 1, key: "b" }, key)).toBe(2);
  expect(findChosen(["new", "a"], { index: 1, key: "b" }, key)).toBe(-1);
  expect(findChosen(["a"], { index: -1, key: null }, key)).toBe(-1);
});
