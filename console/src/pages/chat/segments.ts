/** Cuts Markdown that is being written into pieces that no longer change and one that does, so that only the last is read again. Pure. */

const FENCE = /^ {0,3}(`{3,}|~{3,})/;

/** Pieces end at blank lines outside of code fences. Joined, they are the text. */
export function splitMarkdown(text: string): string[] {
  const pieces: string[] = [];
  let from = 0;
  let at = 0;
  let fence: string | null = null;
  while (at < text.length) {
    const end = text.indexOf("\n", at);
    const next = end < 0 ? text.length : end + 1;
    const line = text.slice(at, Math.min(next, at + 200));
    const mark = FENCE.exec(line)?.[1];
    if (mark !== undefined) fence = fence === null ? mark : mark.startsWith(fence) ? null : fence;
    else if (fence === null && line.trim() === "" && end >= 0 && next < text.length && !/^\s/.test(text[next] ?? "")) {
      pieces.push(text.slice(from, next));
      from = next;
    }
    at = next;
  }
  if (from < text.length) pieces.push(text.slice(from));
  return pieces;
}
