/** The context of the runs that a pane starts: a form if the agent says what it wants, else JSON. */
import { Button, Group, Modal, Text, Textarea, Tooltip } from "@mantine/core";
import { IconBraces } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { writeExact } from "../../api/exactJson";
import { chat as texts } from "../../texts/chat";
import { ui } from "../../texts/ui";
import { SchemaForm } from "../../ui/SchemaForm";
import { useTyped } from "../../ui/typed";
import { contextSchemaQuery } from "./requests";
import { contextPlace, readContext } from "./runContext";

function isWanted(schema: object | null): boolean {
  return schema !== null && "required" in schema && Array.isArray(schema.required) && schema.required.length > 0;
}

export function ContextField({ agent, isFirst }: { agent: string; isFirst: boolean }) {
  const [isOpen, setIsOpen] = useState(false);
  const [text, setText] = useTyped(contextPlace(isFirst), "");
  const { data: schema = null } = useQuery(contextSchemaQuery(agent));
  const { value, problem } = readContext(text);
  const isGiven = text.trim() !== "";
  const isMissing = !isGiven && isWanted(schema);
  const label = problem !== null ? texts.contextBroken : isGiven ? texts.contextGiven(Object.keys(value ?? {}).length) : isMissing ? texts.contextWanted : texts.context;
  // What was written for another agent, and is no object, cannot stand in a form.
  const hasForm = schema !== null && problem === null;
  return (
    <>
      <Tooltip label={isMissing ? texts.contextWantedHelp : texts.contextHelp}>
        <Button variant={isGiven ? "light" : "default"} color={problem !== null || isMissing ? "red" : undefined} leftSection={<IconBraces size={14} />} onClick={() => setIsOpen(true)}>{label}</Button>
      </Tooltip>
      <Modal opened={isOpen} onClose={() => setIsOpen(false)} title={texts.contextTitle} size="lg" closeButtonProps={{ "aria-label": ui.close }}>
        <Text size="sm" c="dimmed" mb="sm">{schema === null ? texts.contextFree(agent) : texts.contextTyped(agent)}</Text>
        {hasForm ? (
          <SchemaForm label={texts.context} schema={schema} value={value ?? {}} isChecked={isGiven} onChange={(next) => setText(Object.keys(next).length === 0 ? "" : (writeExact(next, 2) ?? ""))} />
        ) : (
          <Textarea label={texts.contextJson} value={text} error={problem ?? undefined} placeholder='{ "customer": "c-17" }' autosize minRows={6} maxRows={18} spellCheck={false} styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)" } }} onChange={(event) => setText(event.currentTarget.value)} data-autofocus />
        )}
        <Group justify="space-between" mt="md">
          <Button disabled={!isGiven} onClick={() => setText("")}>{texts.contextClear}</Button>
          <Button variant="filled" onClick={() => setIsOpen(false)}>{texts.contextDone}</Button>
        </Group>
      </Modal>
    </>
  );
}
