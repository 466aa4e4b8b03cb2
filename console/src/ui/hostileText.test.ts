import { describe, expect, it } from "vitest";

import { countSuspicious, keepSafeLink, showHidden, splitHidden } from "./hostileText";

describe("text that can be misread", () => {
  it("shows invisible, control and direction characters as escapes", () => {
    const shown = splitHidden("rm \u202etxt.exe\u200b\u001b[31m").map((it) => it.text).join("");
    expect(shown).toBe("rm \\u202etxt.exe\\u200b\\u001b[31m");
  });

  it("shows tag characters, odd spaces and variation selectors as escapes", () => {
    expect(splitHidden("a\u{e0041}b\u00a0c\ufe0f").map((it) => it.text).join("")).toBe("a\\u{e0041}b\\u00a0c\\ufe0f");
  });

  it("keeps line ends and ordinary text of any language", () => {
    expect(splitHidden("Grüße\nпривет 你好")).toEqual([{ kind: "plain", text: "Grüße\nпривет 你好" }]);
  });

  it("marks letters of another alphabet inside a Latin word", () => {
    expect(splitHidden("p\u0430ypal.com")).toEqual([
      { kind: "plain", text: "p" }, { kind: "foreign", text: "\u0430" }, { kind: "plain", text: "ypal.com" },
    ]);
    expect(countSuspicious("p\u0430ypal\u200b")).toEqual({ hidden: 1, foreign: 1, gaps: 0 });
  });
});

describe("text that imitates another", () => {
  const foreign = (text: string) => splitHidden(text).filter((it) => it.kind === "foreign").map((it) => it.text);

  it("marks words that have only letters like Latin ones, and signs that pass for ASCII", () => {
    expect(foreign("\u0441\u043e\u0440\u0443.com")).toEqual(["\u0441\u043e\u0440\u0443"]);
    expect(foreign("/etc\u2215passwd")).toEqual(["\u2215"]);
    expect(foreign("\u0251dmin \u{1d41a}dmin \uff41")).toEqual(["\u0251", "\u{1d41a}", "\uff41"]);
    expect(foreign("привет, я \u0438 он — “Grüße”, 你好: ok…")).toEqual([]);
  });

  it("shows marks that strike out as escapes", () => {
    expect(splitHidden("o\u0338\u0489").map((it) => it.text).join("")).toBe("o\\u0338\\u0489");
  });

  it("makes few pieces of a text that is made of hidden characters, and loses nothing of it", () => {
    const pieces = splitHidden("a\u200b".repeat(100_000));
    expect(pieces.length).toBeLessThanOrEqual(1_000);
    expect(pieces.at(-1)?.kind).toBe("hidden");
    expect(pieces.map((it) => it.text).join("")).toBe("a\\u200b".repeat(100_000));
  });
});

describe("white space that hides what stands behind it", () => {
  const show = (text: string) => splitHidden(text).map((it) => it.text).join("");
  const marked = (text: string) => splitHidden(text).filter((it) => it.kind === "hidden").map((it) => it.text);

  it("is shown by its length", () => {
    expect(show(`ls${" ".repeat(5_000)}; rm -rf /`)).toBe("ls[5000 spaces]; rm -rf /");
    expect(show(`a${"\n".repeat(300)}b`)).toBe("a\n[299 empty lines]\nb");
    expect(show(`a${"\n   ".repeat(300)}b`)).toBe("a\n[299 empty lines]\n   b");
    expect(show(`${" ".repeat(500)}b`)).toBe("[500 spaces]b");
    expect(show(`a${"\u200b".repeat(9_000)}b${"\t".repeat(80)}c`)).toBe("a[\\u200b × 9000]b[\\t × 80]c");
    expect(show(`a${"\u2003".repeat(80)}b${"\u{e0020}".repeat(80)}`)).toBe("a[\\u2003 × 80]b[\\u{e0020} × 80]");
    expect(countSuspicious(`a    b${"\u200b".repeat(10)}`)).toEqual({ hidden: 10, foreign: 0, gaps: 1 });
  });

  it("is shown by its length in a JSON text too, and its escapes are read as JSON reads them", () => {
    expect(show(JSON.stringify({ cmd: `ls${"\n".repeat(500)}rm${"\t".repeat(500)}x` }))).toBe('{"cmd":"ls[\\n × 500]rm[\\t × 500]x"}');
    // A backslash and the letter n, and then line ends.
    const odd = JSON.stringify(`\\n${"\n".repeat(20)}`);
    expect(show(odd)).toBe(odd);
  });

  it("stays where it is an indentation, a space between words or an empty line", () => {
    for (const text of ["a b  c", '{\n    "a": {\n        "b": 1\n    }\n}', "a\n\n\nb", `  indented${"\n"}${" ".repeat(40)}x`]) expect(splitHidden(text)).toEqual([{ kind: "plain", text }]);
  });

  it("is not made by marks that cover the lines around, while letters keep those of their script", () => {
    expect(show(`rm${"\u0301\u0302".repeat(3)}`)).toBe("rm\u0301\u0302\u0301\u0302\\u0301\\u0302");
    expect(marked("/\u0302 5\u0301")).toEqual(["\\u0302", "\\u0301"]);
    for (const text of ["e\u0301te\u0323\u0302", "नमस्ते", "ที่นี่"]) expect(marked(text)).toEqual([]);
  });

  it("takes little time, whatever the text is made of", () => {
    for (const part of [" ", "\n", "\n ", "\\", "\\n", "\u0301", "\u200b", " \u200b", "א"]) expect(show(`${part.repeat(200_000)}x`).endsWith("x")).toBe(true);
  });

  it("keeps the signs beside letters from right to left where they stand", () => {
    expect(splitHidden("/אב גד/12/הו")).toEqual([
      { kind: "plain", text: "/" }, { kind: "rtl", text: "אב גד" }, { kind: "plain", text: "/12/" }, { kind: "rtl", text: "הו" },
    ]);
  });
});

describe("prose of an agent", () => {
  it("shows control codes and overrides of direction as escapes, and keeps the rest", () => {
    expect(showHidden("a\u001b[31mred\u202Eb\u0000\tc\r\n")).toBe("a\\u001b[31mred\\u202eb\\u0000\tc\n");
    expect(showHidden("שלום, 世界 🎉 ❤️")).toBe("שלום, 世界 🎉 ❤️");
  });

  it("has links to http, https and mailto only", () => {
    for (const url of ["https://a.b", "http://a.b", "mailto:a@b.c"]) expect(keepSafeLink(url)).toBe(url);
    for (const url of ["javascript:alert(1)", " javascript:alert(1)", "data:text/html,x", "//evil", "/v1/runs", "vbscript:x", "file:///etc", undefined]) expect(keepSafeLink(url)).toBeUndefined();
  });
});
