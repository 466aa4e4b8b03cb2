"""The end of a task reaches its owner exactly once, whatever the owner does just then."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awaken import Cancelled, Limits, NaturalEnd, RunFinish, ToolContext, tool
from awaken.errors import ParentRunCancelled
from awaken.messages import SenderKind, Visibility
from awaken.models import InferenceRequest
from awaken.plugins import BACKGROUND_TASKS
from awaken.stores import WaitingReason
from awaken.tools import TaskInfo

from .task_worlds import BOUND_S, CONFIG, Town, both_stores, event_of, play, until, use

SPAWN = use("spawn", {"name": "a"})


async def finishes(town: Town, thread_id: str = "t") -> list[tuple[Any, Any]]:
    """How the run_finish events of a thread say that it stands."""
    log = [it.event for it in await town.runtime.store.list_events(thread_id)]
    results = [it.result or {} for it in log if isinstance(it, RunFinish)]
    return [(it["status"], it["status_reason"]) for it in results]


@both_stores
def test_a_started_run_is_released_while_its_task_runs_and_woken_by_its_end(
    kind: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with Town(kind, tmp_path) as town:
            await town.start("hello", thread_id="u")
            assert await finishes(town, "u") == [("done", "natural")]
            released = await town.start(SPAWN)
            assert (released.status, released.termination) == ("waiting", NaturalEnd())
            assert released.awaits_tasks
            assert released.steps >= 2
            record = await town.runtime.get_run(released.run_id)
            assert record.waiting is not None
            assert record.waiting.reason is WaitingReason.BACKGROUND_TASKS
            assert town.runtime._engine.active.of_thread("t") is None
            assert await finishes(town) == [("waiting", "awaiting_tasks")]
            waiting = asyncio.create_task(town.runtime.wait(released.run_id, timeout_ms=15_000))
            town.works.end("a")
            result = await waiting
            assert (result.status, result.run_id) == ("done", released.run_id)
            assert "background-task-event" in result.text
            await town.until_told(1)
            assert await finishes(town) == [("waiting", "awaiting_tasks"), ("done", "natural")]
            checkout = await town.runtime.store.checkout("t")
            assert checkout is not None
            stored = checkout.state.get(BACKGROUND_TASKS.name)
            assert stored is None or BACKGROUND_TASKS.decode(stored) == {}

    play(scenario)


@both_stores
@pytest.mark.parametrize("how", ["emit", "emit later"])
def test_an_attached_run_waits_in_process_and_hears_what_the_task_says(
    kind: str, tmp_path: Path, how: str
) -> None:
    async def scenario() -> None:
        async with Town(kind, tmp_path) as town:
            message = use("spawn", {"name": "a", "how": how})
            running = asyncio.create_task(town.runtime.run("boss", message, thread_id="t"))
            await town.works.has_begun("a")

            async def has_answered() -> bool:
                return any(line.startswith("after ") for line in await town.lines())

            if how == "emit later":
                await until(has_answered)
                town.works.end("silence of a")

            async def is_heard() -> bool:
                return any("progress" in line for line in await town.lines())

            await until(is_heard)
            assert not running.done()
            town.works.end("a")
            async with asyncio.timeout(BOUND_S):
                result = await running
            assert (result.status, town.works.told["a"]) == ("done", True)
            told = [it for it in await town.messages() if it.sender is not None]
            assert [event_of(it)["kind"] for it in told] == ["custom", "completed"]
            first, last = (event_of(it) for it in told)
            assert (first["event_type"], first["payload"]) == ("progress", {"of": "a"})
            assert (last["result"], last["name"]) == ({"did": "a"}, "a")
            assert first["task_id"] == last["task_id"] == (await town.task("a")).task_id
            assert all(it.visibility is Visibility.INTERNAL for it in told)
            assert all(it.sender and it.sender.kind is SenderKind.TASK for it in told)
            assert await finishes(town) == [("done", "natural")]

    play(scenario)


@both_stores
def test_the_end_comes_once_to_an_owner_in_the_middle_of_a_step(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        asked, go = asyncio.Event(), asyncio.Event()

        async def pause(request: InferenceRequest) -> None:
            if request.messages[-1].text == "think":
                asked.set()
                await go.wait()

        # One place: a worker that finds nothing but what it must leave lets others act.
        config = msgspec.structs.replace(CONFIG, concurrency=1)
        async with Town(kind, tmp_path, before=pause, config=config) as town:
            await town.start(SPAWN)
            thinking = await town.runtime.start("boss", "think", thread_id="t")
            await asked.wait()
            town.works.end("a")
            await town.ended("a")

            async def is_queued() -> bool:
                return bool(await town.runtime.store.list_inputs("t"))

            await until(is_queued)
            assert await town.kinds() == []
            go.set()
            assert (await thinking.result()).status == "done"
            await town.until_told(1)
            assert (await town.lines())[-3] == "after user: think"

    play(scenario)


@both_stores
def test_a_suspended_owner_hears_of_the_end_after_the_decision_only(
    kind: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with Town(kind, tmp_path) as town:
            waiting = await town.start(use("spawn", {"name": "a"}, "ask", {}))
            (ticket,) = waiting.tickets
            asked = len(town.model.requests)
            town.works.end("a")
            await town.ended("a")
            await town.quiet()
            assert (await town.runtime.tickets("t")) == (ticket,)
            assert len(town.model.requests) == asked
            assert await town.kinds() == []
            await town.runtime.decide(ticket.ticket_id, result="yes")
            assert (await town.runtime.wait(waiting.run_id)).status == "done"
            await town.until_told(1)
            texts = await town.lines()
            at = next(n for n, text in enumerate(texts) if "told yes" in text)
            assert "background-task-event" in texts[at + 1]
            assert await finishes(town) == [("waiting", "suspended")] * 2 + [("done", "natural")]

    play(scenario)


@both_stores
def test_the_end_of_a_detached_task_starts_a_run_of_an_owner_that_has_finished(
    kind: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with Town(kind, tmp_path) as town:
            first = await town.start(use("spawn", {"name": "a", "fate": "detach"}))
            assert first.status == "done"
            town.works.end("a")
            await town.until_told(1)
            runs = await town.runtime.list_runs("t")
            assert [run.status for run in runs] == ["done", "done"]
            assert (runs[1].agent_id, runs[1].origin) == ("boss", "internal")

    play(scenario)


@both_stores
def test_many_ends_wake_a_waiting_owner_once(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        names = [f"n{number}" for number in range(20)]
        go = asyncio.Event()

        async def pause(request: InferenceRequest) -> None:
            if request.messages[-1].text == "think":
                await go.wait()

        async with Town(kind, tmp_path, before=pause) as town:
            calls: list[Any] = []
            for name in names:
                calls += ["spawn", {"name": name}]
            await town.start(use(*calls))
            thinking = await town.runtime.start("boss", "think", thread_id="t")
            for name in names:
                town.works.end(name)

            async def are_queued() -> bool:
                return len(await town.runtime.store.list_inputs("t")) == len(names)

            await until(are_queued)
            asked = len(town.model.requests)
            go.set()
            await thinking.result()
            await town.until_told(len(names))
            assert len({it["task_id"] for it in await town.notices()}) == len(names)
            assert len(town.model.requests) == asked + 1
            assert len(await town.runtime.list_runs("t")) == 1

    play(scenario)


@both_stores
def test_a_person_can_talk_to_a_run_that_waits_for_its_tasks(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Town(kind, tmp_path) as town:
            released = await town.start(SPAWN)
            again = await town.start("how is it going?")
            assert again.run_id == released.run_id
            assert again.awaits_tasks
            assert again.text == "after user: how is it going?"
            town.works.end("a")
            assert (await town.runtime.wait(released.run_id)).status == "done"
            await town.until_told(1)

    play(scenario)


@both_stores
def test_cancelling_a_run_that_waits_for_its_tasks_cancels_them_and_wakes_nobody(
    kind: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with Town(kind, tmp_path) as town:
            inner = use("spawn", {"name": "leaf"})
            given = {"agent_id": "helper", "prompt": inner, "name": "agent"}
            released = await town.start(use("spawn", {"name": "a"}, "spawn_agent", given))
            await town.works.has_begun("leaf")

            async def has_said_all() -> bool:
                return len(town.helper.requests) == 2

            await until(has_said_all)
            asked = len(town.model.requests) + len(town.helper.requests)
            assert await town.runtime.cancel(released.run_id)
            assert (await town.ended("a")).status == "cancelled"
            agent = await town.ended("agent")
            assert agent.status == "cancelled"
            assert (await town.ended("leaf", agent.task_id)).status == "cancelled"
            await town.until_told(2)
            await town.until_told(1, agent.task_id)
            # What is said on its thread afterwards does not hide the task.
            assert await town.task("agent") == agent
            assert len(town.model.requests) + len(town.helper.requests) == asked
            assert (await town.runtime.get_run(released.run_id)).termination == Cancelled()
            assert (await finishes(town))[1] == ("done", "cancelled")
            # Whoever talks to the thread next sees what became of the tasks.
            assert (await town.start("well?")).status == "done"
            shown = [it.text for it in town.model.requests[-1].messages]
            assert sum('kind="cancelled"' in text for text in shown) == 2

    play(scenario)


@both_stores
@pytest.mark.parametrize("fate", ["cascade", "detach", "await"])
def test_what_becomes_of_a_task_when_its_run_is_cancelled(
    kind: str, tmp_path: Path, fate: str
) -> None:
    async def scenario() -> None:
        thinking = asyncio.Event()

        async def pause(request: InferenceRequest) -> None:
            if request.messages[-1].role == "tool":
                thinking.set()
                await asyncio.Event().wait()

        async with Town(kind, tmp_path, before=pause) as town:
            message = use("spawn", {"name": "a", "fate": fate})
            handle = await town.runtime.start("boss", message, thread_id="t")
            await thinking.wait()
            assert await town.runtime.cancel(handle.run_id)
            if fate == "await":
                assert (await town.task("a")).status == "running"
                assert (await town.runtime.get_run(handle.run_id)).status == "running"
                town.works.end("a")
                result = await handle.result()
                assert result.termination == Cancelled()
                assert await town.kinds() == ["completed"]
                assert len(await town.runtime.list_runs("t")) == 1
                return
            assert (await handle.result()).termination == Cancelled()
            if fate == "detach":
                await town.quiet()
                assert (await town.task("a")).status == "running"
                town.works.end("a")
            await town.until_told(1)
            assert await town.kinds() == ["cancelled" if fate == "cascade" else "completed"]

    play(scenario)


@both_stores
def test_a_cancelled_run_awaits_its_task_only_so_long(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Town(kind, tmp_path, limits=Limits(run_end_ms=60)) as town:
            released = await town.start(use("spawn", {"name": "a", "fate": "await"}))
            assert await town.runtime.cancel(released.run_id)
            assert (await town.runtime.wait(released.run_id)).termination == Cancelled()
            assert (await town.task("a")).status == "running"
            town.works.end("a")
            await town.until_told(1)

    play(scenario)


@both_stores
def test_a_cancelled_run_starts_nothing_any_more(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        tried: list[str] = []

        @tool
        async def stubborn(ctx: ToolContext) -> str:
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                for start in (
                    lambda: ctx.spawn(_nothing, name="late"),
                    lambda: ctx.sub_runs.spawn_agent("helper", "go", _task("later")),
                ):
                    try:
                        await start()
                    except ParentRunCancelled as error:
                        tried.append(error.code)
                raise
            return "never"

        begun = asyncio.Event()
        async with Town(kind, tmp_path, tools=[stubborn]) as town:
            handle = await town.runtime.start("boss", use("stubborn", {}), thread_id="t")
            await begun.wait()
            await town.runtime.cancel(handle.run_id)
            await handle.result()
            assert tried == ["parent_run_cancelled", "parent_run_cancelled"]
            assert await town.runtime.tasks("t") == ()

    play(scenario)


@both_stores
def test_a_sub_agent_waits_in_process_for_its_own_task_and_sums_up(
    kind: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with Town(kind, tmp_path) as town:
            given = {"prompt": use("spawn", {"name": "inner", "how": "emit"})}
            running = asyncio.create_task(
                town.runtime.run("boss", use("agent_run_helper", given), thread_id="t")
            )
            await town.works.has_begun("inner")
            town.works.end("inner")
            async with asyncio.timeout(BOUND_S):
                await running
            (answer,) = await town.answers()
            assert '"status":"completed"' in answer
            assert "background-task-event" in answer
            (delegate,) = [it for it in await town.runtime.list_runs() if it.agent_id == "helper"]
            assert (delegate.parent_thread_id, delegate.origin) == ("t", "subagent")
            heard = [event_of(it) for it in town.helper.requests[-1].messages if it.sender]
            assert [it["kind"] for it in heard] == ["custom", "completed"]
            assert len(town.helper.requests) >= 3
            # The owner of the task is the delegate's thread, not its caller's.
            assert await town.kinds() == []
            assert await town.kinds(delegate.thread_id) == ["completed"]
            assert await finishes(town, delegate.thread_id) == [("done", "natural")]

    play(scenario)


@both_stores
def test_an_agent_as_a_task_tells_its_end_in_the_same_form(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Town(kind, tmp_path) as town:
            given = {"agent_id": "helper", "prompt": "go", "name": "it", "description": "goes"}
            await town.start(use("spawn_agent", given))
            await town.until_told(1)
            (notice,) = await town.notices()
            task = await town.ended("it")
            assert notice == {
                "kind": "completed",
                "task_id": task.task_id,
                "name": "it",
                "result": "after user: go",
            }
            assert (task.agent_id, task.task_type) == ("helper", "sub_agent")
            assert (task.description, task.fate) == ("goes", "cascade")
            await town.start(use("task_status", {}, "task_status", {"name": "it"}))
            assert sum(task.task_id in answer for answer in await town.answers()) == 3

    play(scenario)


async def _nothing(_: Any) -> None:
    return None


def _task(name: str) -> Any:
    return TaskInfo(name=name)
