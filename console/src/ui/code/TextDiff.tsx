/** Two texts line by line: what goes and what comes. It is loaded when it is first shown. */
import { Text } from "@mantine/core";
import { diffLines } from "diff";
import { useMemo } from "react";

import classes from "./TextDiff.module.css";

const CONTEXT = 3;
type Line = { sign: " " | "+" | "-"; text: string } | { sign: "…"; text: string };

/** The lines that differ, with a few around them. Pure. */
export function listLines(before: string, after: string): Line[] {
  const parts = diffLines(before, after);
  return parts.flatMap((part, index): Line[] => {
    const lines = part.value.replace(/\n$/, "").split("\n");
    if (part.added) return lines.map((text) => ({ sign: "+", text }));
    if (part.removed) return lines.map((text) => ({ sign: "-", text }));
    if (lines.length <= CONTEXT * 2 + 1) return lines.map((text) => ({ sign: " ", text }));
    const head = index === 0 ? [] : lines.slice(0, CONTEXT);
    const tail = index === parts.length - 1 ? [] : lines.slice(-CONTEXT);
    const left = lines.length - head.length - tail.length;
    return [...head.map((text): Line => ({ sign: " ", text })), { sign: "…", text: `${left} unchanged lines` }, ...tail.map((text): Line => ({ sign: " ", text }))];
  });
}

export default function TextDiff({ before, after, label }: { before: string; after: string; label: string }) {
  const lines = useMemo(() => listLines(before, after), [before, after]);
  if (before === after) return <Text size="sm" c="dimmed">No difference.</Text>;
  return (
    <div className={classes.diff} role="region" aria-label={label} tabIndex={0}>
      {lines.map((it, index) => (
        <div key={index} className={classes.line} data-sign={it.sign}>
          <span className={classes.sign} aria-hidden>{it.sign === "…" ? "" : it.sign}</span>
          {it.sign === "+" ? <ins>{it.text}</ins> : it.sign === "-" ? <del>{it.text}</del> : <span>{it.text}</span>}
        </div>
      ))}
    </div>
  );
}
