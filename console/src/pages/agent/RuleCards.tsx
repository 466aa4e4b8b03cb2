/** A list of rules that are applied in their order: each is a card with its own fields, and can be moved and removed. */
import { ActionIcon, Button, Group, Menu, Stack, Text } from "@mantine/core";
import { IconArrowDown, IconArrowUp, IconPlus, IconTrash } from "@tabler/icons-react";
import type { ReactNode } from "react";

import { forms } from "../../texts/forms";
import { messagesAt, type FieldProblem, type JsonObject } from "../../ui/schema/model";
import classes from "./AgentPage.module.css";
import { moveRule } from "./ruleLists";

export type RuleProps = { rule: JsonObject; onChange: (change: JsonObject) => void; problemOf: (...path: string[]) => string | undefined };
type Props = {
  /** What the rules are, for screen readers and for the button that adds one. */
  label: string;
  rules: readonly JsonObject[];
  onChange: (rules: JsonObject[]) => void;
  problems: readonly FieldProblem[];
  nameRule: (rule: JsonObject, index: number) => string;
  /** What a new rule can begin as. */
  presets: readonly { label: string; rule: JsonObject }[];
  children: (props: RuleProps) => ReactNode;
  empty: string;
};

export function RuleCards({ label, rules, onChange, problems, nameRule, presets, children, empty }: Props) {
  return (
    <Stack gap="sm" role="group" aria-label={label}>
      {rules.length === 0 ? <Text size="sm" c="dimmed">{empty}</Text> : null}
      {rules.map((rule, index) => {
        const name = nameRule(rule, index);
        const problemOf = (...path: string[]) => messagesAt(problems, ["rules", index, ...path]).join(" ") || undefined;
        return (
          <section key={index} className={classes.choice} aria-label={name}>
            <Group justify="space-between" gap="xs" mb={6} wrap="nowrap">
              <Text size="sm" fw={600} truncate>{name}</Text>
              <Group gap={4} wrap="nowrap">
                {index === 0 ? null : <ActionIcon aria-label={forms.moveUp(name)} onClick={() => onChange(moveRule(rules, index, -1))}><IconArrowUp size={14} /></ActionIcon>}
                {index === rules.length - 1 ? null : <ActionIcon aria-label={forms.moveDown(name)} onClick={() => onChange(moveRule(rules, index, 1))}><IconArrowDown size={14} /></ActionIcon>}
                <ActionIcon aria-label={forms.remove(name)} onClick={() => onChange(rules.filter((_, at) => at !== index))}><IconTrash size={14} /></ActionIcon>
              </Group>
            </Group>
            {problemOf() === undefined ? null : <Text size="xs" c="var(--mantine-color-error)" mb={4}>{problemOf()}</Text>}
            {children({ rule, onChange: (change) => onChange(rules.map((it, at) => (at === index ? { ...it, ...change } : it))), problemOf })}
          </section>
        );
      })}
      <Group>
        <Menu position="bottom-start">
          <Menu.Target><Button leftSection={<IconPlus size={13} />}>{forms.addTo(label)}</Button></Menu.Target>
          <Menu.Dropdown>{presets.map((it) => <Menu.Item key={it.label} onClick={() => onChange([...rules, it.rule])}>{it.label}</Menu.Item>)}</Menu.Dropdown>
        </Menu>
      </Group>
    </Stack>
  );
}
