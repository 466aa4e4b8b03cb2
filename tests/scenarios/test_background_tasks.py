"""Background tasks: started durably, ended once, found by name and id, bounded."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from awaken import Cancelled, InvalidInput, Limits, ToolContext, tool
from awaken.errors import StoreUnavailable
from awaken.stores import Commit, CommitReceipt, MemoryStore
from awaken.tools import TaskContext, TaskStatus

from .task_worlds import BOUND_S, Town, both_stores, play, until, use


@both_stores
def test_a_task_is_listed_for_its_thread_only_and_keeps_what_it_came_to(
    kind: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with Town(kind, tmp_path) as town:
            await town.start(use("spawn", {"name": "a"}))
            running = await town.task("a")
            assert (running.status, running.completed_at) == (TaskStatus.RUNNING, None)
            assert running.owner_thread_id == "t"
            assert await town.runtime.tasks("other") == ()
            town.works.end("a")
            ended = await town.ended("a")
            assert (ended.status, ended.result, ended.error) == ("completed", {"did": "a"}, None)
            assert ended.completed_at is not None
            assert ended.completed_at >= running.created_at
            await town.until_told(1)
            assert await town.ended("a") == ended

    play(scenario)


@both_stores
@pytest.mark.parametrize(
    ("how", "status", "error"),
    [
        ("fail", "failed", "ValueError: a broke"),
        ("no json", "failed", "object"),
        ("cancel itself", "failed", "cancelled itself"),
        ("huge error", "failed", "ValueError: xxx"),
        ("half a character", "failed", "ValueError: "),
        ("exit", "failed", "SystemExit: 3"),
        ("say nothing", "failed", "Unspeakable"),
    ],
)
def test_whatever_a_function_does_its_task_ends_once_and_the_owner_is_told(
    kind: str, tmp_path: Path, how: str, status: str, error: str
) -> None:
    async def scenario() -> None:
        async with Town(kind, tmp_path) as town:
            town.works.end("a")
            async with asyncio.timeout(BOUND_S):
                await town.runtime.run(
                    "boss", use("spawn", {"name": "a", "how": how}), thread_id="t"
                )
            ended = await town.ended("a")
            assert ended.status == status
            assert error in str(ended.error)
            (notice,) = await town.notices()
            assert (notice["kind"], notice["task_id"]) == (status, ended.task_id)
            assert error in notice["error"]
            assert len(notice["error"]) < 20_000

    play(scenario)


@both_stores
def test_a_task_that_takes_too_long_is_timed_out(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Town(kind, tmp_path) as town:
            message = use("spawn", {"name": "a", "timeout_ms": 20})
            await town.runtime.run("boss", message, thread_id="t")
            ended = await town.ended("a")
            assert (ended.status, ended.error) == ("timed_out", "no result within 20 ms")
            assert await town.kinds() == ["timed_out"]

    play(scenario)


@both_stores
def test_a_cancelled_task_ends_cancelled_and_cancelling_it_again_changes_nothing(
    kind: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with Town(kind, tmp_path) as town:
            await town.start(use("spawn", {"name": "a"}, "spawn", {"name": "b"}))
            message = use("cancel_task", {"target": {"relation": "child", "name": "a"}})
            await town.start(message)
            first = await town.ended("a")
            assert (first.status, first.error) == ("cancelled", "cancelled")
            assert town.works.tasks["a"].is_cancelled
            record = await town.runtime.get_run(first.task_id)
            assert record.termination == Cancelled(cause="owner")
            again = {"target": {"relation": "child", "name": first.task_id}}
            unknown = {"target": {"relation": "child", "name": "nobody"}}
            await town.start(use("cancel_task", again, "cancel_task", unknown))
            assert sum("task_not_found" in line for line in await town.answers()) == 2
            assert await town.ended("a") == first
            assert (await town.task("b")).status is TaskStatus.RUNNING
            town.works.end("b")
            await town.until_told(2)
            assert sorted(await town.kinds()) == ["cancelled", "completed"]

    play(scenario)


@both_stores
def test_a_function_that_is_cancelled_and_finishes_all_the_same_has_completed(
    kind: str, tmp_path: Path
) -> None:
    @tool(effect="idempotent")
    async def careful(ctx: ToolContext) -> str:
        async def work(task: TaskContext) -> str:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return "saved" if task.is_cancelled else "lost"
            return "never"

        return (await ctx.spawn(work, name="careful")).task_id

    async def scenario() -> None:
        async with Town(kind, tmp_path, tools=[careful]) as town:
            await town.start(use("careful", {}))
            cancel = {"target": {"relation": "child", "name": "careful"}}
            await town.start(use("cancel_task", cancel))
            ended = await town.ended("careful")
            assert (ended.status, ended.result) == ("completed", "saved")

    play(scenario)


class RefusingStore(MemoryStore):
    """A store that refuses the commits of tasks, so many of them."""

    refusals = 1000

    async def commit(self, commit: Commit) -> CommitReceipt:
        if commit.run is not None and commit.run.task is not None and self.refusals:
            self.refusals -= 1
            raise StoreUnavailable(store="memory", problem="it is full")
        return await super().commit(commit)


@pytest.mark.parametrize("what", ["spawn", "spawn_agent"])
def test_a_task_that_cannot_be_made_durable_is_an_error_and_nothing_is_left(
    tmp_path: Path, what: str
) -> None:
    async def scenario() -> None:
        arguments: dict[str, Any] = {"name": "a"}
        if what == "spawn_agent":
            arguments |= {"agent_id": "helper", "prompt": "go"}
        async with Town("memory", tmp_path, store=RefusingStore()) as town:
            result = await town.runtime.run("boss", use(what, arguments), thread_id="t")
            assert result.status == "done"
            assert "it is full" in (await town.lines())[2]
            assert await town.runtime.tasks("t") == ()
            assert town.works.count["a"] == 0
            assert town.runtime._engine.tasks.count == 0
            await town.runtime.run("boss", "again", thread_id="t")

    play(scenario)


def test_a_task_that_could_not_be_started_leaves_its_name_and_its_place_free(
    tmp_path: Path,
) -> None:
    @tool(effect="idempotent")
    async def stubborn(ctx: ToolContext) -> str:
        async def work(_: TaskContext) -> str:
            return "at last"

        with pytest.raises(StoreUnavailable):
            await ctx.spawn(work, name="same")
        return (await ctx.spawn(work, name="same")).task_id

    async def scenario() -> None:
        store = RefusingStore()
        store.refusals = 1
        limits = Limits(tasks_per_run=1)
        async with Town("memory", tmp_path, store=store, tools=[stubborn], limits=limits) as town:
            await town.runtime.run("boss", use("stubborn", {}), thread_id="t")
            assert (await town.ended("same")).result == "at last"
            await town.until_told(1)

    play(scenario)


WRONG_TASKS: list[tuple[dict[str, Any], str]] = [
    ({"timeout_ms": "5"}, "timeout_ms='5'"),
    ({"timeout_ms": 0}, "timeout_ms=0"),
    ({"timeout_ms": 1.5}, "timeout_ms=1.5"),
    ({"timeout_ms": True}, "timeout_ms=True"),
    ({"work": "sleep"}, "async function"),
    ({"name": 5}, "name"),
    ({"name": ""}, "name"),
    ({"name": "a\nb"}, "one line"),
    ({"name": "x" * 129}, "1 to 128"),
    ({"description": 5}, "description"),
]


def test_a_task_that_could_not_be_run_or_written_down_is_refused_before_it_is_started(
    tmp_path: Path,
) -> None:
    @tool(effect="idempotent")
    async def careless(ctx: ToolContext) -> str:
        async def work(_: TaskContext) -> str:
            return "done"

        for wrong, words in WRONG_TASKS:
            with pytest.raises(InvalidInput, match=words):
                await ctx.spawn(**{"work": work, **wrong})
        return "refused"

    async def scenario() -> None:
        name = {"agent_id": "helper", "prompt": "go", "name": "a\nb"}
        async with Town("memory", tmp_path, tools=[careless]) as town:
            async with asyncio.timeout(BOUND_S):
                await town.runtime.run(
                    "boss", use("careless", {}, "spawn_agent", name), thread_id="t"
                )
            first, second = await town.answers()
            assert "refused" in first
            assert "one line" in second
            assert await town.runtime.tasks("t") == ()

    play(scenario)


@both_stores
def test_names_are_reserved_taken_and_free_again(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Town(kind, tmp_path) as town:
            await town.start(use("spawn", {"name": "a"}, "spawn", {"name": "self"}))
            await town.start(use("spawn", {"name": "a"}))
            lines = "\n".join(await town.lines())
            assert "cannot be called 'self': the name is reserved" in lines
            assert "A task called 'a' is running already" in lines
            await town.start(use("spawn", {"name": "a"}), thread_id="other")
            assert town.works.count["a"] == 2
            town.works.end("a")
            await town.until_told(1)
            await town.start(use("spawn", {"name": "a"}))
            await town.until_told(2)
            tasks = await town.runtime.tasks("t")
            assert [task.name for task in tasks] == ["a", "a"]
            assert tasks[0].created_at >= tasks[1].created_at

    play(scenario)


@both_stores
def test_calls_of_one_step_cannot_take_one_name_twice(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Town(kind, tmp_path) as town:
            await town.start(use(*["spawn", {"name": "a"}] * 4))
            assert len(await town.runtime.tasks("t")) == 1
            assert sum("running already" in line for line in await town.answers()) == 3

    play(scenario)


@both_stores
@pytest.mark.parametrize(
    ("limits", "scope"),
    [
        (Limits(tasks_per_run=2), "run"),
        (Limits(tasks_per_thread=2), "thread"),
        (Limits(tasks_in_process=2), "process"),
    ],
)
def test_too_many_tasks_are_refused_until_one_has_ended(
    kind: str, tmp_path: Path, limits: Limits, scope: str
) -> None:
    async def scenario() -> None:
        async with Town(kind, tmp_path, limits=limits) as town:
            calls: list[Any] = []
            for name in "abcd":
                calls += ["spawn", {"name": name}]
            await town.start(use(*calls))
            tasks = await town.runtime.tasks("t")
            assert len(tasks) == 2
            refused = f"2 tasks of this {scope} are running, the limit; wait until one has ended."
            assert sum(refused in line for line in await town.answers()) == 2
            for name in "abcd":
                town.works.end(name)
            await town.until_told(2)
            await town.start(use("spawn", {"name": "e"}))
            assert (await town.task("e")).status is TaskStatus.RUNNING

    play(scenario)


@both_stores
def test_the_caps_count_agents_too(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Town(kind, tmp_path, limits=Limits(tasks_in_process=1)) as town:
            waiting = use("spawn", {"name": "inner"})
            given = {"agent_id": "helper", "prompt": "use []", "name": "x"}
            await town.start(use("spawn", {"name": "a"}, "spawn_agent", given))
            assert "1 tasks of this process are running" in "\n".join(await town.lines())
            town.works.end("a")
            await town.until_told(1)
            started = {"agent_id": "helper", "prompt": waiting, "name": "y"}
            await town.start(use("spawn_agent", started))
            # The agent is a task itself, and so it may not start another one.
            done = await town.ended("y")
            assert "1 tasks of this process are running" in done.result

    play(scenario)


@both_stores
def test_tasks_run_side_by_side_and_end_each_for_itself(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Town(kind, tmp_path) as town:
            calls: list[Any] = []
            for name, how in zip("abcde", ("wait", "wait", "fail", "wait", "wait"), strict=True):
                calls += ["spawn", {"name": name, "how": how}]
            await town.start(use(*calls))
            for name in "abcde":
                await town.works.has_begun(name)
            cancels = [{"target": {"relation": "child", "name": name}} for name in "ab"]
            await town.start(use("cancel_task", cancels[0], "cancel_task", cancels[1]))
            for name in "cde":
                town.works.end(name)
            await town.until_told(5)
            kinds = sorted(await town.kinds())
            assert kinds == ["cancelled", "cancelled", "completed", "completed", "failed"]
            assert len({it["task_id"] for it in await town.notices()}) == 5

    play(scenario)


@both_stores
def test_a_task_in_a_task_belongs_to_it_and_is_cancelled_with_it(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Town(kind, tmp_path) as town:
            inner = use("spawn", {"name": "leaf"})
            middle = use("spawn_agent", {"agent_id": "second", "prompt": inner, "name": "low"})
            given = {"agent_id": "helper", "prompt": middle, "name": "high"}
            await town.start(use("spawn_agent", given))
            await town.works.has_begun("leaf")
            high = await town.task("high")
            low = await town.task("low", high.task_id)
            leaf = await town.task("leaf", low.task_id)
            assert (high.parent_task_id, high.agent_id) == (None, "helper")
            assert (low.parent_task_id, low.parent_run_id) == (high.task_id, high.task_id)
            assert (leaf.parent_task_id, leaf.agent_id) == (low.task_id, None)
            assert high.parent_call_id is not None
            await town.start(use("cancel_task", {"target": {"relation": "child", "name": "high"}}))
            assert '"cancelled_count":3' in "\n".join(await town.lines())
            for name, owner in (("high", "t"), ("low", high.task_id), ("leaf", low.task_id)):
                assert (await town.ended(name, owner)).status == "cancelled"

    play(scenario)


@both_stores
def test_starting_a_task_again_that_has_ended_does_nothing(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        found: list[Any] = []

        @tool(effect="idempotent")
        async def twice(ctx: ToolContext) -> str:
            async def work(_: TaskContext) -> str:
                town.works.count["twice"] += 1
                return "once"

            found.append(await ctx.spawn(work, name="same"))

            async def is_over() -> bool:
                return (await town.task("same")).status.is_terminal

            await until(is_over)
            # A call that is run again counts from the beginning.
            ctx.sub_runs._count = 0
            found.append(await ctx.spawn(work, name="same"))
            return "ok"

        async with Town(kind, tmp_path, tools=[twice]) as town:
            await town.runtime.run("boss", use("twice", {}), thread_id="t")
            await town.until_told(1)
            assert town.works.count["twice"] == 1
            assert found[0].task_id == found[1].task_id
            assert (found[1].status, found[1].result) == ("completed", "once")

    play(scenario)
