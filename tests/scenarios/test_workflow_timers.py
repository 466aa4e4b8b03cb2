"""Timers of many workflows wake in time, without the help of a later sweep."""

import asyncio
import contextlib
import subprocess
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
from tests.forked_python import ForkedPython
from tests.postgres.server import new_schema, server

from awaken import AgentRuntime, MailboxConfig, ToolError, WorkflowContext, tool, workflow
from awaken.errors import AlreadyDecided, StepFailed, StepTimedOut
from awaken.mailbox.decisions import Decider
from awaken.stores import MemoryStore
from awaken.testing import make_virtual_runtime, run_in_virtual_time, wait_for_end
from awaken.testing.virtual_time import VirtualClock
from awaken.tools import StepRetry

from . import killed_process
from .each_store import NewStore, each_store

SLEEPERS = 20
NO_SWEEP = MailboxConfig(sweep_ms=3_600_000)


@workflow
async def nap(ctx: WorkflowContext) -> str:
    """Sleep."""
    await ctx.sleep(0.3)
    return "awake"


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_timers_that_are_due_one_after_the_other_all_wake(kind: str, tmp_path: Path) -> None:
    store = None if kind == "memory" else f"sqlite:///{tmp_path / 'w.db'}"

    async def story() -> None:
        async with AgentRuntime([nap], store=store, mailbox=NO_SWEEP) as runtime:
            begun = [await runtime.start("nap", {}) for _ in range(SLEEPERS)]
            async with asyncio.timeout(20):
                for run in begun:
                    while (await runtime.get_run(run.run_id)).status != "done":
                        await asyncio.sleep(0.02)

    asyncio.run(story())


BOUND_MS = 1_000
"""How late a timer or a due time may be while a process lives that knows of it."""
DURATIONS_S = (0.001, 0.5, 1, 3, 17.25, 59.999, 3_600, 3 * 86_400)


@workflow
async def waits_in_every_way(ctx: WorkflowContext, seconds: float) -> list[int]:
    """Return by how many milliseconds each kind of wait was late."""
    late: list[int] = []

    async def measure(wait: Awaitable[Any], wanted_s: float = seconds) -> None:
        before = await ctx.now()
        with contextlib.suppress(StepFailed):
            await wait
        late.append(await ctx.now() - before - round(wanted_s * 1000))

    await measure(ctx.sleep(seconds))
    await measure(ctx.wait_for("never", timeout=seconds))
    await measure(ctx.approve("Well?", timeout=seconds))
    await measure(ctx.race(ctx.sleep(seconds), ctx.wait_for("never")))
    await measure(ctx.gather(ctx.sleep(seconds), ctx.sleep(seconds / 2)))
    pause = StepRetry(attempts=2, first_ms=6_000 + round(seconds * 1000), longest_ms=1 << 50)
    await measure(ctx.call(broken, retry=pause), 6 + seconds)
    return late


@tool(effect="none")
async def broken() -> None:
    """Fail."""
    raise ToolError("broken")


@pytest.mark.parametrize("seconds", DURATIONS_S)
def test_every_kind_of_timer_wakes_within_a_second(seconds: float) -> None:
    async def story() -> None:
        async with make_virtual_runtime([waits_in_every_way]) as runtime:
            # The sweeper of this runtime looks by itself once an hour only.
            run = await runtime.start("waits_in_every_way", {"seconds": seconds})
            # Six waits; a timer that is set again and again never ends.
            limit_s = 10 * seconds + 60
            late = (await wait_for_end(runtime, run.run_id, timeout_s=limit_s)).output
            assert len(late) == 6
            assert all(0 <= it <= BOUND_MS for it in late), late

    run_in_virtual_time(story)


@workflow
async def sleeps(ctx: WorkflowContext, seconds: float) -> int:
    """Return by how many milliseconds the wait was late."""
    before = await ctx.now()
    await ctx.sleep(seconds)
    return await ctx.now() - before - round(seconds * 1000)


@pytest.mark.parametrize("left_s", [1, 3, 20, 60, 600])
def test_a_timer_of_a_process_that_is_gone_wakes_in_another_within_a_second(left_s: int) -> None:
    async def story() -> None:
        clock = VirtualClock()
        store = MemoryStore(clock=clock, is_shared=True)
        calm = MailboxConfig(lease_ms=1 << 45)
        options: dict[str, Any] = {"clock": clock, "store": store, "mailbox": calm}
        async with AgentRuntime([sleeps], **options) as other:
            async with AgentRuntime([sleeps], **options) as first:
                run = await first.start("sleeps", {"seconds": 5 + left_s})
                await asyncio.sleep(5)
            late = (await wait_for_end(other, run.run_id)).output
            assert 0 <= late <= BOUND_MS

    run_in_virtual_time(story)


def test_due_times_fire_and_their_runs_begin_within_a_second() -> None:
    async def story() -> None:
        async with make_virtual_runtime([sleeps]) as runtime:
            for number in range(20):
                await runtime.schedules.create(
                    "sleeps",
                    {"seconds": 0},
                    schedule_id=f"s{number}",
                    every_ms=10_000 + 777 * number,
                    overlap="queue",
                )
            await asyncio.sleep(305.5)
            firings = [
                it
                for number in range(20)
                for it in (await runtime.schedules.firings(f"s{number}")).items
            ]
            assert len(firings) > 200
            assert {it.outcome for it in firings} == {"fired"}
            assert all(0 <= it.fired_at - it.due_at <= BOUND_MS for it in firings)
            for it in firings:
                run = await runtime.get_run(it.run_id or "")
                assert 0 <= (run.started_at or 0) - it.due_at <= BOUND_MS

    run_in_virtual_time(story)


@each_store
def test_timers_of_a_branch_fire_while_another_branch_executes(
    new_store: NewStore, tmp_path: Path
) -> None:
    is_over = asyncio.Event()

    @tool(effect="none")
    async def work() -> str:
        """Take as long as the run does: only a timer ends it."""
        await asyncio.wait_for(is_over.wait(), 60)
        return "worked"

    @workflow(tools=[work])
    async def races(ctx: WorkflowContext) -> list[Any]:
        """Let timers end what takes too long."""
        first, _ = await ctx.race(ctx.call(work), ctx.sleep(0.05))

        async def expire() -> str:
            with contextlib.suppress(StepTimedOut):
                await ctx.wait_for("never", timeout=0.05)
            await ctx.sleep(0.05)
            return "expired"

        second, said = await ctx.race(ctx.call(work), expire())
        return [first, second, said]

    async def story() -> None:
        store = new_store(tmp_path)()
        async with AgentRuntime([races], store=store, mailbox=NO_SWEEP) as runtime:
            result = await asyncio.wait_for(runtime.run("races", {}), 50)
            assert result.output == [1, 1, "expired"]

    asyncio.run(story())


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_timer_of_a_killed_process_is_met_by_another_without_a_sweep(
    kind: str, tmp_path: Path
) -> None:
    place = (str(tmp_path / "w.db"), "") if kind == "sqlite" else (server().url, new_schema())

    async def story() -> None:
        store = killed_process.open_store(kind, *place)
        async with AgentRuntime([killed_process.nap], store=store, mailbox=NO_SWEEP) as runtime:
            # Its only sweep and its own timers are over before the other process begins.
            await wait_for_end(runtime, (await runtime.start("nap", {})).run_id)
            arguments = (killed_process.__file__, "sleep", kind, *place)
            with ForkedPython(*arguments, stdout=subprocess.PIPE) as process:
                assert process.stdout is not None
                line = await asyncio.to_thread(process.stdout.readline)
                process.kill()
            async with asyncio.timeout(30):
                await wait_for_end(runtime, line.decode().strip())

    asyncio.run(story())


@workflow
async def naps_side_by_side(ctx: WorkflowContext, count: int) -> int:
    """Sleep in many branches at once."""
    return len(await ctx.gather(*(ctx.sleep(3) for _ in range(count))))


@pytest.mark.parametrize("is_refused", [False, True])
def test_timers_of_one_run_that_are_over_together_are_one_decision(
    monkeypatch: pytest.MonkeyPatch, is_refused: bool
) -> None:
    """If they cannot be decided together, each is decided by itself."""
    sizes: list[int] = []
    decide = Decider.decide

    async def count(self: Decider, decisions: Any) -> Any:
        sizes.append(len(decisions))
        if is_refused and len(decisions) > 1:
            raise AlreadyDecided(ticket_id=decisions[0][0], status="decided")
        return await decide(self, decisions)

    monkeypatch.setattr(Decider, "decide", count)

    async def story() -> str:
        async with make_virtual_runtime([naps_side_by_side]) as runtime:
            run = await runtime.start("naps_side_by_side", {"count": SLEEPERS})
            return (await wait_for_end(runtime, run.run_id)).text

    assert run_in_virtual_time(story) == str(SLEEPERS)
    assert sizes == [SLEEPERS, *([1] * SLEEPERS if is_refused else [])]
