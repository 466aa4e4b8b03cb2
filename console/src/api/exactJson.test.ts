import { describe, expect, it } from "vitest";

import { ExactNumber, parseExact, roundNumbers, writeExact } from "./exactJson";

describe("JSON whose numbers keep their digits", () => {
  const text = '{"cost": 1.0, "at": 1700000000000, "items": [{"arguments": {"account": 12345678901234567890, "rate": 1.0, "tiny": 1e-7, "zero": -0, "plain": 5, "in": [9007199254740993], "note": "1.0, 12345678901234567890"}}]}';

  it("writes the arguments of a call as they came, digit by digit", () => {
    const read = parseExact(text) as { cost: unknown; items: { arguments: unknown }[] };
    expect(writeExact(read.items[0]?.arguments)).toBe('{"account":12345678901234567890,"rate":1.0,"tiny":1e-7,"zero":-0,"plain":5,"in":[9007199254740993],"note":"1.0, 12345678901234567890"}');
    expect(writeExact(parseExact("[1.0, 9007199254740993]", true), 1)).toBe("[\n 1.0,\n 9007199254740993\n]");
  });

  it("keeps plain numbers elsewhere, but rounds none", () => {
    expect(parseExact(text)).toMatchObject({ cost: 1, at: 1_700_000_000_000 });
    expect(parseExact('{"state": {"id": 12345678901234567890}}')).toEqual({ state: { id: new ExactNumber("12345678901234567890") } });
    expect(roundNumbers(parseExact("[1.0, {\"a\": 9007199254740993}]", true))).toEqual([1, { a: 9007199254740992 }]);
  });

  it("reads what JSON.parse reads, and refuses what it refuses", () => {
    for (const it of ['{"a":1.0,"b":[true,false,null,"x\\"\\u0041\\n"],"c":{}, "d": [] , "e":-1.5E+3}', " [1.0] ", "1.0"]) expect(roundNumbers(parseExact(it, true))).toEqual(JSON.parse(it));
    for (const it of ["[1.0", "[1.0,]", '{"a":1.0,}', "[1.0] x", "[01.0]", '{"a" 1.0}', '["\n", 1.0]', "[1.0, nul]", "1.0.0"]) expect(() => parseExact(it, true)).toThrow(SyntaxError);
    const odd = parseExact('{"__proto__": {"admin": true}, "n": 1.0}', true) as Record<string, unknown>;
    expect(Object.getPrototypeOf(odd)).toBe(Object.prototype);
    expect(writeExact(odd)).toBe('{"__proto__":{"admin":true},"n":1.0}');
  });

  it("is not misled by a text that looks like its own marks", () => {
    expect(writeExact({ a: new ExactNumber("1.0"), b: '"exact-1:2"' })).toBe('{"a":1.0,"b":"\\"exact-1:2\\""}');
  });
});
