/** What happens to a call, as icon and word. */
import { Group, Text } from "@mantine/core";
import { IconBan, IconCheck, IconHandStop } from "@tabler/icons-react";

import { policy as texts } from "../../texts/policy";
import type { Behavior } from "./rules";

const LOOKS = { allow: { color: "teal", icon: IconCheck }, ask: { color: "yellow", icon: IconHandStop }, deny: { color: "red", icon: IconBan } } as const;

export function Decision({ behavior }: { behavior: Behavior }) {
  const { color, icon: Icon } = LOOKS[behavior];
  return (
    <Group gap={6} wrap="nowrap" component="span" display="inline-flex">
      <Icon size={14} stroke={2.2} aria-hidden color={`light-dark(var(--mantine-color-${color}-8), var(--mantine-color-${color}-4))`} />
      <Text span size="sm">{texts.behaviors[behavior]}</Text>
    </Group>
  );
}
