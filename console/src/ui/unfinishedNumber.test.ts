import { expect, it } from "vitest";

import { isUnfinishedNumber } from "./unfinishedNumber";

it("is told from a number, and from nothing", () => {
  for (const text of ["0.", "-", "-0.", "."]) expect(isUnfinishedNumber(text)).toBe(true);
  for (const text of ["", "0", "0.0", "0.05", "-1", "12345678901234567890"]) expect(isUnfinishedNumber(text)).toBe(false);
});
