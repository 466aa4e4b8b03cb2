"""Runs whose log retention has removed: they verify as far as is known, and never as diverged."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, Delegate, WorkflowContext, tool, workflow
from awaken.errors import CannotReplay, RunFailed
from awaken.events import RunStart, TextDelta
from awaken.models import InferenceRequest
from awaken.testing import Chunks, ScriptedModel, Turn

REACHED: list[str] = []
"""What hangs, so that the run can be cancelled there."""
HALF = Chunks(["half", "never"], delay_ms=60_000)
Story = Callable[[AgentRuntime], Awaitable[str]]


@tool(effect="none")
async def look(at: str) -> str:
    """Look at something."""
    return f"saw {at}"


@tool(effect="once", approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool(effect="none")
async def hang() -> str:
    """Never return."""
    REACHED.append("tool")
    await asyncio.Event().wait()
    return ""


def call(name: str, **arguments: Any) -> Turn:
    return Turn(calls=[(name, arguments)])


async def hang_model(request: InferenceRequest) -> str:
    REACHED.append("model")
    await asyncio.Event().wait()
    return ""


async def run_to_end(runtime: AgentRuntime, agent_id: str) -> str:
    try:
        return (await runtime.run(agent_id, "go")).run_id
    except RunFailed as error:
        return error.run_id


def run(*script: Any, **options: Any) -> tuple[list[Agent], Story]:
    agent = Agent("a", model=ScriptedModel(script), tools=[look, pay, hang], **options)

    async def story(runtime: AgentRuntime) -> str:
        return await run_to_end(runtime, "a")

    return [agent], story


def cancel(*script: Any) -> tuple[list[Agent], Story]:
    agents, _ = run(*script)

    async def story(runtime: AgentRuntime) -> str:
        handle = await runtime.start("a", "go")
        while not REACHED:
            await asyncio.sleep(0)
        await runtime.cancel_and_wait(handle.run_id)
        return handle.run_id

    return agents, story


def cancel_midway(*script: Any) -> tuple[list[Agent], Story]:
    agents, _ = run(*script)

    async def story(runtime: AgentRuntime) -> str:
        run_id = ""
        async for event in runtime.stream("a", "go"):
            if isinstance(event, RunStart):
                run_id = event.run_id
            if isinstance(event, TextDelta):
                await runtime.cancel(run_id)
        return run_id

    return agents, story


def decide(action: str | None, *script: Any) -> tuple[list[Agent], Story]:
    agents, _ = run(*script)

    async def story(runtime: AgentRuntime) -> str:
        waiting = await runtime.run("a", "go")
        if action == "supersede":
            await runtime.run("a", "never mind", thread_id=waiting.thread_id)
        elif action == "cancel run":
            await runtime.cancel_and_wait(waiting.run_id)
        elif action is not None:
            await runtime.decide(waiting.tickets[0].ticket_id, action)
            await runtime.wait(waiting.run_id)
        return waiting.run_id

    return agents, story


def delegate(*script: Any, **options: Any) -> tuple[list[Agent], Story]:
    below = Agent("b", model=ScriptedModel(script), tools=[look, pay, hang], description="b")
    agent = Agent(
        "a",
        model=ScriptedModel([call("agent_run_b", prompt="p"), "done", "done again"]),
        delegates=[Delegate("b", **options)],
    )

    async def story(runtime: AgentRuntime) -> str:
        return (await runtime.run("a", "go")).run_id

    return [agent, below], story


@workflow
async def plain_flow(ctx: WorkflowContext, text: str) -> str:
    return str(await ctx.call(look, text))


@workflow
async def failing_flow(ctx: WorkflowContext, text: str) -> str:
    await ctx.call(look, text)
    raise ValueError("no")


def flow(body: Any) -> tuple[list[Any], Story]:
    async def story(runtime: AgentRuntime) -> str:
        return await run_to_end(runtime, body.id)

    return [body], story


STORIES: dict[str, tuple[list[Any], Story]] = {
    "plain": run(call("look", at="a"), "done"),
    "fails at first": run(ValueError("down")),
    "fails later": run(call("look", at="a"), ValueError("down")),
    "fails midway": run(Turn("half", error=ValueError("down"))),
    "fails midway later": run(call("look", at="a"), Turn("half", error=ValueError("down"))),
    "rounds": run(*[call("look", at="a")] * 4, max_rounds=2),
    "blank": run(""),
    "blank later": run(call("look", at="a"), ""),
    "cancelled at first": cancel(hang_model),
    "cancelled later": cancel(call("look", at="a"), hang_model),
    "cancelled in a tool": cancel(call("hang")),
    "cancelled beside a tool": cancel(Turn(calls=[("look", {"at": "a"}), ("hang", {})])),
    "cancelled midway": cancel_midway(HALF),
    "cancelled midway later": cancel_midway(call("look", at="a"), HALF),
    "approved": decide("resume", call("pay", amount=1), "done"),
    "declined": decide("cancel", call("pay", amount=1), "done"),
    "approved, then fails": decide("resume", call("pay", amount=1), ValueError("down")),
    "declined, then fails": decide("cancel", call("pay", amount=1), ValueError("down")),
    "waits": decide(None, call("pay", amount=1), "done"),
    "superseded": decide("supersede", call("pay", amount=1), "done"),
    "cancelled while waiting": decide("cancel run", call("pay", amount=1), "done"),
    "delegate": delegate(call("look", at="a"), "found"),
    "delegate fails": delegate(ValueError("down")),
    "delegate in the background": delegate(call("look", at="a"), "found", background=True),
    "workflow": flow(plain_flow),
    "workflow fails": flow(failing_flow),
}


@pytest.mark.parametrize("name", STORIES)
def test_a_purged_run_is_never_called_diverged(name: str, tmp_path: Path) -> None:
    agents, story = STORIES[name]

    async def main() -> None:
        async with AgentRuntime(agents, store=f"sqlite:///{tmp_path}/a.db") as runtime:
            run_id = await story(runtime)
            whole = await runtime.replays.verify(run_id)
            assert whole.is_same, whole.divergences
            assert whole.incomplete == ()
            await runtime.store.purge(1 << 50)
            if name.startswith("workflow"):
                with pytest.raises(CannotReplay, match="its journal was purged"):
                    await runtime.replays.verify(run_id)
                return
            found = await runtime.replays.verify(run_id)
            assert found.is_same, found.divergences
            # The log of a run that waits is kept.
            assert bool(found.incomplete) is (name != "waits")

    REACHED.clear()
    asyncio.run(main())


def test_a_difference_that_may_come_from_what_was_purged_is_no_divergence(tmp_path: Path) -> None:
    """The tool takes other arguments today: is that why, or the state that is gone?"""
    agents, story = run(call("look", at="a"), "done")

    @tool(effect="none", id="look")
    async def look_twice(at: int) -> str:
        """Look at something."""
        return f"saw {at}"

    async def main() -> None:
        url = f"sqlite:///{tmp_path}/a.db"
        async with AgentRuntime(agents, store=url) as runtime:
            run_id = await story(runtime)
        changed = Agent("a", model=ScriptedModel([]), tools=[look_twice])
        async with AgentRuntime([changed], store=url) as runtime:
            whole = await runtime.replays.verify(run_id)
            assert not whole.is_same
            await runtime.store.purge(1 << 50)
            with pytest.raises(CannotReplay, match=r"purged.*step 1 \(/calls/0/result"):
                await runtime.replays.verify(run_id)

    asyncio.run(main())
