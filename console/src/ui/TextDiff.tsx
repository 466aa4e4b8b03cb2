/** Two texts compared line by line; what is far from a change is folded. Texts of agents are shown with nothing hidden. Loaded when a page shows one. */
import { Text } from "@mantine/core";
import { diffLines } from "diff";
import { useMemo } from "react";

import { diffs } from "../texts/diffs";
import classes from "./FieldDiff.module.css";
import { foldLines, type DiffLine } from "./foldLines";
import { ShownText } from "./SafeText";

function listLines(before: string, after: string): DiffLine[] {
  // A last line without its end would differ from the same line with one.
  return diffLines(`${before}\n`, `${after}\n`).flatMap((part) =>
    part.value.replace(/\n$/, "").split("\n").map((text): DiffLine => ({ kind: part.added ? "added" : part.removed ? "removed" : "same", text })),
  );
}

const MARKS = { added: "+", removed: "−", same: " ", folded: "⋯" } as const;
const ELEMENTS = { added: "ins", removed: "del", same: "span", folded: "span" } as const;

/** `label` names a comparison that stands for itself; one inside another object needs none. */
export default function TextDiff({ before, after, label }: { before: string; after: string; label?: string }) {
  const lines = useMemo(() => foldLines(listLines(before, after)), [before, after]);
  if (before === after) return <Text size="sm" c="dimmed">{diffs.noLines}</Text>;
  return (
    <div className={classes.text} role={label === undefined ? "group" : "region"} aria-label={label ?? diffs.lines} tabIndex={0}>
      {lines.map((line, index) => {
        const Element = ELEMENTS[line.kind];
        return (
          <div key={index} className={classes.line} data-kind={line.kind}>
            <span className={classes.mark} aria-hidden>{MARKS[line.kind]}</span>
            {line.kind === "added" || line.kind === "removed" ? <span className="unseen">{diffs[line.kind]}: </span> : null}
            <Element>{line.kind === "folded" ? diffs.folded(Number(line.text)) : <ShownText text={line.text} />}</Element>
          </div>
        );
      })}
    </div>
  );
}
