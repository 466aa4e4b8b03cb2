"""Backends as the seeds have them: statuses, steps, errors, defaults, and threads that are free."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from awaken import (
    Agent,
    AgentEvent,
    AgentRuntime,
    Cancelled,
    Failed,
    NaturalEnd,
    RunFinish,
    RunResult,
    RunStatus,
    Stopped,
    Suspended,
    Timeout,
    tool,
)
from awaken.backends import (
    BackendCapabilities,
    BackendRunOutput,
    BackendRunResult,
    BackendRunStatus,
)
from awaken.errors import (
    AgentNotFound,
    BackendExecutionFailed,
    RemoteUnreachable,
    UnsupportedFeature,
)
from awaken.events import StoppedReason, Termination
from awaken.messages import Role
from awaken.models import InferenceOverride
from awaken.plugins import REQUEST_OPTIONS, Block, ToolGateContext
from awaken.stores import RunInput, RunRecord
from awaken.testing import FakeClock, LoopClock, ToolCalls, simulate

from .delegating import (
    Door,
    agent,
    answers,
    asking,
    asks,
    boss,
    child_of,
    ended,
    heard,
    within,
)
from .each_store import NewStore, each_store
from .remoting import STATELESS, FakeBackend, behind, remote_runtime, said, waits
from .worlds import Gate

on_both_places = pytest.mark.parametrize("place", ["local", "remote"])
Scenario = Callable[[], Coroutine[Any, Any, None]]


def finish_in(events: list[AgentEvent]) -> RunFinish:
    (finish,) = [it for it in events if isinstance(it, RunFinish)]
    return finish


async def finish_of(rt: AgentRuntime, record: RunRecord) -> RunFinish:
    """The last event of a run, as the log has it."""
    logged = await rt.store.list_events(record.thread_id)
    finishes = [it.event for it in logged if it.run_id == record.run_id]
    assert isinstance(finishes[-1], RunFinish)
    return finishes[-1]


def shown(finish: RunFinish) -> tuple[Any, Any]:
    assert finish.result is not None
    return finish.result["status"], finish.result["status_reason"]


def asker(*more: Any) -> Agent:
    return boss(asks("far"), *(more or [heard]), delegates=["far"])


# --- statuses, steps, errors ---


@each_store
@pytest.mark.parametrize("when", ["executing", "waiting", "waiting without its agent"])
def test_a_cancelled_remote_root_is_shown_as_cancelled(
    new_store: NewStore, when: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        door = Door()
        can = STATELESS if when == "waiting without its agent" else BackendCapabilities()
        turn = behind(door) if when == "executing" else waits(BackendRunStatus.WAITING_INPUT, "?")
        async with remote_runtime(FakeBackend(turn, can=can), new_store(tmp_path)()) as rt:
            handle = await rt.start("far", "hi", thread_id="t")
            await (door.opened() if when == "executing" else within(handle.result()))
            assert await handle.cancel()
            record = await ended(rt, handle.run_id)
            finish = await finish_of(rt, record)
            assert shown(finish) == ("cancelled", "cancelled")
            assert finish.termination == record.termination == Cancelled(cause="user")
            assert finish.result is not None
            assert (finish.result["response"], "output" in finish.result) == ("", False)
            assert record.backend_status is BackendRunStatus.CANCELLED
            assert (record.steps, record.final_output) == (0 if when == "executing" else 1, None)

    asyncio.run(scenario())


@each_store
def test_steps_are_those_that_the_backend_has_counted(new_store: NewStore, tmp_path: Path) -> None:
    async def scenario() -> None:
        asked = waits(BackendRunStatus.WAITING_INPUT, "?", steps=2)
        failed = RemoteUnreachable(problem="no route")
        silent = BackendRunResult(
            agent_id="far", status=BackendRunStatus.COMPLETED, termination=NaturalEnd()
        )
        backend = FakeBackend(
            said("a", steps=7), said("b", steps=5), failed, asked, said("c", steps=3), silent
        )
        async with remote_runtime(backend, new_store(tmp_path)(), asker()) as rt:
            root = await rt.run("far", "hi", thread_id="r")
            assert (root.steps, (await rt.get_run(root.run_id)).steps) == (7, 7)
            said_at = [it.message.metadata for it in await rt.messages("r")]
            assert said_at[1] is not None
            assert said_at[1].step_index == 6
            parent = await rt.run("boss", "hi", thread_id="t")
            assert (await child_of(rt, parent.run_id)).steps == 5
            assert '"steps":5' in (await answers(rt, "t"))[0]
            broken = await (await rt.start("far", "hi", thread_id="x")).result()
            assert (broken.steps, (await rt.get_run(broken.run_id)).steps) == (0, 0)
            # A run that waited counts all its turns, as one that executes here does.
            await rt.run("far", "hi", thread_id="w")
            assert (await rt.run("far", "Rome", thread_id="w")).steps == 5
            assert (await rt.run("far", "again", thread_id="w")).steps == 1

    asyncio.run(scenario())


ERRORS = {
    "agent_not_found": AgentNotFound(problem="no agent 'x' here"),
    "backend_execution_failed": BackendExecutionFailed(problem="out of paper"),
    "remote_unreachable": RemoteUnreachable(problem="no route"),
}


@each_store
@pytest.mark.parametrize("code", ERRORS)
def test_an_error_of_a_backend_is_shown_in_its_own_words(
    new_store: NewStore, code: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        error, problem = ERRORS[code], ERRORS[code].problem
        backend = FakeBackend(error, error)
        async with remote_runtime(backend, new_store(tmp_path)(), asker()) as rt:
            root = await (await rt.start("far", "hi", thread_id="r")).result()
            assert root.termination == Failed(message=problem, code=code)
            parent = await rt.run("boss", "hi", thread_id="t")
            child = await child_of(rt, parent.run_id)
            assert child.termination == Failed(message=problem, code=code)
            assert child.steps == 0
            assert f"(failed: {problem})" in (await answers(rt, "t"))[0]

    asyncio.run(scenario())


POLLED = Failed(message="polling timeout exceeded", code="remote_unfinished")
TIMED_OUT = Stopped(reason=StoppedReason(code="timeout", detail="10 ms"))
BROKE = Failed(message="broke", code="backend_error")
DONE, FAILED = BackendRunStatus.COMPLETED, BackendRunStatus.FAILED
TIMEOUT, WAITING = BackendRunStatus.TIMEOUT, BackendRunStatus.WAITING_INPUT
CANCELLED, REMOTE = BackendRunStatus.CANCELLED, Cancelled(cause="remote")
TOLD: list[tuple[BackendRunStatus, Termination, Termination, str, str]] = [
    # What a backend says stands, also where it says two different things.
    (TIMEOUT, POLLED, POLLED, "timeout", "timeout"),
    (CANCELLED, POLLED, POLLED, "cancelled", "cancelled"),
    (FAILED, REMOTE, REMOTE, "failed", "error"),
    (FAILED, TIMED_OUT, TIMED_OUT, "failed", "error"),
    (DONE, POLLED, POLLED, "done", "error"),
    (DONE, Suspended(), Suspended(), "waiting", "suspended"),
    # But what waits has not ended, and what did not succeed has not ended well.
    (WAITING, POLLED, Suspended(), "waiting_input", "input_required"),
    (FAILED, NaturalEnd(), BROKE, "failed", "error"),
    (CANCELLED, Suspended(), REMOTE, "cancelled", "cancelled"),
]


@each_store
def test_the_termination_of_a_backend_stands_beside_its_status(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        turns = [
            said(status=status, termination=given, message="broke") for status, given, *_ in TOLD
        ]
        async with remote_runtime(FakeBackend(*turns), new_store(tmp_path)()) as rt:
            for number, (status, _, kept, label, reason) in enumerate(TOLD):
                thread = f"t{number}"
                finish = finish_in([it async for it in rt.stream("far", "hi", thread_id=thread)])
                assert (finish.termination, *shown(finish)) == (kept, label, reason)
                record = await rt.get_run(finish.run_id)
                is_waiting = isinstance(kept, Suspended)
                assert record.status is (RunStatus.WAITING if is_waiting else RunStatus.DONE)
                assert record.termination == (None if is_waiting else kept)
                assert record.backend_status is status

    asyncio.run(scenario())


@each_store
def test_an_empty_text_is_an_answer_and_wins_over_the_response(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        nothing = said("not this", output=BackendRunOutput(text=""))
        question = waits(WAITING, "which city?")
        backend = FakeBackend(nothing, nothing, question, nothing, said("this"))
        async with remote_runtime(backend, new_store(tmp_path)(), asker()) as rt:
            assert (await rt.run("far", "hi", thread_id="r")).text == ""
            assert [it.message.role for it in await rt.messages("r")] == [Role.USER]
            await rt.run("boss", "hi", thread_id="t")
            assert '"response":""' in (await answers(rt, "t"))[0]
            # An earlier turn's question is no answer either.
            await rt.run("far", "hi", thread_id="w")
            assert (await rt.run("far", "Rome", thread_id="w")).text == ""
            assert (await rt.run("far", "hi", thread_id="x")).text == "this"

    asyncio.run(scenario())


async def no(_: ToolGateContext) -> Block:
    return Block(reason="not on Sundays")


ENDLESS = ToolCalls([("work", {})])
STOPPED: dict[str, tuple[dict[str, Any], str]] = {
    "rounds": ({"max_rounds": 1}, "failed: stopped: max_rounds (1 rounds)"),
    "time": ({"stop": [Timeout(seconds=5)]}, "failed: stopped: timeout (6000 of 5000)"),
    "gate": ({"plugins": [Gate(no)]}, "failed: blocked: not on Sundays"),
}


@each_store
@pytest.mark.parametrize("how", STOPPED)
def test_a_delegate_that_was_stopped_or_blocked_says_why(
    new_store: NewStore, how: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        options, told = STOPPED[how]
        clock = FakeClock()

        @tool
        def work() -> None:
            """Take some time."""
            clock.advance(6_000)

        worker = agent("worker", ENDLESS, ENDLESS, tools=[work], **options)
        backend = FakeBackend(said(status=TIMEOUT, message="10 ms"))
        both = boss(asks("worker"), asks("far"), heard, delegates=["worker", "far"])
        async with remote_runtime(backend, new_store(tmp_path)(), both, worker, clock=clock) as rt:
            await rt.run("boss", "hi", thread_id="t")
            here, there = await answers(rt, "t")
            assert f"({told}" in here
            # A backend that gave up in time says so itself.
            assert "(timeout)" in there

    asyncio.run(scenario())


# --- what the record says of the current turn ---


def started(place: str, store: Any, *turns: Any, **options: Any) -> AgentRuntime:
    """A runtime whose agent `far` waits for somebody, here or elsewhere."""
    if place == "remote":
        turns = turns or (waits(WAITING, "which?"), said("done"))
        return remote_runtime(FakeBackend(*turns), store, **options)
    return remote_runtime(FakeBackend(), store, asking("near"), **options)


NAMES = {"local": "near", "remote": "far"}


@each_store
@on_both_places
@pytest.mark.parametrize("way", ["start", "queue", "resume"])
def test_a_continued_run_names_the_session_and_the_request_of_its_current_turn(
    new_store: NewStore, place: str, way: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with started(place, new_store(tmp_path)()) as rt:
            first: Any = {"thread_id": "t", "session_id": "s1", "transport_request_id": "r1"}
            then: Any = {"thread_id": "t", "session_id": "s2", "transport_request_id": "r2"}
            waiting = await rt.run(NAMES[place], "hi", **first)
            if way == "start":
                done = await (await rt.start(None, "Rome", **then)).result()
            else:
                receipt = await rt.submit(None, "Rome", mode=way, **then)
                done = await within(rt.wait(receipt.run_id))
            assert (done.run_id, done.status) == (waiting.run_id, RunStatus.DONE)
            record = await rt.get_run(done.run_id)
            assert (record.session_id, record.transport_request_id) == ("s2", "r2")

    asyncio.run(scenario())


@each_store
@on_both_places
def test_a_run_that_waits_names_the_dispatch_since_which_it_does(
    new_store: NewStore, place: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with started(place, new_store(tmp_path)()) as rt:
            receipt = await rt.submit(NAMES[place], "hi", thread_id="t")
            await within(rt.wait(receipt.run_id))
            waiting = (await rt.get_run(receipt.run_id)).waiting
            assert waiting is not None
            assert waiting.since_dispatch_id == receipt.dispatch_id
            # What was not queued waits since no dispatch.
            await rt.run(NAMES[place], "hi", thread_id="other")
            (other,) = await rt.list_runs("other")
            assert other.waiting is None or other.waiting.since_dispatch_id is None

    asyncio.run(scenario())


@each_store
@on_both_places
def test_what_a_run_was_given_is_known_without_a_copy_of_its_request(
    new_store: NewStore, place: str, tmp_path: Path
) -> None:
    """The dispatch has the request, the record which messages, the state what still holds."""

    async def scenario() -> None:
        async with started(place, new_store(tmp_path)()) as rt:
            warm = InferenceOverride(temperature=0.25)
            receipt = await rt.submit(NAMES[place], "hi", thread_id="t", overrides=warm)
            await within(rt.wait(receipt.run_id))
            record = await rt.get_run(receipt.run_id)
            assert record.input == RunInput(from_seq=1, to_seq=1)
            dispatch = await rt.store.find_dispatch_of_run(record.run_id)
            assert dispatch is not None
            assert dispatch.request.overrides == warm
            checkout = await rt.store.checkout("t")
            assert checkout is not None
            kept = checkout.run_state[REQUEST_OPTIONS.name]
            assert REQUEST_OPTIONS.decode(kept).overrides == warm
            await rt.run(NAMES[place], "Rome", thread_id="t")
            messages = [it.message for it in await rt.messages("t")]
            own = [it for it in messages if it.metadata and it.metadata.run_id == record.run_id]
            assert own == messages
            assert (await rt.get_run(receipt.run_id)).input == record.input

    asyncio.run(scenario())


# --- threads that are free ---


@each_store
@pytest.mark.parametrize("way", ["run", "submit"])
def test_a_stateless_backend_that_waits_does_not_block_its_thread(
    new_store: NewStore, way: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        backend = FakeBackend(waits(WAITING, "which?"), said("Rome it is"), can=STATELESS)
        async with remote_runtime(backend, new_store(tmp_path)()) as rt:
            waiting = await rt.run("far", "hi", thread_id="t")
            assert (waiting.status, waiting.text) == (RunStatus.WAITING, "which?")
            # Whoever names the run is told that it cannot go on, and what can be done instead.
            with pytest.raises(UnsupportedFeature, match=r"continuation; .*without naming the run"):
                await rt.run("far", "Rome", thread_id="t", continue_run_id=waiting.run_id)
            if way == "run":
                done = await rt.run("far", "Rome", thread_id="t")
            else:
                receipt = await rt.submit("far", "Rome", thread_id="t")
                done = await within(rt.wait(receipt.run_id))
            assert (done.text, done.run_id == waiting.run_id) == ("Rome it is", False)
            old = await rt.get_run(waiting.run_id)
            assert old.termination == Cancelled(cause="superseded")
            assert shown(await finish_of(rt, old)) == ("cancelled", "cancelled")
            assert backend.transcripts[-1] == ["hi", "which?", "Rome"]

    asyncio.run(scenario())


@each_store
@pytest.mark.parametrize("is_cancel_first", [True, False])
def test_a_cancel_of_a_run_that_gives_way_spares_the_new_one(
    new_store: NewStore, tmp_path: Path, *, is_cancel_first: bool
) -> None:
    async def scenario() -> None:
        backend = FakeBackend(waits(WAITING, "which?"), said("Rome it is"), can=STATELESS)
        async with remote_runtime(backend, new_store(tmp_path)()) as rt:
            waiting = await rt.run("far", "hi", thread_id="t")
            cancel, run = rt.cancel(waiting.run_id), rt.run("far", "Rome", thread_id="t")
            both = (cancel, run) if is_cancel_first else (run, cancel)
            done = (await within(asyncio.gather(*both)))[is_cancel_first]
            assert isinstance(done, RunResult)
            assert (done.text, done.termination) == ("Rome it is", NaturalEnd())
            old = await rt.get_run(waiting.run_id)
            assert isinstance(old.termination, Cancelled)

    asyncio.run(scenario())


async def rest_of(rt: AgentRuntime, name: str, way: str) -> RunResult:
    """What a run on the thread comes to, asked for as soon as it can be."""
    if way == "mailbox":
        receipt = await rt.submit(name, "hi", thread_id="t")
        return await rt.wait(receipt.run_id)
    handle = await rt.start(name, "hi", thread_id="t", on_busy="reject")
    if way == "result":
        return await handle.result()
    async with aclosing(handle.events()) as events:
        async for event in events:
            if isinstance(event, RunFinish):
                # Its task may be done by now, and not everything that follows from that.
                return await handle.result()
    raise AssertionError


REPEATED = 8


async def start_at_once(rt: AgentRuntime, place: str, way: str) -> None:
    name = NAMES[place]
    for _ in range(REPEATED):
        result = await rest_of(rt, name, way)
        assert result.status is RunStatus.DONE
        # Nothing is awaited between the result and this.
        again = await rt.start(name, "again", thread_id="t", on_busy="reject")
        assert (await again.result()).status is RunStatus.DONE


def free_world(store: Any, **options: Any) -> AgentRuntime:
    count = 2 * REPEATED
    near = agent("near", *["ok"] * count)
    return remote_runtime(FakeBackend(*[said("ok")] * count), store, near, **options)


@each_store
@on_both_places
@pytest.mark.parametrize("way", ["result", "last event", "mailbox"])
def test_a_thread_is_free_as_soon_as_its_run_has_given_its_result(
    new_store: NewStore, place: str, way: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with free_world(new_store(tmp_path)()) as rt:
            await within(start_at_once(rt, place, way))

    asyncio.run(scenario())


@on_both_places
@pytest.mark.parametrize("way", ["result", "last event"])
def test_a_thread_is_free_then_in_whatever_order_things_happen(place: str, way: str) -> None:
    async def scenario() -> None:
        async with free_world(None, clock=LoopClock()) as rt:
            await start_at_once(rt, place, way)

    simulate(scenario, seeds=range(25))
