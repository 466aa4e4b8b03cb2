/** What can be done with a schedule or a trigger. */
import { createElement } from "react";

import { api, need, type Schemas } from "../../api/client";
import { refreshKinds } from "../../api/queries";
import { schedules as texts } from "../../texts/schedules";
import { useConfirm } from "../../ui/confirm";
import { noteDone, noteError } from "../../ui/notices";
import type { JsonObject } from "../../ui/schema/model";
import { describeReason, takeSpec } from "./words";

async function attempt(act: () => Promise<string>): Promise<boolean> {
  try {
    noteDone(await act());
    await refreshKinds("schedule", "run", "audit");
    return true;
  } catch (error) {
    noteError(error);
    return false;
  }
}

function useRemove(remove: (id: string) => Promise<unknown>): (id: string) => Promise<boolean> {
  const confirm = useConfirm();
  return async (id) => {
    const body = createElement("span", null, texts.removeBody);
    if (!(await confirm({ title: texts.removeTitle(id), body, confirm: texts.remove, isDangerous: true }))) return false;
    return attempt(async () => { await remove(id); return texts.removed; });
  };
}

const ofSchedule = (id: string) => ({ params: { path: { schedule_id: id } } });
const ofTrigger = (id: string) => ({ params: { path: { trigger_id: id } } });
/** The header by which a change names what it changes. */
const ifMatch = (revision: string | undefined) => ({ "If-Match": revision === undefined ? "*" : `"${revision}"` });

export function useScheduleActions() {
  return {
    pause: (id: string) => attempt(async () => { await need(api.POST("/v1/schedules/{schedule_id}/pause", ofSchedule(id))); return texts.paused; }),
    resume: (id: string) => attempt(async () => { await need(api.POST("/v1/schedules/{schedule_id}/resume", ofSchedule(id))); return texts.resumed; }),
    fire: (id: string) => attempt(async () => {
      const firing = await need(api.POST("/v1/schedules/{schedule_id}/fire", ofSchedule(id)));
      if (firing.outcome === "delivered") return texts.delivered;
      return firing.outcome === "fired" ? texts.fired : texts.notFired(describeReason(firing));
    }),
    remove: useRemove((id) => need(api.DELETE("/v1/schedules/{schedule_id}", ofSchedule(id)))),
  };
}

export function useTriggerActions() {
  return {
    pause: (id: string) => attempt(async () => { await need(api.POST("/v1/triggers/{trigger_id}/pause", ofTrigger(id))); return texts.paused; }),
    resume: (id: string) => attempt(async () => { await need(api.POST("/v1/triggers/{trigger_id}/resume", ofTrigger(id))); return texts.resumed; }),
    remove: useRemove((id) => need(api.DELETE("/v1/triggers/{trigger_id}", ofTrigger(id)))),
  };
}

/** Stores a schedule; `id`: of a new one, or null if it is to get one; `revision`: of what is changed. */
export async function saveSchedule(spec: JsonObject, id: string | null, revision: string | undefined, isNew: boolean): Promise<string> {
  const body = spec as unknown as Schemas["ScheduleSpec"];
  const saved = isNew
    ? await need(api.POST("/v1/schedules", { body: { ...body, id } }))
    : await need(api.PUT("/v1/schedules/{schedule_id}", { params: { path: { schedule_id: id ?? "" }, header: ifMatch(revision) }, body }));
  await refreshKinds("schedule", "audit");
  return saved.id;
}

export async function saveTrigger(spec: JsonObject, id: string | null, revision: string | undefined, isNew: boolean): Promise<string> {
  const body = spec as unknown as Schemas["TriggerSpec"];
  const saved = isNew
    ? await need(api.POST("/v1/triggers", { body: { ...body, id } }))
    : await need(api.PUT("/v1/triggers/{trigger_id}", { params: { path: { trigger_id: id ?? "" }, header: ifMatch(revision) }, body }));
  await refreshKinds("schedule", "audit");
  return saved.id;
}

export async function loadScheduleSpec(id: string): Promise<{ spec: JsonObject; revision: string | undefined }> {
  const shown = await need(api.GET("/v1/schedules/{schedule_id}", ofSchedule(id)));
  return { spec: takeSpec(shown), revision: shown.revision };
}

export async function loadTriggerSpec(id: string): Promise<{ spec: JsonObject; revision: string | undefined }> {
  const shown = await need(api.GET("/v1/triggers/{trigger_id}", ofTrigger(id)));
  return { spec: takeSpec(shown), revision: shown.revision };
}
