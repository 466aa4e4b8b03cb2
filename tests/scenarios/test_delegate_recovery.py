"""A process that dies while one agent works for another: both end once, whoever goes on."""

import asyncio
from typing import Any

import msgspec
import pytest

from awaken import Agent, AgentRuntime, AwakenError, Cancelled, NaturalEnd, RunStatus
from awaken.errors import LeaseLost
from awaken.messages import Role
from awaken.stores import Commit, MemoryStore
from awaken.testing import ScriptedModel, ToolCalls

from .delegating import (
    NO_RETRIES,
    WAIT_S,
    Door,
    agent,
    answers,
    ask,
    asks,
    child_of,
    ended,
    heard,
    nothing_ordered,
    ticket_on,
    within,
)
from .mortal import PROMPT, Mortal, dying, let_lapse, on_shared_stores, until_over


def replying(id_: str, *script: Any, **options: Any) -> Agent:
    """An agent whose model answers by how much of its turn it is shown: in any process the same."""

    def answer(request: Any) -> Any:
        entry = script[sum(it.role is Role.ASSISTANT for it in request.messages)]
        return entry(request) if callable(entry) else entry

    model = ScriptedModel([answer], cycle=True)
    return Agent(id_, model=model, config=NO_RETRIES, **options)


def agents() -> list[Agent]:
    return [
        replying("boss", asks("worker"), heard, delegates=["worker"]),
        replying("worker", ToolCalls([("ask", {"question": "may I?"})]), heard, tools=[ask]),
        replying("plain_boss", asks("plain"), heard, delegates=["plain"]),
        replying("plain", "the answer"),
    ]


def process(store: Any) -> AgentRuntime:
    return AgentRuntime(agents(), store=store, mailbox=PROMPT)


async def judged(rt: AgentRuntime, run_id: str, answer: str) -> None:
    record = await ended(rt, run_id)
    child = await child_of(rt, run_id)
    assert (record.termination, child.termination) == (NaturalEnd(), NaturalEnd())
    (result,) = await answers(rt, "t")
    assert f'"response":"{answer}"' in result
    assert record.final_output == f"heard {result}"
    assert [it.message.text for it in await rt.messages(child.thread_id)][-1] == answer
    assert await rt.tickets() == ()
    # Only a turn whose end was not written can have been paid for in vain.
    assert child.usage.total_tokens == 30 * child.steps
    assert record.usage.total_tokens == 30 * record.steps + child.usage.total_tokens
    await nothing_ordered(rt)


async def dies_at(number: int) -> bool:
    """Let a process die after a commit; False when it made fewer."""
    store = MemoryStore(is_shared=True)
    mortal = Mortal(store)
    mortal.die_with(number)
    async with dying(process(mortal)) as rt:
        try:
            handle = await rt.start("plain_boss", "hi", thread_id="t", run_id_hint="r")
            await until_over(handle, mortal)
        except AwakenError:
            pass
    async with process(store) as rt:
        await judged(rt, "r", "the answer")
    return mortal.commits >= number


def test_a_process_may_die_after_any_commit_of_parent_or_child() -> None:
    async def scenario() -> None:
        died = await asyncio.gather(*(dies_at(number) for number in range(1, 16)))
        assert sum(died) >= 6
        assert not all(died), "there are more commits than were tried"

    asyncio.run(scenario())


def ends_child(commit: Commit) -> bool:
    run = commit.run
    return run is not None and run.status is RunStatus.DONE and run.agent_id == "worker"


def parent_goes_on(commit: Commit) -> bool:
    """The commit with which the parent goes on that has waited."""
    run = commit.run
    return run is not None and run.agent_id == "boss" and run.status is RunStatus.RUNNING


def parent_has_heard(commit: Commit) -> bool:
    """The commit that has the result of the parent's call."""
    return any(it.role is Role.TOOL and commit.thread_id == "t" for it in commit.messages)


@on_shared_stores
@pytest.mark.parametrize("dies_with", [ends_child, parent_goes_on, parent_has_heard])
def test_a_delegate_that_waited_and_ended_is_reported_by_whoever_is_left(
    stores_of: Any, dies_with: Any, tmp_path: Any
) -> None:
    async def scenario() -> None:
        first, second = stores_of(tmp_path)
        mortal = Mortal(first)
        async with dying(process(mortal)) as rt:
            waiting = await rt.run("boss", "hi", thread_id="t")
            child = await child_of(rt, waiting.run_id)
            mortal.dies_with = dies_with
            await rt.decide((await ticket_on(rt, child.thread_id)).ticket_id, result="yes")
            async with asyncio.timeout(WAIT_S):
                while not mortal.is_cut:
                    await asyncio.sleep(0.005)
        async with process(second) as rt:
            await judged(rt, waiting.run_id, "heard told yes")

    asyncio.run(scenario())


@on_shared_stores
def test_a_store_that_is_away_for_a_moment_does_not_end_the_call(
    stores_of: Any, tmp_path: Any
) -> None:
    async def scenario() -> None:
        store, door = Mortal(stores_of(tmp_path)[0]), Door("the answer")
        workers = [
            replying("boss", asks("worker"), heard, delegates=["worker"]),
            agent("worker", door.answer),
        ]
        async with AgentRuntime(workers, store=store, mailbox=PROMPT, has_worker=False) as rt:
            handle = await rt.start("boss", "hi", thread_id="t")
            await door.opened()
            store.refuses = {"load_run": 2}
            door.let_go.set()
            await within(handle.result())
            assert store.refuses == {"load_run": 0}
            await judged(rt, handle.run_id, "the answer")

    asyncio.run(scenario())


@on_shared_stores
def test_a_child_that_cannot_be_taken_over_is_tried_again(stores_of: Any, tmp_path: Any) -> None:
    """The parent is recovered and takes its child over; the first try meets a store that fails."""

    async def scenario() -> None:
        first, second = stores_of(tmp_path)
        door, mortal, again = Door("the answer"), Mortal(first), Mortal(second)
        asker = replying("boss", asks("worker"), heard, delegates=["worker"])
        dead = AgentRuntime([asker, agent("worker", door.answer)], store=mortal, mailbox=PROMPT)
        async with dying(dead) as rt:
            handle = await rt.start("boss", "hi", thread_id="t")
            await door.opened()
            child = await child_of(rt, handle.run_id)
        worker = replying("worker", "the answer")
        one = msgspec.structs.replace(PROMPT, concurrency=1)
        async with AgentRuntime([asker, worker], store=again, mailbox=one) as rt:
            # The worker has one place, and the parent is in it.
            refused = f"list_tool_records {child.run_id}"
            again.refuses, again.refusal = {refused: 1}, OSError("the disk is full")
            await judged(rt, handle.run_id, "the answer")
            assert again.refuses == {refused: 0}

    asyncio.run(scenario())


@on_shared_stores
def test_a_parent_that_is_cancelled_while_it_takes_its_child_over_leaves_no_claim(
    stores_of: Any, tmp_path: Any
) -> None:
    """A claim that nobody works for would keep the child from ending for as long as a lease."""

    async def scenario() -> None:
        first, second = stores_of(tmp_path)
        door, claims, let_go = Door("the answer"), asyncio.Event(), asyncio.Event()
        asker = replying("boss", asks("worker"), heard, delegates=["worker"])
        dead = AgentRuntime(
            [asker, agent("worker", door.answer)], store=Mortal(first), mailbox=PROMPT
        )
        async with dying(dead) as rt:
            handle = await rt.start("boss", "hi", thread_id="t")
            await door.opened()
            child = await child_of(rt, handle.run_id)
        claim_dispatch = second.claim_dispatch

        async def claim_slowly(*arguments: Any) -> Any:
            found = await claim_dispatch(*arguments)
            claims.set()
            await let_go.wait()
            return found

        second.claim_dispatch = claim_slowly
        # The worker has one place, and the parent is in it; no lease expires meanwhile.
        one = msgspec.structs.replace(PROMPT, concurrency=1, lease_ms=90_000, renew_ms=30_000)
        worker = replying("worker", "the answer")
        async with AgentRuntime([asker, worker], store=second, mailbox=one) as rt:
            await within(claims.wait())
            assert await rt.cancel(handle.run_id)
            assert (await ended(rt, handle.run_id)).termination == Cancelled(cause="user")
            let_go.set()
            assert (await ended(rt, child.run_id)).termination is not None

    asyncio.run(scenario())


@on_shared_stores
def test_a_parent_that_loses_its_lease_leaves_its_child_alone(
    stores_of: Any, tmp_path: Any
) -> None:
    async def scenario() -> None:
        door = Door("the answer")
        asker = replying("boss", asks("worker"), heard, delegates=["worker"])
        agents = [asker, agent("worker", door.answer)]
        async with AgentRuntime(agents, store=stores_of(tmp_path)[0], mailbox=PROMPT) as rt:
            handle = await rt.start("boss", "hi", thread_id="t")
            await door.opened()
            active = rt._engine.active.of_run(handle.run_id)
            assert active is not None
            assert active.lease is not None
            active.lease_lost()
            let_lapse(rt.store, active.lease.token)
            with pytest.raises(LeaseLost):
                await within(handle.result())
            assert not door.is_cancelled
            door.let_go.set()
            await judged(rt, handle.run_id, "the answer")
            assert door.visits == 1

    asyncio.run(scenario())
