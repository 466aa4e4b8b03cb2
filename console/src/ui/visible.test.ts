import { expect, test } from "vitest";

import { keepSafeLink, showHidden } from "./visible";

test("control codes and overrides of direction become visible, the rest stays", () => {
  expect(showHidden("a\u001b[31mred\u202Eb\u0000\tc\r\n")).toBe("a␛[31mred⟨U+202E⟩b␀\tc\n");
  expect(showHidden("שלום, 世界 🎉")).toBe("שלום, 世界 🎉");
});

test("only http, https and mailto are links", () => {
  for (const url of ["https://a.b", "http://a.b", "mailto:a@b.c"]) expect(keepSafeLink(url)).toBe(url);
  for (const url of ["javascript:alert(1)", " javascript:alert(1)", "data:text/html,x", "//evil", "/v1/runs", "vbscript:x", "file:///etc", undefined]) expect(keepSafeLink(url)).toBeUndefined();
});
