/** The nodes of a cluster with what their processes report of themselves. Pure. */
import type { Cluster, ClusterNode } from "../../api/cluster";
import type { Schemas } from "../../api/client";

export type Worker = Omit<Schemas["WorkerEntry"], "statistics">;
/** A node without a report ended more than a minute ago, or has only begun; a report without a node is newer than the list of nodes. */
export type NodeRow = { id: string; node: ClusterNode | undefined; worker: Worker | undefined };

export function joinNodes(nodes: Cluster["nodes"], workers: readonly Worker[]): NodeRow[] {
  const reports = new Map(workers.map((it) => [it.id, it]));
  const known = new Set(nodes.map((it) => it.id));
  return [
    ...nodes.map((node) => ({ id: node.id, node, worker: reports.get(node.id) })),
    ...workers.filter((it) => !known.has(it.id)).map((worker) => ({ id: worker.id, node: undefined, worker })),
  ];
}

/** The rows of processes that are there: one that is over is listed for a while. */
export function listLive(rows: readonly NodeRow[]): NodeRow[] {
  return rows.filter((it) => it.node?.state !== "over");
}

/** A node as people know it: its host and its process. An id of another form is shown whole. */
export function nameNode({ id, node, worker }: NodeRow): string {
  const [host, pid] = [node?.host ?? worker?.host, node?.pid ?? worker?.pid];
  return host === undefined || pid === undefined || !id.startsWith(`${host}:${pid}:`) ? id : `${host}:${pid}`;
}

/** The node of an address by its name; an address that no node has any more stays as it is. */
export function nameAddress(nodes: Cluster["nodes"], address: string): string {
  const node = nodes.find((it) => it.address === address);
  return node === undefined ? address : nameNode({ id: node.id, node, worker: undefined });
}

export const versionOf = ({ node, worker }: NodeRow): string => node?.version ?? worker?.version ?? "";
export const slotsOf = ({ node, worker }: NodeRow): number => node?.slots ?? worker?.slots ?? 0;
export const busyOf = ({ node, worker }: NodeRow): number => node?.busy ?? worker?.running ?? 0;
