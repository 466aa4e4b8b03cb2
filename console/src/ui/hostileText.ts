/**
 * What an agent wrote is hostile text: characters that cannot be seen, or that look like others, white space that hides what stands behind it, and links that
 * do more than lead somewhere. Pure.
 *
 * - Where a person decides by a text (arguments, diffs, ids), `splitHidden` marks everything that could mislead, and counts long white space.
 * - In prose, `showHidden` escapes what changes how the text around it reads; emoji and the spaces of other languages stay.
 */

/** `rtl`: letters that are written from right to left, which would draw the signs beside them to other places. */
export type TextPiece = { kind: "plain" | "hidden" | "foreign" | "rtl"; text: string };

/** Control, format, private and unassigned characters, spaces that are no space, blank letters, marks that change or strike out what stands before them. */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{Me}\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\u034f\u0334-\u0338\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufe00-\ufe0f\u{e0100}-\u{e01ef}]/u;
/** What is shown by its length: spaces that are no indentation, empty lines, and characters and escapes that cannot be seen, again and again. */
const LONG = /(?<=^|\n) {41,}|(?<=[^\n ]) {3,}|\n(?: *\n){3,}|(?![\n ])([\p{C}\p{Z}\p{M}\u115f\u1160\u2800\u3164\uffa0])\1{3,}|(\\(?:[bfnrt]|u[0-9a-fA-F]{4}))\2{7,}/u;
const MARK = /\p{M}/u;
const LETTER = /\p{L}/u;
/** How many marks a letter may carry: the scripts that need most have four. More would cover the lines around. */
const MARKS_MAX = 4;
const RTL = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Script=Samaritan}\p{Script=Mandaic}\p{Script=Adlam}\p{Script=Hanifi_Rohingya}]/u;
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

/** Whether the escape at a place is one: after an odd number of backslashes its own is only a character. */
function isEscape(text: string, at: number): boolean {
  let before = at;
  while (text[before - 1] === "\\") before -= 1;
  return (at - before) % 2 === 0;
}

/** What stands for a long stretch of white space, or of one character or escape that cannot be seen. */
function nameLong(found: string): string {
  if (found.startsWith(" ")) return `[${found.length} spaces]`;
  if (found.startsWith("\n")) return `[${found.split("\n").length - 2} empty lines]`;
  if (found.startsWith("\\")) {
    const one = found.slice(0, found.startsWith("\\u") ? 6 : 2);
    return `[${one} × ${found.length / one.length}]`;
  }
  const [one = ""] = found;
  return `[${escapeCharacter(one)} × ${found.length / one.length}]`;
}

type Visit = (kind: TextPiece["kind"], shown: string, hidden: number, gaps: number) => void;

function visitLong(found: string, visit: Visit): void {
  const isGap = /^[ \n]/.test(found);
  const isSeen = found.startsWith("\\");
  if (found.startsWith("\n")) visit("plain", "\n", 0, 0);
  visit("hidden", nameLong(found), isGap || isSeen ? 0 : [...found].length, isGap ? 1 : 0);
  if (found.startsWith("\n")) visit("plain", "\n", 0, 0);
}

/** Tells each part of a text: how it is shown, how many hidden characters stand there, and whether it is a gap. */
function walkText(text: string, foreign: ReadonlySet<number>, visit: Visit): void {
  const long = new RegExp(LONG, "gu");
  const nextLong = () => {
    let found = long.exec(text);
    while (found?.[0].startsWith("\\") === true && !isEscape(text, found.index)) found = long.exec(text);
    return found;
  };
  let next = nextLong();
  let marks = MARKS_MAX;
  let isRtl = false;
  for (let at = 0; at < text.length;) {
    if (next?.index === at) {
      visitLong(next[0], visit);
      at += next[0].length;
      next = nextLong();
      [marks, isRtl] = [MARKS_MAX, false];
      continue;
    }
    const character = String.fromCodePoint(text.codePointAt(at) as number);
    const isMark = MARK.test(character);
    // A mark stands on a letter; one on a sign, or one more than letters have, covers what is beside it.
    marks = isMark ? marks + 1 : LETTER.test(character) ? 0 : MARKS_MAX;
    const isHidden = character !== "\n" && ((isMark && marks > MARKS_MAX) || HIDDEN.test(character));
    isRtl = !isHidden && (RTL.test(character) || (isRtl && (isMark || (character === " " && RTL.test(text[at + 1] ?? "")))));
    if (isHidden) visit("hidden", escapeCharacter(character), 1, 0);
    else visit(foreign.has(at) ? "foreign" : isRtl ? "rtl" : "plain", character, 0, 0);
    at += character.length;
  }
}

/** Whether a text is shown as it is. Most are, and may be long. */
function isHarmless(text: string): boolean {
  return !HIDDEN.test(text.replaceAll("\n", "")) && !LONG.test(text) && !MARK.test(text) && !RTL.test(text);
}

/** Splits a text into what can be shown as it is, what is shown as an escape or by its length, and letters of another alphabet inside a Latin word. Line ends stay. */
export function splitHidden(text: string): TextPiece[] {
  const foreign = findForeign(text);
  if (foreign.size === 0 && isHarmless(text)) return text === "" ? [] : [{ kind: "plain", text }];
  const pieces: TextPiece[] = [];
  walkText(text, foreign, (kind, shown) => {
    const last = pieces.at(-1);
    // A text that is made of hidden characters would make as many parts of the page: the rest of it is one piece, marked as a whole.
    if (last?.kind === kind || (last !== undefined && pieces.length >= MAX_PIECES)) last.text += shown;
    else pieces.push({ kind: pieces.length === MAX_PIECES - 1 ? "hidden" : kind, text: shown });
  });
  return pieces;
}

/** How many characters of a text are hidden, how many come from another alphabet, and how many gaps of white space are shown by their length. */
export function countSuspicious(text: string): { hidden: number; foreign: number; gaps: number } {
  const foreign = findForeign(text);
  let [hidden, gaps] = [0, 0];
  if (!isHarmless(text)) walkText(text, foreign, (_kind, _shown, more, moreGaps) => { hidden += more; gaps += moreGaps; });
  return { hidden, foreign: foreign.size, gaps };
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
