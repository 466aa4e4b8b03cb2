/** What needs a person, most urgent first. Pure. */
import { ApiError, describeError, isConfigOff } from "../../api/errors";
import { home as texts } from "../../texts/home";
import { formatAge } from "../../ui/format";
import type { Counted, Head, Health, ModelState, Worker } from "./types";

export type Need = { key: string; level: "bad" | "asks"; text: string; detail?: string; path: string; search?: Record<string, string> };
export type Facts = {
  health?: Health;
  tickets?: { count: number; oldest: number | null };
  dead?: { letters: Counted; outbox: Counted };
  models?: readonly ModelState[];
  failed?: number;
  head?: Head;
  workers?: readonly Worker[];
  /** What was asked for and is not known: the request failed. */
  unknown?: readonly Unknown[];
};
export type Unknown = { name: FactName; why: string };
export type FactName = keyof typeof PLACES;

/** Where a person finds out what this page does not know. */
const PLACES = { tickets: "/approvals", dead: "/queue", models: "/models", workers: "/cluster", head: "/changes", day: "/runs" } as const;

type Asked = { isPending: boolean; fetchStatus: string; error: unknown };

/** The answers that are missing: what was not known is not nothing. A refusal for lack of rights is no answer that is missing: the page does not show that part. */
export function findUnknown(asked: Readonly<Partial<Record<FactName, Asked>>>): { unknown: Unknown[]; isPending: boolean } {
  const all = Object.entries(asked) as [FactName, Asked][];
  const unknown = all.filter(([, it]) => it.error !== null && !isRefusal(it.error)).map(([name, it]) => ({ name, why: describeError(it.error) }));
  // A request that is not allowed to be sent stays pending and idle.
  return { unknown, isPending: all.some(([, it]) => it.isPending && it.fetchStatus !== "idle") };
}

function isRefusal(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 403 || isConfigOff(error));
}

const show = ({ count, isMore }: Counted) => `${count}${isMore ? "+" : ""}`;

export function listNeeds({ health, tickets, dead, models, failed, head, workers, unknown = [] }: Facts, now: number): Need[] {
  const needs: Need[] = unknown.map((it) => ({ key: `unknown:${it.name}`, level: "bad", text: texts.needs.unknown(texts.facts[it.name]), detail: it.why, path: PLACES[it.name] }));
  if (health !== undefined && health.status !== "healthy") {
    const parts = Object.entries(health.components ?? {}).filter(([, state]) => state !== "ok").map(([name, state]) => texts.component(name, state)).join(", ");
    const shown = parts === "" ? health.status : parts;
    // Degraded: everything still happens, later.
    if (health.status === "degraded") needs.push({ key: "health", level: "asks", text: texts.needs.degraded(shown), path: "/cluster" });
    else needs.push({ key: "health", level: "bad", text: texts.needs.unhealthy(shown), path: "/cluster" });
  }
  const open = models?.filter((it) => it.state !== "closed") ?? [];
  if (open.length > 0) needs.push({ key: "breakers", level: "bad", text: texts.needs.breakers(open.map((it) => it.model_id).join(", ")), path: "/models" });
  for (const worker of workers ?? []) {
    if (worker.problem !== null && worker.problem !== undefined) needs.push({ key: `worker:${worker.id}`, level: "bad", text: texts.needs.worker(worker.id, worker.problem), path: "/cluster" });
  }
  if (dead !== undefined && dead.letters.count > 0) needs.push({ key: "dead", level: "bad", text: texts.needs.dead(show(dead.letters)), path: "/queue", search: { view: "dead" } });
  if (dead !== undefined && dead.outbox.count > 0) needs.push({ key: "outbox", level: "bad", text: texts.needs.outbox(show(dead.outbox)), path: "/queue", search: { view: "outbox" } });
  if (tickets !== undefined && tickets.count > 0) {
    needs.push({ key: "approvals", level: "asks", text: texts.needs.approvals(tickets.count), detail: tickets.oldest === null ? undefined : texts.needs.oldest(formatAge(tickets.oldest, now)), path: "/approvals" });
  }
  if (failed !== undefined && failed > 0) needs.push({ key: "failed", level: "asks", text: texts.needs.failed(failed), path: "/runs", search: { ended: "error" } });
  if (head !== undefined && head.switches.length > 0) needs.push({ key: "switches", level: "asks", text: texts.needs.switches(head.switches.map((it) => `${it.kind} ${it.id}`).join(", ")), path: "/changes" });
  return needs;
}
