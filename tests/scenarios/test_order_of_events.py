"""An event for which several branches may wait: those that wait before it come first, by path."""

import asyncio

import pytest

from awaken import AgentRuntime, RunStatus, WorkflowContext, workflow
from awaken.contracts.suspension.tickets import DEADLINE, DecisionAction, ToolCallResume
from awaken.mailbox.submissions import continuation
from awaken.runtime.suspension.decisions import build_resume_dispatch
from awaken.stores import MemoryStore, Store

PATIENCE_S = 30


@workflow
async def waits_twice(ctx: WorkflowContext) -> list[str]:
    """Wait in two branches for the same event, in one of them after a sleep."""

    async def sleep_first() -> str:
        await ctx.sleep(days=1)
        return f"late {await ctx.wait_for('e', int, timeout=1)}"

    async def wait() -> str:
        return f"early {await ctx.wait_for('e', int)}"

    _, said = await ctx.race(sleep_first(), wait())
    return [said]


@workflow
async def waits_side_by_side(ctx: WorkflowContext) -> list[int]:
    """Wait in three branches for the same event."""
    return await ctx.gather(*(ctx.wait_for("e", int) for _ in range(3)))


async def end_sleep(store: Store, run_id: str) -> None:
    """End the sleep of a run, as a sweeper does that finds it over."""
    run = await store.load_run(run_id)
    assert run is not None
    (ticket,) = [it for it in await store.list_run_tickets("t", run_id) if it.tool_name == "sleep"]
    woken = ToolCallResume(decision_id="due", action=DecisionAction.RESUME, decided_by=DEADLINE)
    then = build_resume_dispatch(continuation(run), "due", 3)
    await store.decide("t", run_id, [(ticket.ticket_id, woken)], then)


@pytest.mark.parametrize(
    ("order", "taken"),
    [(("event", "timer"), "early 1"), (("timer", "event"), "late 1")],
)
def test_an_event_goes_to_a_branch_that_waited_when_it_came(
    order: tuple[str, str], taken: str
) -> None:
    async def main() -> None:
        store = MemoryStore(is_shared=True)
        async with AgentRuntime([waits_twice], store=store, has_worker=False) as runtime:
            waiting = await runtime.run("waits_twice", {}, thread_id="t")
            assert waiting.status is RunStatus.WAITING
            for what in order:
                if what == "event":
                    await runtime.send_event(waiting.run_id, "e", 1)
                else:
                    await end_sleep(store, waiting.run_id)
        async with AgentRuntime([waits_twice], store=store) as runtime:
            ended = await runtime.wait(waiting.run_id)
            assert ended.output == [taken]

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


def test_events_go_to_the_branches_that_wait_in_their_order() -> None:
    async def main() -> None:
        store = MemoryStore(is_shared=True)
        agents = [waits_side_by_side]
        async with AgentRuntime(agents, store=store, has_worker=False) as runtime:
            waiting = await runtime.run("waits_side_by_side", {}, thread_id="t")
            for number in range(3):
                await runtime.send_event(waiting.run_id, "e", number)
        async with AgentRuntime(agents, store=store) as runtime:
            assert (await runtime.wait(waiting.run_id)).output == [0, 1, 2]

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))
