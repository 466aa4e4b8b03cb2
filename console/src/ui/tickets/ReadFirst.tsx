/** Says why a call cannot be approved yet, and leads to what was not on the screen. */
import { Button, Group, Text } from "@mantine/core";
import { IconArrowDown } from "@tabler/icons-react";

import { approvals as texts } from "../../texts/approvals";
import { useReading } from "../reading";

export function ReadFirst({ isFocused = false }: { isFocused?: boolean }) {
  const { isRead, share, readOn } = useReading();
  if (isRead) return null;
  return (
    <Group gap="xs">
      <Button leftSection={<IconArrowDown size={14} aria-hidden />} data-autofocus={isFocused || undefined} onClick={readOn}>{texts.readOn}</Button>
      <Text size="sm" role="status">{texts.readFirst(Math.floor(share * 100))}</Text>
    </Group>
  );
}
