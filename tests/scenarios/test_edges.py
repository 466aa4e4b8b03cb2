"""Edges where two mechanisms meet: threads and events, gates and gates, cancels and commits."""

import asyncio
import threading
from typing import Any

import pytest

from awaken import (
    Agent,
    AgentRuntime,
    BehaviorRequested,
    Blocked,
    Cancelled,
    Limits,
    Message,
    NaturalEnd,
    Phase,
    StateCommand,
    StateKey,
    SuspendTicket,
    TextDelta,
    ToolCallStart,
    ToolContext,
    tool,
    user,
)
from awaken.errors import IdempotencyConflict, ReaderDropped, StoreUnavailable
from awaken.events import ToolCallCancel, ToolCallStreamDelta
from awaken.plugins import RUN_LIFECYCLE, Block, End, GateDecision, Suspend, ToolGateContext
from awaken.runtime.journal.streams import EventReader
from awaken.stores import Commit, CommitReceipt, MemoryStore
from awaken.testing import ScriptedModel, ToolCalls, Turn, assert_valid_transcript
from awaken.tools import ResumeMode

from .worlds import Gate, Hooks, play, simulated

ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@tool
async def act(name: str = "act") -> str:
    ran.append(name)
    return name


def test_what_a_tool_in_a_thread_shows_arrives_while_it_runs() -> None:
    seen = threading.Event()

    @tool(effect="none")
    def slow(ctx: ToolContext) -> str:
        """Show a line, then wait until somebody has read it."""
        ctx.emit_output("line")
        return "read" if seen.wait(timeout=20) else "nobody read it"

    async def scenario() -> str:
        model = ScriptedModel([ToolCalls([("slow", {})]), "ok"])
        async with AgentRuntime(agents=[Agent("a", model=model, tools=[slow])]) as runtime:
            async for event in runtime.stream("a", "go", thread_id="t"):
                if isinstance(event, ToolCallStreamDelta):
                    seen.set()
            return (await runtime.messages("t"))[2].message.text

    assert asyncio.run(scenario(), debug=True) == "read"


def test_one_gates_approval_does_not_pass_for_anothers() -> None:
    async def asks(_context: ToolGateContext) -> GateDecision:
        return Suspend(ticket=SuspendTicket())

    async def scenario() -> list[str]:
        model = ScriptedModel([ToolCalls([("act", {})]), "ok"])
        gates = [Gate(asks, name="security"), Gate(asks, name="budget")]
        agent = Agent("a", model=model, tools=[act], plugins=gates)
        asked = []
        async with AgentRuntime(agents=[agent]) as runtime:
            result = await runtime.run("a", "go", thread_id="t")
            while result.is_waiting:
                asked.append(result.tickets[0].asked_by)
                assert ran == []
                await runtime.decide(result.tickets[0].ticket_id)
                result = await runtime.wait(result.run_id)
        return asked

    assert simulated(scenario) == ["security", "budget"]
    assert ran == ["act"]


def test_a_message_steered_twice_under_one_id_arrives_twice_and_harms_nothing() -> None:
    async def scenario() -> list[str]:
        held = asyncio.Event()

        async def wait(_request: Any) -> ToolCalls:
            await held.wait()
            return ToolCalls([("act", {})])

        agent = Agent("a", model=ScriptedModel([wait, "ok"]), tools=[act])
        async with AgentRuntime(agents=[agent]) as runtime:
            handle = await runtime.start("a", "go", thread_id="t")
            for _ in range(2):
                receipt = await runtime.steer("t", Message(role=user("").role, id="same"))
                assert receipt.is_accepted
            held.set()
            assert (await handle.result()).termination == NaturalEnd()
            return [record.message.role for record in await runtime.messages("t")]

    assert simulated(scenario).count("user") == 3


class SlowStore(MemoryStore):
    """A store whose commits and lookups really wait."""

    async def commit(self, commit: Commit) -> CommitReceipt:
        await asyncio.sleep(0.01)
        receipt = await super().commit(commit)
        await asyncio.sleep(0.01)
        return receipt

    async def find_commit(self, commit_id: str, thread_id: str) -> CommitReceipt | None:
        await asyncio.sleep(0.01)
        return await super().find_commit(commit_id, thread_id)


def test_a_caller_that_cancels_in_every_turn_of_the_loop_still_gets_an_end() -> None:
    async def scenario() -> Any:
        never = asyncio.Event()

        async def hang(_request: Any) -> str:
            await never.wait()
            return ""

        store = SlowStore()
        agent = Agent("a", model=ScriptedModel([hang]))
        async with AgentRuntime(agents=[agent], store=store) as it:
            caller = asyncio.create_task(it.run("a", "go", run_id_hint="r"))
            await asyncio.sleep(1)
            while not caller.done():
                caller.cancel()
                await asyncio.sleep(0.001)
            assert caller.cancelled()
            return (await it.get_run("r")).termination

    assert simulated(scenario) == Cancelled(cause="caller")


def test_a_store_that_never_answers_does_not_hold_a_cancelled_run_for_ever() -> None:
    class Hanging(MemoryStore):
        is_hanging = False

        async def commit(self, commit: Commit) -> CommitReceipt:
            if self.is_hanging:
                await asyncio.Event().wait()
            return await super().commit(commit)

    async def hang(_request: Any) -> str:
        await asyncio.Event().wait()
        return ""

    async def scenario() -> float:
        store, limits = Hanging(), Limits(run_end_ms=2_000)
        agent = Agent("a", model=ScriptedModel([hang]))
        loop = asyncio.get_running_loop()
        async with AgentRuntime(agents=[agent], store=store, limits=limits) as runtime:
            handle = await runtime.start("a", "go")
            store.is_hanging = True
            before = loop.time()
            assert await handle.cancel()
            with pytest.raises(TimeoutError):
                await handle.result()
        return loop.time() - before

    assert simulated(scenario) <= 4.1


def test_no_tool_starts_after_a_gate_swallowed_the_cancellation() -> None:
    async def scenario() -> Any:
        asked = asyncio.Event()

        async def stubborn(_context: ToolGateContext) -> None:
            asked.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return

        model = ScriptedModel([ToolCalls([("act", {})]), "ok"])
        agent = Agent("a", model=model, tools=[act], plugins=[Gate(stubborn)])
        async with AgentRuntime(agents=[agent]) as runtime:
            handle = await runtime.start("a", "go", thread_id="t")
            await asked.wait()
            assert await handle.cancel()
            result = await handle.result()
            assert_valid_transcript([record.message for record in await runtime.messages("t")])
            return result.termination

    assert simulated(scenario) == Cancelled()
    assert ran == []


def test_no_tool_starts_after_a_hook_before_it_ended_the_run() -> None:
    async def end(_context: Any) -> StateCommand:
        return StateCommand().update(RUN_LIFECYCLE, End(termination=BehaviorRequested()))

    hooks = Hooks({Phase.BEFORE_TOOL_EXECUTE: end})
    story = play([ToolCalls([("act", {})])], tools=[act], plugins=[hooks])
    assert story.record is not None
    assert story.record.termination == BehaviorRequested()
    assert ran == []


SENT = StateKey("sent", default=0)


def test_the_gate_is_asked_again_before_a_call_is_run_again() -> None:
    @tool(effect="idempotent")
    async def send(ctx: ToolContext) -> str:
        count = ctx.state.get(SENT)
        await asyncio.sleep(0)
        ctx.state.set(SENT, count + 1)
        ran.append("send")
        return "sent"

    async def at_most_two(context: ToolGateContext) -> GateDecision | None:
        return Block(reason="enough") if context.state(SENT) >= 2 else None

    calls = ToolCalls([("send", {})] * 5)
    story = play([calls], tools=[send], plugins=[Gate(at_most_two)])
    assert story.record is not None
    assert story.record.termination == Blocked(reason="enough")
    assert story.answers.count("sent") == 2


def test_another_commit_under_our_id_is_never_taken_for_ours() -> None:
    class Stealing(MemoryStore):
        """Refuses the second commit as used for other contents, and has a receipt for it."""

        commits = 0

        async def commit(self, commit: Commit) -> CommitReceipt:
            self.commits += 1
            if self.commits > 1:
                raise IdempotencyConflict(commit_id=commit.commit_id)
            return await super().commit(commit)

        async def find_commit(self, commit_id: str, thread_id: str) -> CommitReceipt | None:
            return CommitReceipt(commit_id=commit_id, version=2, message_count=9, event_seq=9)

    async def scenario() -> None:
        agent = Agent("a", model=ScriptedModel(["hi"]))
        async with AgentRuntime(agents=[agent], store=Stealing()) as runtime:
            with pytest.raises(IdempotencyConflict):
                await runtime.run("a", "go")

    simulated(scenario)


def test_a_failed_end_after_a_cancel_leaves_the_callers_own_cancellations_as_they_were() -> None:
    class Gone(MemoryStore):
        is_gone = False

        async def commit(self, commit: Commit) -> CommitReceipt:
            if self.is_gone:
                raise StoreUnavailable(store="gone", problem="gone")
            return await super().commit(commit)

    async def scenario() -> int:
        store, asked = Gone(), asyncio.Event()

        async def hang(_request: Any) -> str:
            asked.set()
            await asyncio.Event().wait()
            return ""

        agent = Agent("a", model=ScriptedModel([hang]))
        async with AgentRuntime(agents=[agent], store=store) as it:

            async def call() -> int:
                with pytest.raises(StoreUnavailable):
                    await it.run("a", "go", thread_id="t")
                task = asyncio.current_task()
                assert task is not None
                return task.cancelling()

            caller = asyncio.create_task(call())
            await asked.wait()
            store.is_gone = True
            assert await it.cancel("t")
            return await caller

    assert simulated(scenario) == 0


def test_a_huge_decision_is_cut_like_any_result_and_one_without_json_form_is_an_error() -> None:
    @tool
    async def ask(ctx: ToolContext) -> SuspendTicket:
        return ctx.suspend("well?", mode=ResumeMode.USE_DECISION_AS_TOOL_RESULT)

    async def scenario() -> str:
        agent = Agent("a", model=ScriptedModel([ToolCalls([("ask", {})]), "ok"]), tools=[ask])
        async with AgentRuntime(agents=[agent]) as runtime:
            waiting = await runtime.run("a", "go", thread_id="t")
            await runtime.decide(waiting.tickets[0].ticket_id, result="x" * 10_000_000)
            await runtime.wait(waiting.run_id)
            return (await runtime.messages("t"))[2].message.text

    assert len(simulated(scenario)) < 201_000


def test_calls_that_were_being_streamed_when_the_turn_broke_are_given_up_aloud() -> None:
    broken = Turn(text="Let me see", calls=ToolCalls([("act", '{"na', "c1")]), error=OSError("cut"))
    story = play([broken], tools=[act])
    started = [event.id for event in story.of(ToolCallStart)]
    assert [event.id for event in story.of(ToolCallCancel)] == started == ["c1"]


def test_a_reader_that_was_dropped_gets_nothing_from_behind_the_gap() -> None:
    async def scenario() -> list[str]:
        reader = EventReader(is_attached=False, limit=2)
        for text in "abcd":
            reader.push(TextDelta(delta=text))
        seen: list[str] = []
        try:
            async for event in reader:
                seen.append(str(event))
        except ReaderDropped:
            return seen
        raise AssertionError

    assert simulated(scenario) == []


def test_one_after_another_an_approved_call_is_run_although_the_one_before_it_asks_again() -> None:
    @tool
    async def doubtful(ctx: ToolContext) -> str | SuspendTicket:
        if ctx.resume is None or ctx.resume.result != "sure":
            return ctx.suspend("sure?")
        ran.append("doubtful")
        return "did it"

    async def asks(_context: ToolGateContext) -> GateDecision:
        return Suspend(ticket=SuspendTicket())

    async def scenario() -> list[str]:
        model = ScriptedModel([ToolCalls([("doubtful", {}), ("act", {})]), "ok"])
        agent = Agent(
            "a", model=model, tools=[doubtful, act], plugins=[Gate(asks)], parallel_tools=False
        )
        async with AgentRuntime(agents=[agent]) as runtime:
            result = await runtime.run("a", "go", thread_id="t")
            await runtime.decide_all({ticket.ticket_id: {} for ticket in result.tickets})
            result = await runtime.wait(result.run_id)
            assert ran == ["act"]
            (ticket,) = result.tickets
            await runtime.decide(ticket.ticket_id, result="sure")
            result = await runtime.wait(result.run_id)
            assert result.termination == NaturalEnd()
            transcript = await runtime.messages("t")
            assert_valid_transcript(transcript)
            return [record.message.text for record in transcript[2:]]

    assert simulated(scenario) == ["act", "did it", "ok"]
    assert ran == ["act", "doubtful"]
