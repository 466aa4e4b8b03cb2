/** Makes characters visible that would change how the text around them is shown: control codes and overrides of direction. Pure. */

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u2069\ufeff]/g;

function showOne(char: string): string {
  const code = char.charCodeAt(0);
  if (code < 0x20) return code === 0x0d ? "" : String.fromCharCode(0x2400 + code);
  return code === 0x7f ? "␡" : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

export function showHidden(text: string): string {
  return text.replace(HIDDEN, showOne);
}

const SAFE_LINK = /^(https?:\/\/|mailto:)/i;

/** The address of a link if it may be followed, else nothing: agents must not make the page run or open anything else. */
export function keepSafeLink(url: string | undefined): string | undefined {
  return url !== undefined && SAFE_LINK.test(url) ? url : undefined;
}
