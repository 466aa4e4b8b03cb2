/** One schedule: when it is due next, what became of its due times, and whom it runs for. */
import { Button, Drawer, Group, Stack, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { api, need } from "../../api/client";
import { isGone } from "../../api/errors";
import { usePagedList } from "../../api/paging";
import { demo } from "../../texts/demo";
import { schedules as texts } from "../../texts/schedules";
import { ui } from "../../texts/ui";
import { formatCount, formatDuration, formatTime } from "../../ui/format";
import { GatedButton } from "../../ui/GatedButton";
import { CopyableId, JsonText, Status, Until } from "../../ui/parts";
import { SafeJson, SafeText } from "../../ui/SafeText";
import { useSettings } from "../../ui/settings";
import { Empty, Failure, Loading } from "../../ui/states";
import { useScheduleActions } from "./actions";
import { Facts, RunLink } from "./parts";
import classes from "./schedules.module.css";
import { describeReason, describeTiming, zoneOf, type Firing, type Schedule } from "./words";

const SHOWN_TIMES = 6;

export function scheduleQuery(id: string) {
  return { queryKey: ["schedule", "one", id], queryFn: ({ signal }: { signal: AbortSignal }) => need(api.GET("/v1/schedules/{schedule_id}", { signal, params: { path: { schedule_id: id } } })) };
}

/** Due times in the zone in which they are meant; in that of the person who looks they are a title. */
export function Times({ due, timing }: { due: readonly number[]; timing: unknown }) {
  const { timeZone } = useSettings();
  const zone = zoneOf(timing);
  if (due.length === 0) return <Text size="sm" c="dimmed">{texts.noUpcoming}</Text>;
  return (
    <>
      {zone === undefined ? null : <Text size="xs" c="dimmed">{texts.inZone(zone)}</Text>}
      <ol className={classes.times}>{due.map((it) => <li key={it} title={formatTime(it, timeZone)}>{formatTime(it, zone ?? timeZone)}</li>)}</ol>
    </>
  );
}

function Upcoming({ schedule }: { schedule: Schedule }) {
  const { data } = useQuery({
    queryKey: ["schedule", "upcoming", schedule.id, schedule.updated_at, schedule.next_due],
    queryFn: ({ signal }) => need(api.GET("/v1/schedules/{schedule_id}/upcoming", { signal, params: { path: { schedule_id: schedule.id }, query: { count: SHOWN_TIMES } } })),
  });
  return data === undefined ? <Loading rows={2} /> : <Times due={data.due} timing={schedule.timing} />;
}

function FiringRow({ firing }: { firing: Firing }) {
  const { timeZone } = useSettings();
  return (
    <Table.Tr>
      <Table.Td>{formatTime(firing.due_at, timeZone)}{firing.last_due_at === null ? null : <Text size="xs" c="dimmed">{texts.range(firing.count, formatTime(firing.last_due_at, timeZone))}</Text>}</Table.Td>
      <Table.Td><Status value={firing.outcome} />{firing.is_manual ? <Text span size="xs" c="dimmed"> {texts.manual}</Text> : null}</Table.Td>
      <Table.Td><RunLink runId={firing.run_id} /></Table.Td>
      <Table.Td><Text size="sm" style={{ overflowWrap: "anywhere" }}>{describeReason(firing)}</Text></Table.Td>
    </Table.Tr>
  );
}

function History({ id }: { id: string }) {
  const list = usePagedList<Firing>(["schedule", "firings", id], (cursor, signal) => need(api.GET("/v1/schedules/{schedule_id}/firings", { signal, params: { path: { schedule_id: id }, query: { cursor, limit: 50 } } })));
  if (list.isError) return <Failure error={list.error} onRetry={() => void list.refetch()} />;
  if (list.isPending) return <Loading rows={3} />;
  if (list.rows.length === 0) return <Text size="sm" c="dimmed">{texts.noHistory}</Text>;
  return (
    <>
      <div className={classes.scroll} tabIndex={0} role="region" aria-label={texts.history}>
        <Table>
          <Table.Thead><Table.Tr>{Object.values(texts.historyColumns).map((it) => <Table.Th key={it}>{it}</Table.Th>)}</Table.Tr></Table.Thead>
          <Table.Tbody>{list.rows.map((it) => <FiringRow key={it.id} firing={it} />)}</Table.Tbody>
        </Table>
      </div>
      {list.hasNextPage ? <Group justify="center" mt="xs"><Button loading={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>{texts.more}</Button></Group> : null}
    </>
  );
}

export function ScheduleActions({ schedule, onRemoved, onEdit }: { schedule: Schedule; onRemoved?: () => void; onEdit?: () => void }) {
  const { pause, resume, fire, remove } = useScheduleActions();
  if (schedule.is_demo) return onEdit === undefined ? null : <Text size="sm" c="dimmed">{demo.only}</Text>;
  return (
    <Group gap={4} wrap={onEdit === undefined ? "nowrap" : "wrap"}>
      {onEdit === undefined ? null : <GatedButton scope="invoke" onClick={onEdit}>{texts.edit}</GatedButton>}
      {schedule.status === "active" ? <GatedButton scope="invoke" onClick={() => void pause(schedule.id)}>{texts.pause}</GatedButton> : null}
      {schedule.status === "paused" ? <GatedButton scope="invoke" onClick={() => void resume(schedule.id)}>{texts.resume}</GatedButton> : null}
      <GatedButton scope="invoke" onClick={() => void fire(schedule.id)}>{texts.fire}</GatedButton>
      {onRemoved === undefined ? null : <GatedButton scope="invoke" color="red" variant="outline" onClick={() => void remove(schedule.id).then((is) => { if (is) onRemoved(); })}>{texts.remove}</GatedButton>}
    </Group>
  );
}

export function InputOf({ input, context }: { input: unknown; context: unknown }) {
  return (
    <>
      {input === "" || input === undefined ? null : <div><Title order={2} mb={4}>{texts.facts.input}</Title>{typeof input === "string" ? <SafeText text={input} label={texts.facts.input} maxHeight={220} /> : <SafeJson value={input} label={texts.facts.input} maxHeight={220} />}</div>}
      {context == null ? null : <div><Title order={2} mb={4}>{texts.facts.context}</Title><SafeJson value={context} label={texts.facts.context} maxHeight={220} /></div>}
    </>
  );
}

function Details({ schedule, onClose, onEdit }: { schedule: Schedule; onClose: () => void; onEdit: () => void }) {
  const { timeZone } = useSettings();
  const { facts } = texts;
  return (
    <Stack gap="md">
      <Facts facts={[
        [facts.status, <Status key="s" value={schedule.status} />],
        [facts.when, describeTiming(schedule.timing, timeZone)],
        [facts.next, <Until key="n" at={schedule.next_due} />],
        [facts.agent, schedule.is_demo ? schedule.target.agent_id : <Link key="a" to="/agents/$agentId" params={{ agentId: schedule.target.agent_id }}>{schedule.target.agent_id}</Link>],
        [facts.count, texts.atMost(schedule.fired_count, schedule.max_count)],
        [facts.skipped, formatCount(schedule.skipped_count)],
        [facts.overlap, schedule.overlap],
        [facts.catchUp, String(schedule.catch_up)],
        ...(schedule.jitter_ms === 0 ? [] : [[facts.jitter, formatDuration(schedule.jitter_ms)] as const]),
        ...(schedule.end_at === null ? [] : [[facts.until, formatTime(schedule.end_at, timeZone)] as const]),
        [facts.by, schedule.is_demo ? demo.title : schedule.created_by ?? texts.ofServer],
        ...(schedule.target.thread_id == null ? [] : [[facts.thread, <CopyableId key="t" id={schedule.target.thread_id} />] as const]),
      ]} />
      <ScheduleActions schedule={schedule} onRemoved={onClose} onEdit={onEdit} />
      {schedule.description === "" ? null : <Text size="sm" style={{ overflowWrap: "anywhere" }}>{schedule.description}</Text>}
      <InputOf input={schedule.target.input} context={schedule.target.context} />
      <div><Title order={2} mb={4}>{texts.upcoming}</Title><Upcoming schedule={schedule} /></div>
      <div><Title order={2} mb={4}>{texts.history}</Title><History id={schedule.id} /></div>
      <div><Title order={2} mb={4}>{ui.asJson}</Title><JsonText value={schedule} /></div>
    </Stack>
  );
}

export function ScheduleDrawer({ id, onClose, onEdit }: { id: string | undefined; onClose: () => void; onEdit: (id: string) => void }) {
  const { data, error, refetch } = useQuery({ ...scheduleQuery(id ?? ""), enabled: id !== undefined });
  return (
    <Drawer opened={id !== undefined} onClose={onClose} title={<CopyableId id={id ?? ""} chars={40} />} size="xl" closeButtonProps={{ "aria-label": ui.close }}>
      {id === undefined ? null : isGone(error) ? <Empty title={texts.gone} /> : error !== null ? <Failure error={error} onRetry={() => void refetch()} /> : data === undefined ? <Loading /> : <Details schedule={data} onClose={onClose} onEdit={() => onEdit(id)} />}
    </Drawer>
  );
}
