"""awaken in the harness: the public API, with a model client that plays the harness's script, or
its own client for OpenAI Chat against the harness's server.

The harness's tools look nothing up and change nothing, and are declared so; `awaken_once` measures
what the default costs, where each call's intent is durable before its tool runs.
"""

from collections.abc import AsyncGenerator

import msgspec

from awaken import Agent, AgentRuntime, Message, tool
from awaken.contracts.messages.content import Text
from awaken.contracts.messages.deltas import TextDelta, ToolCallDelta, ToolCallStart
from awaken.contracts.messages.message import Role, ToolCall, assistant, tool_answer, user
from awaken.contracts.models.inference import InferenceRequest, ModelEvent, Stop, StopReason
from awaken.contracts.models.model_specs import ProviderSpec
from awaken.contracts.storage.store import Commit
from common import SYSTEM, TOOLS, Adapter, stream_turn


class HarnessModel:
    """Streams the harness's turns."""

    name = "harness"

    async def stream(self, request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        """Play one turn of the script."""
        reason = StopReason.END_TURN
        async for piece in stream_turn(len(request.messages) + len(request.system)):
            if isinstance(piece, str):
                yield TextDelta(delta=piece)
                continue
            reason = StopReason.TOOL_USE
            for call in piece:
                yield ToolCallStart(id=call.id, name=call.name)
                yield ToolCallDelta(id=call.id, args_delta=call.json)
        yield Stop(reason=reason)


class Awaken(Adapter):
    """One runtime with two agents, in memory; a second one on SQLite for stored turns."""

    name = "awaken"
    packages = ("awaken",)
    modes = ("inproc", "http")
    store = "SQLite, WAL, synchronous=FULL, every commit of the run"
    effect = "none"

    async def setup(self) -> None:
        """Build the agents."""
        providers = {}
        if self.mode == "http":
            spec = ProviderSpec(id="fake", adapter="openai_chat", base_url=self.base_url)
            providers = {"fake": spec}
        self.runtime = AgentRuntime(agents=self.agents(TOOLS), providers=providers)
        self.threads = 0

    async def close(self) -> None:
        """Close the connections."""
        await self.runtime.__aexit__(None, None, None)

    def agents(self, tools: tuple) -> list[Agent]:
        """One without tools, one with them."""
        model = "fake:fake" if self.mode == "http" else HarnessModel()
        return [
            Agent("plain", model=model, instructions=SYSTEM),
            Agent("tools", model=model, instructions=SYSTEM, tools=tools),
        ]

    async def open_store(self, path: str) -> None:
        """Open a runtime on a file, with its worker."""
        declared = tuple(tool(effect=self.effect)(function) for function in TOOLS)
        self.stored = AgentRuntime(agents=self.agents(declared), store=f"sqlite:///{path}.db")
        await self.stored.__aenter__()

    async def stored_turn(self, thread: str, prompt: str) -> str:
        """One durable turn."""
        return (await self.stored.run("tools", prompt, thread_id=thread)).text

    async def close_store(self) -> None:
        """Close the file."""
        await self.stored.__aexit__(None, None, None)

    async def run(self, prompt: str, tools: bool) -> str:
        """One run on a fresh thread."""
        return (await self.runtime.run("tools" if tools else "plain", prompt)).text

    async def stream(self, prompt: str) -> tuple[int, int]:
        """One streamed turn."""
        count = size = 0
        async for event in self.runtime.stream("plain", prompt):
            if type(event) is TextDelta:
                count += 1
                size += len(event.delta)
        return count, size

    def history(self, msgs: list[tuple]) -> list[Message]:
        """The neutral history as messages of a thread."""
        return [_message(index, entry) for index, entry in enumerate(msgs)]

    async def fresh(self, native: list[Message]) -> str:
        """A new thread with that history."""
        self.threads += 1
        thread_id = f"history-{self.threads}"
        if native:
            await self.runtime.store.commit(
                Commit(
                    commit_id=f"{thread_id}:1",
                    thread_id=thread_id,
                    expected_version=0,
                    committed_at=0,
                    messages=tuple(native),
                )
            )
        return thread_id

    async def run_on(self, handle: str, prompt: str) -> str:
        """One turn on a thread with history."""
        return (await self.runtime.run("tools", prompt, thread_id=handle)).text


def _message(index: int, entry: tuple) -> Message:
    kind = entry[0]
    if kind == "call":
        call = ToolCall(id=entry[1], name=entry[2], arguments=msgspec.json.decode(entry[3]))
        made = Message(role=Role.ASSISTANT, tool_calls=(call,))
    elif kind == "tool":
        made = tool_answer(entry[1], entry[3])
    elif kind == "assistant":
        made = assistant(Text(text=entry[1]))
    else:
        made = user(entry[1])
    return msgspec.structs.replace(made, id=f"m{index}")


ADAPTER = Awaken
