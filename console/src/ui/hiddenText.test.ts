import { describe, expect, it } from "vitest";

import { countSuspicious, splitHidden } from "./hiddenText";

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
