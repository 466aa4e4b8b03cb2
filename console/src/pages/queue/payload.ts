/** What a delivery brings, read for people. Pure. */
export type PayloadMessage = { role: string; text: string | null; content: unknown };

type Fields = Readonly<Record<string, unknown>>;

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The text of content that is nothing but text; other content is shown as data. */
function readText(content: unknown): string | null {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return null;
  const texts = content.map((it: unknown) => (isFields(it) && it.type === "text" && typeof it.text === "string" ? it.text : null));
  return texts.every((it) => it !== null) ? texts.join("\n") : null;
}

export function readPayload(payload: unknown): { messages: readonly PayloadMessage[]; rest: Fields } {
  const { messages, ...rest } = isFields(payload) ? payload : ({} as Fields);
  const read = Array.isArray(messages) ? messages.filter(isFields) : [];
  return { messages: read.map((it) => ({ role: String(it.role ?? ""), text: readText(it.content), content: it.content })), rest };
}
