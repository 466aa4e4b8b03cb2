/** One trigger: where its sender delivers, how it is proven, and what was delivered. */
import { Alert, Button, Code, Drawer, Group, Stack, Table, Text, Title } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { root } from "../../api/address";
import { api, need } from "../../api/client";
import { isGone } from "../../api/errors";
import { usePagedList } from "../../api/paging";
import { demo } from "../../texts/demo";
import { schedules as texts } from "../../texts/schedules";
import { ui } from "../../texts/ui";
import { formatCount, formatTime } from "../../ui/format";
import { GatedButton } from "../../ui/GatedButton";
import { CopyableId, CopyIcon, JsonText, Status } from "../../ui/parts";
import { SafeJson, ShownText } from "../../ui/SafeText";
import { useSettings } from "../../ui/settings";
import { Empty, Failure, Loading } from "../../ui/states";
import { useTriggerActions } from "./actions";
import { Facts, RunLink } from "./parts";
import { InputOf } from "./ScheduleDrawer";
import classes from "./schedules.module.css";
import { describeReason, type HookDelivery, type Trigger } from "./words";

export function triggerQuery(id: string) {
  return { queryKey: ["schedule", "trigger", id], queryFn: ({ signal }: { signal: AbortSignal }) => need(api.GET("/v1/triggers/{trigger_id}", { signal, params: { path: { trigger_id: id } } })) };
}

export function TriggerActions({ trigger, onRemoved, onEdit }: { trigger: Trigger; onRemoved?: () => void; onEdit?: () => void }) {
  const { pause, resume, remove } = useTriggerActions();
  if (trigger.is_demo) return onEdit === undefined ? null : <Text size="sm" c="dimmed">{demo.only}</Text>;
  return (
    <Group gap={4} wrap={onEdit === undefined ? "nowrap" : "wrap"}>
      {onEdit === undefined ? null : <GatedButton scope="invoke" onClick={onEdit}>{texts.edit}</GatedButton>}
      {trigger.is_paused ? <GatedButton scope="invoke" onClick={() => void resume(trigger.id)}>{texts.resume}</GatedButton> : <GatedButton scope="invoke" onClick={() => void pause(trigger.id)}>{texts.pause}</GatedButton>}
      {onRemoved === undefined ? null : <GatedButton scope="invoke" color="red" variant="outline" onClick={() => void remove(trigger.id).then((is) => { if (is) onRemoved(); })}>{texts.remove}</GatedButton>}
    </Group>
  );
}

function DeliveryRow({ delivery }: { delivery: HookDelivery }) {
  const { timeZone } = useSettings();
  return (
    <Table.Tr>
      <Table.Td>{formatTime(delivery.received_at, timeZone)}</Table.Td>
      <Table.Td><ShownText text={delivery.event ?? ui.none} /></Table.Td>
      <Table.Td><Status value={delivery.outcome} /></Table.Td>
      <Table.Td><RunLink runId={delivery.run_id} /></Table.Td>
      <Table.Td><Text size="sm" style={{ overflowWrap: "anywhere" }}>{describeReason(delivery)}</Text></Table.Td>
      <Table.Td><CopyableId id={delivery.delivery_id} /></Table.Td>
    </Table.Tr>
  );
}

function Deliveries({ id }: { id: string }) {
  const list = usePagedList<HookDelivery>(["schedule", "deliveries", id], (cursor, signal) => need(api.GET("/v1/triggers/{trigger_id}/deliveries", { signal, params: { path: { trigger_id: id }, query: { cursor, limit: 50 } } })));
  if (list.isError) return <Failure error={list.error} onRetry={() => void list.refetch()} />;
  if (list.isPending) return <Loading rows={3} />;
  if (list.rows.length === 0) return <Text size="sm" c="dimmed">{texts.noDeliveries}</Text>;
  return (
    <>
      <div className={classes.scroll} tabIndex={0} role="region" aria-label={texts.deliveries}>
        <Table>
          <Table.Thead><Table.Tr>{Object.values(texts.deliveryColumns).map((it) => <Table.Th key={it}>{it}</Table.Th>)}</Table.Tr></Table.Thead>
          <Table.Tbody>{list.rows.map((it) => <DeliveryRow key={it.delivery_id} delivery={it} />)}</Table.Tbody>
        </Table>
      </div>
      {list.hasNextPage ? <Group justify="center" mt="xs"><Button loading={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>{texts.more}</Button></Group> : null}
    </>
  );
}

function Details({ trigger, onClose, onEdit }: { trigger: Trigger; onClose: () => void; onEdit: () => void }) {
  const { facts } = texts;
  const address = `${location.origin}${root}${trigger.path}`;
  const where = trigger.filter.where ?? {};
  return (
    <Stack gap="md">
      {trigger.missing_secrets === null || trigger.missing_secrets.length === 0 ? null : <Alert color="yellow" icon={<IconAlertTriangle size={18} />}>{texts.missing(trigger.missing_secrets.join(", "))}</Alert>}
      <div>
        <Title order={2} mb={4}>{facts.address}</Title>
        <Group gap={4} wrap="nowrap"><Code style={{ overflowWrap: "anywhere" }}>{address}</Code><CopyIcon value={address} /></Group>
        <Text size="xs" c="dimmed" mt={2}>{texts.addressHelp}</Text>
      </div>
      <Facts facts={[
        [facts.status, <Status key="s" value={trigger.is_paused ? "paused" : "active"} />],
        [facts.scheme, texts.schemes[trigger.scheme] ?? trigger.scheme],
        [facts.secrets, <span key="x" title={texts.secretHelp}>{trigger.secrets.join(", ")}</span>],
        [facts.agent, trigger.is_demo ? trigger.target.agent_id : <Link key="a" to="/agents/$agentId" params={{ agentId: trigger.target.agent_id }}>{trigger.target.agent_id}</Link>],
        [facts.filter, (trigger.filter.events ?? []).join(", ") || texts.anyEvent],
        [facts.threadOf, trigger.thread ?? texts.newThread],
        [facts.count, formatCount(trigger.fired_count)],
        [facts.by, trigger.is_demo ? demo.title : trigger.created_by ?? texts.ofServer],
      ]} />
      <TriggerActions trigger={trigger} onRemoved={onClose} onEdit={onEdit} />
      {trigger.description === "" ? null : <Text size="sm" style={{ overflowWrap: "anywhere" }}>{trigger.description}</Text>}
      {Object.keys(where).length === 0 ? null : <div><Title order={2} mb={4}>{facts.where}</Title><SafeJson value={where} label={facts.where} maxHeight={160} /></div>}
      <InputOf input={trigger.target.input} context={trigger.target.context} />
      <div><Title order={2} mb={4}>{texts.deliveries}</Title><Deliveries id={trigger.id} /></div>
      <div><Title order={2} mb={4}>{ui.asJson}</Title><JsonText value={trigger} /></div>
    </Stack>
  );
}

export function TriggerDrawer({ id, onClose, onEdit }: { id: string | undefined; onClose: () => void; onEdit: (id: string) => void }) {
  const { data, error, refetch } = useQuery({ ...triggerQuery(id ?? ""), enabled: id !== undefined });
  return (
    <Drawer opened={id !== undefined} onClose={onClose} title={<CopyableId id={id ?? ""} chars={40} />} size="xl" closeButtonProps={{ "aria-label": ui.close }}>
      {id === undefined ? null : isGone(error) ? <Empty title={texts.gone} /> : error !== null ? <Failure error={error} onRetry={() => void refetch()} /> : data === undefined ? <Loading /> : <Details trigger={data} onClose={onClose} onEdit={() => onEdit(id)} />}
    </Drawer>
  );
}
