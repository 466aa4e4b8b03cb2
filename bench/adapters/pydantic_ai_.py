"""pydantic-ai Agent; own Model (FunctionModel estimates tokens per delta, which would count)."""

import sqlite3
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, StreamedResponse
from pydantic_ai.usage import RequestUsage

from common import SYSTEM, TOOLS, Adapter, stream_turn, turn


def now():
    return datetime.now(UTC)


@dataclass
class ScriptedStream(StreamedResponse):
    _timestamp: datetime = field(default_factory=now)

    model_name = property(lambda self: "scripted")
    provider_name = property(lambda self: "scripted")
    provider_url = property(lambda self: None)
    timestamp = property(lambda self: self._timestamp)

    async def _get_event_iterator(self):
        parts = self._parts_manager
        async for delta in stream_turn():
            if isinstance(delta, str):
                for event in parts.handle_text_delta(vendor_part_id="content", content=delta):
                    yield event
                continue
            for index, call in enumerate(delta):
                for event in parts.handle_tool_call_delta_events(
                    vendor_part_id=index,
                    tool_name=call.name,
                    args=call.json,
                    tool_call_id=call.id,
                ):
                    yield event

    async def close_stream(self):
        return None


class Scripted(Model):
    model_name = property(lambda self: "scripted")
    system = property(lambda self: "scripted")

    async def request(self, messages, model_settings, params):
        model_settings, params = self.prepare_request(model_settings, params)
        answer = await turn(len(messages))
        parts = [ToolCallPart(call.name, call.json, call.id) for call in answer.calls]
        usage = RequestUsage(input_tokens=10, output_tokens=5)
        return ModelResponse(
            parts=parts or [TextPart(answer.text)], usage=usage, model_name="scripted"
        )

    @asynccontextmanager
    async def request_stream(self, messages, model_settings, params, run_context=None):
        model_settings, params = self.prepare_request(model_settings, params)
        yield ScriptedStream(model_request_parameters=params)


class PydanticAI(Adapter):
    name = "pydantic-ai"
    packages = ("pydantic-ai-slim", "pydantic", "openai")
    store = (
        "none shipped; user-written sqlite row per turn of ModelMessagesTypeAdapter JSON "
        "(documented pattern)"
    )

    def model(self):
        if self.mode == "http":
            from pydantic_ai.models.openai import OpenAIChatModel
            from pydantic_ai.providers.openai import OpenAIProvider

            provider = OpenAIProvider(base_url=self.base_url, api_key="x")
            return OpenAIChatModel("fake", provider=provider)
        return Scripted()

    async def setup(self):
        model = self.model()
        self.bare = Agent(model, instructions=SYSTEM)
        self.full = Agent(model, instructions=SYSTEM, tools=list(TOOLS))

    async def run(self, prompt, tools):
        return (await (self.full if tools else self.bare).run(prompt)).output

    async def stream(self, prompt):
        count = size = 0
        async with self.bare.run_stream(prompt) as result:
            async for delta in result.stream_text(delta=True, debounce_by=None):
                count += 1
                size += len(delta)
        return count, size

    def history(self, messages):
        native = []
        for kind, *rest in messages:
            if kind == "user":
                native.append(ModelRequest(parts=[UserPromptPart(rest[0])]))
            elif kind == "call":
                call_id, name, arguments = rest
                parts = [ToolCallPart(name, arguments, call_id)]
                native.append(ModelResponse(parts=parts, model_name="scripted"))
            elif kind == "tool":
                call_id, name, result = rest
                native.append(ModelRequest(parts=[ToolReturnPart(name, int(result), call_id)]))
            else:
                native.append(ModelResponse(parts=[TextPart(rest[0])], model_name="scripted"))
        return native

    async def run_on(self, native, prompt):
        return (await self.full.run(prompt, message_history=native)).output

    async def open_store(self, path):
        self.db = sqlite3.connect(path + ".db", isolation_level=None)
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("PRAGMA synchronous=NORMAL")
        self.db.execute("CREATE TABLE m(id INTEGER PRIMARY KEY, thread TEXT, body BLOB)")

    async def stored_turn(self, thread, prompt):
        history = []
        query = "SELECT body FROM m WHERE thread=? ORDER BY id"
        for (body,) in self.db.execute(query, (thread,)):
            history.extend(ModelMessagesTypeAdapter.validate_json(body))
        result = await self.full.run(prompt, message_history=history)
        row = (thread, result.new_messages_json())
        self.db.execute("INSERT INTO m(thread, body) VALUES(?,?)", row)
        return result.output

    async def close_store(self):
        self.db.close()


ADAPTER = PydanticAI
