"""Leases: who may write to a thread, and what becomes of a run that may not any more."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest

from awaken import (
    Cancelled,
    ErrorEvent,
    Failed,
    InputMode,
    Limits,
    NaturalEnd,
    Phase,
    RunFinish,
    RunRequest,
    RunStatus,
    TextDelta,
    ThreadBusy,
    ToolCallDelta,
    ToolCallStart,
    ToolContext,
    tool,
    user,
)
from awaken.contracts.models.stream_recovery import text_to_continue
from awaken.errors import LeaseLost, RunHandedOver, StoreUnavailable, ThreadClaimed
from awaken.models import InferenceRequest, ModelEvent
from awaken.stores import (
    Claim,
    Commit,
    DispatchStatus,
    MemoryStore,
    Release,
    RunDispatch,
    ToolRecordStatus,
)
from awaken.testing import Chunks, LoopClock, ToolCalls, Turn
from awaken.tools import ToolCallResume

from .crashes import (
    Dead,
    Process,
    after_the_lease,
    history,
    input_of,
    kinds,
    shared_store,
    texts,
)
from .worlds import Hooks, simulated

GO = RunRequest(thread_id="t", agent_id="a", messages=(user("go"),), run_id_hint="r")


@tool(effect="once")
async def slow(text: str) -> str:
    await asyncio.sleep(5)
    return f"slow {text}"


@tool(effect="once")
async def ask(text: str, ctx: ToolContext) -> Any:
    return ctx.suspend(text) if ctx.resume is None else f"told {ctx.resume.result}"


SLOW = [ToolCalls([("slow", {"text": "x"}, "c1")]), "done"]
ASK = [ToolCalls([("ask", {"text": "may I?"}, "c1")]), "done"]


async def is_claimed(store: MemoryStore) -> bool:
    """Whether somebody has the thread: a commit without a token is refused then."""
    thread = await store.load_thread("t")
    commit = Commit(
        commit_id="probe", thread_id="t", expected_version=thread.version if thread else 0,
        committed_at=0,
    )  # fmt: skip
    try:
        await store.commit(commit)
    except ThreadClaimed:
        return True
    return False


def test_a_run_takes_its_thread_with_its_first_commit_and_lets_it_go_with_its_last() -> None:
    async def scenario() -> None:
        store = shared_store()
        process = Process(store, SLOW, tools=[slow])
        await process.engine.run(GO)
        first, *middle, last = process.line.commits
        assert first.claim == Claim(worker_id="here", lease_ms=30_000)
        assert all(it.claim is None and it.release is None for it in middle)
        assert last.claim is None
        assert last.release == Release()
        assert len({it.fencing_token for it in process.line.commits} - {None}) == 1
        assert not await is_claimed(store)
        assert process.book.watched == {}

    simulated(scenario)


def test_a_waiting_run_holds_nothing_and_a_decision_takes_the_thread_again() -> None:
    async def scenario() -> None:
        store = shared_store()
        process = Process(store, ASK, tools=[ask])
        waiting = await process.engine.run(GO)
        assert process.line.commits[-1].release == Release()
        assert not await is_claimed(store)
        given = ToolCallResume(decision_id="1", result="yes")
        await process.engine.decide([(waiting.tickets[0].ticket_id, given)])
        assert (await process.engine.wait("r")).text == "done"
        claims = [it.claim is not None for it in process.line.commits]
        releases = [it.release is not None for it in process.line.commits]
        assert (claims.count(True), releases.count(True)) == (2, 2)

    simulated(scenario)


def test_a_run_on_a_store_that_nobody_shares_takes_no_lease() -> None:
    async def scenario() -> None:
        store = MemoryStore(clock=LoopClock())
        process = Process(store, SLOW, tools=[slow])
        await process.engine.run(GO)
        assert process.book.opened == 0
        assert all(it.fencing_token is None and not it.run_state for it in process.line.commits)

    simulated(scenario)


def test_a_thread_that_another_process_has_is_busy_and_nothing_is_held_for_it() -> None:
    async def scenario() -> None:
        store = shared_store()
        here, there = (Process(store, SLOW, tools=[slow]) for _ in range(2))
        handle = await there.engine.start(GO)
        other = RunRequest(thread_id="t", agent_id="a", messages=(user("me too"),))
        for attempt in (here.engine.run, here.engine.start, _streamed(here)):
            with pytest.raises(ThreadBusy):
                await attempt(other)
        assert here.book.watched == {}
        assert here.line.commits == []
        assert (await handle.result()).text == "done"
        assert texts(await history(store)) == ["go", "", "slow x", "done"]

    simulated(scenario)


def _streamed(process: Process) -> Callable[[RunRequest], Awaitable[list[Any]]]:
    async def stream(request: RunRequest) -> list[Any]:
        return [event async for event in process.engine.stream(request)]

    return stream


def test_a_request_that_is_refused_holds_nothing() -> None:
    async def scenario() -> None:
        store = shared_store()
        process = Process(store, SLOW, tools=[slow])
        with pytest.raises(Exception, match="nobody"):
            await process.engine.run(RunRequest(thread_id="t", agent_id="nobody"))
        assert process.book.watched == {}
        assert not await is_claimed(store)

    simulated(scenario)


def test_a_run_whose_lease_was_lost_writes_and_starts_nothing_more_and_says_so() -> None:
    started: list[str] = []

    @tool(effect="none")
    async def work(text: str) -> str:
        started.append(text)
        await asyncio.sleep(5)
        return text

    script = [ToolCalls([("work", {"text": "1"})]), ToolCalls([("work", {"text": "2"})]), "done"]

    async def scenario() -> None:
        store = shared_store()
        process = Process(store, script, tools=[work])
        handle = await process.engine.start(GO)
        reader = asyncio.create_task(_all(handle.events()))
        await asyncio.sleep(2)
        written = len(process.line.commits)
        (holder,) = process.book.watched.values()
        holder.lease_lost()
        with pytest.raises(LeaseLost):
            await handle.result()
        assert started == ["1"]
        assert len(process.line.commits) == written
        events = await reader
        assert isinstance(events[-1], ErrorEvent)
        assert events[-1].code == "lease_lost"
        assert not [event for event in events if isinstance(event, RunFinish)]
        record = await store.load_run("r")
        assert record is not None
        assert record.status is RunStatus.RUNNING
        assert process.book.watched == {}

    simulated(scenario)


async def _all(events: Any) -> list[Any]:
    return [event async for event in events]


@pytest.mark.parametrize("is_run_here", [True, False])
def test_a_commit_that_is_refused_because_the_lease_is_lost_is_not_tried_again(
    is_run_here: bool,
) -> None:
    @tool(effect="once", id="slow")
    async def slower(text: str) -> str:
        await asyncio.sleep(60)
        return text

    async def scenario() -> None:
        store = shared_store()
        process = Process(store, SLOW, tools=[slower])
        execution = (
            process.engine.run(GO) if is_run_here else (await process.engine.start(GO)).result()
        )
        running = asyncio.ensure_future(execution)
        await asyncio.sleep(2)
        await after_the_lease(store)
        (dispatch,) = await store.claim("thief", "stolen", 30_000)
        with pytest.raises(LeaseLost):
            await running
        assert process.line.commits[-1].fencing_token != "stolen"
        assert (await store.find_dispatch(dispatch.dispatch_id)).claim_token == "stolen"  # type: ignore[union-attr]

    simulated(scenario)


def test_leaving_gives_a_run_back_and_another_process_finishes_it() -> None:
    async def scenario() -> None:
        store = shared_store()
        first = Process(store, SLOW, tools=[slow])
        handle = await first.engine.start(GO)
        reader = asyncio.create_task(_all(handle.events()))
        await asyncio.sleep(6)
        await first.engine.close()
        if (await store.load_run("r")).status is RunStatus.DONE:  # type: ignore[union-attr]
            raise AssertionError("it must not have ended")
        with pytest.raises(RunHandedOver):
            await handle.result()
        assert isinstance((await reader)[-1], ErrorEvent)
        assert not await is_claimed(store)
        second = Process(store, SLOW, tools=[slow])
        result = await second.execute_next()
        assert (result.run_id, result.text) == ("r", "done")
        found = await history(store)
        assert kinds(found).count("run_start") == kinds(found).count("run_finish") == 1

    SLOW[1] = Chunks(["do", "ne"], delay_ms=3_000)
    try:
        simulated(scenario)
    finally:
        SLOW[1] = "done"


def test_leaving_gives_a_claimed_dispatch_back_without_charging_it() -> None:
    async def scenario() -> None:
        store = shared_store()
        first = Process(store, SLOW, tools=[slow])
        await store.enqueue(input_of())
        execution = asyncio.create_task(first.execute_next())
        await asyncio.sleep(2)
        await first.engine.close()
        with pytest.raises(RunHandedOver):
            await execution
        dispatch = await store.find_dispatch("d-r-go")
        assert dispatch is not None
        assert (dispatch.status, dispatch.attempt_count) == (DispatchStatus.QUEUED, 0)
        second = Process(store, SLOW, tools=[slow])
        assert (await second.execute_next()).text == "done"

    simulated(scenario)


def test_a_result_that_comes_while_its_process_leaves_is_kept_for_whoever_goes_on() -> None:
    @tool(effect="once")
    async def stubborn(text: str) -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(1)
        return f"kept {text}"

    script = [ToolCalls([("stubborn", {"text": "x"}, "c1")]), "done"]

    async def scenario() -> None:
        store = shared_store()
        first = Process(store, script, tools=[stubborn])
        await first.engine.start(GO)
        await asyncio.sleep(1)
        await first.engine.close()
        (record,) = await store.list_tool_records("r")
        assert record.status is ToolRecordStatus.FINISHED
        await Process(store, script, tools=[stubborn]).execute_next()
        assert texts(await history(store))[2] == "kept x"

    simulated(scenario)


def test_leaving_waits_for_runs_that_end_within_the_grace() -> None:
    async def scenario() -> None:
        store = shared_store()
        process = Process(store, SLOW, tools=[slow])
        handle = await process.engine.start(GO)
        await process.engine.close(grace_ms=10_000)
        assert (await handle.result()).text == "done"

    simulated(scenario)


def test_leaving_cancels_what_others_could_not_go_on_with() -> None:
    async def scenario() -> None:
        process = Process(MemoryStore(clock=LoopClock()), SLOW, tools=[slow])
        handle = await process.engine.start(GO)
        await asyncio.sleep(1)
        await process.engine.close()
        assert (await handle.result()).termination == Cancelled(cause="shutdown")

    simulated(scenario)


def test_a_run_that_ends_with_its_caller_is_cancelled_and_lets_the_thread_go() -> None:
    async def scenario() -> None:
        store = shared_store()
        process = Process(store, SLOW, tools=[slow])
        execution = asyncio.create_task(process.engine.run(GO))
        await asyncio.sleep(2)
        execution.cancel()
        with pytest.raises(asyncio.CancelledError):
            await execution
        record = await store.load_run("r")
        assert record is not None
        assert record.termination == Cancelled(cause="caller")
        assert not await is_claimed(store)

    simulated(scenario)


def test_a_cancel_that_was_accepted_holds_even_if_the_process_dies_at_once() -> None:
    async def scenario() -> None:
        store = shared_store()
        first = Process(store, SLOW, tools=[slow])
        handle = await first.engine.start(GO)
        await asyncio.sleep(2)
        assert await first.engine.cancel_active(next(iter(first.engine.active)))
        first.line.cut()
        with pytest.raises(Dead):
            await handle.result()
        await after_the_lease(store)
        second = Process(store, SLOW, tools=[slow])
        result = await second.execute_next()
        assert result.termination == Cancelled(cause="user")
        assert second.asked == 0
        found = await history(store)
        assert kinds(found)[-3:] == ["tool_call_done", "step_end", "run_finish"]
        assert not await is_claimed(store)

    simulated(scenario)


def test_a_dispatch_starts_a_run_of_its_id_and_is_acked_with_the_run_s_last_commit() -> None:
    async def scenario() -> None:
        store = shared_store()
        process = Process(store, SLOW, tools=[slow])
        await store.enqueue(input_of())
        result = await process.execute_next()
        assert (result.run_id, result.text) == ("r", "done")
        dispatch = await store.find_dispatch("d-r-go")
        assert dispatch is not None
        assert dispatch.status is DispatchStatus.ACKED
        assert all(it.claim is None for it in process.line.commits)
        assert process.book.watched == {}
        record = await store.load_run("r")
        assert record is not None
        assert record.dispatch_id == "d-r-go"

    simulated(scenario)


def test_a_stale_dispatch_is_dropped_and_says_how_its_run_ended() -> None:
    async def scenario() -> None:
        store = shared_store()
        process = Process(store, ["done"])
        await process.engine.run(GO)
        before = len(process.line.commits)
        await store.enqueue(input_of())
        assert (await process.execute_next()).text == "done"
        assert len(process.line.commits) == before
        assert process.asked == 1
        assert await store.count_queued() == 0

    simulated(scenario)


def test_a_message_to_a_waiting_run_continues_it_and_supersedes_its_tickets() -> None:
    async def scenario() -> None:
        store = shared_store()
        process = Process(store, ASK, tools=[ask])
        await process.engine.run(GO)
        await store.enqueue(input_of("never mind", run_id="other"))
        result = await process.execute_next()
        assert (result.run_id, result.text) == ("r", "done")
        assert await store.list_tickets("t") == ()
        assert texts(await history(store))[-2:] == ["never mind", "done"]
        assert await store.load_run("other") is None

    simulated(scenario)


def test_a_resume_dispatch_continues_the_waiting_run_with_its_decisions() -> None:
    async def scenario() -> None:
        store = shared_store()
        process = Process(store, ASK, tools=[ask])
        waiting = await process.engine.run(GO)
        await store.enqueue(_resume(waiting.tickets[0].ticket_id, "1", "yes"))
        assert (await process.execute_next()).text == "done"
        assert texts(await history(store))[2] == "told yes"

    simulated(scenario)


def _resume(ticket_id: str, decision_id: str, result: str) -> RunDispatch:
    given = ToolCallResume(decision_id=decision_id, result=result)
    request = RunRequest(continue_run_id="r", decisions=((ticket_id, given),))
    return RunDispatch(
        dispatch_id=f"resume-{decision_id}",
        thread_id="t",
        run_id="r",
        request=request,
        mode=InputMode.RESUME,
    )


@pytest.mark.parametrize("has_begun", [True, False])
def test_a_cancelled_dispatch_ends_its_run_without_executing_it(has_begun: bool) -> None:
    async def scenario() -> None:
        store = shared_store()
        first = Process(store, SLOW, tools=[slow], cut_after=2 if has_begun else 10)
        await store.enqueue(input_of())
        if has_begun:
            with pytest.raises(Dead):
                await first.execute_next()
            await store.request_cancel("t", "user")
            await after_the_lease(store)
        else:
            dispatch = await first.claim()
            await store.request_cancel("t", "user")
            token = dispatch.claim_token or ""
            await store.requeue(dispatch.dispatch_id, token, is_charged=False)
        second = Process(store)  # The agent is not registered there.
        result = await second.execute_next()
        assert result.termination == Cancelled(cause="user")
        assert (await store.load_run("r")).status is RunStatus.DONE  # type: ignore[union-attr]
        assert not await is_claimed(store)
        await history(store)
        assert await store.count_queued() == 0

    simulated(scenario)


def test_a_dispatch_whose_attempts_are_used_up_buries_its_run_with_the_reason() -> None:
    async def scenario() -> None:
        store = shared_store()
        await store.enqueue(input_of(max_attempts=2))
        for _ in range(2):
            with pytest.raises(Dead):
                await Process(store, SLOW, tools=[slow], cut_after=1).execute_next()
            await after_the_lease(store)
        result = await Process(store).execute_next()
        assert isinstance(result.termination, Failed)
        assert result.termination.code == "attempts_exhausted"
        dispatch = await store.find_dispatch("d-r-go")
        assert dispatch is not None
        assert dispatch.status is DispatchStatus.DEAD_LETTER
        assert dispatch.last_error == result.termination.message
        assert not await is_claimed(store)

    simulated(scenario)


def test_a_run_that_was_left_is_recovered_before_the_next_one_begins() -> None:
    async def scenario() -> None:
        store = shared_store()
        first = Process(store, SLOW, tools=[slow], cut_after=1)
        with pytest.raises(Dead):
            await first.engine.run(GO)
        await store.enqueue(input_of("next", run_id="n"))
        await after_the_lease(store)
        second = Process(store, [*SLOW, "next done"], tools=[slow])
        assert (await second.execute_next()).text == "done"  # Before what was queued behind it.
        assert (await second.execute_next()).run_id == "n"
        assert texts(await history(store)) == ["go", "", "slow x", "done", "next", "next done"]
        assert await store.count_queued() == 0
        assert not await is_claimed(store)

    simulated(scenario)


def test_decisions_that_a_recovered_run_has_not_heard_are_taken_once() -> None:
    async def scenario() -> None:
        store = shared_store()
        both = [ToolCalls([("ask", {"text": "1"}, "c1"), ("ask", {"text": "2"}, "c2")]), "done"]
        waiting = await Process(store, both, tools=[ask]).engine.run(GO)
        one, two = (ticket.ticket_id for ticket in waiting.tickets)
        await store.enqueue(_resume(one, "1", "a"))
        first = Process(store, both, tools=[ask], cut_after=1)
        with pytest.raises(Dead):
            await first.execute_next()
        await store.enqueue(_resume(two, "2", "b"))
        await after_the_lease(store)
        second = Process(store, both, tools=[ask])
        token = second.engine.services.ids.new_id()
        later = await store.claim_dispatch("resume-2", "here", token, 30_000)
        assert later is not None
        assert (await second.engine.execute(later)).text == "done"
        assert texts(await history(store))[2:4] == ["told a", "told b"]
        assert (await second.execute_next()).text == "done"  # The first one is stale by now.

    simulated(scenario)


def test_steering_that_waits_in_the_store_is_taken_in_at_the_next_step_and_acked() -> None:
    async def scenario() -> None:
        store = shared_store()
        process = Process(store, SLOW, tools=[slow])
        handle = await process.engine.start(GO)
        await asyncio.sleep(2)
        named = user("faster")
        await store.enqueue(input_of("faster", run_id="s", mode=InputMode.STEER))
        (holder,) = process.book.watched.values()
        holder.notify_input()
        await handle.result()
        assert named.text in texts(await history(store))
        (commit,) = [it for it in process.line.commits if it.absorbed]
        assert commit.absorbed == ("d-s-faster",)
        assert [it.text for it in commit.messages if it.text == "faster"] == ["faster"]
        dispatch = await store.find_dispatch("d-s-faster")
        assert dispatch is not None
        assert (dispatch.status, dispatch.taken_by) == (DispatchStatus.ACKED, "r")

    simulated(scenario)


def test_steering_that_comes_with_the_last_answer_keeps_the_run_alive() -> None:
    async def scenario() -> None:
        store = shared_store()
        script = [Chunks(["do", "ne"], delay_ms=5_000), "done again"]
        process = Process(store, script)
        handle = await process.engine.start(GO)
        await asyncio.sleep(2)
        await store.enqueue(input_of("wait", run_id="s", mode=InputMode.STEER))
        next(iter(process.book.watched.values())).notify_input()
        assert (await handle.result()).text == "done again"
        assert texts(await history(store)) == ["go", "done", "wait", "done again"]

    simulated(scenario)


def test_input_that_a_run_did_not_take_in_stays_queued_and_starts_the_next() -> None:
    async def scenario() -> None:
        store = shared_store()
        process = Process(store, ["done", "and more"])
        await process.engine.run(GO)
        await store.enqueue(input_of("more", run_id="s", mode=InputMode.STEER))
        result = await process.execute_next()
        assert (result.run_id, result.text) == ("s", "and more")

    simulated(scenario)


def test_a_decision_that_waits_in_the_store_is_taken_before_the_run_goes_to_sleep() -> None:
    async def scenario() -> None:
        store = shared_store()
        both = [ToolCalls([("ask", {"text": "1"}, "c1"), ("slow", {"text": "2"}, "c2")]), "done"]
        process = Process(store, both, tools=[ask, slow])
        handle = await process.engine.start(GO)
        await asyncio.sleep(2)
        (ticket,) = await store.list_tickets("t")
        await store.enqueue(_resume(ticket.ticket_id, "1", "yes"))
        next(iter(process.book.watched.values())).notify_input()
        assert (await handle.result()).text == "done"
        assert await store.count_queued() == 0
        assert [it.absorbed for it in process.line.commits if it.absorbed] == [("resume-1",)]

    simulated(scenario)


def test_a_stream_is_kept_from_time_to_time_and_the_next_process_goes_on_with_it() -> None:
    whole, asked = "one two three four", []

    def rest(request: InferenceRequest) -> str:
        asked.append(text_to_continue(request.messages))
        return whole.removeprefix(asked[-1] or "")

    async def scenario() -> None:
        store = shared_store()
        script = [Chunks(["one ", "two ", "three ", "four"], delay_ms=1_500)]
        first = Process(store, script)
        execution = asyncio.create_task(first.engine.run(GO))
        await asyncio.sleep(4)
        kept = await store.find_checkpoint("r")
        assert kept is not None
        assert (kept.step, "one two" in kept.content[0].text) == (1, True)  # type: ignore[union-attr]
        first.line.cut()
        with pytest.raises(Dead):
            await execution
        await after_the_lease(store)
        second = Process(store, [rest])
        assert (await second.execute_next()).text == whole
        found = await history(store)
        assert texts(found) == ["go", whole]
        assert asked == [kept.content[0].text]  # type: ignore[union-attr]
        assert await store.find_checkpoint("r") is None
        assert kinds(found).count("step_start") == 1

    simulated(scenario)


def test_a_reader_of_a_recovered_turn_forgets_what_it_saw_and_gets_all_of_it_again() -> None:
    seen: list[Any] = []

    async def scenario() -> None:
        store = shared_store()
        script = [Turn("lo", delay_ms=3_000)]
        first = Process(store, [Chunks(["hel", "lo"], delay_ms=5_000)])
        execution = asyncio.create_task(first.engine.run(GO))
        await asyncio.sleep(4)
        first.line.cut()
        with pytest.raises(Dead):
            await execution
        (dispatch,) = await after_the_lease(store)
        second = Process(store, script)
        request = RunRequest(thread_id="t", continue_run_id="r")
        token = second.engine.services.ids.new_id()
        await store.claim_dispatch(dispatch.dispatch_id, "gone", token, 1)
        await store.release(dispatch.dispatch_id, token)
        seen.extend([event async for event in second.engine.stream(request)])

    simulated(scenario)
    names = [type(event).__name__ for event in seen]
    assert names.index("StreamReset") < names.index("TextDelta")
    assert [event.delta for event in seen if isinstance(event, TextDelta)] == ["hel", "lo"]
    assert "RunStart" not in names
    assert names[-1] == "RunFinish"


class HangingModel:
    """Streams a text, a whole call and half of another one, and then nothing more."""

    name = "hanging"

    async def stream(self, _request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        yield TextDelta(delta="so ")
        for call_id, arguments in (("c1", '{"text": "1"}'), ("c2", '{"text": "2')):
            yield ToolCallStart(id=call_id, name="slow")
            yield ToolCallDelta(id=call_id, args_delta=arguments)
        await asyncio.sleep(50)


def test_calls_that_another_process_has_heard_whole_are_run_without_asking_again() -> None:
    async def scenario() -> None:
        store = shared_store()
        first = Process(store, ["never"], model=HangingModel(), tools=[slow])
        execution = asyncio.create_task(first.engine.run(GO))
        await asyncio.sleep(4)
        kept = await store.find_checkpoint("r")
        assert kept is not None
        assert ([call.id for call in kept.tool_calls], kept.open_tool) == (["c1"], "slow")
        first.line.cut()
        with pytest.raises(Dead):
            await execution
        await after_the_lease(store)
        second = Process(store, ["never", "done"], tools=[slow])
        assert (await second.execute_next()).text == "done"
        assert second.asked == 1
        assert texts(await history(store))[:3] == ["go", "so ", "slow 1"]

    simulated(scenario)


@pytest.mark.parametrize("every", [0, 60_000])
def test_a_short_turn_or_a_limit_of_zero_keeps_no_checkpoint(every: int) -> None:
    async def scenario() -> None:
        limits = Limits(stream_checkpoint_ms=every)
        process = Process(shared_store(), [Chunks(["a", "b"], delay_ms=9_000)], limits=limits)
        await process.engine.run(GO)
        assert process.line.checkpoints == 0

    simulated(scenario)


def test_a_checkpoint_that_is_refused_stops_the_run_and_one_that_fails_does_not() -> None:
    async def scenario(error: Exception) -> Any:
        process = Process(shared_store(), [Chunks(["a", "b"], delay_ms=9_000)])

        async def refuse(*_: Any) -> None:
            raise error

        process.line.save_checkpoint = refuse  # type: ignore[method-assign]
        return await process.engine.run(GO)

    with pytest.raises(LeaseLost):
        simulated(lambda: scenario(LeaseLost(thread_id="t")))
    down = StoreUnavailable(store="test", problem="down")
    assert simulated(lambda: scenario(down)).termination == NaturalEnd()


def test_a_checkpoint_that_failed_is_saved_again_though_nothing_new_came(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        store = shared_store()
        process = Process(store, ["never"], model=HangingModel(), tools=[slow])
        save, failures = process.line.save_checkpoint, []

        async def fail_twice(*given: Any) -> None:
            if len(failures) < 2:
                failures.append(given)
                raise StoreUnavailable(store="test", problem="down")
            await save(*given)

        process.line.save_checkpoint = fail_twice  # type: ignore[method-assign]
        execution = asyncio.create_task(process.engine.run(GO))
        await asyncio.sleep(9)
        kept = await store.find_checkpoint("r")
        assert kept is not None
        assert [call.id for call in kept.tool_calls] == ["c1"]
        process.line.cut()
        with pytest.raises(Dead):
            await execution
        # Told once, in one line.
        told = [it for it in caplog.records if "checkpoint was not saved" in it.getMessage()]
        assert [(it.levelname, it.exc_info) for it in told if it.levelno > 10] == [
            ("WARNING", None)
        ]

    simulated(scenario)


def test_a_thread_that_was_claimed_for_a_run_that_has_not_begun_is_busy() -> None:
    async def scenario() -> None:
        store = shared_store()
        await store.enqueue(input_of())
        await store.claim("elsewhere", "token", 30_000)
        process = Process(store, ["done"])
        for attempt in (process.engine.run, process.engine.start, _streamed(process)):
            with pytest.raises(ThreadBusy):
                await attempt(RunRequest(thread_id="t", agent_id="a", messages=(user("hi"),)))
        assert process.asked == 0
        assert process.book.watched == {}
        assert await store.list_events("t") == ()

    simulated(scenario)


def test_a_run_that_loses_its_lease_on_the_way_out_does_not_write_its_end() -> None:
    async def linger(_context: Any) -> None:
        await asyncio.sleep(5)

    async def scenario() -> None:
        store = shared_store()
        process = Process(store, ["done"], plugins=[Hooks({Phase.RUN_END: linger})])
        handle = await process.engine.start(GO)
        await asyncio.sleep(2)
        next(iter(process.book.watched.values())).lease_lost()
        with pytest.raises(LeaseLost):
            await handle.result()
        assert (await store.load_run("r")).status is RunStatus.RUNNING  # type: ignore[union-attr]

    simulated(scenario)


def test_a_queued_decision_on_a_ticket_that_is_not_open_any_more_is_taken_in_and_over() -> None:
    async def scenario() -> None:
        store = shared_store()
        both = [ToolCalls([("ask", {"text": "1"}, "c1"), ("slow", {"text": "2"}, "c2")]), "done"]
        process = Process(store, both, tools=[ask, slow])
        handle = await process.engine.start(GO)
        await asyncio.sleep(2)
        await store.enqueue(_resume("no such ticket", "1", "yes"))
        next(iter(process.book.watched.values())).notify_input()
        assert (await handle.result()).is_waiting
        assert await store.count_queued() == 0

    simulated(scenario)


def test_a_run_that_is_left_while_it_is_admitted_is_given_back_too() -> None:
    async def scenario() -> None:
        store = shared_store()
        process = Process(store, ["done"])
        await store.enqueue(input_of())
        dispatch = await process.claim()
        active = await process.engine.active.reserve("t")
        execution = asyncio.create_task(process.engine.execute(dispatch))
        await asyncio.sleep(1)
        process.engine.active.release(active)
        closing = asyncio.create_task(process.engine.close())
        try:
            result = await execution
        except RunHandedOver:
            queued = await store.find_dispatch(dispatch.dispatch_id)
            assert queued is not None
            assert (queued.status, queued.attempt_count) == (DispatchStatus.QUEUED, 0)
        else:
            assert result.termination == NaturalEnd()
        await closing

    simulated(scenario)


def test_a_run_that_is_handed_over_leaves_all_that_its_model_has_said() -> None:
    async def scenario() -> None:
        store = shared_store()
        first = Process(store, [Chunks(["one ", "two ", "three"], delay_ms=900)])
        handle = await first.engine.start(GO)
        await asyncio.sleep(1.2)
        await first.engine.close()
        with pytest.raises(RunHandedOver):
            await handle.result()
        kept = await store.find_checkpoint("r")
        assert kept is not None
        assert kept.content[0].text == "one two "  # type: ignore[union-attr]

    simulated(scenario)


def test_what_was_heard_survives_a_second_crash_right_after_the_first() -> None:
    async def scenario() -> None:
        store = shared_store()
        first = Process(store, [Chunks(["one ", "two"], delay_ms=9_000)])
        await crashed(first, asyncio.create_task(first.engine.run(GO)), after_s=3)
        await after_the_lease(store)
        second = Process(store, [Turn("two", delay_ms=9_000)])
        await crashed(second, asyncio.create_task(second.execute_next()), after_s=1)
        kept = await store.find_checkpoint("r")
        assert kept is not None
        assert kept.content[0].text == "one "  # type: ignore[union-attr]

    simulated(scenario)


async def crashed(process: Process, execution: asyncio.Task[Any], after_s: float) -> None:
    await asyncio.sleep(after_s)
    process.line.cut()
    with pytest.raises(Dead):
        await execution
