"""Agents that execute elsewhere: the same first and last events, records and ways to stop."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from awaken import (
    AgentEvent,
    Blocked,
    Cancelled,
    Failed,
    NaturalEnd,
    Phase,
    RunFailed,
    RunFinish,
    RunStatus,
    StateCommand,
    Stopped,
    Suspended,
    TextDelta,
)
from awaken.backends import BackendOutputArtifact, BackendRunOutput, BackendRunStatus, RemoteTarget
from awaken.errors import RemoteUnreachable
from awaken.events import StateSnapshot, StoppedReason, Termination
from awaken.models import TokenUsage
from awaken.plugins import BACKEND_OUTPUT, RUN_LIFECYCLE, End
from awaken.stores import WaitingReason

from .delegating import (
    Door,
    StoreOf,
    answers,
    asks,
    boss,
    child_of,
    ended,
    heard,
    nothing_ordered,
    on_both_stores,
    ticket_on,
    within,
)
from .remoting import (
    TARGET,
    FakeBackend,
    Turn,
    behind,
    far,
    remote_runtime,
    said,
    waits,
)
from .worlds import Hooks

KINDS = ["run_start", "step_start", "text_delta", "inference_complete", "step_end", "run_finish"]


def kinds(events: list[AgentEvent]) -> list[str]:
    return [it.__struct_config__.tag for it in events if not isinstance(it, StateSnapshot)]


def finish_of(events: list[AgentEvent]) -> RunFinish:
    last = events[-1]
    assert isinstance(last, RunFinish)
    return last


@on_both_stores
def test_a_remote_agent_is_run_like_any_other(store_of: StoreOf, tmp_path: Path) -> None:
    async def scenario() -> None:
        usage = TokenUsage(prompt_tokens=1, completion_tokens=2, total_tokens=3)
        backend = FakeBackend(said("from afar", usage=usage))
        async with remote_runtime(backend, store_of(tmp_path)) as rt:
            events = [it async for it in rt.stream("far", "hi", thread_id="t")]
            assert kinds(events) == KINDS
            assert [it.delta for it in events if isinstance(it, TextDelta)] == ["from afar"]
            finish = finish_of(events)
            assert finish.termination == NaturalEnd()
            assert finish.result == {
                "response": "from afar",
                "status": "done",
                "status_reason": "natural",
                "output": {"text": "from afar"},
            }
            record = await rt.get_run(finish.run_id)
            assert (record.status, record.termination) == (RunStatus.DONE, NaturalEnd())
            assert (record.steps, record.final_output) == (1, "from afar")
            assert record.usage == usage
            texts = [(it.message.role.value, it.message.text) for it in await rt.messages("t")]
            assert texts == [("user", "hi"), ("assistant", "from afar")]
            logged = [it.event for it in await rt.store.list_events("t")]
            assert kinds(logged) == KINDS

    asyncio.run(scenario())


@on_both_stores
def test_a_backend_is_told_what_is_new_and_what_was_before(
    store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario() -> None:
        backend = FakeBackend(said("one"), said("two"))
        async with remote_runtime(backend, store_of(tmp_path)) as rt:
            await rt.run("far", "first", thread_id="t")
            result = await rt.run("far", "second", thread_id="t")
            asked = backend.roots[1]
            assert backend.transcripts == [["first"], ["first", "one", "second"]]
            assert [it.text for it in asked.new_messages] == ["second"]
            assert (asked.is_continuation, asked.is_recovered) == (False, False)
            assert (asked.agent_id, asked.run_identity.run_id) == ("far", result.run_id)
            assert asked.drive is None

    asyncio.run(scenario())


WAITS = {
    BackendRunStatus.WAITING_INPUT: (WaitingReason.USER_INPUT, "input_required"),
    BackendRunStatus.WAITING_AUTH: (WaitingReason.TOOL_PERMISSION, "auth_required"),
    BackendRunStatus.SUSPENDED: (WaitingReason.TOOL_PERMISSION, "suspended"),
}


@on_both_stores
@pytest.mark.parametrize("status", WAITS)
@pytest.mark.parametrize("termination", [Suspended(), NaturalEnd()], ids=["agreed", "odd"])
def test_a_backend_that_waits_makes_the_run_wait_and_go_on(
    store_of: StoreOf, status: BackendRunStatus, termination: Termination, tmp_path: Path
) -> None:
    async def scenario() -> None:
        first = waits(status, "which city?", termination=termination)
        backend = FakeBackend(first, said("Rome it is"))
        async with remote_runtime(backend, store_of(tmp_path)) as rt:
            events = [it async for it in rt.stream("far", "hi", thread_id="t")]
            finish = finish_of(events)
            reason, text = WAITS[status]
            assert finish.termination == Suspended()
            assert finish.result is not None
            assert (finish.result["status"], finish.result["status_reason"]) == (status, text)
            record = await rt.get_run(finish.run_id)
            assert (record.status, record.termination) == (RunStatus.WAITING, None)
            assert record.waiting is not None
            assert (record.waiting.reason, record.waiting.message) == (reason, text)
            result = await rt.run("far", "Rome", thread_id="t")
            assert (result.run_id, result.text) == (finish.run_id, "Rome it is")
            again = backend.roots[1]
            assert (again.is_continuation, again.is_recovered) == (True, False)
            assert [it.text for it in again.new_messages] == ["Rome"]
            assert (await rt.get_run(finish.run_id)).steps == 2

    asyncio.run(scenario())


def test_a_run_that_goes_on_finds_what_was_kept_for_it() -> None:
    async def scenario() -> None:
        async def asks_back(request: Any) -> Any:
            known = RemoteTarget(run_id=request.run_identity.run_id, task_id="task-1")
            await request.checkpoint.save(TARGET, known)
            return waits(BackendRunStatus.WAITING_INPUT, "which?")

        backend = FakeBackend(said("before"), asks_back, said("done"))
        async with remote_runtime(backend, None) as rt:
            await rt.run("far", "first", thread_id="t")
            waiting = await rt.run("far", "second", thread_id="t")
            await rt.run("far", "this one", thread_id="t")
            target = RemoteTarget(run_id=waiting.run_id, task_id="task-1")
            assert backend.targets == [None, None, target]

    asyncio.run(scenario())


ENDS: dict[str, tuple[Turn, Termination, str, str]] = {
    "an error of the other side": (
        RemoteUnreachable(problem="no route"),
        Failed(message="no route", code="remote_unreachable"),
        "failed",
        "error",
    ),
    "any exception": (
        ValueError("odd"),
        Failed(message="ValueError: odd", code="backend_error"),
        "failed",
        "error",
    ),
    "a failure": (
        said(status=BackendRunStatus.FAILED, message="no such city"),
        Failed(message="no such city", code="backend_error"),
        "failed",
        "error",
    ),
    "a timeout": (
        said(status=BackendRunStatus.TIMEOUT, message="10 ms"),
        Stopped(reason=StoppedReason(code="timeout", detail="10 ms")),
        "timeout",
        "timeout",
    ),
    "a cancellation there": (
        said(status=BackendRunStatus.CANCELLED),
        Cancelled(cause="remote"),
        "cancelled",
        "cancelled",
    ),
    "a block": (
        said(status=BackendRunStatus.FAILED, termination=Blocked(reason="no")),
        Blocked(reason="no"),
        "failed",
        "error",
    ),
}


@on_both_stores
@pytest.mark.parametrize("how", ENDS)
def test_every_end_of_a_backend_is_the_end_of_the_run(
    store_of: StoreOf, how: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        turn, termination, label, reason = ENDS[how]
        backend = FakeBackend(turn, said("again"))
        async with remote_runtime(backend, store_of(tmp_path)) as rt:
            events = [it async for it in rt.stream("far", "hi", thread_id="t")]
            assert kinds(events) == ["run_start", "step_start", "step_end", "run_finish"]
            finish = finish_of(events)
            assert finish.termination == termination
            assert finish.result is not None
            assert (finish.result["status"], finish.result["status_reason"]) == (label, reason)
            record = await rt.get_run(finish.run_id)
            assert (record.status, record.termination) == (RunStatus.DONE, termination)
            assert (await rt.run("far", "again", thread_id="t")).text == "again"

    asyncio.run(scenario())


def test_a_backend_that_fails_raises_only_for_whoever_awaits_the_run() -> None:
    async def scenario() -> None:
        backend = FakeBackend(ValueError("odd"))
        async with remote_runtime(backend, None) as rt:
            with pytest.raises(RunFailed, match="ValueError: odd"):
                await rt.run("far", "hi", thread_id="t")

    asyncio.run(scenario())


@on_both_stores
def test_what_a_remote_agent_gives_back_is_kept_and_passed_on(
    store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario() -> None:
        artifact = BackendOutputArtifact(id="a1", name="map.png", content={"at": "Rome"})
        full = said(output=BackendRunOutput(text="see map", artifacts=(artifact,)))
        backend = FakeBackend(full, full, said(""))
        asker = boss(asks("far", "draw it"), heard, delegates=["far"])
        async with remote_runtime(backend, store_of(tmp_path), asker) as rt:
            events = [it async for it in rt.stream("far", "hi", thread_id="r")]
            result = finish_of(events).result
            assert result is not None
            shown = {"id": "a1", "name": "map.png", "content": {"at": "Rome"}}
            assert result["output"] == {"text": "see map", "artifacts": (shown,)}
            parent = await rt.run("boss", "hi", thread_id="t")
            (answer,) = await answers(rt, "t")
            assert ('"response":"see map"' in answer, '"at":"Rome"' in answer) == (True, True)
            child = await child_of(rt, parent.run_id)
            (asked,) = backend.delegates
            assert asked.run_identity.run_id == child.run_id
            assert asked.parent.parent_run_id == parent.run_id
            assert asked.parent.parent_thread_id == "t"
            assert asked.parent.parent_tool_call_id == "call_1"
            await rt.run("far", "again", thread_id="r")
            checkout = await rt.store.checkout("r")
            assert checkout is not None
            stored = checkout.state.get(BACKEND_OUTPUT.name)
            assert stored is None or BACKEND_OUTPUT.decode(stored).is_empty

    asyncio.run(scenario())


@on_both_stores
def test_an_answer_to_a_remote_delegates_question_is_passed_on_as_a_message(
    store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario() -> None:
        question = waits(BackendRunStatus.WAITING_INPUT, "hm", message="which city?")
        backend = FakeBackend(question, said("Rome!"))
        asker = boss(asks("far"), heard, delegates=["far"])
        async with remote_runtime(backend, store_of(tmp_path), asker) as rt:
            waiting = await rt.run("boss", "hi", thread_id="t")
            ticket = await ticket_on(rt, "t")
            child = await child_of(rt, waiting.run_id)
            assert ticket.suspension.action == "agent_delegate:input_required"
            assert ticket.suspension.message == "which city?"
            assert child.waiting is not None
            assert child.waiting.message == "input_required"
            assert child.waiting.reason is WaitingReason.USER_INPUT
            await rt.decide(ticket.ticket_id, result="Rome")
            assert "Rome!" in ((await ended(rt, waiting.run_id)).final_output or "")
            second = backend.delegates[1]
            assert (second.is_continuation, second.run_identity.run_id) == (True, child.run_id)
            assert [it.text for it in second.new_messages] == ["Rome"]
            await nothing_ordered(rt)

    asyncio.run(scenario())


def test_a_plugin_that_ends_the_run_first_has_the_last_word() -> None:
    async def scenario() -> None:
        async def end(_: Any) -> StateCommand:
            return StateCommand().update(RUN_LIFECYCLE, End(termination=Blocked(reason="no")))

        backend = FakeBackend(said("never"))
        remote = far(plugins=[Hooks({Phase.RUN_START: end})])
        async with remote_runtime(backend, None, remote=remote) as rt:
            result = await rt.run("far", "hi", thread_id="t")
            assert result.termination == Blocked(reason="no")
            assert backend.roots == []

    asyncio.run(scenario())


def test_nobody_is_told_that_a_message_reached_a_remote_run() -> None:
    async def scenario() -> None:
        door = Door("ok")
        async with remote_runtime(FakeBackend(behind(door)), None) as rt:
            handle = await rt.start("far", "hi", thread_id="t")
            await door.opened()
            assert not (await rt.steer(handle.run_id, "more")).is_accepted
            door.let_go.set()
            assert (await within(handle.result())).text == "ok"

    asyncio.run(scenario())
