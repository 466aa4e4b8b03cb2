// Event streams: read them, and make of a run's events what people see. Nothing here draws.

/** Yields the frames of an event stream as {id, event}; an id is a place in the log. */
export async function* frames(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) {
        const lines = block.split("\n");
        const id = lines.find((line) => line.startsWith("id: "));
        const data = lines.find((line) => line.startsWith("data: "));
        if (data) yield { id: id && Number(id.slice(4)), event: JSON.parse(data.slice(6)) };
      }
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/** What one run did. What came after the latest id is provisional: it is sent again. */
export class Turn {
  constructor(runId) {
    Object.assign(this, { runId, cursor: undefined, sure: [], unsure: [], end: null });
  }

  take({ id, event }) {
    this.unsure.push(event);
    if (id !== undefined) {
      this.cursor = id;
      this.sure.push(...this.unsure.splice(0));
    }
    if (event.event_type === "run_start") this.end = null;
    if (event.event_type === "run_finish") this.end = event.termination;
  }

  forgetUnsure() { this.unsure = []; }

  /** The calls that wait, as far as is known. */
  get questions() { return this.items.filter((it) => it.state === "suspended"); }

  /** Texts, thoughts and tool calls in order. */
  get items() {
    let items = [], stepStart = 0;
    const tool = (id) => items.findLast((it) => it.kind === "tool" && it.id === id) ?? {};
    const add = (kind, delta) => {
      const last = items.at(-1);
      if (last?.kind === kind && items.length > stepStart) last.text += delta;
      else items.push({ kind, text: delta });
    };
    for (const event of [...this.sure, ...this.unsure]) {
      switch (event.event_type) {
        case "step_start": stepStart = items.length; break;
        case "stream_reset": items = items.slice(0, stepStart); break;
        case "text_delta": add("said", event.delta); break;
        case "reasoning_delta": add("thought", event.delta); break;
        case "tool_call_start": items.push({ kind: "tool", id: event.id, name: event.name, state: "asked" }); break;
        case "tool_call_ready": Object.assign(tool(event.id), { args: event.arguments, state: "running" }); break;
        case "tool_call_cancel": tool(event.id).state = "failed"; break;
        case "tool_call_done":
          Object.assign(tool(event.id), { state: event.outcome, result: event.result, ticketId: event.ticket_id, progress: null });
          break;
        case "tool_call_resumed": {
          const isDeclined = event.is_declined || event.result?.approved === false;
          const state = isDeclined ? "declined" : event.result?.error ? "failed" : "succeeded";
          Object.assign(tool(event.target_id), { state, result: { data: event.result } });
          break;
        }
        case "activity_snapshot": tool(event.message_id).progress = event.content; break;
        case "error": if (event.code !== "server_stopping") items.push({ kind: "error", text: event.message }); break;
      }
    }
    return items;
  }
}
