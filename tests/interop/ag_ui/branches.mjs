// The official client makes an answer anew and changes a message, by what it has left of them.
import { HttpAgent } from "@ag-ui/client";

const base = process.argv[2];
const url = `${base}/v1/ag-ui/agents/counter/runs`;
const it = new HttpAgent({ url, threadId: "branches" });
const texts = () => it.messages.map((message) => message.content);
const ask = async (id, content) => {
  it.addMessage({ id, role: "user", content });
  await it.runAgent();
  return texts();
};

await ask("u1", "one");
const begun = await ask("u2", "two");
it.setMessages(it.messages.slice(0, -1));
await it.runAgent();
const regenerated = texts();
it.setMessages(it.messages.slice(0, 2));
const edited = await ask("u3", "changed");
const last = await ask("u4", "three");
const page = await fetch(`${base}/v1/ag-ui/threads/branches/messages`);
const shown = (await page.json()).messages.map((message) => message.content);
const original = await fetch(`${base}/v1/threads/branches/messages`);
const kept = (await original.json()).items.length;
process.stdout.write(JSON.stringify({ begun, regenerated, edited, last, shown, kept }));
process.exit(0);
