"""A stored run, recorded after the fact and verified: the same questions, answers and state."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, StateKey, ToolContext, tool
from awaken.bootstrap.replays import build_recorder, build_replays
from awaken.contracts.evals.recordings import Recording
from awaken.contracts.evals.replays import ReplayResult
from awaken.evals.recording_files import decode_recording, encode_recording
from awaken.testing import ScriptedModel, ToolCalls

COUNT: StateKey[int, int] = StateKey("replayed_count", default=0)


class Tools:
    """Tools that count how often their code runs."""

    def __init__(self) -> None:
        self.runs: list[Any] = []

    def list(self) -> list[Any]:
        runs = self.runs

        @tool(effect="none")
        async def add(a: int, b: int, ctx: ToolContext) -> int:
            """Add two numbers."""
            runs.append((a, b))
            ctx.state.set(COUNT, ctx.state.get(COUNT) + 1)
            return a + b + len(runs)

        @tool
        async def mail(to: str) -> str:
            """Send a mail."""
            runs.append(to)
            return f"sent {len(runs)} to {to}"

        @tool
        async def ask(question: str, ctx: ToolContext) -> Any:
            """Ask a person."""
            if ctx.resume is None:
                return ctx.suspend(question)
            runs.append(question)
            return f"they said {ctx.resume.result}"

        return [add, mail, ask]


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    return None if request.param == "memory" else f"sqlite:///{tmp_path}/replay.db"


Story = Callable[[AgentRuntime], Awaitable[str]]


def play(story: Story, store: str | None, script: list[Any]) -> tuple[Recording, ReplayResult, int]:
    """Return the recording of the run of a story, its verification, and executions in that."""
    tools = Tools()
    model = ScriptedModel(script)

    async def main() -> tuple[Recording, ReplayResult, int]:
        agent = Agent("calc", model=model, tools=tools.list())
        async with asyncio.timeout(60), AgentRuntime([agent], store=store, history="full") as it:
            run_id = await story(it)
            engine = it._engine
            recording = await build_recorder(engine).record(run_id)
            count, asked = len(tools.runs), len(model.requests)
            result = await build_replays(engine).replay(recording)
            assert len(model.requests) == asked
            return recording, result, len(tools.runs) - count

    return asyncio.run(main())


BATCH = ToolCalls([("add", {"a": 1, "b": 2}), ("add", {"a": 1, "b": 2}), ("mail", {"to": "x"})])


def test_a_run_verifies_equal_without_network_and_tools(store: str | None) -> None:
    async def story(runtime: AgentRuntime) -> str:
        await runtime.run("calc", "first", thread_id="t")
        return (await runtime.run("calc", "second", thread_id="t")).run_id

    script = ["hello", BATCH, ToolCalls([("add", {"a": 3, "b": 4})]), "done"]
    recording, result, executions = play(story, store, script)
    assert result.divergences == ()
    assert result.is_same
    assert executions == 0
    assert recording.incomplete == ()
    assert [len(step.calls) for step in recording.steps] == [3, 1, 0]
    assert decode_recording(encode_recording(recording)) == recording
