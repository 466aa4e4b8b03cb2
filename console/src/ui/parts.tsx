/** Small parts that every page uses: ids, times, statuses, JSON. */
import { ActionIcon, Box, Code, CopyButton, Drawer, Group, Text, Tooltip, type MantineColor } from "@mantine/core";
import { useInterval } from "@mantine/hooks";
import { IconAlertTriangle, IconCheck, IconCircleDashed, IconClockPause, IconCopy, IconHourglass, IconPlayerPlay, IconPlayerStop, IconX } from "@tabler/icons-react";
import { useState, type ReactNode } from "react";

import { toServerTime } from "../api/clock";
import { writeExact } from "../api/exactJson";
import { ui } from "../texts/ui";
import { formatAge, formatDuration, formatTime, formatUntil } from "./format";
import { useSettings } from "./settings";

/** An id in a monospaced face, shortened in the middle; its title is the whole of it. */
export function ShortId({ id, chars = 14 }: { id: string; chars?: number }) {
  const shown = id.length <= chars ? id : `${id.slice(0, Math.ceil(chars / 2))}…${id.slice(-Math.floor(chars / 2))}`;
  return <Text span ff="monospace" size="xs" title={id}>{shown}</Text>;
}

/** An id with a button that copies the whole of it. */
export function CopyableId({ id, chars }: { id: string; chars?: number }) {
  return (
    <Group gap={2} wrap="nowrap" component="span" display="inline-flex">
      <ShortId id={id} chars={chars} />
      <CopyIcon value={id} label={`${ui.copy} ${id}`} />
    </Group>
  );
}

export function CopyIcon({ value, label = ui.copy }: { value: string; label?: string }) {
  return (
    <CopyButton value={value} timeout={1_500}>
      {({ copied, copy }) => (
        <Tooltip label={copied ? ui.copied : ui.copy}>
          <ActionIcon size={24} aria-label={label} onClick={(event) => { event.stopPropagation(); copy(); }}>
            {copied ? <IconCheck size={14} /> : <IconCopy size={14} />}
          </ActionIcon>
        </Tooltip>
      )}
    </CopyButton>
  );
}

/** The time of a page, which goes on while it is on the screen. */
export function useNow(everyMs = 10_000): number {
  const [now, setNow] = useState(Date.now);
  useInterval(() => setNow(Date.now()), everyMs, { autoInvoke: true });
  return toServerTime(now);
}

export function Age({ at }: { at: number | null | undefined }) {
  const now = useNow();
  const { timeZone } = useSettings();
  if (at === null || at === undefined) return <Text span c="dimmed">{ui.none}</Text>;
  return <Text span size="sm" title={formatTime(at, timeZone)}>{formatAge(at, now)}</Text>;
}

/** How long it is until a time to come. */
export function Until({ at }: { at: number | null | undefined }) {
  const now = useNow(5_000);
  const { timeZone } = useSettings();
  if (at === null || at === undefined) return <Text span c="dimmed">{ui.none}</Text>;
  return <Text span size="sm" title={formatTime(at, timeZone)}>{formatUntil(at, now)}</Text>;
}

/** A time of day and its date, in the zone that the person has chosen. */
export function Time({ at }: { at: number }) {
  const { timeZone } = useSettings();
  return <>{formatTime(at, timeZone)}</>;
}

/** How long something took, or takes until now. */
export function Took({ from, to, isFigure = false }: { from: number | null | undefined; to: number | null | undefined; /** It stands alone, in the size of what it stands in. */ isFigure?: boolean }) {
  const now = useNow(1_000);
  if (from === null || from === undefined) return <Text span c="dimmed">{ui.none}</Text>;
  return <Text span size={isFigure ? undefined : "sm"} inherit={isFigure}>{formatDuration(Math.max(0, (to ?? now) - from))}</Text>;
}

type StatusLook = { color: MantineColor; icon: typeof IconCheck };
const LOOKS: Record<string, StatusLook> = {
  created: { color: "gray", icon: IconCircleDashed }, queued: { color: "gray", icon: IconCircleDashed }, running: { color: "blue", icon: IconPlayerPlay },
  claimed: { color: "blue", icon: IconPlayerPlay }, waiting: { color: "yellow", icon: IconHourglass }, suspended: { color: "yellow", icon: IconHourglass }, paused: { color: "yellow", icon: IconClockPause },
  done: { color: "teal", icon: IconCheck }, succeeded: { color: "teal", icon: IconCheck }, completed: { color: "teal", icon: IconCheck }, acked: { color: "teal", icon: IconCheck }, ok: { color: "teal", icon: IconCheck }, healthy: { color: "teal", icon: IconCheck }, closed: { color: "teal", icon: IconCheck },
  active: { color: "teal", icon: IconPlayerPlay }, fired: { color: "teal", icon: IconCheck }, delivered: { color: "teal", icon: IconCheck }, skipped: { color: "yellow", icon: IconClockPause }, ignored: { color: "gray", icon: IconCircleDashed }, ended: { color: "gray", icon: IconPlayerStop }, refused: { color: "red", icon: IconX },
  failed: { color: "red", icon: IconX }, error: { color: "red", icon: IconX }, dead_letter: { color: "red", icon: IconAlertTriangle }, dead: { color: "red", icon: IconAlertTriangle }, open: { color: "red", icon: IconAlertTriangle }, down: { color: "red", icon: IconX },
  cancelled: { color: "gray", icon: IconPlayerStop }, stopped: { color: "gray", icon: IconPlayerStop },
};

/** A status as icon, word and colour, so that no meaning hangs on the colour alone. */
export function Status({ value, label }: { value: string; label?: string }) {
  const { color, icon: Icon } = LOOKS[value] ?? { color: "gray", icon: IconCircleDashed };
  return (
    <Group gap={6} wrap="nowrap" component="span" display="inline-flex" style={{ verticalAlign: "middle" }}>
      <Icon size={14} stroke={2.2} aria-hidden color={`light-dark(var(--mantine-color-${color}-8), var(--mantine-color-${color}-4))`} />
      <Text span size="sm">{label ?? value.replaceAll("_", " ")}</Text>
    </Group>
  );
}

const JSON_CHARS = 200_000;

/** A value as JSON text; a very long one is cut, and the copy is whole. */
export function JsonText({ value, maxHeight = 360 }: { value: unknown; maxHeight?: number | string }) {
  const text = writeExact(value, 2) ?? "undefined";
  return (
    <Box pos="relative">
      <Box pos="absolute" top={4} right={4} style={{ zIndex: 1 }}><CopyIcon value={text} /></Box>
      <Code block style={{ maxHeight, overflow: "auto", whiteSpace: "pre-wrap", overflowWrap: "anywhere" }} tabIndex={0}>
        {text.length > JSON_CHARS ? `${text.slice(0, JSON_CHARS)}\n…` : text}
      </Code>
    </Box>
  );
}

/** A button's drawer with an object as the API gives it. */
export function JsonDrawer({ title, value, onClose }: { title: ReactNode; value: unknown; onClose: () => void }) {
  return (
    <Drawer opened={value !== undefined} onClose={onClose} title={title} size="xl" closeButtonProps={{ "aria-label": ui.close }}>
      {value === undefined ? null : <JsonText value={value} maxHeight="calc(100vh - 120px)" />}
    </Drawer>
  );
}
