import { expect, test } from "vitest";

import { encodeBytes, guessFormat, ownerQuery, readDays, readOwner } from "./owner";

test("without a name the facts are the caller's own", () => {
  expect(ownerQuery(readOwner({}))).toEqual({});
  expect(ownerQuery(readOwner({ whose: "project", name: "site" }))).toEqual({ project: "site" });
  expect(readOwner({ whose: "project" })).toEqual({ kind: "project", name: "" });
  expect(ownerQuery(readOwner({ whose: "user", name: "ann" }))).toEqual({ user_id: "ann" });
});

test("days that are none leave a fact for ever", () => {
  expect([readDays(""), readDays(0), readDays("x"), readDays(0.5)]).toEqual([null, null, null, 43_200_000]);
});

test("a file's format is told by its name", () => {
  expect(["a.PDF", "b.md", "c.txt", "d"].map(guessFormat)).toEqual(["pdf", "markdown", "text", "text"]);
});

test("long bytes are encoded whole", () => {
  const bytes = Uint8Array.from({ length: 100_000 }, (_, at) => at % 256);
  expect(Uint8Array.from(atob(encodeBytes(bytes)), (it) => it.charCodeAt(0))).toEqual(bytes);
});
