/** What an edit changes, line by line; loaded when a person edits. */
import { diffLines } from "diff";
import { useMemo } from "react";

import { approvals as texts } from "../../texts/approvals";
import { ShownText } from "../../ui/SafeText";
import classes from "./Approvals.module.css";

export function ArgumentsDiff({ before, after }: { before: unknown; after: unknown }) {
  const parts = useMemo(() => diffLines(`${JSON.stringify(before, null, 2)}\n`, `${JSON.stringify(after, null, 2)}\n`), [before, after]);
  return (
    <pre className={classes.diff} tabIndex={0} role="region" aria-label={texts.changes}>
      {parts.flatMap((part, index) => part.value.replace(/\n$/, "").split("\n").map((line, at) => {
        const key = `${index}.${at}`;
        if (part.added) return <ins key={key}>+ <ShownText text={line} /></ins>;
        if (part.removed) return <del key={key}>- <ShownText text={line} /></del>;
        return <div key={key}>{"  "}<ShownText text={line} /></div>;
      }))}
    </pre>
  );
}
