/** Two texts compared line by line; what is far from a change is folded. Loaded when a page shows one. */
import { diffLines } from "diff";
import { useMemo } from "react";

import { diffs } from "../texts/diffs";
import classes from "./FieldDiff.module.css";
import { foldLines, type DiffLine } from "./foldLines";

function listLines(before: string, after: string): DiffLine[] {
  return diffLines(before, after).flatMap((part) =>
    part.value.replace(/\n$/, "").split("\n").map((text): DiffLine => ({ kind: part.added ? "added" : part.removed ? "removed" : "same", text })),
  );
}

const MARKS = { added: "+", removed: "−", same: " ", folded: "⋯" } as const;

export default function TextDiff({ before, after }: { before: string; after: string }) {
  const lines = useMemo(() => foldLines(listLines(before, after)), [before, after]);
  return (
    <div className={classes.text} role="group" aria-label={diffs.lines}>
      {lines.map((line, index) => (
        <div key={index} className={classes.line} data-kind={line.kind}>
          <span className={classes.mark} aria-hidden>{MARKS[line.kind]}</span>
          {line.kind === "added" || line.kind === "removed" ? <span className="unseen">{diffs[line.kind]}: </span> : null}
          <span>{line.kind === "folded" ? diffs.folded(Number(line.text)) : line.text}</span>
        </div>
      ))}
    </div>
  );
}
