import { describe, expect, it } from "vitest";

import { addSpan, findUnread, shareRead, type Span } from "./readSpans";

describe("what was on the screen", () => {
  const read = (...parts: Span[]) => parts.reduce<readonly Span[]>(addSpan, []);

  it("is whole when its parts leave out no line, in whatever order they came", () => {
    expect(findUnread(read([0, 300], [295, 600], [600, 900]), 900)).toBeNull();
    expect(findUnread(read([600, 900], [0, 300], [300, 600]), 900)).toBeNull();
    expect(findUnread(read([1, 893]), 900)).toBeNull();
  });

  it("begins to be unread where the first line is missing, also if its end was seen", () => {
    expect(findUnread([], 900)).toBe(0);
    expect(findUnread(read([0, 300], [600, 900]), 900)).toBe(300);
    expect(findUnread(read([40, 900]), 900)).toBe(0);
    expect(findUnread(read([0, 880]), 900)).toBe(880);
  });

  it("has a share that is never all before it is whole", () => {
    expect(shareRead(read([0, 300], [600, 900]), 900)).toBeCloseTo(2 / 3);
    expect(shareRead(read([0, 899_000]), 900_000)).toBe(0.99);
    expect(shareRead(read([0, 900]), 900)).toBe(1);
  });
});
