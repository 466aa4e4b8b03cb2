/**
 * What an agent wrote is hostile text: characters that cannot be seen, or that look like others, and links that do more than lead somewhere. Pure.
 *
 * - Where a person decides by a text (arguments, diffs, ids), `splitHidden` marks everything that could mislead.
 * - In prose, `showHidden` escapes what changes how the text around it reads; emoji and the spaces of other languages stay.
 */

export type TextPiece = { kind: "plain" | "hidden" | "foreign"; text: string };

/** Control, format, private and unassigned characters, spaces that are no space, blank letters, marks that change or strike out what stands before them. */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{Me}\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\u034f\u0334-\u0338\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufe00-\ufe0f\u{e0100}-\u{e01ef}]/u;
const WORD = /[\p{L}\p{M}\p{N}_]+/gu;
const NOT_ASCII = /[^\u0000-\u007f]/;
const LATIN = /\p{Script=Latin}/u;
const LOOKALIKE = /[\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Armenian}\p{Script=Cherokee}\p{Script=Coptic}\p{Script=Lisu}\p{Script=Deseret}]/u;
/** Letters and signs that no ordinary text has, and that pass for ASCII: phonetic and styled letters, slashes, dots, colons and hyphens of mathematics. */
const IMITATION = /[\u0250-\u02af\u02d0\u02d7\u017f\u01c0\u01c3\u0589\u05c3\u1d00-\u1dbf\u2010\u2011\u2024\u2043\u2044\u2102\u210a-\u2115\u2119-\u211d\u2124\u2128\u212a\u212c-\u2134\u2139\u213c-\u2149\u2212\u2215\u2216\u2223\u2236\u223c\u2571\u24b6-\u24e9\u29f5\u29f8\u29f9\u2c60-\u2c7f\ua4d0-\ua4ff\ua720-\ua7ff\ua789\uab30-\uab6f\ufe52\ufe55\ufe58\ufe63\ufe68\uff0d-\uff19\uff20-\uff3a\uff3c\uff41-\uff5a\u{1d400}-\u{1d7ff}\u{1f110}-\u{1f189}]/u;
/** Letters that cannot be told from Latin ones: a word that has only such reads as another word. */
const TWIN = /^[асԁеһіјӏорԛѕуԝхѵүАВЕІЈКМНОРЅТУХҮԌԚԜοανυικρχΑΒΕΖΗΙΚΜΝΟΡΤΥΧ]{2,}$/u;

/** The escape that stands for a character. */
export function escapeCharacter(character: string): string {
  if (character === "\t") return "\\t";
  if (character === "\r") return "\\r";
  const code = character.codePointAt(0) ?? 0;
  return code > 0xffff ? `\\u{${code.toString(16)}}` : `\\u${code.toString(16).padStart(4, "0")}`;
}

/** The places of letters that look like Latin ones, in words that mix both or have no others, and of signs that imitate ASCII. */
function findForeign(text: string): Set<number> {
  const found = new Set<number>();
  if (!NOT_ASCII.test(text)) return found;
  for (const sign of text.matchAll(new RegExp(IMITATION, "gu"))) found.add(sign.index);
  for (const word of text.matchAll(WORD)) {
    if (!LOOKALIKE.test(word[0]) || (!LATIN.test(word[0]) && !TWIN.test(word[0]))) continue;
    let at = word.index;
    for (const character of word[0]) {
      if (LOOKALIKE.test(character)) found.add(at);
      at += character.length;
    }
  }
  return found;
}

const MAX_PIECES = 1_000;

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
    // A text that is made of hidden characters would make as many parts of the page: the rest of it is one piece, marked as a whole.
    if (last?.kind === kind || (last !== undefined && pieces.length >= MAX_PIECES)) last.text += shown;
    else pieces.push({ kind: pieces.length === MAX_PIECES - 1 ? "hidden" : kind, text: shown });
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
