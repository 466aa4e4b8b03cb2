/** What the server found wrong with a change, by the path of the field. */
import { Alert, Code, List, Text } from "@mantine/core";
import { IconAlertTriangle, IconInfoCircle } from "@tabler/icons-react";

import type { Diagnostic } from "../api/managed";
import { recordEditor as texts } from "../texts/recordEditor";

function Lines({ items }: { items: readonly Diagnostic[] }) {
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

export function Problems({ problems, diagnostics = [] }: { problems: readonly Diagnostic[]; diagnostics?: readonly Diagnostic[] }) {
  return (
    <>
      {problems.length === 0 ? null : <Alert color="red" icon={<IconAlertTriangle size={18} />} title={texts.problems(problems.length)} role="alert"><Lines items={problems} /></Alert>}
      {diagnostics.length === 0 ? null : <Alert color="yellow" icon={<IconInfoCircle size={18} />} title={texts.warnings}><Lines items={diagnostics} /></Alert>}
    </>
  );
}
