"""agno Agent.arun; Model subclass; AsyncSqliteDb with the whole history in context.

Telemetry is off: it posts to agno's API (see also AGNO_TELEMETRY in frameworks.py).
"""

from dataclasses import dataclass

from agno.agent import Agent
from agno.models.base import Model
from agno.models.message import Message
from agno.models.response import ModelResponse
from agno.run.agent import RunContentEvent

from common import SYSTEM, TOOLS, Adapter, stream_turn, turn


def wire_call(call_id, name, arguments):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def wire_calls(calls):
    return [wire_call(call.id, call.name, call.json) for call in calls]


@dataclass
class Scripted(Model):
    id: str = "scripted"
    name: str = "scripted"
    provider: str = "scripted"

    def invoke(self, *args, **kwargs):
        raise NotImplementedError

    def invoke_stream(self, *args, **kwargs):
        raise NotImplementedError

    def _parse_provider_response(self, response, **kwargs):
        return response

    def _parse_provider_response_delta(self, response):
        return response

    async def ainvoke(self, messages, assistant_message, **kwargs):
        assistant_message.metrics.start_timer()
        answer = await turn(len(messages))
        assistant_message.metrics.stop_timer()
        calls = wire_calls(answer.calls)
        return ModelResponse(role="assistant", content=answer.text, tool_calls=calls)

    async def ainvoke_stream(self, messages, assistant_message, **kwargs):
        assistant_message.metrics.start_timer()
        async for delta in stream_turn(len(messages)):
            if isinstance(delta, str):
                yield ModelResponse(content=delta)
            else:
                yield ModelResponse(role="assistant", tool_calls=wire_calls(delta))
        assistant_message.metrics.stop_timer()


class Agno(Adapter):
    name = "agno"
    packages = ("agno", "pydantic", "openai", "sqlalchemy")
    store = "AsyncSqliteDb, add_history_to_context, num_history_runs=all"
    note = "telemetry off"

    def model(self):
        if self.mode == "http":
            from agno.models.openai import OpenAIChat

            return OpenAIChat(id="fake", base_url=self.base_url, api_key="x", timeout=120)
        return Scripted()

    def agent(self, **options):
        return Agent(model=self.model(), instructions=SYSTEM, telemetry=False, **options)

    async def setup(self):
        self.bare = self.agent()
        self.full = self.agent(tools=list(TOOLS))

    async def run(self, prompt, tools):
        return (await (self.full if tools else self.bare).arun(prompt)).content

    async def stream(self, prompt):
        count = size = 0
        async for event in self.bare.arun(prompt, stream=True):
            if isinstance(event, RunContentEvent) and event.content:
                count += 1
                size += len(event.content)
        return count, size

    def history(self, messages):
        native = []
        for kind, *rest in messages:
            if kind == "call":
                native.append(Message(role="assistant", tool_calls=[wire_call(*rest)]))
            elif kind == "tool":
                call_id, name, result = rest
                native.append(
                    Message(role="tool", tool_call_id=call_id, tool_name=name, content=result)
                )
            else:
                native.append(Message(role=kind, content=rest[0]))
        return native

    async def run_on(self, native, prompt):
        return (await self.full.arun([*native, Message(role="user", content=prompt)])).content

    async def open_store(self, path):
        from agno.db.sqlite import AsyncSqliteDb

        self.db = AsyncSqliteDb(db_file=path + ".db")
        self.saved = self.agent(
            tools=list(TOOLS), db=self.db, add_history_to_context=True, num_history_runs=100_000
        )

    async def stored_turn(self, thread, prompt):
        return (await self.saved.arun(prompt, session_id=thread, user_id="u")).content

    async def close_store(self):
        await self.db.db_engine.dispose()


ADAPTER = Agno
