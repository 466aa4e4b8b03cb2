/** One delivery: why it failed, in full, what it brings, how often it was tried, where its input went, and all its fields. */
import { Drawer, Group, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import { api, need } from "../../api/client";
import { queue as texts } from "../../texts/queue";
import { ui } from "../../texts/ui";
import { formatTime } from "../../ui/format";
import { CopyableId, JsonText, Status } from "../../ui/parts";
import { SafeJson, SafeText } from "../../ui/SafeText";
import { useSettings } from "../../ui/settings";
import { Failure, Loading } from "../../ui/states";
import { spellStatus, type Delivery } from "./depth";
import { readPayload } from "./payload";

type Props = { deliveryId: string | undefined; known: Delivery | undefined; onClose: () => void; actions: (delivery: Delivery) => ReactNode };

function Payload({ payload }: { payload: unknown }) {
  const { messages, rest } = readPayload(payload);
  return (
    <Stack gap="xs">
      {messages.length === 0 ? <Text size="sm" c="dimmed">{texts.noMessages}</Text> : messages.map((it, index) => (
        <div key={index}>
          <Text size="xs" fw={600}>{it.role}</Text>
          {it.text === null ? <SafeJson value={it.content} label={texts.messageOf(it.role)} maxHeight={240} /> : <SafeText text={it.text} label={texts.messageOf(it.role)} maxHeight={240} />}
        </div>
      ))}
      {Object.keys(rest).length === 0 ? null : <SafeJson value={rest} label={texts.otherInput} maxHeight={240} />}
    </Stack>
  );
}

function Attempts({ delivery }: { delivery: Delivery }) {
  const { timeZone } = useSettings();
  const facts = [
    texts.attemptsOf(delivery.attempt_count, delivery.max_attempts),
    texts.queuedAt(formatTime(delivery.created_at, timeZone)),
    ...(delivery.completed_at == null ? [] : [texts.endedAt(formatTime(delivery.completed_at, timeZone))]),
  ];
  return <Text size="sm" c="dimmed">{facts.join(" · ")}</Text>;
}

function Details({ delivery, payload, onActions }: { delivery: Delivery; payload: ReactNode; onActions: ReactNode }) {
  return (
    <Stack gap="md">
      <Group gap="md"><Status value={spellStatus(delivery.status)} /><CopyableId id={delivery.dispatch_id} chars={40} /></Group>
      <Attempts delivery={delivery} />
      {delivery.last_error == null ? null : <div><Title order={2} mb={4}>{texts.columns.error}</Title><SafeText text={delivery.last_error} label={texts.columns.error} /></div>}
      <Group gap="md">
        <Link to="/threads/$threadId" params={{ threadId: delivery.thread_id }}>{texts.openThread}</Link>
        <Link to="/runs/$runId" params={{ runId: delivery.taken_by ?? delivery.run_id }}>{texts.openRun}</Link>
        {onActions}
      </Group>
      <div><Title order={2} mb={4}>{texts.columns.payload}</Title>{payload}</div>
      <div><Title order={2} mb={4}>{ui.asJson}</Title><JsonText value={delivery} maxHeight="50vh" /></div>
    </Stack>
  );
}

export function DeliveryDrawer({ deliveryId, known, onClose, actions }: Props) {
  const { data, error, refetch } = useQuery({
    queryKey: ["dispatch", "one", deliveryId],
    queryFn: ({ signal }) => need(api.GET("/v1/dispatches/{dispatch_id}", { signal, params: { path: { dispatch_id: deliveryId ?? "" } } })),
    enabled: deliveryId !== undefined,
  });
  const delivery = data ?? known;
  const problem = error === null ? <Loading rows={2} /> : <Failure error={error} onRetry={() => void refetch()} />;
  return (
    <Drawer opened={deliveryId !== undefined} onClose={onClose} title={texts.details} size="xl" closeButtonProps={{ "aria-label": ui.close }}>
      {delivery === undefined ? problem : <Details delivery={delivery} payload={data === undefined ? problem : <Payload payload={data.payload} />} onActions={actions(delivery)} />}
    </Drawer>
  );
}
