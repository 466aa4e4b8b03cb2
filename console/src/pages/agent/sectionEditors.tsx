/** Editors of single sections, where a form from the schema would say too little: guardrails and reminders. */
import { ActionIcon, Autocomplete, Button, Group, Input, MultiSelect, NumberInput, SegmentedControl, Select, SimpleGrid, Stack, TagsInput, Text, Textarea, TextInput } from "@mantine/core";
import { IconPlus, IconTrash } from "@tabler/icons-react";

import { agent } from "../../texts/agent";
import { isObject, type FieldProblem, type Json, type JsonObject } from "../../ui/schema/model";
import { RuleCards, type RuleProps } from "./RuleCards";
import { readTexts } from "./readTexts";
import { nameFreely, readOutput, readRules, STANDARD_GUARD, writeOutput, type OutputForm } from "./ruleLists";

export type SectionProps = { section: JsonObject; onChange: (next: JsonObject) => void; problems: readonly FieldProblem[]; tools: readonly string[] };

const guard = agent.guardrails;
const reminder = agent.reminder;
const options = (names: Readonly<Record<string, string>>) => Object.entries(names).map(([value, label]) => ({ value, label }));
const readText = (value: Json | undefined) => (typeof value === "string" ? value : "");

export function GuardrailsEditor({ section, onChange, problems }: SectionProps) {
  const rules = readRules(section, [STANDARD_GUARD]);
  const preset = (label: string, rule: JsonObject) => ({ label, rule: { ...rule, name: nameFreely(rules, readText(rule.name)) } });
  const presets = [
    preset(guard.presets.secrets, STANDARD_GUARD),
    preset(guard.presets.personal, { name: "personal-data", on: ["input", "output"], action: "redact", detect: ["pii"] }),
    preset(guard.presets.pattern, { name: "pattern", on: ["output"], action: "ask", pattern: "(?i)confidential" }),
  ];
  return (
    <Stack gap="sm">
      <Text size="sm" c="dimmed">{section.rules === undefined ? guard.standard : guard.help}</Text>
      <RuleCards label={guard.rules} rules={rules} problems={problems} presets={presets} empty={guard.none} nameRule={(it, index) => readText(it.name) || guard.rule(index)} onChange={(next) => onChange({ ...section, rules: next })}>
        {(props) => <GuardFields {...props} />}
      </RuleCards>
    </Stack>
  );
}

function GuardFields({ rule, onChange, problemOf }: RuleProps) {
  const action = readText(rule.action) || "redact";
  return (
    <Stack gap="xs">
      <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="sm" verticalSpacing="xs">
        <TextInput label={guard.name} required value={readText(rule.name)} error={problemOf("name")} onChange={(event) => onChange({ name: event.currentTarget.value })} />
        <MultiSelect label={guard.on} data={options(guard.places)} value={readTexts(rule.on)} error={problemOf("on")} onChange={(on) => onChange({ on })} />
      </SimpleGrid>
      <Input.Wrapper label={guard.action} description={guard.effects[action as keyof typeof guard.effects]} labelElement="div">
        <div><SegmentedControl mt={4} aria-label={guard.action} data={options(guard.actions)} value={action} onChange={(next) => onChange({ action: next })} /></div>
      </Input.Wrapper>
      <TagsInput size="xs" label={guard.detect} description={guard.detectHelp} data={[...guard.kinds]} value={readTexts(rule.detect)} error={problemOf("detect")} onChange={(detect) => onChange({ detect })} />
      <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="sm" verticalSpacing="xs">
        <TextInput label={guard.pattern} description={guard.patternHelp} styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)" } }} value={readText(rule.pattern)} error={problemOf("pattern")} spellCheck={false} onChange={(event) => onChange({ pattern: event.currentTarget.value === "" ? null : event.currentTarget.value })} />
        <NumberInput label={guard.chars} description={guard.charsHelp} min={1} max={10_000} hideControls value={typeof rule.max_chars === "number" ? rule.max_chars : ""} error={problemOf("max_chars")} onChange={(next) => onChange({ max_chars: typeof next === "number" ? next : null })} />
      </SimpleGrid>
    </Stack>
  );
}

export function ReminderEditor({ section, onChange, problems, tools }: SectionProps) {
  const rules = readRules(section);
  const presets: { label: string; rule: JsonObject }[] = [
    { label: reminder.presets.always, rule: { tool: "*", message: { content: "" } } },
    { label: reminder.presets.failed, rule: { tool: "*", output: { status: "error" }, message: { content: "", cooldown_turns: 3 } } },
  ];
  return (
    <Stack gap="sm">
      <Text size="sm" c="dimmed">{reminder.help}</Text>
      <RuleCards label={reminder.rules} rules={rules} problems={problems} presets={presets} empty={reminder.none} nameRule={(it, index) => readText(it.name) || reminder.rule(index, readText(it.tool))} onChange={(next) => onChange({ ...section, rules: next })}>
        {(props) => <ReminderFields {...props} tools={tools} />}
      </RuleCards>
    </Stack>
  );
}

function ReminderFields({ rule, onChange, problemOf, tools }: RuleProps & { tools: readonly string[] }) {
  const message = isObject(rule.message) ? rule.message : {};
  const setMessage = (change: JsonObject) => onChange({ message: { ...message, ...change } });
  return (
    <Stack gap="xs">
      <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="sm" verticalSpacing="xs">
        <Autocomplete size="xs" label={reminder.tool} description={reminder.toolHelp} required data={[...tools]} value={readText(rule.tool)} error={problemOf("tool")} onChange={(tool) => onChange({ tool })} />
        <TextInput label={reminder.name} description={reminder.nameHelp} value={readText(rule.name)} error={problemOf("name")} onChange={(event) => onChange({ name: event.currentTarget.value === "" ? null : event.currentTarget.value })} />
      </SimpleGrid>
      <OutputFields form={readOutput(rule.output)} error={problemOf("output")} onChange={(form) => onChange({ output: writeOutput(form) })} />
      <Textarea label={reminder.content} required autosize minRows={2} maxRows={10} value={readText(message.content)} error={problemOf("message", "content")} onChange={(event) => setMessage({ content: event.currentTarget.value })} />
      <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="sm" verticalSpacing="xs">
        <Select label={reminder.target} data={options(reminder.targets)} allowDeselect={false} value={readText(message.target) || "suffix_system"} onChange={(target) => setMessage({ target })} />
        <NumberInput label={reminder.cooldown} min={0} hideControls value={typeof message.cooldown_turns === "number" ? message.cooldown_turns : 0} onChange={(next) => setMessage({ cooldown_turns: typeof next === "number" ? next : 0 })} />
      </SimpleGrid>
    </Stack>
  );
}

function OutputFields({ form, onChange, error }: { form: OutputForm; onChange: (form: OutputForm) => void; error: string | undefined }) {
  const setField = (index: number, change: Partial<OutputForm["fields"][number]>) => onChange({ ...form, fields: form.fields.map((it, at) => (at === index ? { ...it, ...change } : it)) });
  return (
    <Stack gap="xs">
      <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="sm" verticalSpacing="xs">
        <Select label={reminder.status} data={options(reminder.statuses)} allowDeselect={false} value={form.status} error={error} onChange={(status) => onChange({ ...form, status: status ?? "any" })} />
        <TextInput label={reminder.text} description={reminder.textHelp} disabled={form.fields.length > 0} value={form.text} onChange={(event) => onChange({ ...form, text: event.currentTarget.value })} />
      </SimpleGrid>
      {form.fields.map((it, index) => (
        <Group key={index} gap="xs" align="flex-end" role="group" aria-label={reminder.condition(index)}>
          <TextInput label={reminder.path} value={it.path} flex="1 1 120px" onChange={(event) => setField(index, { path: event.currentTarget.value })} />
          <Select label={reminder.op} data={options(reminder.ops)} allowDeselect={false} value={it.op} w={150} onChange={(op) => setField(index, { op: op ?? "glob" })} />
          <TextInput label={reminder.value} value={it.value} flex="1 1 120px" onChange={(event) => setField(index, { value: event.currentTarget.value })} />
          <ActionIcon aria-label={reminder.dropCondition(index)} onClick={() => onChange({ ...form, fields: form.fields.filter((_, at) => at !== index) })}><IconTrash size={14} /></ActionIcon>
        </Group>
      ))}
      <Group><Button variant="subtle" leftSection={<IconPlus size={13} />} onClick={() => onChange({ ...form, fields: [...form.fields, { path: "", op: "exact", value: "" }] })}>{reminder.addCondition}</Button></Group>
    </Stack>
  );
}
