/** The frame of a page: its title, what it is for, its actions. Every page has exactly one `h1`. */
import { Box, Group, Text, Title } from "@mantine/core";
import { useEffect, type ReactNode } from "react";

import { shell } from "../texts/shell";

type Props = { title: ReactNode; name?: string; description?: ReactNode; actions?: ReactNode; children: ReactNode; isWide?: boolean };

export function Page({ title, name, description, actions, children, isWide = true }: Props) {
  const label = name ?? (typeof title === "string" ? title : "");
  useEffect(() => {
    document.title = label === "" ? shell.product : `${label} · ${shell.product}`;
  }, [label]);
  return (
    <Box px={{ base: "sm", sm: "lg" }} py="md" maw={isWide ? undefined : 960}>
      <Group justify="space-between" align="flex-start" gap="sm" mb="md">
        <Box miw={0} maw="100%" style={{ overflowWrap: "anywhere" }}>
          <Title order={1}>{title}</Title>
          {description === undefined ? null : <Text c="dimmed" size="sm" mt={2}>{description}</Text>}
        </Box>
        {actions === undefined ? null : <Group gap="xs">{actions}</Group>}
      </Group>
      {children}
    </Box>
  );
}
