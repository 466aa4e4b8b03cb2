/** A part of a page with a title of its own. */
import { Box, Group, Text, Title } from "@mantine/core";
import type { ReactNode } from "react";

import classes from "./Panel.module.css";

type Props = { title: string; description?: ReactNode; actions?: ReactNode; children: ReactNode; isFlush?: boolean };

/** `isFlush`: the content reaches the border, as a table does. */
export function Panel({ title, description, actions, children, isFlush = false }: Props) {
  return (
    <section className={classes.panel} aria-label={title}>
      <Group className={classes.header} gap="xs" justify="space-between">
        <Box miw={0}>
          <Title order={2}>{title}</Title>
          {description === undefined ? null : <Text size="xs" c="dimmed" component="div">{description}</Text>}
        </Box>
        {actions === undefined ? null : <Group gap="xs">{actions}</Group>}
      </Group>
      <div className={isFlush ? undefined : classes.body}>{children}</div>
    </section>
  );
}

/** A figure with its name; the name stands above it. */
export function Figure({ name, children, help }: { name: string; children: ReactNode; help?: string }) {
  return (
    <div className={classes.figure} title={help}>
      <Text size="xs" c="dimmed" component="dt">{name}</Text>
      <Text size="lg" fw={600} component="dd" m={0} className={classes.value}>{children}</Text>
    </div>
  );
}

export function Figures({ children }: { children: ReactNode }) {
  return <dl className={classes.figures}>{children}</dl>;
}
