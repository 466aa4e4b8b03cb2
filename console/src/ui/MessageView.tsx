/** One stored message as text: what an agent, a tool or a person wrote is never read as markup. */
import { Box, Button, Group, Text } from "@mantine/core";
import { IconMessage2, IconRobot, IconSettings, IconTool, IconUser } from "@tabler/icons-react";
import { useState, type ReactNode } from "react";

import type { Schemas } from "../api/client";
import { messages as texts } from "../texts/messages";
import { Age, JsonText } from "./parts";
import classes from "./MessageView.module.css";
import { ShownText } from "./SafeText";

export type MessageRecord = Schemas["MessageRecord"];
type Block = NonNullable<Schemas["Message"]["content"]>[number];

const ICONS = { user: IconUser, assistant: IconRobot, tool: IconTool, system: IconSettings } as const;
const FOLDED_CHARS = 4_000;

/** A text that is folded when it is long; the button says how much is folded. */
function FoldedText({ text, isCode = false }: { text: string; isCode?: boolean }) {
  const [isWhole, setIsWhole] = useState(false);
  const isFolded = text.length > FOLDED_CHARS && !isWhole;
  return (
    <>
      <div className={isCode ? classes.code : classes.text}><ShownText text={isFolded ? text.slice(0, FOLDED_CHARS) : text} /></div>
      {isFolded ? <Button variant="subtle" mt={4} onClick={() => setIsWhole(true)}>{texts.showAll(text.length - FOLDED_CHARS)}</Button> : null}
    </>
  );
}

function BlockView({ block, isTool }: { block: Block; isTool: boolean }) {
  switch (block.type) {
    case "text":
      return <FoldedText text={block.text} isCode={isTool} />;
    case "thinking":
      return <details className={classes.fold}><summary>{texts.thinking}</summary><FoldedText text={block.thinking} /></details>;
    case "tool_use":
      return <details className={classes.fold}><summary>{texts.calls(block.name)}</summary><JsonText value={block.input} /></details>;
    case "tool_result":
      return <>{(block.content ?? []).map((it, index) => <BlockView key={index} block={it} isTool />)}</>;
    default:
      return <details className={classes.fold}><summary>{texts.media(block.type)}</summary><JsonText value={block} /></details>;
  }
}

type Props = { record: MessageRecord; actions?: ReactNode; areCallsOpen?: boolean };

export function MessageView({ record, actions, areCallsOpen = false }: Props) {
  const { message } = record;
  const Icon = ICONS[message.role] ?? IconMessage2;
  const blocks = message.content ?? [];
  return (
    <Box component="article" className={classes.message} data-role={message.role} aria-label={texts.roles[message.role]}>
      <Group gap={6} mb={2} wrap="nowrap">
        <Icon size={14} aria-hidden />
        <Text span size="xs" fw={600}>{message.sender?.agent_id ?? texts.roles[message.role]}</Text>
        {message.visibility === "internal" ? <Text span size="xs" c="dimmed">{texts.internal}</Text> : null}
        {record.created_at === null ? null : <Text span size="xs" c="dimmed"><Age at={record.created_at} /></Text>}
        <Group gap={4} ml="auto" wrap="nowrap">{actions}</Group>
      </Group>
      {blocks.map((it, index) => <BlockView key={index} block={it} isTool={message.role === "tool"} />)}
      {(message.tool_calls ?? []).map((it) => (
        <details key={it.id} className={classes.fold} open={areCallsOpen}>
          <summary>{texts.calls(it.name)}</summary>
          <JsonText value={it.arguments} />
        </details>
      ))}
      {blocks.length === 0 && (message.tool_calls ?? []).length === 0 ? <Text size="sm" c="dimmed">{texts.blank}</Text> : null}
    </Box>
  );
}
