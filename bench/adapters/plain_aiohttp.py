"""The plain loop over aiohttp (HTTP mode only)."""

import json

import aiohttp

from adapters.plain import Plain, opening


class PlainAiohttp(Plain):
    name = "plain+aiohttp"
    packages = ("aiohttp",)
    modes = ("http",)
    store = None

    async def setup(self):
        self.client = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=1000), timeout=aiohttp.ClientTimeout(120)
        )
        self.url = self.base_url + "/chat/completions"
        self.model = self.ask

    async def ask(self, messages, tools):
        body = {"model": "fake", "messages": messages}
        if tools:
            body["tools"] = tools
        async with self.client.post(self.url, json=body) as response:
            return (await response.json())["choices"][0]["message"]

    async def stream(self, prompt):
        count, parts = 0, []
        body = {"model": "fake", "stream": True, "messages": opening(prompt)}
        async with self.client.post(self.url, json=body) as response:
            async for line in response.content:
                if line.startswith(b"data: ") and line != b"data: [DONE]\n":
                    choices = json.loads(line[6:])["choices"]
                    delta = choices and choices[0]["delta"].get("content")
                    if delta:
                        count += 1
                        parts.append(delta)
        return count, len("".join(parts))


ADAPTER = PlainAiohttp
