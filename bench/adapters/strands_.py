"""strands-agents; Model subclass; SnapshotSessionManager on LocalFileStorage.

An Agent holds one conversation and refuses concurrent calls, so each run builds an Agent,
as a server must.
"""

import json
import logging
from typing import ClassVar

import strands
from strands import Agent
from strands.agent.conversation_manager import NullConversationManager
from strands.models import Model

from common import SYSTEM, TOOLS, Adapter, stream_turn

USAGE = {
    "usage": {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15},
    "metrics": {"latencyMs": 0},
}


class Scripted(Model):
    def update_config(self, **kwargs):
        return None

    def get_config(self):
        return {}

    async def structured_output(self, *args, **kwargs):
        raise NotImplementedError
        yield

    async def stream(self, messages, tool_specs=None, system_prompt=None, **kwargs):
        yield {"messageStart": {"role": "assistant"}}
        started, stop = False, "end_turn"
        async for delta in stream_turn(len(messages)):
            if isinstance(delta, str):
                if not started:
                    started = True
                    yield {"contentBlockStart": {"start": {}}}
                yield {"contentBlockDelta": {"delta": {"text": delta}}}
            else:
                stop = "tool_use"
                for call in delta:
                    use = {"name": call.name, "toolUseId": call.id}
                    yield {"contentBlockStart": {"start": {"toolUse": use}}}
                    yield {"contentBlockDelta": {"delta": {"toolUse": {"input": call.json}}}}
                    yield {"contentBlockStop": {}}
        if started:
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": stop}}
        yield {"metadata": USAGE}


async def answer_of(agent, prompt):
    result = await agent.invoke_async(prompt)
    return result.message["content"][0]["text"]


class Strands(Adapter):
    name = "strands"
    packages = ("strands-agents", "pydantic", "openai")
    store = "SnapshotSessionManager on LocalFileStorage (JSON blob; no SQLite)"
    note = (
        "Agent built per run (it holds its conversation); "
        "NullConversationManager in W4 (the default keeps 40 messages)"
    )
    session_options: ClassVar[dict[str, str]] = {}

    async def setup(self):
        logging.getLogger("strands").setLevel(logging.ERROR)
        if self.mode == "http":
            from strands.models.openai import OpenAIModel

            client = {"base_url": self.base_url, "api_key": "x", "timeout": 120}
            self.model = OpenAIModel(client_args=client, model_id="fake")
        else:
            self.model = Scripted()
        self.tools = [strands.tool(function) for function in TOOLS]

    def agent(self, tools, **options):
        return Agent(
            model=self.model,
            system_prompt=SYSTEM,
            tools=self.tools if tools else [],
            callback_handler=None,
            **options,
        )

    async def run(self, prompt, tools):
        return await answer_of(self.agent(tools), prompt)

    async def stream(self, prompt):
        count = size = 0
        async for event in self.agent(False).stream_async(prompt):
            if "data" in event:
                count += 1
                size += len(event["data"])
        return count, size

    def history(self, messages):
        native = []
        for kind, *rest in messages:
            if kind == "call":
                call_id, name, arguments = rest
                use = {"toolUseId": call_id, "name": name, "input": json.loads(arguments)}
                native.append({"role": "assistant", "content": [{"toolUse": use}]})
            elif kind == "tool":
                content = [{"text": rest[2]}]
                result = {"toolUseId": rest[0], "status": "success", "content": content}
                native.append({"role": "user", "content": [{"toolResult": result}]})
            else:
                native.append({"role": kind, "content": [{"text": rest[0]}]})
        return native

    async def run_on(self, native, prompt):
        agent = self.agent(
            True, messages=list(native), conversation_manager=NullConversationManager()
        )
        return await answer_of(agent, prompt)

    async def open_store(self, path):
        from strands.storage import LocalFileStorage

        self.storage = LocalFileStorage(path)

    async def stored_turn(self, thread, prompt):
        from strands.session import SnapshotSessionManager

        agent = self.agent(
            True,
            session_manager=SnapshotSessionManager(
                thread, storage=self.storage, **self.session_options
            ),
            agent_id="a",
            conversation_manager=NullConversationManager(),
        )
        return await answer_of(agent, prompt)


ADAPTER = Strands
