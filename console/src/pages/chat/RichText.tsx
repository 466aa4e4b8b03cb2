/** Text of an agent as Markdown; very long text is plain, in a box, and shown in part until the person asks for all of it. */
import { Box, Button, Group, Text } from "@mantine/core";
import { memo, Suspense, useMemo, useState } from "react";

import { chat as texts } from "../../texts/chat";
import { formatBytes } from "../../ui/format";
import { lazyPart } from "../../ui/loadPart";
import { CopyIcon } from "../../ui/parts";
import { showHidden } from "../../ui/hostileText";
import classes from "./Chat.module.css";
import { splitMarkdown } from "./segments";

const Markdown = lazyPart(() => import("../../ui/Markdown"));
/** Longer text is not read as Markdown. */
const MARKDOWN_CHARS = 60_000;
const LINE_CHARS = 20_000;
const SHOWN_CHARS = 40_000;
/** A paragraph that is being written and is longer than this is read as Markdown when it is done: reading it again for every piece costs more each time. */
const OPEN_CHARS = 3_000;

export const PlainText = memo(function PlainText({ text }: { text: string }) {
  const [isWhole, setIsWhole] = useState(false);
  const shown = isWhole || text.length <= SHOWN_CHARS ? text : text.slice(0, SHOWN_CHARS);
  return (
    <Box>
      <pre className={classes.plain} tabIndex={0} dir="auto">{showHidden(shown)}</pre>
      {shown.length === text.length ? null : (
        <Group gap="xs" mt={4}>
          <Text size="xs" c="dimmed">{texts.shownFirst(formatBytes(shown.length), formatBytes(text.length))}</Text>
          <Button onClick={() => setIsWhole(true)}>{texts.showAll}</Button>
          <CopyIcon value={text} />
        </Group>
      )}
    </Box>
  );
});

function hasLongLine(text: string): boolean {
  return text.length > LINE_CHARS && text.split("\n").some((it) => it.length > LINE_CHARS);
}

const Piece = memo(function Piece({ text }: { text: string }) {
  return <Suspense fallback={<div className={classes.fallback}>{showHidden(text)}</div>}><Markdown text={text} /></Suspense>;
});

export const RichText = memo(function RichText({ text, isOpen }: { text: string; isOpen: boolean }) {
  const isPlain = text.length > MARKDOWN_CHARS || hasLongLine(text);
  const pieces = useMemo(() => (isPlain ? [] : isOpen ? splitMarkdown(text) : [text]), [text, isOpen, isPlain]);
  if (isPlain) return <PlainText text={text} />;
  const isLate = (piece: string, index: number) => isOpen && index === pieces.length - 1 && piece.length > OPEN_CHARS;
  return <>{pieces.map((it, index) => (isLate(it, index) ? <div key={index} className={classes.fallback}>{showHidden(it)}</div> : <Piece key={index} text={it} />))}</>;
});
