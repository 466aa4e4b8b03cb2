// CopilotKit's runtime in front of a served agent: prints what its clients get as JSON.
import { CopilotRuntime, createCopilotEndpoint } from "@copilotkit/runtime/v2";
import { HttpAgent } from "@ag-ui/client";

const base = process.argv[2];
const warnings = [];
console.warn = (...said) => warnings.push(said.join(" "));
console.error = (...said) => warnings.push(said.join(" "));

const runtime = new CopilotRuntime({
  agents: { default: new HttpAgent({ url: `${base}/v1/ag-ui/run` }) },
});
const endpoint = createCopilotEndpoint({ runtime, basePath: "/api" });
const fetching = (url, init) => endpoint.fetch(new Request(url, init));

// The browser's part is the same client, which talks to CopilotKit instead of to us.
const browser = new HttpAgent({
  url: "http://copilot.test/api/agent/default/run",
  threadId: "copilot",
  fetch: fetching,
});
const kinds = [];
const finished = [];
browser.subscribe({
  onEvent: ({ event }) => void kinds.push(event.type),
  onRunFinishedEvent: ({ outcome, pendingToolCallIds }) =>
    void finished.push({ outcome, pendingToolCallIds }),
});
const ids = [];
const run = async (parameters) => {
  const subscriber = { onRunStartedEvent: ({ event }) => void ids.push(event.runId) };
  await browser.runAgent(parameters, subscriber);
};

browser.addMessage({ id: "c1", role: "user", content: "copy" });
await run({ runId: "copilot-1" });
const tools = [{ name: "paint", description: "Paint.", parameters: { type: "object" } }];
browser.addMessage({ id: "c2", role: "user", content: "paint" });
await run({ runId: "copilot-2", tools });
for (const id of finished.at(-1).pendingToolCallIds)
  browser.addMessage({ id: `done-${id}`, role: "tool", toolCallId: id, content: "painted" });
await run({ runId: "copilot-3", tools });

const info = await (await fetching("http://copilot.test/api/info")).json();
const said = browser.messages.map((it) => [it.role, it.content ?? null]);
process.stdout.write(
  JSON.stringify({ agents: Object.keys(info.agents), said, kinds, finished, ids, warnings }),
);
process.exit(0);
