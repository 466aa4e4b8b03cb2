/** The request of a step as lines that can be read and compared. Pure. */

type Fields = Readonly<Record<string, unknown>>;
export type RequestMessage = { role: string; text: string; calls: readonly { name: string; arguments: string }[]; callId: string | null };
export type RequestParts = { system: string; messages: readonly RequestMessage[]; tools: readonly { name: string; value: unknown }[]; rest: Fields };

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function textOfBlock(block: unknown): string {
  if (!isFields(block)) return String(block);
  if (typeof block.text === "string") return block.text;
  if (typeof block.thinking === "string") return `[thinking] ${block.thinking}`;
  return `[${String(block.type ?? "data")}] ${(JSON.stringify(block) ?? "").slice(0, 2_000)}`;
}

function textOfContent(content: unknown): string {
  if (typeof content === "string") return content;
  return Array.isArray(content) ? content.map(textOfBlock).join("\n") : "";
}

function readMessage(value: unknown): RequestMessage {
  const message = isFields(value) ? value : {};
  const calls = Array.isArray(message.tool_calls) ? message.tool_calls.filter(isFields) : [];
  return {
    role: String(message.role ?? ""),
    text: textOfContent(message.content),
    calls: calls.map((it) => ({ name: String(it.name ?? ""), arguments: JSON.stringify(it.arguments ?? null, null, 2) })),
    callId: typeof message.tool_call_id === "string" ? message.tool_call_id : null,
  };
}

export function readRequest(request: unknown): RequestParts {
  const { system, messages, tools, ...rest } = isFields(request) ? request : ({} as Fields);
  return {
    system: Array.isArray(system) ? system.map(textOfBlock).join("\n\n") : textOfContent(system),
    messages: Array.isArray(messages) ? messages.map(readMessage) : [],
    tools: Array.isArray(tools) ? tools.map((it: unknown) => ({ name: isFields(it) ? String(it.id ?? it.name ?? "") : "", value: it })) : [],
    rest,
  };
}

function writeMessage(message: RequestMessage): string {
  const head = `## ${message.role}${message.callId === null ? "" : ` (${message.callId})`}`;
  return [head, ...(message.text === "" ? [] : [message.text]), ...message.calls.map((it) => `→ ${it.name} ${it.arguments}`)].join("\n");
}

/** The whole request as text: instructions, names of tools, messages, parameters. */
export function writeRequest(parts: RequestParts): string {
  return [`# system\n${parts.system}`, `# tools\n${parts.tools.map((it) => it.name).join("\n")}`, "# messages", ...parts.messages.map(writeMessage), `# parameters\n${JSON.stringify(parts.rest, null, 2)}`].join("\n\n") + "\n";
}

export type Change = { value: string; added?: boolean; removed?: boolean };
export type DiffLine = { kind: "same" | "added" | "removed" | "skip"; text: string };

/** The lines of a comparison; long stretches without a change are left out but for their edges. */
export function listDiffLines(changes: readonly Change[], context = 3): DiffLine[] {
  const lines: DiffLine[] = [];
  for (const [index, change] of changes.entries()) {
    const texts = change.value.replace(/\n$/, "").split("\n");
    const kind = change.added === true ? "added" : change.removed === true ? "removed" : "same";
    if (kind !== "same" || texts.length <= context * 2 + 1) {
      lines.push(...texts.map((text) => ({ kind, text }) as const));
      continue;
    }
    const head = index === 0 ? 0 : context;
    const tail = index === changes.length - 1 ? 0 : context;
    lines.push(...texts.slice(0, head).map((text) => ({ kind: "same" as const, text })));
    lines.push({ kind: "skip", text: String(texts.length - head - tail) });
    lines.push(...texts.slice(texts.length - tail).map((text) => ({ kind: "same" as const, text })));
  }
  return lines;
}
