import { expect, test } from "vitest";

import { splitMarkdown } from "./segments";

test("pieces end at blank lines, but not inside of a fence", () => {
  const text = "One\n\nTwo\n\n```py\na\n\nb\n```\n\nThree";
  expect(splitMarkdown(text)).toEqual(["One\n\n", "Two\n\n", "```py\na\n\nb\n```\n\n", "Three"]);
});

test("what was cut stays the same while the text grows", () => {
  const whole = "A\n\nB **b**\n\n- c\n\n- d\n\n~~~\nx\n\n~~~\n\nE";
  let before: string[] = [];
  for (let length = 1; length <= whole.length; length += 1) {
    const pieces = splitMarkdown(whole.slice(0, length));
    expect(pieces.join("")).toBe(whole.slice(0, length));
    expect(pieces.slice(0, Math.max(0, before.length - 1))).toEqual(before.slice(0, -1));
    before = pieces;
  }
});
