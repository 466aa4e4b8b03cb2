/** The fields of a canary's plan. */
import { Fieldset, NumberInput, Select, SimpleGrid, Stack } from "@mantine/core";

import type { Schemas } from "../../api/client";
import { changes as texts } from "../../texts/changes";
import { FractionInput } from "../../ui/FractionInput";
import type { PlanForm } from "./canaryPlan";

function readNumber(value: string | number): number | null {
  return value === "" || !Number.isFinite(Number(value)) ? null : Number(value);
}

export function PlanFields({ plan, onChange }: { plan: PlanForm; onChange: (plan: PlanForm) => void }) {
  const set = (part: Partial<PlanForm>) => onChange({ ...plan, ...part });
  const keys = Object.entries(texts.byOptions).map(([value, label]) => ({ value, label }));
  return (
    <Stack gap="xs">
      <SimpleGrid cols={{ base: 1, xs: 2 }}>
        <FractionInput label={texts.percent} value={plan.percent} min={0.01} max={100} onChange={(value) => set({ percent: readNumber(value) ?? plan.percent })} />
        <Select label={texts.by} data={keys} value={plan.by} allowDeselect={false} onChange={(value) => set({ by: (value ?? "thread") as Schemas["CanaryKey"] })} />
      </SimpleGrid>
      <Fieldset legend={texts.guardrails}>
        <SimpleGrid cols={{ base: 1, xs: 2 }}>
          <NumberInput label={texts.minRuns} value={plan.minRuns} min={1} onChange={(value) => set({ minRuns: readNumber(value) ?? 20 })} />
          <FractionInput label={texts.maxErrorRate} value={plan.maxErrorPercent ?? ""} min={0} max={100} onChange={(value) => set({ maxErrorPercent: readNumber(value) })} />
          <FractionInput label={texts.maxP95} value={plan.maxP95Seconds ?? ""} min={0} onChange={(value) => set({ maxP95Seconds: readNumber(value) })} />
          <FractionInput label={texts.maxCost} value={plan.maxCostUsd ?? ""} min={0} onChange={(value) => set({ maxCostUsd: readNumber(value) })} />
        </SimpleGrid>
      </Fieldset>
    </Stack>
  );
}
