/** Shows an interface of JSON render (`{root, elements}`): components by their common names, the others as data with their children. */
import { Badge, Box, Button, Card, Divider, Group, SimpleGrid, Stack, Table, Text } from "@mantine/core";
import type { ReactNode } from "react";

import { chat as texts } from "../../../texts/chat";
import { JsonText } from "../../../ui/parts";
import { showHidden } from "../../../ui/hostileText";
import { isFields } from "./a2ui";
import type { Spec } from "./interfaces";

const DEPTH = 24;
type Element = { type: string; props: Record<string, unknown>; children: string[] };
function readElement(given: unknown): Element | null {
  if (!isFields(given) || typeof given.type !== "string") return null;
  const children = Array.isArray(given.children) ? given.children.filter((it): it is string => typeof it === "string") : [];
  return { type: given.type, props: isFields(given.props) ? given.props : {}, children };
}

const asText = (value: unknown): string => (value === undefined || value === null ? "" : showHidden(typeof value === "string" ? value : JSON.stringify(value)));
const findText = (props: Record<string, unknown>) => asText(props.text ?? props.content ?? props.label ?? props.title ?? props.value ?? props.children);

function Rows({ rows }: { rows: readonly unknown[] }) {
  const records = rows.filter(isFields).slice(0, 200);
  const names = [...new Set(records.flatMap((it) => Object.keys(it)))].slice(0, 20);
  return (
    <Table withTableBorder fz="xs">
      <Table.Thead><Table.Tr>{names.map((it) => <Table.Th key={it}>{showHidden(it)}</Table.Th>)}</Table.Tr></Table.Thead>
      <Table.Tbody>{records.map((row, index) => <Table.Tr key={index}>{names.map((it) => <Table.Td key={it}>{asText(row[it])}</Table.Td>)}</Table.Tr>)}</Table.Tbody>
    </Table>
  );
}

function Node({ spec, id, depth, onAction }: { spec: Spec; id: string; depth: number; onAction: (text: string) => void }): ReactNode {
  const element = Object.hasOwn(spec.elements, id) && depth <= DEPTH ? readElement(spec.elements[id]) : null;
  if (element === null) return null;
  const { type, props } = element;
  const children = element.children.map((it, index) => <Node key={`${it}:${index}`} spec={spec} id={it} depth={depth + 1} onAction={onAction} />);
  switch (type.toLowerCase()) {
    case "card": case "section": case "panel":
      return <Card withBorder padding="sm"><Stack gap="xs">{props.title === undefined ? null : <Text fw={600} size="sm">{asText(props.title)}</Text>}{props.description === undefined ? null : <Text size="xs" c="dimmed">{asText(props.description)}</Text>}{children}</Stack></Card>;
    case "text": case "paragraph": case "textcontent":
      return <Text size="sm" style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>{findText(props)}</Text>;
    case "heading": case "title":
      return <Text fw={600} size="md">{findText(props)}</Text>;
    case "stack": case "column": case "container": case "page": case "list": case "form":
      return props.direction === "horizontal" ? <Group gap="sm">{children}</Group> : <Stack gap="xs">{children}</Stack>;
    case "row": case "group": case "inline":
      return <Group gap="sm">{children}</Group>;
    case "grid":
      return <SimpleGrid cols={{ base: 1, sm: Math.min(4, Math.max(1, Number(props.columns) || 2)) }} spacing="sm">{children}</SimpleGrid>;
    case "divider": case "separator":
      return <Divider />;
    case "badge": case "tag":
      return <Badge variant="outline" color="gray" c="var(--mantine-color-text)">{findText(props)}</Badge>;
    case "metric": case "stat":
      return <Box><Text size="xs" c="dimmed">{asText(props.label)}</Text><Text size="xl" fw={600}>{asText(props.value)}</Text></Box>;
    case "button":
      return <Button onClick={() => onAction(JSON.stringify({ action: props.action ?? props.onClick ?? findText(props), element: id }))}>{findText(props)}</Button>;
    case "table":
      return <Rows rows={Array.isArray(props.rows) ? props.rows : Array.isArray(props.data) ? props.data : []} />;
    default:
      return <Box><Text size="xs" c="dimmed">{texts.unknownComponent(type)}</Text>{Object.keys(props).length === 0 ? null : <JsonText value={props} maxHeight={160} />}<Stack gap="xs" pl="sm">{children}</Stack></Box>;
  }
}

export default function JsonRenderView({ spec, onAction }: { spec: Spec; onAction: (text: string) => void }) {
  if (spec.root === "" || !Object.hasOwn(spec.elements, spec.root)) return <JsonText value={spec} maxHeight={160} />;
  return <Node spec={spec} id={spec.root} depth={0} onAction={onAction} />;
}
