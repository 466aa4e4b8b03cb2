"""What a process does at due times: overlap, outages, rights, ends. The store's clock is moved."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest
from msgspec import convert, structs, to_builtins

from awaken import (
    Agent,
    AgentRuntime,
    MailboxConfig,
    RunRequest,
    RunStatus,
    ToolContext,
    WorkflowContext,
    tool,
    workflow,
)
from awaken.contracts.lifecycle import Cancelled
from awaken.contracts.storage.dispatch import DispatchStatus, RunDispatch
from awaken.contracts.storage.queries import DispatchQuery, FiringQuery
from awaken.contracts.storage.schedule_errors import UnknownSchedule
from awaken.contracts.storage.schedules import (
    Firing,
    FiringOutcome,
    ScheduleStatus,
)
from awaken.errors import (
    AlreadyExists,
    IllegalTransition,
    InvalidInput,
    InvalidRecord,
    ScheduleUsedUp,
    UnknownThread,
)
from awaken.messages import user
from awaken.scheduling.run_requests import StartedBy
from awaken.stores import MemoryStore
from awaken.testing import FakeClock, LoopClock, ScriptedModel, ToolCalls, replay

MINUTE = 60_000


@tool
def ask_first(ctx: ToolContext) -> Any:
    """Ask."""
    return ctx.suspend("Sure?") if ctx.resume is None else "done"


@workflow(id="chain")
async def chain(ctx: WorkflowContext, left: int = 2) -> None:
    """Continue as a new run, twice, and then wait."""
    if left:
        ctx.continue_as_new({"left": left - 1})
    await ctx.wait_for("go")


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
            chain,
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


async def start_chain(world: World, overlap: str) -> str:
    """Fire a workflow that continues as new; returns its last run, when that waits."""
    await world.schedules.create("chain", "{}", every_ms=MINUTE, schedule_id="s", overlap=overlap)
    await world.pass_time(MINUTE)
    run_id = (await world.schedules.get("s")).last_run_id or ""
    for _ in range(2):
        run_id = (await world.runtime.wait(run_id)).continued_as or ""
    assert (await world.runtime.wait(run_id)).status is RunStatus.WAITING
    return run_id


def test_a_workflow_that_continues_as_new_has_not_ended_and_its_newest_run_is_remembered() -> None:
    async def test(world: World) -> None:
        newest = await start_chain(world, "skip")
        await world.pass_time(MINUTE)
        await world.schedules.fire("s")
        found = [(it.outcome, it.reason) for it in await world.history()]
        assert found[1:] == [(FiringOutcome.SKIPPED, "overlap")] * 2
        assert (await world.schedules.get("s")).last_run_id == newest
        await world.runtime.send_event(newest, "go")
        async with asyncio.timeout(20):
            while (await world.runtime.get_run(newest)).status is not RunStatus.DONE:  # type: ignore[union-attr]
                await asyncio.sleep(0)
        await world.pass_time(MINUTE)
        assert (await world.history())[-1].outcome is FiringOutcome.FIRED

    play(test)


def test_a_run_whose_successor_has_not_begun_has_not_ended() -> None:
    async def test(world: World) -> None:
        newest = await start_chain(world, "skip")
        store: Any = world.runtime.store
        load, find = store.load_run, store.find_dispatch_of_run

        async def load_before(run_id: str) -> Any:
            return None if run_id == newest else await load(run_id)

        async def find_before(run_id: str) -> Any:
            found = await find(run_id)
            queued = structs.replace(found, status=DispatchStatus.QUEUED)
            return queued if run_id == newest else found

        store.load_run, store.find_dispatch_of_run = load_before, find_before
        await world.pass_time(MINUTE)
        assert (await world.history())[-1].reason == "overlap"

    play(test)


def test_a_queued_due_time_waits_for_what_the_previous_run_continues_as() -> None:
    async def test(world: World) -> None:
        newest = await start_chain(world, "queue")
        await world.pass_time(MINUTE)
        assert len(await world.history()) == 1
        await world.runtime.cancel(newest)
        await world.runtime.wait(newest)
        await world.pass_time(6_000)
        assert len(await world.history()) == 2

    play(test)


def test_an_interrupting_schedule_cancels_what_the_previous_run_continues_as() -> None:
    async def test(world: World) -> None:
        newest = await start_chain(world, "interrupt")
        await world.pass_time(MINUTE)
        assert [it.outcome for it in await world.history()] == [FiringOutcome.FIRED] * 2
        assert (await world.runtime.wait(newest)).termination == Cancelled(cause="schedule")

    play(test)


def test_a_cancel_that_comes_when_the_run_goes_on_as_another_is_repeated() -> None:
    async def test(world: World) -> None:
        await world.schedules.create(
            "chain", "{}", every_ms=MINUTE, schedule_id="s", overlap="interrupt"
        )
        await world.pass_time(MINUTE)
        first = (await world.schedules.get("s")).last_run_id or ""
        newest = first
        for _ in range(2):
            newest = (await world.runtime.wait(newest)).continued_as or ""
        await world.runtime.wait(newest)
        store: Any = world.runtime.store
        load, hidden = store.load_run, 2

        async def load_as_before(run_id: str) -> Any:
            """The first run is found executing twice: then it has gone on."""
            nonlocal hidden
            run = await load(run_id)
            if run_id == first and hidden:
                hidden -= 1
                return structs.replace(run, status=RunStatus.RUNNING, continued_as=None)
            return run

        store.load_run = load_as_before
        await world.pass_time(MINUTE)
        assert not hidden
        assert (await world.runtime.wait(newest)).termination == Cancelled(cause="schedule")

    play(test)


def test_a_due_time_waits_while_the_run_that_it_interrupts_cannot_be_cancelled() -> None:
    async def test(world: World) -> None:
        newest = await start_chain(world, "interrupt")
        firer: Any = world.runtime._scheduling.firer
        starter, tries = firer._starter, 0

        async def fail(run_id: str) -> bool:
            nonlocal tries
            tries += 1
            return False

        firer._starter = structs.replace(starter, cancel_run=fail)
        await world.pass_time(MINUTE)
        by_hand = await world.schedules.fire("s")
        assert (by_hand.outcome, by_hand.reason) == (FiringOutcome.SKIPPED, "overlap")
        assert tries == 40
        firer._starter = starter
        assert (await world.schedules.get("s")).next_due == world.clock.now_ms()
        await world.pass_time(6_000)
        fired = [it.outcome for it in await world.history() if not it.is_manual]
        assert fired == [FiringOutcome.FIRED] * 2
        assert (await world.runtime.wait(newest)).termination == Cancelled(cause="schedule")

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


@pytest.mark.parametrize("is_paused", [False, True])
def test_what_is_fired_by_hand_counts_and_the_last_run_ends_the_schedule(
    is_paused: bool,
) -> None:
    async def test(world: World) -> None:
        await world.schedules.create(
            "writer", "Go.", every_ms=MINUTE, schedule_id="s", overlap="interrupt", max_count=3
        )
        assert len(await world.schedules.upcoming("s")) == 3
        await world.pass_time(MINUTE)
        await world.schedules.fire("s")
        stored = await world.schedules.get("s")
        assert (stored.fires_left, stored.status) == (1, ScheduleStatus.ACTIVE)
        assert await world.schedules.upcoming("s") == (stored.next_due,)
        if is_paused:
            await world.schedules.pause("s")
        await world.schedules.fire("s")
        ended = await world.schedules.get("s")
        assert (ended.fires_left, ended.status) == (0, ScheduleStatus.ENDED)
        assert await world.schedules.upcoming("s") == ()
        with pytest.raises(ScheduleUsedUp, match="'s' has started the 3 runs"):
            await world.schedules.fire("s")
        await world.pass_time(3 * MINUTE)
        assert len(await world.history()) == 3
        preview = await world.schedules.preview(stored.spec)
        assert len(preview) == 3
        # With a larger limit it goes on.
        spec = structs.replace(stored.spec, max_count=4)
        assert (await world.schedules.update("s", spec)).status is ScheduleStatus.ACTIVE
        await world.schedules.fire("s")
        assert (await world.schedules.get("s")).fires_left == 0

    play(test)


def test_what_is_skipped_by_hand_uses_nothing_up() -> None:
    async def test(world: World) -> None:
        await world.schedules.create("asker", "Go.", every_ms=MINUTE, schedule_id="s", max_count=2)
        await world.pass_time(MINUTE)
        await world.settle()
        skipped = await world.schedules.fire("s")
        assert skipped.outcome is FiringOutcome.SKIPPED
        stored = await world.schedules.get("s")
        assert (stored.fires_left, stored.status) == (1, ScheduleStatus.ACTIVE)

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


def test_a_schedule_that_is_made_again_fires_anew_although_its_id_and_due_time_are_old() -> None:
    async def test(world: World) -> None:
        at = world.clock.now_ms() + MINUTE
        runs = []
        for _ in range(2):
            await world.schedules.create("writer", "Go.", at=at, schedule_id="s")
            await world.pass_time(MINUTE)
            await world.settle()
            (fired,) = await world.history()
            runs.append(fired.run_id)
            await world.schedules.delete("s")
            world.clock._start_ms -= MINUTE - 1
        assert len(set(runs)) == 2

    play(test)


def test_an_agent_that_is_gone_is_a_recorded_refusal() -> None:
    async def test(world: World) -> None:
        made = await world.schedules.create("writer", "Go.", every_ms=MINUTE, schedule_id="s")
        store: Any = world.runtime.store
        target = {"agent_id": "gone", "input": "Go."}
        spec = convert({**to_builtins(made.spec), "target": target}, type(made.spec))
        await store.save_schedule(structs.replace(made, spec=spec))
        await world.pass_time(MINUTE)
        (refused,) = await world.history()
        assert (refused.outcome, refused.reason) == (FiringOutcome.REFUSED, "unknown_agent")
        assert (await store.list_dispatches(DispatchQuery())).items == ()

    play(test)


def test_a_thread_of_another_tenant_is_refused_at_the_creation_and_when_it_fires() -> None:
    async def test(world: World) -> None:
        made = await world.schedules.create("writer", "Go.", every_ms=MINUTE, schedule_id="s")
        store: Any = world.runtime.store
        target = {"agent_id": "writer", "input": "Go.", "thread_id": "@bob:x"}
        spec = convert({**to_builtins(made.spec), "target": target}, type(made.spec))
        with pytest.raises(UnknownThread):
            await world.schedules.update("s", spec)
        with pytest.raises(UnknownThread):
            await world.schedules.create("writer", "Go.", every_ms=MINUTE, thread_id="@bob:x")
        await store.save_schedule(structs.replace(made, spec=spec))
        await world.pass_time(2 * MINUTE, looks=2)
        found = [(it.outcome, it.reason, it.run_id) for it in await world.history()]
        assert found == [(FiringOutcome.REFUSED, "unknown_thread", None)] * 2

    play(test)


def test_a_run_that_the_store_never_queues_is_a_recorded_refusal() -> None:
    async def test(world: World) -> None:
        made = await world.schedules.create(
            "writer", "Go.", every_ms=MINUTE, schedule_id="s", max_count=1
        )
        due = made.next_due or 0
        started_by = StartedBy(kind="schedule", id="s", created_at=made.created_at, key=str(due))
        request = RunRequest(thread_id="other", agent_id="writer", messages=(user("Mine."),))
        taken = RunDispatch(
            dispatch_id=started_by.derive("dispatch"),
            thread_id="other",
            run_id="other",
            request=request,
        )
        await world.runtime.store.enqueue(taken)
        await world.pass_time(MINUTE)
        (refused,) = await world.history()
        assert (refused.outcome, refused.run_id) == (FiringOutcome.REFUSED, None)
        assert refused.reason == "already_exists"
        # It counts as none, and the next due time fires.
        await world.pass_time(MINUTE)
        assert (await world.history())[1].outcome is FiringOutcome.FIRED
        assert (await world.schedules.get("s")).status is ScheduleStatus.ENDED

    play(test)


def test_a_run_by_hand_that_the_store_never_queues_is_a_recorded_refusal() -> None:
    async def test(world: World) -> None:
        await world.schedules.create("writer", "Go.", every_ms=MINUTE, schedule_id="s")
        store: Any = world.runtime.store
        write = store.write_firing

        async def refuse(given: Any) -> bool:
            if given.dispatch is not None:
                raise InvalidRecord(what="Run", problem="it is refused")
            return bool(await write(given))

        store.write_firing = refuse
        refused = await world.schedules.fire("s")
        assert (refused.outcome, refused.reason) == (FiringOutcome.REFUSED, "invalid_record")
        assert await world.history() == [structs.replace(refused, fired_at=world.clock.now_ms())]
        assert (await world.schedules.get("s")).status is ScheduleStatus.ACTIVE

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


def test_a_jitter_longer_than_the_period_keeps_every_due_time_also_over_a_restart() -> None:
    async def scenario() -> list[Firing]:
        clock = LoopClock()
        store = MemoryStore(clock=clock)
        slow = MailboxConfig(poll_ms=3_600_000, sweep_ms=3_600_000)
        for _ in range(2):
            agent = Agent("writer", model=ScriptedModel(["Done."], cycle=True))
            async with AgentRuntime([agent], clock=clock, store=store, mailbox=slow) as runtime:
                if not (await runtime.schedules.list()).items:
                    await runtime.schedules.create(
                        "writer",
                        "Go.",
                        cron="* * * * *",
                        jitter_ms=3_600_000,
                        catch_up=0,
                        schedule_id="s",
                    )
                await asyncio.sleep(3600)
                found = (
                    await runtime.schedules.firings("s", FiringQuery(schedule_id="s", limit=200))
                ).items
        return list(found)

    found = sorted(replay(scenario, seed=1), key=lambda it: it.due_at)
    assert len(found) >= 118
    assert {it.outcome for it in found} == {FiringOutcome.FIRED}
    assert all(two.due_at - one.due_at == MINUTE for one, two in pairwise(found))


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


class BusyClock(FakeClock):
    """A clock that goes on between any two looks at it, as every clock does."""

    def now_ms(self) -> int:
        self.advance(7)
        return super().now_ms()


def test_intervals_are_equal_from_the_first_one_on() -> None:
    """However long it takes to store a schedule after its first due time was counted."""

    async def main() -> None:
        clock = BusyClock(1_700_000_000_000)
        writer = Agent("writer", model=ScriptedModel(["Done."], cycle=True))
        async with AgentRuntime([writer], store=MemoryStore(clock=clock)) as runtime:
            await runtime.schedules.create("writer", "Go.", every_ms=MINUTE, schedule_id="s")
            due = await runtime.schedules.upcoming("s", 4)
            assert [b - a for a, b in pairwise(due)] == [MINUTE] * 3
            start = 1_800_000_000_000
            await runtime.schedules.create(
                "writer", "Go.", every_ms=MINUTE, start_at=start, schedule_id="later"
            )
            assert await runtime.schedules.upcoming("later", 2) == (start, start + MINUTE)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"cron": "0 8 * * *", "start_at": 1_800_000_000_000}, "start_at"),
        ({"every_ms": MINUTE, "zone": "Europe/Berlin"}, "zone"),
        ({"every_ms": MINUTE, "start_at": -1}, "start_at"),
    ],
)
def test_what_belongs_to_another_timing_is_refused(options: dict[str, Any], field: str) -> None:
    async def test(world: World) -> None:
        with pytest.raises(InvalidInput, match=field):
            await world.schedules.create("writer", "Go.", **options)

    play(test)
