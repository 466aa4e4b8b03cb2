// The official ACP client starts the agent and plays one scenario; prints what it saw as JSON.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import * as acp from "@agentclientprotocol/sdk";

const [python, store, choice, earlier, ...words] = process.argv.slice(2);
const agent = spawn(python, ["-m", "awaken", "acp", "app.py", "--store", store], {
  stdio: ["pipe", "pipe", "inherit"],
});
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const seen = { updates: [], asked: [], stops: [] };
let onPlan = () => {};

const editor = acp
  .client({ name: "interop" })
  .onRequest("session/request_permission", ({ params }) => {
    seen.asked.push({ title: params.toolCall.title, kinds: params.options.map((it) => it.kind) });
    const option = params.options.find((it) => it.kind === choice);
    return { outcome: { outcome: "selected", optionId: option.optionId } };
  })
  .onNotification("session/update", ({ params }) => {
    seen.updates.push(params.update);
    if (params.update.sessionUpdate === "plan") onPlan();
  });

await editor.connectWith(stream, async (ctx) => {
  seen.hello = await ctx.request("initialize", { protocolVersion: 1, clientCapabilities: {} });
  const file = "../node_modules/@modelcontextprotocol/server-everything/dist/index.js";
  const program = fileURLToPath(new URL(file, import.meta.url));
  const server = { name: "everything", command: process.execPath, args: [program, "stdio"], env: [] };
  const place = { cwd: process.cwd(), mcpServers: words.includes("echo") ? [server] : [] };
  if (earlier) {
    await ctx.request("session/load", { sessionId: earlier, ...place });
    seen.session = earlier;
    seen.loaded = seen.updates.splice(0);
  } else {
    seen.session = (await ctx.request("session/new", place)).sessionId;
  }
  for (const word of words) {
    if (word === "hang") {
      onPlan = () => ctx.notify("session/cancel", { sessionId: seen.session });
    }
    const prompt = [{ type: "text", text: word }];
    const done = await ctx.request("session/prompt", { sessionId: seen.session, prompt });
    seen.stops.push(done.stopReason);
  }
});
agent.stdin.end();
seen.exit = await new Promise((resolve) => agent.on("exit", resolve));
console.log(JSON.stringify(seen));
process.exit(0);
