"""The plain loop over the openai SDK (HTTP mode only)."""

import openai

from adapters.plain import Plain, assistant_calls, opening


class PlainOpenAI(Plain):
    name = "plain+openai"
    packages = ("openai", "httpx")
    modes = ("http",)
    store = None

    async def setup(self):
        self.client = openai.AsyncOpenAI(base_url=self.base_url, api_key="x", timeout=120)
        self.create = self.client.chat.completions.create
        self.model = self.ask

    async def ask(self, messages, tools):
        options = {"tools": tools} if tools else {}
        response = await self.create(model="fake", messages=messages, **options)
        message = response.choices[0].message
        if message.tool_calls:
            calls = message.tool_calls
            return assistant_calls((c.id, c.function.name, c.function.arguments) for c in calls)
        return {"role": "assistant", "content": message.content}

    async def stream(self, prompt):
        count, parts = 0, []
        chunks = await self.create(model="fake", stream=True, messages=opening(prompt))
        async for chunk in chunks:
            delta = chunk.choices and chunk.choices[0].delta.content
            if delta:
                count += 1
                parts.append(delta)
        return count, len("".join(parts))


ADAPTER = PlainOpenAI
