"""Messages between agents reach whom they name, and their receipts say what was promised."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from awaken import ToolContext, tool
from awaken.contracts.dispatch import DispatchStatus, RunDispatch
from awaken.contracts.loop_state import ACTIVE_AGENT
from awaken.contracts.queries import DispatchQuery
from awaken.contracts.runs import RunRecord

from .each_store import NewStore, each_store, new_store
from .task_worlds import BOUND_S, Town, play, until, use
from .test_agent_messages import letters, receipts, to_thread

__all__ = ["new_store"]


class Hold:
    """A tool that a call stays in until the test lets it go."""

    def __init__(self) -> None:
        self.inside, self.go = asyncio.Event(), asyncio.Event()

        @tool(effect="idempotent")
        async def hold() -> str:
            self.inside.set()
            await self.go.wait()
            return "let go"

        self.tool = hold

    async def is_inside(self) -> None:
        async with asyncio.timeout(BOUND_S):
            await self.inside.wait()


@tool(effect="idempotent")
async def hand_over(ctx: ToolContext, to: str) -> str:
    ctx.state.set(ACTIVE_AGENT, to)
    return "handed over"


def town_on(new_store: NewStore, tmp_path: Path, *tools: Any, **options: Any) -> Town:
    return Town("", tmp_path, store=new_store(), tools=[hand_over, *tools], **options)


async def queued(town: Town, thread_id: str = "other") -> list[RunDispatch]:
    query = DispatchQuery(thread_id=thread_id, status=DispatchStatus.QUEUED)
    return list((await town.runtime.store.list_dispatches(query)).items)


async def until_queued(town: Town, count: int, thread_id: str = "other") -> None:
    """Wait until so many dispatches wait on a thread, and nothing is on its way to it."""

    async def is_there() -> bool:
        store = town.runtime.store
        orders = await store.list_outbox()
        query = DispatchQuery(thread_id=thread_id)
        sent = (await store.list_dispatches(query)).items
        moving = [it.status for it in sent if not it.status.is_terminal]
        return not orders and moving == [DispatchStatus.QUEUED] * count

    await until(is_there)


async def until_read(town: Town, count: int, thread_id: str = "other") -> None:
    async def is_there() -> bool:
        return len(await letters(town, thread_id)) >= count

    await until(is_there)
    await town.quiet(thread_id)
    assert len(await letters(town, thread_id)) == count


async def run_that_read(town: Town, n: int = 0, thread_id: str = "other") -> RunRecord:
    """The run that has taken a letter in."""
    letter = (await letters(town, thread_id))[n]
    assert letter.metadata is not None
    assert letter.metadata.run_id is not None
    return await town.runtime.get_run(letter.metadata.run_id)


async def said(town: Town, thread_id: str = "other") -> list[str]:
    """What the letters of a thread say, in order."""
    return [it.text.split("\n")[1] for it in await letters(town, thread_id)]


# A message for an agent reaches that agent.


@each_store
def test_a_message_for_an_agent_waits_while_another_one_works_and_then_starts_it(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        hold = Hold()
        async with town_on(new_store, tmp_path, hold.tool) as town:
            busy = await town.runtime.start("boss", use("hold", {}), thread_id="other")
            await hold.is_inside()
            named = {"agent_id": "second"}
            first, last = to_thread("other", "one", **named), to_thread("other", "two", **named)
            await town.start(use(*first, *last))
            await until_queued(town, 2)
            hold.go.set()
            result = await busy.result()
            await until_read(town, 2)
            assert await said(town) == ["one", "two"]
            assert "agent-message" not in result.text
            for n in range(2):
                read = await run_that_read(town, n)
                assert (read.agent_id, read.status) == ("second", "done")
                assert read.run_id != busy.run_id
            sent = await receipts(town)
            assert [it["message_id"] for it in sent] == [
                it.id for it in await letters(town, "other")
            ]
            assert all("'second' reads it" in it["detail"] for it in sent)

    play(scenario)


@each_store
def test_a_message_for_an_agent_waits_behind_a_persons_decision_also_over_a_restart(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with AsyncExitStack() as open_towns:
            town = await open_towns.enter_async_context(town_on(new_store, tmp_path))
            waiting = await town.start(use("ask", {}), thread_id="other")
            await town.start(use(*to_thread("other", "for second", agent_id="second")))
            await until_queued(town, 1)
            # What a task or an unaddressed message says is taken in by the run that waits.
            await town.start(use(*to_thread("other", "for all")))
            await until_queued(town, 1)
            assert [it.agent_id for it in await town.runtime.list_runs("other")] == ["boss"]
            if town.runtime.store.is_shared:
                await open_towns.aclose()
                town = await open_towns.enter_async_context(town_on(new_store, tmp_path))
            (ticket,) = await town.runtime.tickets("other")
            assert len(await queued(town)) == 1
            await town.runtime.decide(ticket.ticket_id, result="yes")
            await until_read(town, 2)
            assert await said(town) == ["for all", "for second"]
            assert await town.answers("other") == ["told yes"]
            assert (await run_that_read(town, 0)).run_id == waiting.run_id
            read = await run_that_read(town, 1)
            assert (read.agent_id, read.status) == ("second", "done")
            boss = await town.runtime.get_run(waiting.run_id)
            assert (boss.status, boss.active_agent_id) == ("done", None)

    play(scenario)


@each_store
def test_a_message_for_an_agent_is_read_when_the_run_before_it_is_cancelled(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with town_on(new_store, tmp_path) as town:
            waiting = await town.start(use("ask", {}), thread_id="other")
            await town.start(use(*to_thread("other", "hello", agent_id="second")))
            await until_queued(town, 1)
            assert await town.runtime.cancel(waiting.run_id)
            await until_read(town, 1)
            assert (await run_that_read(town)).agent_id == "second"
            assert (await town.runtime.get_run(waiting.run_id)).status == "done"

    play(scenario)


@each_store
def test_a_message_for_an_agent_goes_with_its_thread(new_store: NewStore, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with town_on(new_store, tmp_path) as town:
            waiting = await town.start(use("ask", {}), thread_id="other")
            await town.start(use(*to_thread("other", "hello", agent_id="second")))
            await until_queued(town, 1)
            store = town.runtime.store
            assert await town.runtime.cancel(waiting.run_id)
            await until_read(town, 1)
            await store.delete_thread("other")
            await town.quiet("other")
            assert await store.load_thread("other") is None
            assert await queued(town) == []

    play(scenario)


@each_store
def test_a_run_that_waits_for_its_tasks_wakes_for_its_own_messages_only(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with town_on(new_store, tmp_path) as town:
            spawn = use("spawn", {"name": "a"})
            handle = await town.runtime.start("second", spawn, thread_id="other")
            await town.works.has_begun("a")
            await town.start(use(*to_thread("other", "for helper", agent_id="helper")))
            await town.start(use(*to_thread("other", "for second", agent_id="second")))

            async def is_read() -> bool:
                return bool(await letters(town, "other"))

            await until(is_read)
            await until_queued(town, 1)
            assert await said(town) == ["for second"]
            assert (await run_that_read(town)).run_id == handle.run_id
            town.works.end("a")
            await until_read(town, 2)
            assert await said(town) == ["for second", "for helper"]
            assert (await run_that_read(town, 1)).agent_id == "helper"

    play(scenario)


@each_store
def test_after_a_handoff_a_message_still_reaches_the_agent_that_it_names(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        hold = Hold()
        async with town_on(new_store, tmp_path, hold.tool) as town:
            # The helper holds the thread, and hands it over to the second agent in that step.
            work = use("hold", {}, "hand_over", {"to": "second"})
            handle = await town.runtime.start("helper", work, thread_id="other")
            await hold.is_inside()
            to_both = [
                *to_thread("other", "for helper", agent_id="helper"),
                *to_thread("other", "for second", agent_id="second"),
            ]
            await town.start(use(*to_both))
            await until_queued(town, 2)
            hold.go.set()
            await handle.result()
            await until_read(town, 2)
            texts = await said(town)
            for n, text in enumerate(texts):
                read = await run_that_read(town, n)
                reader = read.active_agent_id or read.agent_id
                assert text == f"for {reader}"
            helper = await run_that_read(town, texts.index("for helper"))
            assert helper.run_id != handle.run_id

    play(scenario)
