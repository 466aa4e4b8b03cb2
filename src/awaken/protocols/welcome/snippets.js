// How to connect each kind of client, with this server's own address.

/** Name and text of every snippet; `token` is a placeholder when the server asks for one. */
export function snippets(base, agent, hasToken) {
  const auth = hasToken ? "TOKEN" : "";
  const curlAuth = auth && ` \\\n  -H "Authorization: Bearer ${auth}"`;
  const headers = auth && `,\n    headers: { Authorization: "Bearer ${auth}" }`;
  return {
    curl: `curl -N ${base}/v1/runs \\\n  -H "Content-Type: application/json"${curlAuth} \\\n  -d '{"agentId": "${agent}", "messages": [{"role": "user", "content": "Hello"}]}'`,
    "AI SDK": `import { useChat } from "@ai-sdk/react";\nimport { DefaultChatTransport } from "ai";\n\nconst chat = useChat({\n  transport: new DefaultChatTransport({\n    api: "${base}/v1/ai-sdk/agents/${agent}/runs"${headers}\n  }),\n});`,
    "AG-UI": `import { HttpAgent } from "@ag-ui/client";\n\nconst agent = new HttpAgent({\n    url: "${base}/v1/ag-ui/agents/${agent}/runs"${headers}\n});\nagent.messages = [{ id: "1", role: "user", content: "Hello" }];\nawait agent.runAgent();`,
    A2A: `import { ClientFactory } from "@a2a-js/sdk/client";\n\nconst client = await new ClientFactory().createFromUrl("${base}");\n// The agent card: ${base}/.well-known/agent-card.json`,
    MCP: JSON.stringify({ mcpServers: { awaken: { type: "http", url: `${base}/v1/mcp`, ...(auth && { headers: { Authorization: `Bearer ${auth}` } }) } } }, null, 2),
    ACP: JSON.stringify({ agent_servers: { awaken: { command: "awaken", args: ["acp"] } } }, null, 2),
    OpenAI: `from openai import OpenAI\n\nclient = OpenAI(base_url="${base}/v1", api_key="${auth || "unused"}")\nanswer = client.responses.create(model="${agent}", input="Hello")\nprint(answer.output_text)`,
  };
}
