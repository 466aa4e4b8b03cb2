import { expect, it } from "vitest";

import { foldLines, type DiffLine } from "./foldLines";

const same = (count: number): DiffLine[] => Array.from({ length: count }, (_, at) => ({ kind: "same", text: `line ${at}` }));

it("keeps three lines around a change and folds the rest", () => {
  const lines = foldLines([...same(10), { kind: "added", text: "new" }, ...same(5)]);
  expect(lines.map((it) => it.kind)).toEqual(["folded", "same", "same", "same", "added", "same", "same", "same", "folded"]);
  expect([lines[0]?.text, lines.at(-1)?.text]).toEqual(["7", "2"]);
});

it("does not fold a single line", () => expect(foldLines([...same(4), { kind: "removed", text: "old" }]).map((it) => it.kind)).toEqual(["same", "same", "same", "same", "removed"]));
