import { expect, test } from "vitest";

import { readPayload } from "./payload";

test("messages are text where they are only text, and data otherwise; what else there is stays", () => {
  const image = [{ type: "text", text: "look" }, { type: "image", source: { type: "url", url: "x" } }];
  const { messages, rest } = readPayload({ messages: [{ role: "user", content: [{ type: "text", text: "a" }, { type: "text", text: "b" }] }, { role: "user", content: image }], decisions: [{ ticket_id: "t" }] });
  expect(messages.map((it) => it.text)).toEqual(["a\nb", null]);
  expect(messages[1]?.content).toEqual(image);
  expect(rest).toEqual({ decisions: [{ ticket_id: "t" }] });
});

test("anything else is no message", () => {
  for (const it of [null, 1, "x", [], { messages: "no" }]) expect(readPayload(it).messages).toEqual([]);
});
