/** Fields of several values: objects, lists, maps, and choices between forms. */
import { ActionIcon, Button, Group, Select, SimpleGrid, Stack, Text, TextInput } from "@mantine/core";
import { IconArrowUp, IconPlus, IconTrash } from "@tabler/icons-react";
import type { ReactNode } from "react";

import { forms } from "../../texts/forms";
import { useForm, useProblem } from "./context";
import classes from "./Form.module.css";
import { describeField, findVariant, getOwn, isObject, labelName, labelProperty, makeValue, type Field, type Json, type JsonSchema, type Path, type Property } from "./model";
import { BooleanField, ChoiceField, JsonField, NumberField, TextField, TextsField } from "./Simple";

type Props = { schema: JsonSchema; value: Json | undefined; path: Path; label: string; isRequired: boolean };

/** Whether a field takes half of a row. */
function isShort(schema: JsonSchema, root: JsonSchema): boolean {
  const field = describeField(schema, root);
  return ["number", "choice"].includes(field.kind) || (field.kind === "text" && !field.isSecret) || (field.kind === "boolean" && field.isNullable);
}

/** `tag`: a field that is set elsewhere, by the choice between forms. */
export function ObjectFields({ properties, value, path, tag }: { properties: readonly Property[]; value: Json | undefined; path: Path; tag?: string }) {
  const { root, multiline } = useForm();
  const fields = isObject(value) ? value : {};
  const shown = properties.filter((it) => it.schema.readOnly !== true && it.schema.deprecated !== true);
  const known = new Set(properties.map((it) => it.name));
  const others = path.length === 0 ? [] : Object.keys(fields).filter((it) => !known.has(it) && it !== tag);
  const draw = (it: Property) => (
    <SchemaField key={it.name} schema={it.schema} value={getOwn(fields, it.name)} path={[...path, it.name]} label={labelProperty(it)} isRequired={it.isRequired} />
  );
  const short = shown.filter((it) => isShort(it.schema, root) && !multiline.includes(it.name) && !isLongText(getOwn(fields, it.name)));
  return (
    <Stack gap="sm">
      {short.length === 0 ? null : <SimpleGrid cols={{ base: 1, xs: 2, lg: short.length > 2 ? 3 : 2 }} spacing="sm" verticalSpacing="xs" style={{ alignItems: "end" }}>{short.map(draw)}</SimpleGrid>}
      {shown.filter((it) => !short.includes(it)).map(draw)}
      {others.length === 0 ? null : <Text size="xs" c="dimmed">{forms.others(others.join(", "))}</Text>}
    </Stack>
  );
}

function isLongText(value: Json | undefined): boolean {
  return typeof value === "string" && (value.length > 80 || value.includes("\n"));
}

export function SchemaField(props: Props) {
  const { root } = useForm();
  const field = describeField(props.schema, root);
  const { value, path, label, isRequired } = props;
  const simple = { value, path, label, isRequired };
  switch (field.kind) {
    case "text": return <TextField {...simple} field={field} />;
    case "number": return <NumberField {...simple} field={field} />;
    case "boolean": return <BooleanField {...simple} field={field} />;
    case "choice": return <ChoiceField {...simple} field={field} />;
    case "texts": case "choices": return <TextsField {...simple} field={field} />;
    case "json": return <JsonField {...simple} field={field} />;
    case "list": return <ListField {...props} field={field} />;
    case "map": return <MapField {...props} field={field} />;
    case "union": return <UnionField {...props} field={field} />;
    case "object": return <ObjectField {...props} field={field} />;
  }
}

function Frame({ label, description, path, children, action }: { label: string; description?: string; path: Path; children: ReactNode; action?: ReactNode }) {
  const error = useProblem(path);
  return (
    <fieldset className={classes.frame}>
      <legend className={classes.legend}>{label}</legend>
      {description === undefined ? null : <Text size="xs" c="dimmed" mb={4}>{description.split("\n")[0]}</Text>}
      {error === undefined ? null : <Text size="xs" c="var(--mantine-color-error)" mb={4}>{error}</Text>}
      <Stack gap="xs">{children}{action === undefined ? null : <Group gap="xs">{action}</Group>}</Stack>
    </fieldset>
  );
}

function ObjectField({ schema, value, path, label, isRequired, field }: Props & { field: Extract<Field, { kind: "object" }> }) {
  const { root, change, isDisabled } = useForm();
  if (!isObject(value)) {
    return (
      <Frame label={label} description={field.description} path={path}>
        <Group gap="xs"><Text size="xs" c="dimmed">{forms.unset}</Text><Button disabled={isDisabled} onClick={() => change(path, makeValue({ ...schema, default: undefined }, root))}>{forms.set(label)}</Button></Group>
      </Frame>
    );
  }
  const remove = isRequired ? undefined : <Button variant="subtle" disabled={isDisabled} onClick={() => change(path, field.isNullable ? null : undefined)}>{forms.remove(label.toLowerCase())}</Button>;
  return <Frame label={label} description={field.description} path={path} action={remove}><ObjectFields properties={field.properties} value={value} path={path} /></Frame>;
}

function ListField({ value, path, label, field }: Props & { field: Extract<Field, { kind: "list" }> }) {
  const { root, change, isDisabled } = useForm();
  const items = Array.isArray(value) ? (value as Json[]) : [];
  const moveUp = (index: number) => {
    const moved = [...items];
    [moved[index - 1], moved[index]] = [moved[index] ?? null, moved[index - 1] ?? null];
    change(path, moved);
  };
  const one = label.replace(/ies$/, "y").replace(/s$/, "");
  return (
    <Frame label={label} description={field.description} path={path} action={<Button leftSection={<IconPlus size={13} />} disabled={isDisabled} onClick={() => change(path, [...items, makeValue(field.items, root)])}>{forms.addTo(label)}</Button>}>
      {items.map((it, index) => {
        const name = forms.item(one, index);
        return (
          <div key={index} className={classes.item}>
            <div className={classes.itemBody}><ItemField schema={field.items} value={it} path={[...path, index]} label={name} /></div>
            <Group gap={4} wrap="nowrap" className={classes.itemActions}>
              {index === 0 ? null : <ActionIcon size={28} disabled={isDisabled} aria-label={forms.moveUp(name)} onClick={() => moveUp(index)}><IconArrowUp size={14} /></ActionIcon>}
              <ActionIcon size={28} disabled={isDisabled} aria-label={forms.remove(name)} onClick={() => change([...path, index], undefined)}><IconTrash size={14} /></ActionIcon>
            </Group>
          </div>
        );
      })}
    </Frame>
  );
}

/** An item of a list: the fields of an object stand in the item itself, without a frame of their own. */
function ItemField({ schema, value, path, label }: Omit<Props, "isRequired">) {
  const { root } = useForm();
  const field = describeField(schema, root);
  if (field.kind === "object") return <div role="group" aria-label={label}><ObjectFields properties={field.properties} value={value} path={path} /></div>;
  return <SchemaField schema={schema} value={value} path={path} label={label} isRequired />;
}

function MapField({ value, path, label, field }: Props & { field: Extract<Field, { kind: "map" }> }) {
  const { root, change, isDisabled } = useForm();
  const entries = Object.entries(isObject(value) ? value : {});
  const rename = (index: number, name: string) => change(path, Object.fromEntries(entries.map(([key, it], at) => [at === index ? name : key, it])));
  const add = () => change([...path, ""], makeValue(field.values, root));
  return (
    <Frame label={label} description={field.description} path={path} action={<Button leftSection={<IconPlus size={13} />} disabled={isDisabled || entries.some(([key]) => key === "")} onClick={add}>{forms.addTo(label)}</Button>}>
      {entries.map(([key, it], index) => (
        <div key={index} className={classes.item}>
          <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="xs" className={classes.itemBody} style={{ alignItems: "end" }}>
            <TextInput label={forms.key} disabled={isDisabled} value={key} onChange={(event) => rename(index, event.currentTarget.value)} />
            <SchemaField schema={field.values} value={it} path={[...path, key]} label={forms.value} isRequired />
          </SimpleGrid>
          <ActionIcon size={28} disabled={isDisabled} className={classes.itemActions} aria-label={forms.remove(key)} onClick={() => change([...path, key], undefined)}><IconTrash size={14} /></ActionIcon>
        </div>
      ))}
    </Frame>
  );
}

function UnionField({ value, path, label, isRequired, field }: Props & { field: Extract<Field, { kind: "union" }> }) {
  const { root, change, isDisabled } = useForm();
  const chosen = value === undefined || value === null ? -1 : findVariant(value, field.variants, root);
  const variant = field.variants[chosen];
  const inner = variant === undefined ? null : describeField(variant.schema, root);
  const isFixed = inner === null || (inner.kind === "choice" && inner.options.length === 1);
  const choose = (next: string | null) => {
    const picked = field.variants[Number(next)];
    if (next === null || picked === undefined) change(path, field.isNullable ? null : undefined);
    else change(path, makeValue(picked.schema, root));
  };
  return (
    <Frame label={label} description={field.description} path={path}>
      <Select
        aria-label={`${label}: ${forms.form}`}
        disabled={isDisabled}
        placeholder={forms.unset}
        data={field.variants.map((it, index) => ({ value: String(index), label: it.label }))}
        value={chosen === -1 ? null : String(chosen)}
        clearable={!isRequired}
        onChange={choose}
      />
      {isFixed || variant === undefined ? null : inner?.kind === "object"
        ? <ObjectFields properties={inner.properties.filter((it) => it.name !== "type")} value={value} path={path} tag="type" />
        : <SchemaField schema={variant.schema} value={value} path={path} label={labelName(variant.label)} isRequired />}
    </Frame>
  );
}
