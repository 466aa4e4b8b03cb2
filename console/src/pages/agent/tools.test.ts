import { expect, test } from "vitest";

import { estimateTokens, explainTools, listDelegates, matchesTool, splitNames } from "./tools";

const facts = { known: ["a", "b", "c"], candidates: ["a", "b", "x"], denied: ["b"], conditional: ["x"], allowed: null, excluded: [], switchedOff: [] };

test("each tool has the reason that decides", () => {
  expect(explainTools(facts)).toEqual([
    { id: "a", isOffered: true, reason: "default" },
    { id: "b", isOffered: false, reason: "rule" },
    { id: "x", isOffered: true, reason: "asks" },
  ]);
  expect(explainTools({ ...facts, allowed: ["a*"], excluded: ["x"] }).map((it) => [it.id, it.reason])).toEqual([["a", "default"], ["b", "notAllowed"], ["c", "notAllowed"], ["x", "excluded"]]);
  expect(explainTools({ ...facts, switchedOff: ["a"] })[0]).toEqual({ id: "a", isOffered: false, reason: "off" });
});

test("globs match whole names and nothing of a pattern is a regular expression", () => {
  expect(matchesTool("mcp__*", "mcp__files__read")).toBe(true);
  expect(matchesTool("a.c", "abc")).toBe(false);
  expect(matchesTool("read", "reader")).toBe(false);
});

test("names and globs are sent in their fields", () => {
  expect(splitNames(["a", "b*"])).toEqual({ names: ["a"], patterns: ["b*"] });
  expect(splitNames(null)).toEqual({ names: null, patterns: null });
  expect(splitNames([])).toEqual({ names: [], patterns: null });
});

test("the tree of delegates ends at a loop", () => {
  const tree = listDelegates("a", new Map([["a", ["b", "z"]], ["b", ["a"]]]));
  expect(tree.children.map((it) => [it.id, it.isKnown])).toEqual([["b", true], ["z", false]]);
  expect(tree.children[0]?.children[0]).toMatchObject({ id: "a", isLoop: true, children: [] });
});

test("a prompt has a size in tokens", () => {
  expect(estimateTokens("")).toBe(0);
  expect(estimateTokens("four char words")).toBe(4);
});
