"""A delegate that has to wait: its parent waits with it, and goes on by itself afterwards."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, Budget, NaturalEnd, RunStatus, Stopped
from awaken.contracts.storage.outbox import ReportToParent
from awaken.errors import AlreadyDecided
from awaken.mailbox.outbox_handlers import OutboxHandlers
from awaken.stores import Commit
from awaken.testing import ToolCalls, Turn
from awaken.tools import ResumeMode

from .delegating import (
    StoreOf,
    agent,
    answers,
    ask,
    asking,
    asks,
    boss,
    child_of,
    children_of,
    ended,
    file,
    heard,
    nothing_ordered,
    on_both_stores,
    runtime,
    ticket_on,
    until,
    used,
)


async def told(rt: AgentRuntime, run_id: str, answer: str, thread_id: str = "t") -> None:
    """Check that the parent has ended once, with what its delegate was told."""
    record = await ended(rt, run_id)
    assert record.termination == NaturalEnd()
    (result,) = await answers(rt, thread_id)
    assert f'"response":"heard told {answer}"' in result
    assert record.final_output == f"heard {result}"
    assert await rt.tickets() == ()
    await nothing_ordered(rt)


@on_both_stores
def test_a_parent_waits_with_its_delegate_and_holds_nobody(
    store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with runtime([boss(asks("worker"), heard), asking()], store_of(tmp_path)) as rt:
            waiting = await rt.run("boss", "hi", thread_id="t")
            child = await child_of(rt, waiting.run_id)
            assert (waiting.status, child.status) == (RunStatus.WAITING, RunStatus.WAITING)
            (ticket,) = waiting.tickets
            assert ticket.topic == f"delegate_run:{child.run_id}"
            assert ticket.suspension.action == "agent_delegate:suspended"
            assert ticket.resume_mode is ResumeMode.PASS_DECISION_TO_TOOL
            question = await ticket_on(rt, child.thread_id)
            assert ticket.suspension.parameters == {
                "agent_id": "worker",
                "backend_status": "suspended",
                "child_run_id": child.run_id,
                "tool_call_id": "call_1",
                "ticket_ids": [question.ticket_id],
            }
            assert list(rt._engine.active) == []
            assert waiting.usage.total_tokens == 30
            await nothing_ordered(rt)

    asyncio.run(scenario())


@on_both_stores
def test_a_decision_on_the_delegates_question_lets_both_go_on(
    store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with runtime([boss(asks("worker"), heard), asking()], store_of(tmp_path)) as rt:
            waiting = await rt.run("boss", "hi", thread_id="t")
            child = await child_of(rt, waiting.run_id)
            await rt.decide((await ticket_on(rt, child.thread_id)).ticket_id, result="yes")
            await told(rt, waiting.run_id, "yes")
            assert (await rt.get_run(waiting.run_id)).usage.total_tokens == 4 * 30

    asyncio.run(scenario())


@on_both_stores
def test_a_decision_on_the_call_is_passed_on_to_the_delegate(
    store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with runtime([boss(asks("worker"), heard), asking()], store_of(tmp_path)) as rt:
            waiting = await rt.run("boss", "hi", thread_id="t")
            ticket = await ticket_on(rt, "t")
            first = await rt.decide(ticket.ticket_id, result="yes", decision_id="d1")
            again = await rt.decide(ticket.ticket_id, result="yes", decision_id="d1")
            assert first == again
            await told(rt, waiting.run_id, "yes")
            assert (await rt.get_run(waiting.run_id)).usage.total_tokens == 4 * 30
            with pytest.raises(AlreadyDecided):
                await rt.decide(ticket.ticket_id, result="later", decision_id="d2")

    asyncio.run(scenario())


@on_both_stores
def test_an_answer_is_not_given_to_a_question_that_came_later(
    store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario() -> None:
        more = ToolCalls([("ask", {"question": "all of it?"})])
        agents = [boss(asks("worker"), heard), asking("worker", more, heard)]
        async with runtime(agents, store_of(tmp_path)) as rt:
            waiting = await rt.run("boss", "hi", thread_id="t")
            child = await child_of(rt, waiting.run_id)
            shown = await ticket_on(rt, "t")
            first = await ticket_on(rt, child.thread_id)
            await rt.decide(first.ticket_id, result="a little")
            second = await ticket_on(rt, child.thread_id)
            assert second.ticket_id != first.ticket_id
            await rt.decide(shown.ticket_id, result="yes")
            renewed = await ticket_on(rt, "t")
            assert renewed.ticket_id != shown.ticket_id
            assert renewed.suspension.parameters["ticket_ids"] == [second.ticket_id]
            assert (await ticket_on(rt, child.thread_id)).ticket_id == second.ticket_id
            await rt.decide(renewed.ticket_id, result="later")
            await told(rt, waiting.run_id, "later")

    asyncio.run(scenario())


@on_both_stores
def test_an_answer_to_several_questions_at_once_is_given_to_none(
    store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario() -> None:
        both = ToolCalls([("ask", {"question": "left?"}), ("ask", {"question": "right?"})])
        agents = [boss(asks("worker"), heard), agent("worker", both, heard, tools=[ask])]
        async with runtime(agents, store_of(tmp_path)) as rt:
            waiting = await rt.run("boss", "hi", thread_id="t")
            child = await child_of(rt, waiting.run_id)
            shown = await ticket_on(rt, "t")
            await rt.decide(shown.ticket_id, result="yes")
            while (renewed := await ticket_on(rt, "t")).ticket_id == shown.ticket_id:
                await asyncio.sleep(0.005)
            open_ones = await rt.tickets(child.thread_id)
            assert len(open_ones) == 2
            await rt.decide_all({it.ticket_id: {"result": "ok"} for it in open_ones})
            assert (await ended(rt, waiting.run_id)).termination == NaturalEnd()
            assert renewed.ticket_id not in {it.ticket_id for it in await rt.tickets()}

    asyncio.run(scenario())


@on_both_stores
def test_delegates_that_wait_two_levels_deep_go_on_from_the_bottom(
    store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario() -> None:
        middle = agent("middle", asks("worker"), "from the middle", delegates=["worker"])
        top = agent("top", asks("middle"), heard, delegates=["middle"])
        async with runtime([top, middle, asking()], store_of(tmp_path)) as rt:
            waiting = await rt.run("top", "hi", thread_id="t")
            child = await child_of(rt, waiting.run_id)
            grandchild = await child_of(rt, child.run_id)
            await rt.decide((await ticket_on(rt, grandchild.thread_id)).ticket_id, result="yes")
            done = await ended(rt, waiting.run_id)
            assert "from the middle" in (done.final_output or "")
            assert done.usage.total_tokens == 6 * 30
            assert "heard told yes" in (await answers(rt, child.thread_id))[0]
            assert await rt.tickets() == ()
            await nothing_ordered(rt)

    asyncio.run(scenario())


@on_both_stores
def test_a_decision_at_the_top_is_passed_on_to_the_bottom(
    store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario() -> None:
        middle = agent("middle", asks("worker"), heard, delegates=["worker"])
        top = agent("top", asks("middle"), heard, delegates=["middle"])
        async with runtime([top, middle, asking()], store_of(tmp_path)) as rt:
            waiting = await rt.run("top", "hi", thread_id="t")
            await rt.decide((await ticket_on(rt, "t")).ticket_id, result="yes")
            done = await ended(rt, waiting.run_id)
            assert "heard told yes" in (done.final_output or "")
            assert done.usage.total_tokens == 6 * 30
            assert await rt.tickets() == ()
            await nothing_ordered(rt)

    asyncio.run(scenario())


def agents_elsewhere() -> list[Agent]:
    """The same agents in another process, whose models go on where the others stopped."""
    return [boss(heard), agent("worker", heard, tools=[ask])]


@pytest.mark.parametrize("whose", ["child", "parent"])
def test_both_go_on_in_another_process(whose: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        agents = [boss(asks("worker")), asking("worker", "never")]
        async with runtime(agents, file(tmp_path)) as first:
            waiting = await first.run("boss", "hi", thread_id="t")
            child = await child_of(first, waiting.run_id)
            await nothing_ordered(first)
        async with runtime(agents_elsewhere(), file(tmp_path)) as second:
            thread_id = child.thread_id if whose == "child" else "t"
            await second.decide((await ticket_on(second, thread_id)).ticket_id, result="yes")
            await told(second, waiting.run_id, "yes")
            assert (await second.get_run(waiting.run_id)).usage.total_tokens == 4 * 30

    asyncio.run(scenario())


def test_somebody_without_the_agents_decides_and_the_others_go_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        agents = [boss(asks("worker"), heard), asking()]
        async with runtime(agents, file(tmp_path)) as rt:
            waiting = await rt.run("boss", "hi", thread_id="t")
            child = await child_of(rt, waiting.run_id)
            async with runtime([], file(tmp_path), has_worker=False) as other:
                await other.decide(
                    (await ticket_on(other, child.thread_id)).ticket_id, result="yes"
                )
                await told(other, waiting.run_id, "yes")

    asyncio.run(scenario())


@on_both_stores
def test_a_delegate_that_ends_before_its_parent_waits_is_not_missed(
    store_of: StoreOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child is decided and ends while the parent is on its way to wait for it."""
    reports: list[str] = []
    carry_out = OutboxHandlers.carry_out

    async def noted(self: OutboxHandlers, entry_id: str, order: Any) -> bool:
        is_done = await carry_out(self, entry_id, order)
        if isinstance(order, ReportToParent):
            reports.append(order.child_run_id)
        return is_done

    monkeypatch.setattr(OutboxHandlers, "carry_out", noted)

    async def scenario() -> None:
        async with runtime([boss(asks("worker"), heard), asking()], store_of(tmp_path)) as rt:
            commit = rt.store.commit

            async def late(written: Commit) -> Any:
                run = written.run
                is_parent = written.thread_id == "t" and run is not None
                if is_parent and run is not None and run.status is RunStatus.WAITING:
                    child = await child_of(rt, run.run_id)
                    if child.status is RunStatus.WAITING:
                        (ticket,) = await rt.tickets(child.thread_id)
                        await rt.decide(ticket.ticket_id, result="yes")
                        await ended(rt, child.run_id)
                        while not reports:
                            await asyncio.sleep(0.005)
                return await commit(written)

            rt.store.commit = late  # type: ignore[method-assign]
            handle = await rt.start("boss", "hi", thread_id="t")
            await told(rt, handle.run_id, "yes")
            assert reports[1:], "nobody looked again when the parent began to wait"

    asyncio.run(scenario())


@on_both_stores
def test_a_call_beside_a_waiting_delegate_keeps_its_result(
    store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario() -> None:
        calls = [("agent_run_worker", {"prompt": "go"}), ("ask", {"question": "and you?"})]
        asker = boss(ToolCalls(calls), heard, tools=[ask])
        async with runtime([asker, asking()], store_of(tmp_path)) as rt:
            waiting = await rt.run("boss", "hi", thread_id="t")
            delegated, own = sorted(waiting.tickets, key=lambda it: it.tool_name)
            assert delegated.tool_name == "agent_run_worker"
            child = await child_of(rt, waiting.run_id)
            await rt.decide((await ticket_on(rt, child.thread_id)).ticket_id, result="yes")
            await ended(rt, child.run_id)
            await nothing_ordered(rt)
            await until(rt, waiting.run_id, RunStatus.WAITING)
            await rt.decide(own.ticket_id, result="too")
            assert (await ended(rt, waiting.run_id)).final_output == "heard told too"
            answer, other = await answers(rt, "t")
            assert ("heard told yes" in answer, other) == (True, "told too")

    asyncio.run(scenario())


@on_both_stores
def test_a_delegate_that_was_started_is_heard_when_nothing_is_left(
    store_of: StoreOf, tmp_path: Path
) -> None:
    """Only what is started new is refused: the first delegate has used up everything."""

    async def scenario() -> None:
        calls = [(f"agent_run_{name}", {"prompt": "go"}) for name in ("dear", "worker")]
        asker = agent(
            "boss",
            Turn(calls=calls, usage=used(2_000)),
            delegates=["dear", "worker"],
            budgets=[Budget(tokens=10_000)],
        )
        dear = asking("dear", Turn(text="dear", usage=used(9_000)))
        async with runtime([asker, dear, asking()], store_of(tmp_path)) as rt:
            waiting = await rt.run("boss", "hi", thread_id="t")
            first, second = await children_of(rt, waiting.run_id)
            for child in (first, second):
                await rt.decide((await ticket_on(rt, child.thread_id)).ticket_id, result="yes")
                await ended(rt, child.run_id)
            assert isinstance((await ended(rt, waiting.run_id)).termination, Stopped)
            _, heard_last = await answers(rt, "t")
            assert "heard told yes" in heard_last

    asyncio.run(scenario())
