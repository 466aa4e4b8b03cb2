"""The plain loop over raw httpx (HTTP mode only)."""

import json

import httpx

from adapters.plain import Plain, opening


class PlainHttpx(Plain):
    name = "plain+httpx"
    packages = ("httpx",)
    modes = ("http",)
    store = None
    library = httpx

    async def setup(self):
        limits = self.library.Limits(max_connections=1000, max_keepalive_connections=1000)
        self.client = self.library.AsyncClient(base_url=self.base_url, timeout=120, limits=limits)
        self.model = self.ask

    async def ask(self, messages, tools):
        body = {"model": "fake", "messages": messages}
        if tools:
            body["tools"] = tools
        response = await self.client.post("/chat/completions", json=body)
        return response.json()["choices"][0]["message"]

    async def stream(self, prompt):
        count, parts = 0, []
        body = {"model": "fake", "stream": True, "messages": opening(prompt)}
        async with self.client.stream("POST", "/chat/completions", json=body) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: ") and line != "data: [DONE]":
                    choices = json.loads(line[6:])["choices"]
                    delta = choices and choices[0]["delta"].get("content")
                    if delta:
                        count += 1
                        parts.append(delta)
        return count, len("".join(parts))


ADAPTER = PlainHttpx
