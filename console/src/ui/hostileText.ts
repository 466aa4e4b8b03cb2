/**
 * What an agent wrote is hostile text: characters that cannot be seen, or that look like others, and links that do more than lead somewhere. Pure.
 *
 * - Where a person decides by a text (arguments, diffs, ids), `splitHidden` marks everything that could mislead.
 * - In prose, `showHidden` escapes what changes how the text around it reads; emoji and the spaces of other languages stay.
 */

export type TextPiece = { kind: "plain" | "hidden" | "foreign"; text: string };

/** Control, format, private and unassigned characters, spaces that are no space, blank letters, marks that change what stands before them. */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufe00-\ufe0f\u{e0100}-\u{e01ef}]/u;
const WORD = /[\p{L}\p{M}\p{N}_]+/gu;
const LATIN = /\p{Script=Latin}/u;
const LOOKALIKE = /[\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Armenian}\p{Script=Cherokee}\uff21-\uff3a\uff41-\uff5a]|[\u{1d400}-\u{1d7ff}]/u;

/** The escape that stands for a character. */
export function escapeCharacter(character: string): string {
  if (character === "\t") return "\\t";
  if (character === "\r") return "\\r";
  const code = character.codePointAt(0) ?? 0;
  return code > 0xffff ? `\\u{${code.toString(16)}}` : `\\u${code.toString(16).padStart(4, "0")}`;
}

/** The places of letters that look like Latin ones, in words that mix both. */
function findForeign(text: string): Set<number> {
  const found = new Set<number>();
  for (const word of text.matchAll(WORD)) {
    if (!LATIN.test(word[0]) || !LOOKALIKE.test(word[0])) continue;
    let at = word.index;
    for (const character of word[0]) {
      if (LOOKALIKE.test(character)) found.add(at);
      at += character.length;
    }
  }
  return found;
}

/** Splits a text into what can be shown as it is, what is shown as an escape, and letters of another alphabet inside a Latin word. Line ends stay. */
export function splitHidden(text: string): TextPiece[] {
  const foreign = findForeign(text);
  // Most texts have nothing to escape, and may be long.
  if (foreign.size === 0 && !HIDDEN.test(text.replaceAll("\n", ""))) return text === "" ? [] : [{ kind: "plain", text }];
  const pieces: TextPiece[] = [];
  let at = 0;
  for (const character of text) {
    const isHidden = character !== "\n" && HIDDEN.test(character);
    const kind = isHidden ? "hidden" : foreign.has(at) ? "foreign" : "plain";
    const shown = isHidden ? escapeCharacter(character) : character;
    const last = pieces.at(-1);
    if (last?.kind === kind) last.text += shown;
    else pieces.push({ kind, text: shown });
    at += character.length;
  }
  return pieces;
}

/** How many characters of a text are hidden, and how many come from another alphabet. */
export function countSuspicious(text: string): { hidden: number; foreign: number } {
  let hidden = 0;
  for (const character of text) if (character !== "\n" && HIDDEN.test(character)) hidden += 1;
  return { hidden, foreign: findForeign(text).size };
}

/** Control codes and overrides of direction; tabs and line ends are text. */
const MISLEADING = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u2069\ufeff]/g;

export function showHidden(text: string): string {
  return text.replace(MISLEADING, (it) => (it === "\r" ? "" : escapeCharacter(it)));
}

const SAFE_LINK = /^(https?:\/\/|mailto:)/i;

/** The address of a link if it may be followed, else nothing: agents must not make the page run or open anything else. */
export function keepSafeLink(url: string | undefined): string | undefined {
  return url !== undefined && SAFE_LINK.test(url) ? url : undefined;
}
