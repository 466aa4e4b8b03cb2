// The official client against a served agent: prints what it came to as one JSON document.
const [base, generation] = process.argv.slice(2);
const { HttpAgent } = await import(generation);
const warnings = [];
console.warn = (...said) => warnings.push(said.join(" "));
console.error = (...said) => warnings.push(said.join(" "));

const agent = (id, threadId) => {
  const it = new HttpAgent({ url: `${base}/v1/ag-ui/agents/${id}/runs`, threadId });
  it.kinds = [];
  it.finished = [];
  it.subscribe({
    onEvent: ({ event }) => void it.kinds.push(event.type),
    onRunFinishedEvent: ({ event, ...told }) => {
      const { messages, state, agent, input, ...rest } = told;
      it.finished.push(JSON.parse(JSON.stringify(rest)));
    },
  });
  return it;
};
const said = (it) => it.messages.map((message) => [message.role, message.content ?? null]);
let count = 0;
const ask = (it, content) => it.addMessage({ id: `u${++count}`, role: "user", content });

async function tools() {
  const it = agent("worker", "tools");
  ask(it, "work");
  const { result } = await it.runAgent({ runId: "r-tools" });
  ask(it, "again");
  await it.runAgent();
  return { said: said(it), state: it.state, kinds: it.kinds, result, finished: it.finished };
}

async function frontend() {
  const it = agent("painter", "frontend");
  const tools = [{ name: "paint", description: "Paint.", parameters: { type: "object" } }];
  ask(it, "paint");
  await it.runAgent({ tools });
  // Clients before 1.0 find out for themselves which calls are theirs.
  const calls = it.messages.flatMap((message) => message.toolCalls ?? []).map((call) => call.id);
  const pending = it.finished.at(-1).pendingToolCallIds ?? calls;
  for (const id of pending)
    it.addMessage({ id: `res-${id}`, role: "tool", toolCallId: id, content: "painted" });
  await it.runAgent({ tools });
  return { said: said(it), pending, finished: it.finished };
}

async function interrupts() {
  const it = agent("asker", "interrupts");
  ask(it, "ask");
  await it.runAgent();
  const open = it.pendingInterrupts;
  let refusal = "";
  try {
    await it.runAgent({ resume: [{ interruptId: open[0].id, status: "resolved" }] });
  } catch (error) {
    refusal = error.message;
  }
  const [first, second] = open;
  await it.runAgent({
    resume: [
      { interruptId: first.id, status: "resolved", payload: { ok: true } },
      { interruptId: second.id, status: "cancelled" },
    ],
  });
  return { open, refusal, said: said(it), left: it.pendingInterrupts, finished: it.finished };
}

// Leaves in the middle of a run, and comes back with a client that reads the open run anew.
async function leaving() {
  const it = agent("slow", "leaving");
  ask(it, "slowly");
  const running = it.runAgent({}, {
    onTextMessageContentEvent: () => void setTimeout(() => it.abortRun(), 0),
  });
  await running.catch(() => undefined);
  const had = said(it);
  await fetch(`${base}/open`, { method: "POST" });
  class Returning extends HttpAgent {
    requestInit() {
      return { method: "GET", headers: { Accept: "text/event-stream" } };
    }
  }
  const back = new Returning({
    url: `${base}/v1/ag-ui/threads/leaving/stream`,
    threadId: "leaving",
    initialMessages: it.messages,
  });
  await back.runAgent();
  return { had, said: said(back) };
}

async function failing() {
  const it = agent("broken", "failing");
  ask(it, "fail");
  const codes = [];
  let refusal = "";
  it.subscribe({ onRunErrorEvent: ({ event }) => void codes.push(event.code) });
  await it.runAgent().catch((error) => (refusal = error.message));
  return { codes, refusal, kinds: it.kinds };
}

async function beginning_again() {
  const it = agent("stutterer", "again");
  ask(it, "count");
  await it.runAgent();
  return { said: said(it), kinds: it.kinds };
}

const told = {};
for (const story of [tools, frontend, interrupts, leaving, failing, beginning_again])
  told[story.name] = await story();
process.stdout.write(JSON.stringify({ ...told, warnings }));
process.exit(0);
