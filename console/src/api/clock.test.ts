import { expect, test } from "vitest";

import { measureAhead } from "./clock";

const AT = Date.UTC(2026, 10, 20, 12, 0, 0);
const HOUR = 3_600_000;

test("a clock that is an hour off is found, and one that is nearly right is left alone", () => {
  expect(measureAhead(new Date(AT).toUTCString(), AT, AT + 20)).toBe(0);
  expect(measureAhead(new Date(AT).toUTCString(), AT + 9_000, AT + 9_020)).toBe(0);
  expect(measureAhead(new Date(AT).toUTCString(), AT + HOUR, AT + HOUR)).toBe(500 - HOUR);
  // The server takes whole milliseconds.
  expect(measureAhead(new Date(AT + HOUR).toUTCString(), AT, AT + 3)).toBe(HOUR + 499);
  expect(measureAhead(new Date(AT + HOUR).toUTCString(), AT, AT)).toBe(HOUR + 500);
});

test("a reply without the time, one that took long and a clock that was set meanwhile tell nothing", () => {
  expect(measureAhead(null, AT, AT)).toBeUndefined();
  expect(measureAhead("yesterday", AT, AT)).toBeUndefined();
  expect(measureAhead(new Date(AT).toUTCString(), AT, AT + 60_000)).toBeUndefined();
  expect(measureAhead(new Date(AT).toUTCString(), AT, AT - 1)).toBeUndefined();
});
