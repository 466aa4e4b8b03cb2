/**
 * JSON whose numbers keep their digits. A JavaScript number rounds `12345678901234567890` and forgets that `1.0` is no `1`; a person who approves a call
 * must see, and send back, the digits that the tool gets.
 *
 * - Below a field `arguments` every number that JavaScript would write otherwise is an `ExactNumber`.
 * - Elsewhere only whole numbers that JavaScript would round are.
 */

export class ExactNumber {
  constructor(readonly text: string) {}

  /** What `JSON.stringify` writes: the digits; as a text where the browser cannot write them bare. `writeExact` writes them bare everywhere. */
  toJSON(): unknown {
    const write = (JSON as { rawJSON?: (text: string) => unknown }).rawJSON;
    return write === undefined ? this.text : write(this.text);
  }

  toString(): string {
    return this.text;
  }

  valueOf(): number {
    return Number(this.text);
  }
}

/** A number, or a text that could be mistaken for one, which JavaScript may not keep. Most replies have none, and are read by the browser. */
const NEEDS_CARE = /(?:^|[:[,])\s*-?(?:\d{16}|\d+\.\d{15}|\d+\.\d*0\s*(?:[,\]}]|$)|\d+(?:\.\d+)?[eE]|(?<=-)0\s*(?:[,\]}]|$))/;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\.)*"/y;
const SPACE = /[ \t\r\n]*/y;
const WORD = /true|false|null/y;
const KEPT_BELOW = "arguments";

class Reader {
  private at = 0;

  constructor(private readonly text: string) {}

  readAll(isKept: boolean): unknown {
    const value = this.read(isKept);
    this.skip();
    if (this.at < this.text.length) this.fail();
    return value;
  }

  private fail(): never {
    throw new SyntaxError(`Unexpected text at place ${this.at} of the JSON.`);
  }

  private match(pattern: RegExp): string | null {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0] ?? null;
    if (found !== null) this.at += found.length;
    return found;
  }

  private skip(): void {
    this.match(SPACE);
  }

  /** Takes a character if it comes next. */
  private take(character: string): boolean {
    this.skip();
    if (this.text[this.at] !== character) return false;
    this.at += 1;
    return true;
  }

  private readString(): string {
    this.skip();
    return JSON.parse(this.match(STRING) ?? this.fail()) as string;
  }

  private read(isKept: boolean): unknown {
    if (this.take("{")) return this.readObject(isKept);
    if (this.take("[")) return this.readList(isKept);
    if (this.text[this.at] === '"') return this.readString();
    const word = this.match(WORD);
    if (word !== null) return JSON.parse(word) as unknown;
    return readNumber(this.match(NUMBER) ?? this.fail(), isKept);
  }

  private readObject(isKept: boolean): Record<string, unknown> {
    const fields: Record<string, unknown> = {};
    if (this.take("}")) return fields;
    do {
      const name = this.readString();
      if (!this.take(":")) this.fail();
      // A plain assignment to `__proto__` would change what the object is.
      Object.defineProperty(fields, name, { value: this.read(isKept || name === KEPT_BELOW), enumerable: true, writable: true, configurable: true });
    } while (this.take(","));
    if (!this.take("}")) this.fail();
    return fields;
  }

  private readList(isKept: boolean): unknown[] {
    const items: unknown[] = [];
    if (this.take("]")) return items;
    do items.push(this.read(isKept));
    while (this.take(","));
    if (!this.take("]")) this.fail();
    return items;
  }
}

function readNumber(text: string, isKept: boolean): number | ExactNumber {
  const value = Number(text);
  if (String(value) === text) return value;
  const isRounded = /^-?\d+$/.test(text) && !Number.isSafeInteger(value);
  return isKept || isRounded ? new ExactNumber(text) : value;
}

/** Reads JSON. `isArguments`: the text is the arguments of a call, so that every number keeps its digits. */
export function parseExact(text: string, isArguments = false): unknown {
  return NEEDS_CARE.test(text) ? new Reader(text).readAll(isArguments) : (JSON.parse(text) as unknown);
}

/** Stands before digits while a text is written; no text of another can have it. */
const MARK = `exact-${crypto.getRandomValues(new Uint32Array(4)).join("")}:`;
const MARKED = new RegExp(`"${MARK}([^"]*)"`, "g");

/** Writes JSON with the digits of exact numbers. `undefined` has no JSON. */
export function writeExact(value: unknown, indent?: number): string | undefined {
  let isMarked = false;
  const mark = function (this: unknown, name: string, written: unknown): unknown {
    const given = (this as Record<string, unknown>)[name];
    if (!(given instanceof ExactNumber)) return written;
    isMarked = true;
    return MARK + given.text;
  };
  const text = JSON.stringify(value, mark, indent) as string | undefined;
  return isMarked ? text?.replace(MARKED, "$1") : text;
}

/** A copy in which exact numbers are JavaScript's own, for what only looks at them. */
export function roundNumbers(value: unknown): unknown {
  if (value instanceof ExactNumber) return value.valueOf();
  if (Array.isArray(value)) return value.map(roundNumbers);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, it]) => [name, roundNumbers(it)]));
}
