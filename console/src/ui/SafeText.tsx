/** Text that an agent wrote, for people who decide by it: whole, in a monospaced face, with nothing invisible in it. */
import { Box, Group, Text } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { useMemo, useRef } from "react";

import { writeExact } from "../api/exactJson";
import { ui } from "../texts/ui";
import { DANGER_TEXT } from "./danger";
import { formatCount } from "./format";
import { countSuspicious, splitHidden } from "./hostileText";
import { CopyIcon } from "./parts";
import { useReadBox } from "./reading";
import classes from "./SafeText.module.css";

/** The pieces of a text, with what is hidden as marked escapes, and lookalikes marked. */
export function ShownText({ text }: { text: string }) {
  const pieces = useMemo(() => splitHidden(text), [text]);
  return (
    <bdi dir="ltr">
      {pieces.map((it, index) => (it.kind === "plain" ? it.text : it.kind === "rtl" ? <bdi key={index}>{it.text}</bdi> : (
        <mark key={index} className={it.kind === "hidden" ? classes.hidden : classes.foreign} title={it.kind === "hidden" ? ui.hiddenCharacter : ui.foreignLetter}>{it.text}</mark>
      )))}
    </bdi>
  );
}

type Props = { text: string; label: string; maxHeight?: number | string; /** The buttons of the `Reading` around it wait until all of it was on the screen; it has this name there. */ mustRead?: string };

/** A whole text in a box that scrolls; nothing of it is cut. */
export function SafeText({ text, label, maxHeight = 420, mustRead }: Props) {
  const box = useRef<HTMLPreElement>(null);
  useReadBox(box, mustRead, text);
  const { hidden, foreign, gaps } = useMemo(() => countSuspicious(text), [text]);
  return (
    <Box>
      <Box pos="relative">
        <Box pos="absolute" top={4} right={4} style={{ zIndex: 1 }}><CopyIcon value={text} /></Box>
        <pre ref={box} className={classes.text} style={{ maxHeight }} tabIndex={0} role="region" aria-label={label}><ShownText text={text} /></pre>
      </Box>
      <Group gap="xs" mt={2} justify="space-between">
        {hidden + foreign + gaps === 0 ? <span /> : (
          <Group gap={6} role="alert" c={DANGER_TEXT}>
            <IconAlertTriangle size={14} aria-hidden />
            <Text span size="xs" fw={500}>{[hidden > 0 ? ui.hiddenCharacters(hidden) : "", foreign > 0 ? ui.foreignLetters(foreign) : "", gaps > 0 ? ui.gaps(gaps) : ""].filter(Boolean).join(" · ")}</Text>
          </Group>
        )}
        <Text span size="xs" c="dimmed">{ui.characters(formatCount(text.length))}</Text>
      </Group>
    </Box>
  );
}

export function SafeJson({ value, ...props }: Omit<Props, "text"> & { value: unknown }) {
  return <SafeText text={writeExact(value, 2) ?? "null"} {...props} />;
}
