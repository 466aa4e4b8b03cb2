"""Microsoft agent-framework Agent; BaseChatClient with the stock layers; FileHistoryProvider."""

from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FileHistoryProvider,
    FunctionInvocationLayer,
    Message,
)
from agent_framework.observability import ChatTelemetryLayer

from common import SYSTEM, TOOLS, Adapter, stream_turn, turn


def call_contents(calls):
    return [Content.from_function_call(call.id, call.name, arguments=call.json) for call in calls]


class RawScripted(BaseChatClient):
    def _inner_get_response(self, *, messages, stream, options, **kwargs):
        if stream:
            return self._build_response_stream(self._stream())
        return self._once(messages, options)

    async def _once(self, messages, options):
        await self._validate_options(options)
        answer = await turn(len(messages))
        contents = call_contents(answer.calls) or [answer.text]
        return ChatResponse(messages=[Message("assistant", contents)])

    async def _stream(self):
        async for delta in stream_turn():
            is_text = isinstance(delta, str)
            contents = [Content.from_text(delta)] if is_text else call_contents(delta)
            yield ChatResponseUpdate(role="assistant", contents=contents)


class Scripted(FunctionInvocationLayer, ChatMiddlewareLayer, ChatTelemetryLayer, RawScripted):
    """Same layer order as OpenAIChatCompletionClient."""

    OTEL_PROVIDER_NAME = "scripted"


class AgentFramework(Adapter):
    name = "agent-framework"
    packages = ("agent-framework-core", "agent-framework-openai", "pydantic", "openai")
    store = "FileHistoryProvider (JSONL append; no SQLite in core)"

    def client(self):
        if self.mode == "http":
            from agent_framework.openai import OpenAIChatCompletionClient
            from openai import AsyncOpenAI

            client = AsyncOpenAI(base_url=self.base_url, api_key="x", timeout=120)
            return OpenAIChatCompletionClient(model="fake", async_client=client)
        client = Scripted()
        client.function_invocation_configuration["max_iterations"] = 100
        return client

    async def setup(self):
        self.bare = Agent(client=self.client(), instructions=SYSTEM)
        self.full = Agent(client=self.client(), instructions=SYSTEM, tools=list(TOOLS))

    async def run(self, prompt, tools):
        return (await (self.full if tools else self.bare).run(prompt)).text

    async def stream(self, prompt):
        count = size = 0
        async for update in self.bare.run(prompt, stream=True):
            if update.text:
                count += 1
                size += len(update.text)
        return count, size

    def history(self, messages):
        native = []
        for kind, *rest in messages:
            if kind == "call":
                call_id, name, arguments = rest
                call = Content.from_function_call(call_id, name, arguments=arguments)
                native.append(Message("assistant", [call]))
            elif kind == "tool":
                result = Content.from_function_result(rest[0], result=rest[2])
                native.append(Message("tool", [result]))
            else:
                native.append(Message(kind, [rest[0]]))
        return native

    async def run_on(self, native, prompt):
        return (await self.full.run([*native, Message("user", [prompt])])).text

    async def open_store(self, path):
        self.saved = Agent(
            client=self.client(),
            instructions=SYSTEM,
            tools=list(TOOLS),
            context_providers=[FileHistoryProvider(path)],
        )

    async def stored_turn(self, thread, prompt):
        return (await self.saved.run(prompt, session=AgentSession(session_id=thread))).text


ADAPTER = AgentFramework
