/** The state at the end of each step that changed it, and what changed. It says so when no history is kept. */
import { Badge, Code, Stack, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { run as texts } from "../../texts/run";
import { shell } from "../../texts/shell";
import { ui } from "../../texts/ui";
import { JsonText } from "../../ui/parts";
import { Empty, Failure, Loading } from "../../ui/states";
import classes from "./run.module.css";
import type { TabProps } from "./RunPage";
import { stateQuery, type State } from "./queries";
import { listChanges, type StateChange, type Values } from "./states";
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

/** The keys of the run and of its thread together; a key belongs to one of them. */
function joinValues(state: State | undefined): Values | null {
  return state?.values == null ? null : { ...state.values.thread, ...state.values.run };
}

export function StateTab({ run, search, onSearch }: TabProps) {
  const newest = useQuery(stateQuery(run.run_id, undefined));
  const steps = newest.data?.steps ?? [];
  const wanted = search.step === undefined ? Infinity : Number(search.step);
  const chosen = steps.findLast((it) => it.step <= wanted) ?? steps[0];
  const now = useQuery({ ...stateQuery(run.run_id, chosen?.step), enabled: chosen !== undefined });
  const earlier = useQuery({ ...stateQuery(run.run_id, chosen === undefined ? undefined : chosen.step - 1), enabled: chosen !== undefined });
  if (newest.isError) return <Failure error={newest.error} onRetry={() => void newest.refetch()} />;
  if (newest.data === undefined) return <Loading />;
  if (chosen === undefined) {
    const { reason } = newest.data;
    return <Empty title={texts.state.none}>{reason === null ? texts.state.noneHelp : texts.state.missing[reason]}</Empty>;
  }
  const values = joinValues(now.data);
  return (
    <div className={classes.columns}>
      <StepList label={texts.state.steps} steps={steps.map((it) => it.step)} chosen={chosen.step} name={(it) => texts.state.step(it)} onChoose={(it) => onSearch({ step: String(it) })} />
      <Stack gap="sm" miw={0}>
        {newest.data.reason === null ? null : <Text size="xs" c="dimmed">{texts.state.missing[newest.data.reason]}</Text>}
        <Title order={2}>{texts.state.changes}</Title>
        {values === null ? (
          <>
            <Text size="sm">{[...chosen.thread, ...chosen.run].map((it) => <Code key={it} mr={6}>{it}</Code>)}</Text>
            {now.isPending ? <Loading rows={2} /> : <Text size="sm" c="dimmed">{shell.needsScope("config")}</Text>}
          </>
        ) : (
          <>
            {earlier.data === undefined ? <Loading rows={2} /> : <Changes changes={listChanges(joinValues(earlier.data) ?? {}, values, new Set(now.data?.masked), new Set([...chosen.thread, ...chosen.run]))} />}
            {now.data === undefined || now.data.masked.length === 0 ? null : <Text size="xs" c="dimmed">{texts.state.masked(now.data.masked.length)}</Text>}
            <Title order={2}>{texts.state.value}</Title>
            <JsonText value={values} maxHeight="50vh" />
          </>
        )}
      </Stack>
    </div>
  );
}
