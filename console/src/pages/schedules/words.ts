/** Schedules and triggers in words, and the forms that edit them. Pure. */
import type { Extras } from "../../api/cutSchema";
import type { Schemas } from "../../api/client";
import { schedules as texts } from "../../texts/schedules";
import { formatDuration, formatTime } from "../../ui/format";
import { TIME_FORMAT, type JsonObject } from "../../ui/schema/model";

export type Schedule = Schemas["ScheduleView"];
export type Trigger = Schemas["TriggerView"];
export type Firing = Schemas["FiringView"];
export type HookDelivery = Schemas["HookDeliveryView"];

export function describeTiming(timing: Schedule["timing"], timeZone?: string): string {
  switch (timing.type) {
    case "cron": return texts.cron(timing.expression, timing.zone ?? "UTC");
    case "interval": return texts.every(formatDuration(timing.every_ms));
    case "once": return texts.once(formatTime(timing.at, timeZone));
  }
}

/** The zone in which the times of a schedule are meant; undefined: that of the person who looks. */
export function zoneOf(timing: unknown): string | undefined {
  const zone = timing !== null && typeof timing === "object" && "zone" in timing ? timing.zone : undefined;
  if (typeof zone !== "string") return undefined;
  try {
    new Intl.DateTimeFormat("en", { timeZone: zone });
    return zone;
  } catch {
    return undefined;
  }
}

/** Why a due time or a delivery started no run. */
export function describeReason({ reason, detail, outcome }: Pick<Firing | HookDelivery, "reason" | "detail" | "outcome">): string {
  const known = reason !== null ? texts.reasons[reason] : outcome === "ignored" ? texts.ignored : undefined;
  return detail ?? known ?? reason ?? "";
}

const SCHEDULE_FIELDS = ["timing", "target", "description", "overlap", "catch_up", "jitter_ms", "end_at", "max_count"] as const;
const TRIGGER_FIELDS = ["scheme", "secrets", "target", "thread", "filter", "description", "is_paused"] as const;

/** What a person says of a schedule or a trigger, of what the server shows of it. */
export function takeSpec(shown: Schedule | Trigger): JsonObject {
  const names: readonly string[] = "timing" in shown ? SCHEDULE_FIELDS : TRIGGER_FIELDS;
  return Object.fromEntries(Object.entries(shown).filter(([name]) => names.includes(name))) as JsonObject;
}

const { help } = texts;
/** A text, or fields. */
const INPUT = { anyOf: [{ type: "string" }, { type: "object" }] };
const target = (input: string, thread: object): Extras[string] => ({ agent_id: { description: help.agent }, input: { ...INPUT, description: input }, thread_id: thread as never, event: { description: help.event }, context: { description: help.context } });

export const SCHEDULE_EXTRAS: Extras = {
  ScheduleSpec: { timing: {}, target: {}, description: { description: help.description }, overlap: { description: help.overlap }, catch_up: { description: help.catchUp }, jitter_ms: { description: help.jitter }, end_at: { description: help.endAt, format: TIME_FORMAT }, max_count: { description: help.maxCount } },
  RunTarget: target(help.input, { description: help.thread }),
  CronTiming: { expression: { description: help.expression }, zone: { description: help.zone } },
  IntervalTiming: { every_ms: { description: help.every }, start_at: { description: help.startAt, format: TIME_FORMAT } },
  OneShotTiming: { at: { description: help.at, format: TIME_FORMAT } },
};
export const TRIGGER_EXTRAS: Extras = {
  TriggerSpec: { scheme: { description: help.scheme }, secrets: { description: help.secrets }, target: {}, thread: { description: help.triggerThread }, filter: {}, description: { description: help.description }, is_paused: { description: help.isPaused } },
  // Which thread a run gets says the trigger.
  RunTarget: target(help.triggerInput, { readOnly: true }),
  EventFilter: { events: { description: help.events }, where: { description: help.where } },
};
export const NEW_SCHEDULE: JsonObject = { timing: { type: "cron", expression: "0 8 * * MON-FRI", zone: "UTC" }, target: { agent_id: "", input: "" } };
export const NEW_TRIGGER: JsonObject = { scheme: "github", secrets: [], target: { agent_id: "", input: "" }, filter: {} };
