/** What the server found wrong with a change, by the path of the field, and why it refused one. */
import { Alert, Code, List, Text } from "@mantine/core";
import { IconAlertTriangle, IconInfoCircle } from "@tabler/icons-react";

import { ApiError, describeError, type Problem } from "../api/errors";
import { records as texts } from "../texts/records";

function Lines({ items }: { items: readonly Problem[] }) {
  return (
    <List size="sm" spacing={4} listStyleType="none" p={0}>
      {items.map((it, index) => (
        <List.Item key={index}>
          <Code>{it.path}</Code> <Text span size="sm">{it.message}</Text>
          {it.known === undefined || it.known.length === 0 ? null : <Text size="xs">{texts.known(it.known)}</Text>}
        </List.Item>
      ))}
    </List>
  );
}

export function Problems({ problems, diagnostics = [] }: { problems: readonly Problem[]; diagnostics?: readonly Problem[] }) {
  return (
    <>
      {problems.length === 0 ? null : <Alert color="red" icon={<IconAlertTriangle size={18} />} title={texts.problems(problems.length)} role="alert"><Lines items={problems} /></Alert>}
      {diagnostics.length === 0 ? null : <Alert color="yellow" icon={<IconInfoCircle size={18} />} title={texts.warnings}><Lines items={diagnostics} /></Alert>}
    </>
  );
}

function listTexts(value: unknown): string[] {
  return Array.isArray(value) ? value.map((it) => (typeof it === "string" ? it : JSON.stringify(it))) : [];
}

/** Why the server refused something: every problem with its place, or its sentence with what must be done about it. */
export function Refusal({ error }: { error: unknown }) {
  if (error === null || error === undefined) return null;
  if (error instanceof ApiError && error.problems.length > 0) return <Problems problems={error.problems} />;
  const reasons = error instanceof ApiError ? [...listTexts(error.body.unmet), ...listTexts(error.body.refused_by)] : [];
  return (
    <Alert color="red" icon={<IconAlertTriangle size={18} />} title={describeError(error)} role="alert">
      {reasons.length === 0 ? null : <List size="sm">{reasons.map((it) => <List.Item key={it}>{it}</List.Item>)}</List>}
    </Alert>
  );
}
