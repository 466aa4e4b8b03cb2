"""What tasks say while they go on, and how they are stopped while they say it."""

import asyncio
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, Cancelled, Limits, ToolContext, tool
from awaken.contracts.storage.outbox import ThreadMessage
from awaken.errors import InvalidSpec, StoreUnavailable
from awaken.extensions.background import BackgroundTasksPlugin
from awaken.messages import SenderKind
from awaken.models import InferenceRequest
from awaken.testing import ScriptedModel, ToolCalls
from awaken.tools import TaskContext

from .task_worlds import BOUND_S, Town, both_stores, event_of, obeying, play, until, use

BY_LETTER = Limits(inbox_messages=0)
"""All that tasks say comes by letter, also to an owner that is awake."""


class Speaker:
    """A tool that starts functions that emit numbers, and what those heard of each emit."""

    def __init__(self) -> None:
        self.told: dict[str, list[bool]] = {}
        self.may_speak = asyncio.Event()
        self.tool = self._tool()

    async def _speak(self, task: TaskContext, name: str, count: int, late: int) -> str:
        told = self.told.setdefault(name, [])
        await self.may_speak.wait()
        try:
            for number in range(count):
                told.append(await task.emit("number", {"of": name, "number": number}))
            if late:
                told.append(await task.emit("ready"))
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            for number in range(late):
                told.append(await task.emit("late", number))
            raise
        return "said all"

    def _tool(self) -> Any:
        @tool(effect="idempotent")
        async def speak(ctx: ToolContext, name: str, count: int, late: int = 0) -> str:
            work = partial(self._speak, name=name, count=count, late=late)
            return (await ctx.spawn(work, name=name)).task_id

        return speak


@tool(effect="idempotent")
async def stop_all(ctx: ToolContext) -> int:
    """Cancel every task of the thread that still runs."""
    running = [it for it in await ctx.sub_runs.list_tasks() if not it.status.is_terminal]
    return sum([await ctx.sub_runs.cancel_task(it.task_id) for it in running])


async def news(town: Town) -> list[dict[str, Any]]:
    """What tasks have told a thread on their way, in order."""
    told = [it for it in await town.messages() if it.sender is not None]
    events = [event_of(it) for it in told if it.sender.kind is SenderKind.TASK]
    return [event for event in events if event["kind"] == "custom"]


async def started(town: Town, owner: str, speaker: Speaker, given: Any) -> asyncio.Task[Any]:
    """Let tasks speak to a boss that waits in process, or was released; returns how it ends."""
    message = use("speak", given)
    if owner == "live":
        speaker.may_speak.set()
        return asyncio.create_task(town.runtime.run("boss", message, thread_id="t"))
    released = await town.start(message)
    assert released.awaits_tasks
    speaker.may_speak.set()
    return asyncio.create_task(town.runtime.wait(released.run_id, timeout_ms=BOUND_S * 1000))


class Jam:
    """An outbox that keeps each task waiting after so many of its messages."""

    def __init__(self, town: Town, free: int) -> None:
        outbox: Any = town.runtime._outbox
        self._deliver: Any = outbox.deliver_message
        self._free = free
        self._taken: Counter[str] = Counter()
        outbox.deliver_message = self._post

    async def _post(self, letter: ThreadMessage, letter_id: str) -> bool:
        task_id = letter.payload["task_id"]
        self._taken[task_id] += 1
        if self._taken[task_id] > self._free:
            await asyncio.Event().wait()
        return bool(await self._deliver(letter, letter_id))

    async def holds(self, tasks: int) -> None:
        async def is_full() -> bool:
            return sum(count > self._free for count in self._taken.values()) == tasks

        await until(is_full)


@both_stores
def test_a_task_whose_owner_cannot_be_told_hears_so_and_comes_to_its_result(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: Any, **__: Any) -> None:
        raise StoreUnavailable(store=kind, problem="it is away")

    async def scenario() -> None:
        async with Town(kind, tmp_path) as town:
            await town.start(use("spawn", {"name": "a"}))
            with monkeypatch.context() as away:
                away.setattr(town.runtime.store, "enqueue", refuse)
                assert await town.works.tasks["a"].emit("number", 1) is False
            town.runtime._engine.tasks._mailbox = None
            assert await town.works.tasks["a"].emit("number", 2) is False
            town.works.end("a")
            assert (await town.ended("a")).result == {"did": "a"}
            # The end is an order of its last commit, and no news.
            await town.until_told(1)
            assert (await town.kinds(), await news(town)) == (["completed"], [])

    play(scenario)


@both_stores
@pytest.mark.parametrize("owner", ["live", "released"])
def test_a_task_stands_by_until_it_is_killed(kind: str, tmp_path: Path, owner: str) -> None:
    async def scenario() -> None:
        speaker = Speaker()
        async with Town(kind, tmp_path, tools=[speaker.tool]) as town:
            running = await started(town, owner, speaker, {"name": "a", "count": 0, "late": 2})

            async def is_ready() -> bool:
                return [it["event_type"] for it in await news(town)] == ["ready"]

            await until(is_ready)
            task = await town.task("a")
            assert (task.status, await town.kinds()) == ("running", [])
            assert await town.runtime.cancel(task.task_id)
            await town.until_told(1)
            assert (await running).status == "done"
            # What it says while it cleans up arrives as well.
            assert speaker.told["a"] == [True, True, True]
            said = [(it["event_type"], it.get("payload")) for it in await news(town)]
            assert said == [("ready", None), ("late", 0), ("late", 1)]
            assert await town.kinds() == [(await town.task("a")).status] == ["cancelled"]

    play(scenario)


@both_stores
@pytest.mark.parametrize(("owner", "room"), [("live", 256), ("live", 4), ("released", 256)])
def test_a_hundred_rapid_emits_all_arrive(kind: str, tmp_path: Path, owner: str, room: int) -> None:
    async def scenario() -> None:
        speaker, limits = Speaker(), Limits(inbox_messages=room)
        async with Town(kind, tmp_path, tools=[speaker.tool], limits=limits) as town:
            running = await started(town, owner, speaker, {"name": "a", "count": 100})
            await town.until_told(1)
            assert (await running).status == "done"
            assert speaker.told["a"] == [True] * 100
            numbers = [it["payload"]["number"] for it in await news(town)]
            assert sorted(numbers) == list(range(100))
            if (owner, room) == ("live", 256):
                assert numbers == list(range(100))

    play(scenario)


@both_stores
def test_a_task_that_is_cancelled_in_an_emit_was_heard_so_far(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        speaker = Speaker()
        async with Town(kind, tmp_path, tools=[speaker.tool], limits=BY_LETTER) as town:
            jam = Jam(town, free=5)
            await town.start(use("speak", {"name": "a", "count": 100}))
            speaker.may_speak.set()
            await jam.holds(1)
            assert await town.runtime.cancel((await town.task("a")).task_id)
            await town.until_told(1)
            assert speaker.told["a"] == [True] * 5
            assert [it["payload"]["number"] for it in await news(town)] == list(range(5))
            assert await town.kinds() == ["cancelled"]

    play(scenario)


@both_stores
def test_all_tasks_of_a_thread_are_stopped_and_no_others(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        speaker, names = Speaker(), ["a", "b", "c", "d"]
        async with Town(kind, tmp_path, tools=[speaker.tool, stop_all], limits=BY_LETTER) as town:
            jam = Jam(town, free=2)
            calls = [part for it in names for part in ("speak", {"name": it, "count": 9})]
            await town.start(use(*calls, "spawn", {"name": "e", "fate": "detach"}))
            await town.start(use("speak", {"name": "a", "count": 9}), thread_id="other")
            speaker.may_speak.set()
            await jam.holds(len(names) + 1)
            other = (await town.task("a", "other")).task_id
            foreign = {"target": {"relation": "child", "name": other}}
            await town.start(use("cancel_task", foreign, "stop_all", {}))
            await town.until_told(len(names) + 1)
            *_, refused, count = await town.answers()
            assert ("task_not_found" in refused, count) == (True, "5")
            tasks = [(it.task_id, "cancelled") for it in await town.runtime.tasks("t")]
            told = [(it["task_id"], it["kind"]) for it in await town.notices()]
            assert sorted(told) == sorted(tasks)
            assert sorted(it["payload"]["of"] for it in await news(town)) == sorted(names * 2)
            assert (await town.task("a", "other")).status == "running"

    play(scenario)


@both_stores
def test_what_a_nested_agent_hears_reaches_the_outer_parent(kind: str, tmp_path: Path) -> None:
    async def passed_on(request: InferenceRequest) -> Any:
        last = request.messages[-1]
        if last.sender is not None:
            given = {"to": {"relation": "parent"}, "message": str(event_of(last))}
            return ToolCalls([("send_message", given)])
        if last.text == "go":
            return ToolCalls([("spawn", {"name": "inner", "how": "emit"})])
        return "ok"

    async def scenario() -> None:
        async with Town(kind, tmp_path, helper=ScriptedModel([passed_on], cycle=True)) as town:
            await town.start(use("spawn_agent", {"agent_id": "helper", "prompt": "go"}))

            async def heard() -> list[str]:
                return [it for it in await town.lines() if it.startswith("<agent-message ")]

            async def is_heard() -> bool:
                return any("progress" in text for text in await heard())

            await until(is_heard)
            (agent,) = await town.runtime.tasks("t")
            assert agent.status == "running"
            town.works.end("inner")
            await town.until_told(1)
            assert ["'completed'" in text for text in await heard()] == [False, True]
            assert [it["task_id"] for it in await town.notices()] == [agent.task_id]

    play(scenario)


@both_stores
@pytest.mark.parametrize("who", ["helper", "second"])
def test_an_agent_cancels_itself_and_its_own_tasks(kind: str, tmp_path: Path, who: str) -> None:
    async def scenario() -> None:
        async with Town(kind, tmp_path) as town:
            prompt = use("spawn", {"name": "x"}, "spawn", {"name": "y"})
            if who == "second":
                prompt = use("agent_run_second", {"prompt": prompt})
            given = {"agent_id": "helper", "prompt": prompt, "name": "agent"}
            await town.start(use("spawn", {"name": "sibling"}, "spawn_agent", given))
            for name in "xy":
                await town.works.has_begun(name)
            (run,) = [it for it in await town.runtime.list_runs() if it.agent_id == who]
            leave = use("cancel_task", {"target": {"relation": "self"}})
            await town.runtime.steer(run.run_id, leave)
            await town.until_told(1)
            assert (await town.runtime.get_run(run.run_id)).termination == Cancelled(cause="self")
            for name in "xy":
                assert (await town.ended(name, run.thread_id)).status == "cancelled"
                record = await town.runtime.get_run(town.works.tasks[name].task_id)
                assert record.termination == Cancelled(cause="parent")
            # An agent that was asked by a task ends alone: the task hears of it and goes on.
            (notice,) = await town.notices()
            fate = "cancelled" if who == "helper" else "completed"
            assert (notice["name"], notice["kind"]) == ("agent", fate)
            assert (await town.task("sibling")).status == "running"

    play(scenario)


def test_an_agents_own_tool_is_never_replaced_by_the_plugins() -> None:
    @tool
    async def cancel_task() -> str:
        return "mine"

    async def scenario() -> None:
        model = obeying()
        async with AgentRuntime([Agent("boss", model=model, tools=[cancel_task])]) as runtime:
            result = await runtime.run("boss", use("cancel_task", {}))
            assert result.text == "after tool: mine"
        both = Agent("boss", model=model, tools=[cancel_task], plugins=[BackgroundTasksPlugin()])
        with pytest.raises(InvalidSpec, match="'cancel_task' is registered twice"):
            AgentRuntime([both])

    play(scenario)
