import { expect, test } from "vitest";

import { mergeViews, parseViews, writeViews } from "./views";

const failed = { name: "Failed", search: { ended: "error", range: "24h" } };

test("what is exported can be imported", () => {
  expect(parseViews(writeViews([failed]))).toEqual([failed]);
});

test("a file brings only views, and only what an address of the list holds", () => {
  const text = JSON.stringify({ views: [null, 3, { name: "" , search: {} }, { name: "x", search: { status: "done", evil: "<script>" } }, { name: 1, search: {} }] });
  expect(parseViews(text)).toEqual([{ name: "x", search: { status: "done" } }]);
  expect(() => parseViews("nonsense")).toThrow("not JSON");
  expect(() => parseViews("[]")).toThrow("no list of views");
});

test("a view of the same name is replaced", () => {
  expect(mergeViews([failed, { name: "A", search: {} }], [{ name: "Failed", search: { ended: "blocked" } }])).toEqual([{ name: "A", search: {} }, { name: "Failed", search: { ended: "blocked" } }]);
});
