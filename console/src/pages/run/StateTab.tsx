/** The exported state of a run after each step, and what changed. It says so when nothing is recorded. */
import { Badge, Code, Stack, Table, Text, Title } from "@mantine/core";
import { useMemo } from "react";

import { run as texts } from "../../texts/run";
import { ui } from "../../texts/ui";
import { JsonText } from "../../ui/parts";
import { Empty, Loading } from "../../ui/states";
import classes from "./run.module.css";
import type { TabProps } from "./RunPage";
import { foldStates, type StateChange } from "./states";
import { StepList } from "./StepList";

const CELL_CHARS = 200;

function Value({ value }: { value: unknown }) {
  const text = JSON.stringify(value);
  if (text === undefined) return <>{ui.none}</>;
  return <Code style={{ overflowWrap: "anywhere" }}>{text.length > CELL_CHARS ? `${text.slice(0, CELL_CHARS)}…` : text}</Code>;
}

function Changes({ changes }: { changes: readonly StateChange[] }) {
  if (changes.length === 0) return <Text size="sm" c="dimmed">{texts.state.noChanges}</Text>;
  const { columns } = texts.state;
  return (
    <Table fz="sm" verticalSpacing={4}>
      <Table.Thead><Table.Tr><Table.Th>{columns.key}</Table.Th><Table.Th>{columns.kind}</Table.Th><Table.Th>{columns.before}</Table.Th><Table.Th>{columns.after}</Table.Th></Table.Tr></Table.Thead>
      <Table.Tbody>
        {changes.map((it) => (
          <Table.Tr key={it.key}><Table.Td>{it.key}</Table.Td><Table.Td><Badge variant="default">{texts.state.kinds[it.kind]}</Badge></Table.Td><Table.Td><Value value={it.before} /></Table.Td><Table.Td><Value value={it.after} /></Table.Td></Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

export function StateTab({ search, onSearch, log }: TabProps) {
  const states = useMemo(() => foldStates(log.states), [log.states, log.version]);
  const wanted = Number(search.step) || Infinity;
  const chosen = states.findLast((it) => it.step <= wanted) ?? states[0];
  if (chosen === undefined) return log.feed === "catching up" && log.rows.length === 0 ? <Loading /> : <Empty title={texts.state.none}>{texts.state.noneHelp}</Empty>;
  return (
    <div className={classes.columns}>
      <StepList label={texts.state.steps} steps={states.map((it) => it.step)} chosen={chosen.step} name={(it) => texts.state.step(it)} onChoose={(it) => onSearch({ step: String(it) })} />
      <Stack gap="sm" miw={0}>
        <Text size="xs" c="dimmed">{texts.state.live}</Text>
        <Title order={2}>{texts.state.changes}</Title>
        <Changes changes={chosen.changes} />
        <Title order={2}>{texts.state.value}</Title>
        <JsonText value={chosen.value} maxHeight="50vh" />
      </Stack>
    </div>
  );
}
