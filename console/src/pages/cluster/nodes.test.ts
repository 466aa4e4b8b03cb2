import { expect, it } from "vitest";

import type { ClusterNode } from "../../api/cluster";
import { busyOf, joinNodes, listLive, nameAddress, nameNode, slotsOf, versionOf, type Worker } from "./nodes";

const node = (id: string, more: Partial<ClusterNode> = {}) => ({ id, version: "0.4", slots: 64, busy: 3, state: "ok", ...more }) as ClusterNode;
const worker = (id: string) => ({ id, version: "0.3", slots: 8, running: 1 }) as Worker;

it("lists a node once, with the report of its process, and what has only one of them too", () => {
  const rows = joinNodes([node("a"), node("gone", { state: "over" })], [worker("a"), worker("new")]);
  expect(rows.map((it) => [it.id, it.node !== undefined, it.worker !== undefined])).toEqual([["a", true, true], ["gone", true, false], ["new", false, true]]);
  expect(listLive(rows).map((it) => it.id)).toEqual(["a", "new"]);
});

it("says of a node what the store knows, else what its process reports", () => {
  const [known, reported] = joinNodes([node("a")], [worker("a"), worker("b")]);
  expect(known === undefined || reported === undefined ? [] : [known, reported].map((it) => [versionOf(it), busyOf(it), slotsOf(it)])).toEqual([["0.4", 3, 64], ["0.3", 1, 8]]);
});

it("names a node by its host and process, also where only its address is known", () => {
  const nodes = [node("vm:7:9eb7@0e8d/7-22", { host: "vm", pid: 7, address: "9eb7" }), node("chosen", { host: "vm", pid: 8, address: "79fd" })];
  expect(joinNodes(nodes, []).map(nameNode)).toEqual(["vm:7", "chosen"]);
  expect(["9eb7", "79fd", "gone"].map((it) => nameAddress(nodes, it))).toEqual(["vm:7", "chosen", "gone"]);
});
