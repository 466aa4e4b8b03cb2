/** The filters of the list of runs. */
import { Group, Select, TextInput } from "@mantine/core";
import { useMemo } from "react";

import { runs as texts } from "../../texts/runs";
import { Filters } from "../../ui/Filters";
import { fromLocalField, toLocalField } from "../../ui/localTime";
import { useSettings } from "../../ui/settings";
import { isRange } from "./ranges";
import type { RunsSearch } from "./search";

const STATUSES = ["created", "running", "waiting", "done"];
const KINDS = ["chat", "task", "preview", "eval", "replay", "demo"];
const ENDS = ["natural_end", "behavior_requested", "stopped", "cancelled", "blocked", "error"].map((value) => ({ value, label: value.replaceAll("_", " ") }));
const RANGES = Object.entries(texts.ranges).map(([value, label]) => ({ value, label }));

type Props = { search: RunsSearch; agents: readonly string[]; onSearch: (change: RunsSearch) => void };

export function RunFilters({ search, agents, onSearch }: Props) {
  const { timeZone } = useSettings();
  const choices = useMemo(
    () => [
      { name: "status", label: texts.status, options: STATUSES, width: 120 },
      { name: "agent", label: texts.agent, options: agents, width: 150 },
      { name: "kind", label: texts.kind, options: KINDS, width: 110 },
      { name: "ended", label: texts.ended, options: ENDS, width: 150 },
    ],
    [agents],
  );
  const isBetween = search.range === "custom" || search.since !== undefined || search.until !== undefined;
  const chooseRange = (value: string | null) => onSearch({ range: value ?? undefined, ...(isRange(value ?? undefined) || value === null ? { since: undefined, until: undefined } : {}) });
  return (
    <Group gap="xs">
      <Filters<Record<string, string | undefined>> values={search} onChange={onSearch} choices={choices} text={{ name: "q", placeholder: texts.search }} />
      <Select aria-label={texts.range} placeholder={texts.range} data={RANGES} value={isBetween ? "custom" : (search.range ?? null)} onChange={chooseRange} clearable w={150} />
      {isBetween ? (
        <>
          <TextInput type="datetime-local" aria-label={texts.since} value={toLocalField(search.since, timeZone)} onChange={(event) => onSearch({ since: fromLocalField(event.currentTarget.value, timeZone) })} w={185} />
          <TextInput type="datetime-local" aria-label={texts.until} value={toLocalField(search.until, timeZone)} onChange={(event) => onSearch({ until: fromLocalField(event.currentTarget.value, timeZone) })} w={185} />
        </>
      ) : null}
    </Group>
  );
}
