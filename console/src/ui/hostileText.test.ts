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
    expect(countSuspicious("p\u0430ypal\u200b")).toEqual({ hidden: 1, foreign: 1 });
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
