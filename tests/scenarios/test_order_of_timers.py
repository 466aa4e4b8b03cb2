"""Timers that are over when a run is taken up again: the first that was due is answered first."""

import asyncio
from itertools import permutations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken import AgentRuntime, RunStatus, WorkflowContext, workflow
from awaken.contracts.suspension.tickets import (
    DEADLINE,
    DecisionAction,
    Ticket,
    ToolCallResume,
)
from awaken.contracts.workflows.steps import make_call_id, read_path
from awaken.mailbox.submissions import continuation
from awaken.runtime.suspension.decisions import build_resume_dispatch
from awaken.runtime.workflows.wait_answers import sort_answers
from awaken.stores import MemoryStore

PATIENCE_S = 30


@workflow
async def sleeps_side_by_side(ctx: WorkflowContext) -> list[int]:
    """Sleep three times at once; returns who woke up first."""
    woken: list[int] = []

    async def sleep(name: int, days: int) -> None:
        await ctx.sleep(days=days)
        woken.append(name)

    await ctx.gather(sleep(0, 3), sleep(1, 2), sleep(2, 1))
    return woken


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_timers_that_are_over_together_are_answered_by_their_due_times(
    order: tuple[int, ...],
) -> None:
    async def main() -> None:
        store = MemoryStore(is_shared=True)
        agents = [sleeps_side_by_side]
        async with AgentRuntime(agents, store=store, has_worker=False) as runtime:
            waiting = await runtime.run("sleeps_side_by_side", {}, thread_id="t")
            assert waiting.status is RunStatus.WAITING
            tickets = await store.list_run_tickets("t", waiting.run_id)
            decisions = [
                (
                    tickets[index].ticket_id,
                    ToolCallResume(
                        decision_id=f"d-{index}",
                        action=DecisionAction.RESUME,
                        decided_by=DEADLINE,
                    ),
                )
                for index in order
            ]
            run = await store.load_run(waiting.run_id)
            assert run is not None
            then = build_resume_dispatch(continuation(run), "due", 3)
            # As if a sweeper had found all of them over before any process took the run up.
            await store.decide("t", run.run_id, decisions, then)
        async with AgentRuntime(agents, store=store) as runtime:
            ended = await runtime.wait(waiting.run_id)
            assert ended.output == [2, 1, 0]

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


paths = st.lists(
    st.lists(st.integers(0, 12), min_size=1, max_size=3).map(lambda it: ".".join(map(str, it))),
    min_size=1,
    max_size=8,
    unique=True,
)


@given(paths, st.randoms(), st.lists(st.integers(0, 2), min_size=8, max_size=8))
def test_the_order_of_answers_is_the_same_however_branches_arrive(
    known: list[str], chance: Random, due: list[int]
) -> None:
    """By due time, then by the numbers of the path; what is not decided comes last."""
    tickets = {
        make_call_id("call", 0, path): Ticket(
            ticket_id=path,
            thread_id="t",
            run_id="r",
            call_id=path,
            tool_name="sleep",
            expires_at=time,
            decision=ToolCallResume(decision_id=path, decided_by=DEADLINE) if time else None,
        )
        for path, time in zip(known, due, strict=False)
    }
    times = {read_path(call_id): it.expires_at or 9 for call_id, it in tickets.items()}
    expected = sorted(known, key=lambda it: (times[it], [int(part) for part in it.split(".")]))
    shuffled, asked = list(known), list(tickets.items())
    chance.shuffle(shuffled)
    chance.shuffle(asked)
    assert sort_answers(shuffled, dict(asked)) == expected
