/** Shows a surface of A2UI with Mantine's parts. Nothing is loaded and nothing is done: an action becomes text in the message field. */
import { Box, Button, Card, Checkbox, Divider, Group, Slider, Stack, Tabs, Text, Textarea, TextInput } from "@mantine/core";
import { useMemo, useState, type ReactNode } from "react";

import { chat as texts } from "../../../texts/chat";
import { JsonText } from "../../../ui/parts";
import { showHidden } from "../../../ui/hostileText";
import { findPath, isFields, readChildren, resolveValue, type Child, type Component, type Surface } from "./a2ui";
import { setAt } from "./patch";

const DEPTH = 24;
type Context = { surface: Surface; data: unknown; setData: (path: readonly string[], value: unknown) => void; onAction: (text: string) => void };
type NodeProps = { context: Context; child: Child; depth: number };

const asText = (value: unknown): string => (value === undefined || value === null ? "" : showHidden(typeof value === "string" ? value : JSON.stringify(value)));

function Node({ context, child, depth }: NodeProps) {
  const component = context.surface.components[child.id];
  if (component === undefined || depth > DEPTH) return null;
  return <Shown context={context} component={component} scope={child.scope} depth={depth} />;
}

type ShownProps = { context: Context; component: Component; scope: readonly string[]; depth: number };

const ALIGN: Record<string, string> = { start: "flex-start", center: "center", end: "flex-end", spaceBetween: "space-between", spaceAround: "space-around", spaceEvenly: "space-evenly", stretch: "stretch" };

function Shown({ context, component, scope, depth }: ShownProps): ReactNode {
  const { type, props } = component;
  const value = (name: string) => resolveValue(props[name], context.data, scope);
  const one = (id: unknown) => (typeof id === "string" ? <Node context={context} child={{ id, scope }} depth={depth + 1} /> : null);
  const many = () => readChildren(props.children, context.data, scope).map((it, index) => <Node key={`${it.id}:${index}`} context={context} child={it} depth={depth + 1} />);
  const align = ALIGN[String(props.alignment ?? props.align)];
  switch (type) {
    case "Text": {
      const look = String(props.usageHint ?? props.variant ?? "body");
      return <Text size={look === "caption" ? "xs" : /^h[12]$/.test(look) ? "lg" : /^h/.test(look) ? "md" : "sm"} fw={look.startsWith("h") ? 600 : 400} c={look === "caption" ? "dimmed" : undefined} style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>{asText(value("text"))}</Text>;
    }
    case "Card":
      return <Card withBorder padding="sm">{one(props.child)}</Card>;
    case "Row":
      return <Group gap="sm" align={align} justify={ALIGN[String(props.distribution ?? props.justify)]}>{many()}</Group>;
    case "Column":
      return <Stack gap="xs" align={align}>{many()}</Stack>;
    case "List":
      return props.direction === "horizontal" ? <Group gap="sm">{many()}</Group> : <Stack gap="xs">{many()}</Stack>;
    case "Divider":
      return <Divider orientation={props.axis === "vertical" ? "vertical" : "horizontal"} />;
    case "Tabs":
      return <TabsShown context={context} component={component} scope={scope} depth={depth} />;
    case "Modal":
      return <details><summary>{one(props.entryPointChild ?? props.trigger)}</summary>{one(props.contentChild ?? props.content)}</details>;
    case "Button":
      return <Button variant={props.primary === true || props.variant === "primary" ? "filled" : "default"} onClick={() => context.onAction(describeAction(context, component, scope))}>{one(props.child)}</Button>;
    case "Icon":
      return <Text span size="xs" c="dimmed">[{asText(value("name"))}]</Text>;
    case "Image":
    case "Video":
    case "AudioPlayer":
      return <Text size="xs" c="dimmed" ff="monospace" style={{ overflowWrap: "anywhere" }}>[{texts.notLoaded}: {type} {asText(value("altText") ?? value("description"))} {asText(value("url")).slice(0, 200)}]</Text>;
    default:
      return <Field context={context} component={component} scope={scope} depth={depth} />;
  }
}

function TabsShown({ context, component: { props }, scope, depth }: ShownProps) {
  const given: unknown = props.tabItems ?? props.tabs;
  const items = (Array.isArray(given) ? given : []).filter(isFields);
  return (
    <Tabs defaultValue="0">
      <Tabs.List>{items.map((it, index) => <Tabs.Tab key={index} value={String(index)}>{asText(resolveValue(it.title, context.data, scope))}</Tabs.Tab>)}</Tabs.List>
      {items.map((it, index) => <Tabs.Panel key={index} value={String(index)} pt="xs">{typeof it.child === "string" ? <Node context={context} child={{ id: it.child, scope }} depth={depth + 1} /> : null}</Tabs.Panel>)}
    </Tabs>
  );
}

/** Fields change the data on this screen only; a button's action carries them. */
function Field({ context, component, scope }: ShownProps) {
  const { type, props, id } = component;
  const key = ["text", "value", "selections"].find((it) => it in props) ?? "value";
  const path = findPath(props[key], scope) ?? ["_fields", id];
  const given = resolveValue(props[key], context.data, scope);
  const kept = resolveValue({ path: `/${path.join("/")}` }, context.data) ?? given;
  const label = asText(resolveValue(props.label, context.data, scope)) || id;
  const set = (value: unknown) => context.setData(path, value);
  if (type === "CheckBox") return <Checkbox label={label} checked={kept === true} onChange={(event) => set(event.currentTarget.checked)} />;
  if (type === "TextField" && (props.textFieldType === "longText" || props.variant === "longText")) return <Textarea label={label} value={asText(kept)} autosize minRows={2} maxRows={8} onChange={(event) => set(event.currentTarget.value)} />;
  if (type === "TextField" || type === "DateTimeInput") return <TextInput label={label} type={props.textFieldType === "obscured" || props.variant === "obscured" ? "password" : "text"} value={asText(kept)} onChange={(event) => set(event.currentTarget.value)} />;
  if (type === "Slider") return <Box><Text size="xs">{label}</Text><Slider thumbLabel={label} min={Number(props.minValue ?? props.min ?? 0)} max={Number(props.maxValue ?? props.max ?? 100)} value={Number(kept ?? 0)} onChange={set} /></Box>;
  if (type === "MultipleChoice" || type === "ChoicePicker") {
    const options = (Array.isArray(props.options) ? props.options : []).filter(isFields);
    return (
      <Checkbox.Group label={label} value={Array.isArray(kept) ? kept.map(String) : []} onChange={set}>
        <Stack gap={4} mt={4}>{options.map((it, index) => <Checkbox key={index} value={String(it.value)} label={asText(resolveValue(it.label, context.data, scope))} />)}</Stack>
      </Checkbox.Group>
    );
  }
  return <Box><Text size="xs" c="dimmed">{texts.unknownComponent(type)}</Text><JsonText value={props} maxHeight={160} /></Box>;
}

function describeAction({ surface, data }: Context, { id, props }: Component, scope: readonly string[]): string {
  const action = isFields(props.action) ? props.action : {};
  const event = isFields(action.event) ? action.event : action;
  const entries: [string, unknown][] = Array.isArray(event.context)
    ? event.context.filter(isFields).map((it) => [String(it.key), resolveValue(it.value, data, scope)])
    : isFields(event.context) ? Object.entries(event.context).map(([key, it]) => [key, resolveValue(it, data, scope)]) : [];
  return JSON.stringify({ userAction: { name: event.name ?? null, surfaceId: surface.id, sourceComponentId: id, context: Object.fromEntries(entries) } });
}

export default function A2uiView({ surface, onAction }: { surface: Surface; onAction: (text: string) => void }) {
  const [changes, setChanges] = useState<readonly { path: readonly string[]; value: unknown }[]>([]);
  const data = useMemo(() => changes.reduce((now, it) => (it.path[0] === "_fields" && !(isFields(now) && "_fields" in now) ? setAt(setAt(now, ["_fields"], {}), it.path, it.value) : setAt(now, it.path, it.value)), surface.data), [surface.data, changes]);
  const context: Context = { surface, data, onAction, setData: (path, value) => setChanges((now) => [...now.filter((it) => it.path.join("/") !== path.join("/")), { path, value }]) };
  if (surface.root === null || surface.components[surface.root] === undefined) return <JsonText value={surface} maxHeight={240} />;
  return <Node context={context} child={{ id: surface.root, scope: [] }} depth={0} />;
}
