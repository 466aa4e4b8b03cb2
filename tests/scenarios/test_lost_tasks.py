"""Processes that die with their tasks and letters: another one finds all of it, once."""

from pathlib import Path

import pytest

from .task_process import deadly_tools, dies
from .task_worlds import Town, event_of, play, until, use


def test_a_function_is_orphaned_with_its_process_and_its_waiting_owner_is_told_once(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with Town("sqlite", tmp_path) as town:
            await town.until_told(1)
            (notice,) = await town.notices()
            task = await town.ended("a")
            assert (task.status, notice["kind"]) == ("orphaned", "orphaned")
            assert "process" in str(task.error)
            assert town.works.count["a"] == 0
            (run,) = await town.runtime.list_runs("t")
            assert run.status == "done"

    dies(tmp_path, "released")
    play(scenario)


def test_the_notice_of_an_orphan_waits_for_a_decision(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Town("sqlite", tmp_path) as town:
            assert (await town.ended("a")).status == "orphaned"
            await town.quiet()
            (ticket,) = await town.runtime.tickets("t")
            assert await town.kinds() == []
            await town.runtime.decide(ticket.ticket_id, result="yes")
            await town.until_told(1)

    dies(tmp_path, "suspended")
    play(scenario)


def test_a_tool_that_is_run_again_finds_the_task_that_it_had_started(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Town("sqlite", tmp_path, tools=deadly_tools(is_deadly=False)) as town:
            await town.until_told(1)
            (task,) = await town.runtime.tasks("t")
            assert (task.status, task.result) == ("completed", "after user: go")
            assert await town.answers() == [task.task_id]
            children = await town.runtime.list_runs(task.task_id)
            assert [run.run_id for run in children] == [task.task_id]

    dies(tmp_path, "in the tool")
    play(scenario)


def test_an_end_that_was_written_before_the_process_died_is_told_by_another_one(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with Town("sqlite", tmp_path) as town:
            await town.until_told(1)
            assert await town.kinds() == ["completed"]
            assert (await town.ended("a")).result == {"did": "a"}

    dies(tmp_path, "when it has ended")
    play(scenario)


@pytest.mark.parametrize("where", ["before it is sent", "when it is committed"])
def test_a_message_comes_once_whenever_its_sender_dies(tmp_path: Path, where: str) -> None:
    async def scenario() -> None:
        async with Town("sqlite", tmp_path, tools=deadly_tools(is_deadly=False)) as town:

            async def has_arrived() -> bool:
                return any(it.sender for it in await town.messages("other"))

            await until(has_arrived)
            (run,) = await town.runtime.list_runs("t")
            assert (await town.runtime.wait(run.run_id, timeout_ms=15_000)).status == "done"
            await town.quiet("other")
            told = [it for it in await town.messages("other") if it.sender]
            assert [it.text.split("\n")[1] for it in told] == ["for you"]
            assert told[0].id is not None
            assert told[0].id in "\n".join(await town.answers())

    dies(tmp_path, where)
    play(scenario)


def test_tasks_of_a_process_that_is_left_properly_are_cancelled_and_the_next_one_is_told(
    tmp_path: Path,
) -> None:
    async def first() -> None:
        async with Town("sqlite", tmp_path) as town:
            await town.start(use("spawn", {"name": "a"}))
            await town.works.has_begun("a")
            town.works.ends.clear()

    async def second() -> None:
        async with Town("sqlite", tmp_path) as town:
            await town.until_told(1)
            told = [it for it in await town.messages() if it.sender]
            assert [event_of(it)["kind"] for it in told] == ["cancelled"]
            assert (await town.ended("a")).status == "cancelled"

    play(first)
    play(second)


def test_a_person_who_cancels_a_task_lets_its_finished_owner_know(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Town("sqlite", tmp_path) as town:
            await town.start(use("spawn", {"name": "a", "fate": "detach"}))
            asked = len(town.model.requests)
            assert await town.runtime.cancel((await town.task("a")).task_id)
            await town.until_told(1)
            assert await town.kinds() == ["cancelled"]
            assert len(town.model.requests) == asked + 1

    play(scenario)
