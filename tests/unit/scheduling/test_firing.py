"""What a process does at due times: overlap, outages, rights, ends. The store's clock is moved."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, MailboxConfig, ToolContext, tool
from awaken.contracts.storage.queries import DispatchQuery
from awaken.contracts.storage.schedules import (
    Firing,
    FiringOutcome,
    ScheduleStatus,
    UnknownSchedule,
)
from awaken.errors import AlreadyExists, IllegalTransition, InvalidInput
from awaken.stores import MemoryStore
from awaken.testing import FakeClock, LoopClock, ScriptedModel, ToolCalls, replay

MINUTE = 60_000


@tool
def ask_first(ctx: ToolContext) -> Any:
    """Ask."""
    return ctx.suspend("Sure?") if ctx.resume is None else "done"


class World:
    """A runtime whose firer is driven by hand, in the time of the test."""

    def __init__(self, runtime: AgentRuntime, clock: FakeClock) -> None:
        self.runtime, self.clock = runtime, clock
        self.schedules = runtime.schedules

    async def pass_time(self, ms: int, *, looks: int = 1) -> None:
        for _ in range(looks):
            self.clock.advance(ms // looks)
            await self.runtime._scheduling.firer.fire_due()

    async def settle(self, schedule_id: str = "s") -> None:
        run_id = (await self.schedules.get(schedule_id)).last_run_id
        await self.runtime.wait(run_id or "")

    async def history(self, schedule_id: str = "s") -> list[Firing]:
        return list((await self.schedules.firings(schedule_id)).items)


def play(test: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        clock = FakeClock(1_700_000_000_000)
        agents = [
            Agent("writer", model=ScriptedModel(["Done."], cycle=True)),
            Agent(
                "asker",
                model=ScriptedModel([ToolCalls([("ask_first", {})]), "Done."], cycle=True),
                tools=[ask_first],
            ),
        ]
        async with AgentRuntime(agents, store=MemoryStore(clock=clock)) as runtime:
            runtime._may_work = False
            world = World(runtime, clock)
            runtime._may_work = True
            await test(world)

    asyncio.run(main())


def test_each_due_time_starts_one_run() -> None:
    async def test(world: World) -> None:
        await world.schedules.create("writer", "Go.", every_ms=MINUTE, schedule_id="s")
        for _ in range(3):
            await world.pass_time(MINUTE)
            await world.pass_time(0)
            await world.settle()
        found = await world.history()
        assert [it.outcome for it in found] == [FiringOutcome.FIRED] * 3
        assert len({it.run_id for it in found}) == len({it.thread_id for it in found}) == 3
        run = await world.runtime.get_run(found[0].run_id or "")
        assert run is not None
        assert run.run_mode == "scheduled"

    play(test)


def test_a_due_time_is_skipped_while_the_previous_run_waits() -> None:
    async def test(world: World) -> None:
        await world.schedules.create("asker", "Go.", every_ms=MINUTE, schedule_id="s")
        await world.pass_time(MINUTE)
        await world.settle()
        await world.pass_time(MINUTE)
        first, second = await world.history()
        assert (first.outcome, second.outcome) == (FiringOutcome.FIRED, FiringOutcome.SKIPPED)
        assert second.reason == "overlap"

    play(test)


def test_a_queued_due_time_waits_for_the_previous_run_and_then_fires() -> None:
    async def test(world: World) -> None:
        await world.schedules.create(
            "asker", "Go.", every_ms=MINUTE, schedule_id="s", overlap="queue", thread_id="t"
        )
        await world.pass_time(MINUTE)
        await world.settle()
        await world.pass_time(MINUTE)
        assert len(await world.history()) == 1
        (ticket,) = await world.runtime.tickets("t")
        await world.runtime.decide(ticket.ticket_id)
        await world.settle()
        await world.pass_time(6_000)
        fired = await world.history()
        assert [it.outcome for it in fired] == [FiringOutcome.FIRED] * 2
        assert {it.thread_id for it in fired} == {"t"}

    play(test)


def test_an_interrupting_schedule_cancels_the_previous_run_first() -> None:
    async def test(world: World) -> None:
        await world.schedules.create(
            "asker", "Go.", every_ms=MINUTE, schedule_id="s", overlap="interrupt"
        )
        await world.pass_time(MINUTE)
        await world.settle()
        await world.pass_time(MINUTE)
        first, second = await world.history()
        assert second.outcome is FiringOutcome.FIRED
        before = await world.runtime.get_run(first.run_id or "")
        assert before is not None
        assert before.ended == "cancelled"

    play(test)


def test_after_an_outage_the_limit_decides_and_the_rest_is_reported() -> None:
    async def test(world: World) -> None:
        await world.schedules.create(
            "writer", "Go.", every_ms=MINUTE, schedule_id="s", catch_up=2, overlap="interrupt"
        )
        await world.pass_time(60 * MINUTE)
        found = await world.history()
        assert sum(it.count for it in found) == 60
        assert [it.outcome for it in found].count(FiringOutcome.FIRED) == 4
        (skipped,) = [it for it in found if it.outcome is FiringOutcome.SKIPPED]
        assert (skipped.reason, skipped.count) == ("missed", 56)

    play(test)


def test_a_schedule_ends_after_its_count_and_at_its_end() -> None:
    async def test(world: World) -> None:
        now = world.clock.now_ms()
        more: Any = {"overlap": "interrupt", "every_ms": MINUTE}
        await world.schedules.create("writer", "Go.", schedule_id="s", max_count=2, **more)
        await world.schedules.create(
            "writer", "Go.", schedule_id="e", end_at=now + 3 * MINUTE, **more
        )
        await world.pass_time(6 * MINUTE, looks=6)
        for name, count in (("s", 2), ("e", 3)):
            ended = await world.schedules.get(name)
            assert (ended.status, ended.next_due) == (ScheduleStatus.ENDED, None)
            assert len(await world.history(name)) == count
        with pytest.raises(IllegalTransition):
            await world.schedules.resume("s")

    play(test)


def test_a_pause_drops_no_due_time_silently() -> None:
    async def test(world: World) -> None:
        await world.schedules.create("writer", "Go.", every_ms=MINUTE, schedule_id="s")
        world.clock.advance(3 * MINUTE)
        await world.schedules.pause("s")
        (skipped,) = await world.history()
        assert (skipped.reason, skipped.count) == ("changed", 3)
        await world.pass_time(10 * MINUTE)
        assert len(await world.history()) == 1
        resumed = await world.schedules.resume("s")
        assert resumed.next_due is not None
        assert resumed.next_due > world.clock.now_ms()

    play(test)


def test_a_clock_that_is_set_back_decides_nothing_twice() -> None:
    async def test(world: World) -> None:
        await world.schedules.create("writer", "Go.", every_ms=MINUTE, schedule_id="s")
        await world.pass_time(3 * MINUTE, looks=3)
        decided = [it.due_at for it in await world.history()]
        world.clock._start_ms -= 60 * MINUTE
        await world.pass_time(30 * MINUTE, looks=30)
        await world.schedules.pause("s")
        await world.schedules.resume("s")
        await world.pass_time(40 * MINUTE, looks=40)
        found = [it.due_at for it in await world.history()]
        assert found[: len(decided)] == decided
        assert len(found) == len(set(found)) > len(decided)

    play(test)


def test_an_agent_that_is_gone_is_a_recorded_refusal() -> None:
    async def test(world: World) -> None:
        made = await world.schedules.create("writer", "Go.", every_ms=MINUTE, schedule_id="s")
        store: Any = world.runtime.store
        target = {"agent_id": "gone", "input": "Go."}
        from msgspec import convert, structs, to_builtins  # noqa: PLC0415

        spec = convert({**to_builtins(made.spec), "target": target}, type(made.spec))
        await store.save_schedule(structs.replace(made, spec=spec))
        await world.pass_time(MINUTE)
        (refused,) = await world.history()
        assert (refused.outcome, refused.reason) == (FiringOutcome.REFUSED, "unknown_agent")
        assert (await store.list_dispatches(DispatchQuery())).items == ()

    play(test)


def test_a_host_creates_for_a_tenant_and_an_id_is_used_once() -> None:
    async def test(world: World) -> None:
        made = await world.schedules.create(
            "writer", "Go.", every_ms=MINUTE, schedule_id="s", tenant_id="ann", user_id="bob"
        )
        assert made.schedule_id == "@ann:s"
        await world.pass_time(MINUTE)
        (fired,) = await world.history("@ann:s")
        await world.runtime.wait(fired.run_id or "")
        run = await world.runtime.get_run(fired.run_id or "")
        assert run is not None
        assert (run.tenant_id, run.user_id) == ("ann", "bob")
        assert run.thread_id.startswith("@ann:")
        with pytest.raises(AlreadyExists):
            await world.schedules.create(
                "writer", "Go.", every_ms=MINUTE, schedule_id="s", tenant_id="ann"
            )
        with pytest.raises(UnknownSchedule):
            await world.schedules.get("s")
        with pytest.raises(InvalidInput):
            await world.schedules.create("writer", "Go.", every_ms=MINUTE, cron="* * * * *")

    play(test)


class CountingStore(MemoryStore):
    """Counts how often it is asked what is due."""

    looks = 0

    async def find_next_wake(self, *, is_judge: bool = True) -> tuple[int, int | None]:
        self.looks += 1
        return await super().find_next_wake(is_judge=is_judge)


def test_a_firer_sleeps_until_the_next_due_time_and_polls_nothing_meanwhile() -> None:
    async def scenario() -> int:
        clock = LoopClock()
        store = CountingStore(clock=clock)
        agent = Agent("writer", model=ScriptedModel(["Done."], cycle=True))
        slow = MailboxConfig(poll_ms=3_600_000, sweep_ms=3_600_000)
        async with AgentRuntime([agent], clock=clock, store=store, mailbox=slow) as runtime:
            await runtime.schedules.create("writer", "Go.", every_ms=6 * 3_600_000, schedule_id="s")
            await asyncio.sleep(24 * 3600 + 1)
            assert (await runtime.schedules.get("s")).fired_count == 4
        return store.looks

    # Once at the start and once for the new schedule; before and after each of four due times.
    assert replay(scenario, seed=1) <= 12
