/** How to connect each kind of client, with this server's own address. Pure. */
import { snippets } from "../texts/snippets";

export type SnippetOptions = { url: string; agent: string; hasToken: boolean; text?: string };
/** `note`: what has to be known to run it, and what no comment can say in its language. */
export type Snippet = { name: string; language: string; text: string; note?: string };

const quoteShell = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;

/** Every snippet; a token is never written out, only its place. */
export function makeSnippets({ url, agent, hasToken, text = "Hello" }: SnippetOptions): Snippet[] {
  const body = JSON.stringify({ agent_id: agent, messages: [{ role: "user", content: text }] });
  const said = JSON.stringify(text);
  const curlToken = hasToken ? ` \\\n  -H "Authorization: Bearer $AWAKEN_TOKEN"` : "";
  const headers = hasToken ? `\n    headers: { Authorization: "Bearer TOKEN" },` : "";
  const pythonToken = hasToken ? `, "Authorization": "Bearer TOKEN"` : "";
  return [
    { name: "curl", language: "sh", text: `curl -N ${url}/v1/runs \\\n  -H "Content-Type: application/json"${curlToken} \\\n  -d ${quoteShell(body)}` },
    { name: "AI SDK", language: "ts", text: `import { useChat } from "@ai-sdk/react";\nimport { DefaultChatTransport } from "ai";\n\nconst chat = useChat({\n  transport: new DefaultChatTransport({\n    api: "${url}/v1/ai-sdk/agents/${agent}/runs",${headers}\n  }),\n});\nchat.sendMessage({ text: ${said} });` },
    { name: "AG-UI", language: "ts", text: `import { HttpAgent } from "@ag-ui/client";\n\nconst agent = new HttpAgent({\n    url: "${url}/v1/ag-ui/agents/${agent}/runs",${headers}\n});\nagent.messages = [{ id: "1", role: "user", content: ${said} }];\nawait agent.runAgent();` },
    { name: "OpenAI", language: "py", text: `from openai import OpenAI\n\nclient = OpenAI(base_url="${url}/v1", api_key="${hasToken ? "TOKEN" : "unused"}")\nanswer = client.responses.create(model="${agent}", input=${said})\nprint(answer.output_text)` },
    { name: "Python", language: "py", text: `import json\nfrom urllib.request import Request, urlopen\n\nbody = ${body}\nheaders = {"Content-Type": "application/json", "Accept": "application/json"${pythonToken}}\nrequest = Request("${url}/v1/runs", json.dumps(body).encode(), headers)\nprint(json.load(urlopen(request))["text"])` },
    { name: "A2A", language: "ts", text: `import { ClientFactory } from "@a2a-js/sdk/client";\n\nconst client = await new ClientFactory().createFromUrl("${url}");\n// The agent card: ${url}/.well-known/agent-card.json` },
    { name: "MCP", language: "json", text: JSON.stringify({ mcpServers: { awaken: { type: "http", url: `${url}/v1/mcp`, ...(hasToken ? { headers: { Authorization: "Bearer TOKEN" } } : {}) } } }, null, 2) },
    { name: "ACP", language: "json", text: JSON.stringify({ agent_servers: { awaken: { command: "awaken", args: ["acp", "agent.py"] } } }, null, 2), note: snippets.acp },
  ];
}
