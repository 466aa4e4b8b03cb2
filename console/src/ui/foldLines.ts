/** The lines of a comparison of two texts. Pure. */

export type DiffLine = { kind: "same" | "added" | "removed" | "folded"; text: string };

const CONTEXT = 3;

/** Replaces stretches of equal lines that are far from every change by one line that holds their count. */
export function foldLines(lines: readonly DiffLine[]): DiffLine[] {
  const isNear = (index: number) => lines.slice(Math.max(0, index - CONTEXT), index + CONTEXT + 1).some((it) => it.kind !== "same");
  const shown: DiffLine[] = [];
  for (let index = 0; index < lines.length; index += 1) {
    const line = lines[index] as DiffLine;
    if (line.kind !== "same" || isNear(index)) {
      shown.push(line);
      continue;
    }
    const begin = index;
    while (index + 1 < lines.length && lines[index + 1]?.kind === "same" && !isNear(index + 1)) index += 1;
    // One line is no longer than the note that it was folded.
    shown.push(index === begin ? line : { kind: "folded", text: String(index - begin + 1) });
  }
  return shown;
}
