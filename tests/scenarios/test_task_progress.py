"""What a background task says on its way is read with what comes next, and costs no model call."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, NaturalEnd, ToolContext, tool
from awaken.models import InferenceRequest
from awaken.testing import ScriptedModel, ToolCalls
from awaken.tools import TaskContext, TaskFate

PROGRESS = 5


class Indexing:
    """An agent with a task that tells how far it is, each time when it is let go."""

    def __init__(self, fate: TaskFate) -> None:
        self.calls: list[list[str]] = []
        self.steps = asyncio.Queue[None]()
        self.told = 0

        async def index(task: TaskContext) -> str:
            for number in range(PROGRESS):
                await self.steps.get()
                self.told += await task.emit("progress", {"page": number})
            await self.steps.get()
            return "indexed"

        @tool(effect="idempotent")
        async def start(ctx: ToolContext) -> str:
            await ctx.spawn(index, name="index", fate=fate)
            return "started"

        def answer(request: InferenceRequest) -> Any:
            self.calls.append([it.text for it in request.messages])
            return ToolCalls([("start", {})]) if len(self.calls) == 1 else f"{len(self.calls)}"

        self.agent = Agent("a", model=ScriptedModel([answer], cycle=True), tools=[start])

    async def go_on(self) -> None:
        """Let the task tell all of it."""
        for number in range(PROGRESS):
            self.steps.put_nowait(None)
            while self.told <= number:
                await asyncio.sleep(0.001)

    async def progress_in(self, runtime: AgentRuntime) -> int:
        checkout = await runtime.store.checkout("t")
        assert checkout is not None
        return sum('"progress"' in it.text for it in checkout.messages)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("how", ["awaited", "released", "at rest"])
def test_progress_costs_no_model_call(kind: str, how: str, tmp_path: Path) -> None:
    async def main() -> None:
        world = Indexing(TaskFate.DETACH if how == "at rest" else TaskFate.AWAIT)
        store = None if kind == "memory" else f"sqlite:///{tmp_path / 'store.db'}"
        async with asyncio.timeout(30), AgentRuntime([world.agent], store=store) as runtime:
            if how == "awaited":
                running = asyncio.create_task(runtime.run("a", "go", thread_id="t"))
            else:
                handle = await runtime.start("a", "go", thread_id="t")
                running = asyncio.create_task(runtime.wait(handle.run_id))
            while len(world.calls) < 2:
                await asyncio.sleep(0.001)
            if how == "at rest":
                await running
            await world.go_on()
            if how == "at rest":
                while await world.progress_in(runtime) < PROGRESS:
                    await asyncio.sleep(0.01)
            assert len(world.calls) == 2
            world.steps.put_nowait(None)
            result = await running
            assert result.termination == NaturalEnd()
            while len(world.calls) < 3:
                await asyncio.sleep(0.001)
            assert sum('"progress"' in it for it in world.calls[2]) == PROGRESS
            assert any("indexed" in it for it in world.calls[2]), "only the end asks the model"
            assert await world.progress_in(runtime) == PROGRESS

    asyncio.run(main())
