"""What a claimed dispatch leads to, by what is known of its run and its thread."""

from typing import Any

import msgspec
import pytest

from awaken.contracts.errors import InvalidResume
from awaken.contracts.lifecycle import Cancelled, Failed, RunStatus
from awaken.contracts.messages.message import Message, Transcript, user
from awaken.contracts.runs.records import RunRecord, RunRequest, Waiting, WaitingReason
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.dispatch import DispatchStatus, Release, RunDispatch
from awaken.contracts.storage.store import Checkout
from awaken.contracts.suspension.tickets import ToolCallResume
from awaken.runtime.suspension.dispatch_plan import Deliver, Drop, EndRun, RecoverFirst, delivery_of

DECISION = ("ticket", ToolCallResume(decision_id="1"))
REQUEST = RunRequest(agent_id="a", messages=(user("hi"),), decisions=(DECISION,))


def dispatch(**fields: Any) -> RunDispatch:
    base = {
        "dispatch_id": "d",
        "thread_id": "t",
        "run_id": "r",
        "request": REQUEST,
        "status": DispatchStatus.CLAIMED,
        "claim_token": "token",
        "attempt_count": 1,
    }
    return RunDispatch(**(base | fields))


def run(run_id: str = "r", status: RunStatus = RunStatus.RUNNING, **fields: Any) -> RunRecord:
    waiting = Waiting(reason=WaitingReason.TOOL_PERMISSION) if status == "waiting" else None
    return RunRecord(
        run_id=run_id, thread_id="t", agent_id="a", status=status, waiting=waiting, **fields
    )


def thread(open_run: RunRecord | None = None) -> Checkout:
    return Checkout(thread=Thread(id="t"), open_run=open_run)


@pytest.mark.parametrize("more", [{}, {"attempt_count": 9}, {"cancel_cause": "user"}])
def test_a_dispatch_for_a_run_that_has_ended_is_dropped(more: dict[str, Any]) -> None:
    done = run(status=RunStatus.DONE)
    assert delivery_of(dispatch(**more), thread(), done) == Drop(done)


def test_input_whose_run_id_another_input_has_used_is_refused() -> None:
    asked = dispatch(request=RunRequest(thread_id="t", run_id_hint="r"))
    with pytest.raises(InvalidResume):
        delivery_of(asked, thread(), run(status=RunStatus.DONE, dispatch_id="another"))
    own = run(status=RunStatus.DONE, dispatch_id=asked.dispatch_id)
    assert delivery_of(asked, thread(), own) == Drop(own)


def test_input_that_was_read_is_dropped_although_its_run_went_on_under_another_dispatch() -> None:
    said, other = (msgspec.structs.replace(user("hi"), id=it) for it in ("m", "n"))
    asked = dispatch(request=RunRequest(thread_id="t", run_id_hint="r", messages=(said,)))
    done = run(status=RunStatus.DONE, dispatch_id="another")
    known = msgspec.structs.replace(thread(), messages=(said, other))
    assert delivery_of(asked, known, done) == Drop(done)
    with pytest.raises(InvalidResume):
        delivery_of(asked, msgspec.structs.replace(known, messages=(other,)), done)


def test_a_new_run_gets_the_id_that_its_submitter_was_told() -> None:
    found = delivery_of(dispatch(), None, None)
    assert isinstance(found, Deliver)
    asked = found.request
    assert (asked.thread_id, asked.run_id_hint, asked.dispatch_id) == ("t", "r", "d")
    assert asked.messages == REQUEST.messages


@pytest.mark.parametrize("run_id", ["r", "other"])
def test_a_waiting_run_goes_on_with_the_input_whosever_it_was(run_id: str) -> None:
    found = delivery_of(dispatch(), thread(run(run_id, RunStatus.WAITING)), None)
    assert isinstance(found, Deliver)
    assert (found.request.continue_run_id, found.request.run_id_hint) == (run_id, None)
    assert found.request.decisions == REQUEST.decisions


def test_input_that_a_run_took_in_before_the_crash_is_not_given_again() -> None:
    found = delivery_of(dispatch(), thread(run(dispatch_id="d")), None)
    assert isinstance(found, Deliver)
    assert (found.request.messages, found.request.decisions, found.decisions) == ((), (), ())
    assert (found.request.continue_run_id, found.request.agent_id) == ("r", None)


def test_input_that_a_run_had_not_heard_of_is_news_to_it() -> None:
    found = delivery_of(dispatch(), thread(run(dispatch_id="another")), None)
    assert isinstance(found, Deliver)
    assert found.request.messages == REQUEST.messages
    assert (found.request.decisions, found.decisions) == ((), REQUEST.decisions)


def test_a_run_that_is_executed_under_the_dispatch_is_its_own_whatever_its_id() -> None:
    found = delivery_of(dispatch(), thread(run("continued", dispatch_id="d")), None)
    assert isinstance(found, Deliver)
    assert found.request.continue_run_id == "continued"


def test_another_run_that_was_left_is_recovered_first_without_the_input() -> None:
    found = delivery_of(dispatch(), thread(run("left", dispatch_id="its own")), None)
    assert isinstance(found, RecoverFirst)
    assert (found.request.continue_run_id, found.request.messages) == ("left", ())
    assert found.request.dispatch_id == "its own"


@pytest.mark.parametrize(
    ("open_run", "has_begun"),
    [
        (None, False),
        (run(), True),
        (run(status=RunStatus.WAITING), True),
        (run("other", RunStatus.WAITING), False),
        (run("other"), False),
        (run("other", dispatch_id="d"), True),
    ],
)
def test_a_spent_or_cancelled_dispatch_ends_its_own_run_and_no_other(
    open_run: RunRecord | None, has_begun: bool
) -> None:
    spent = dispatch(attempt_count=6, max_attempts=5, last_error="it crashed")
    buried = delivery_of(spent, thread(open_run), None)
    assert isinstance(buried, EndRun)
    assert isinstance(buried.termination, Failed)
    assert "5 attempts: it crashed" in buried.termination.message
    assert buried.release.status is DispatchStatus.DEAD_LETTER
    assert buried.has_begun is has_begun
    cancelled = delivery_of(dispatch(cancel_cause="user"), thread(open_run), None)
    assert cancelled == EndRun(Cancelled(cause="user"), Release(), has_begun)


SAID = msgspec.structs.replace(user("hi"), id="m")


def thread_with(open_run: RunRecord | None, *messages: Message) -> Checkout:
    return Checkout(thread=Thread(id="t"), open_run=open_run, messages=Transcript(messages))


@pytest.mark.parametrize("named", [{"taken_by": "w"}, {"run_id": "w"}])
def test_input_that_a_waiting_run_has_is_dropped_unless_it_brings_a_cancel(
    named: dict[str, Any],
) -> None:
    waiting = run("w", RunStatus.WAITING, dispatch_id="another")
    taken = dispatch(request=RunRequest(messages=(SAID,)), attempt_count=9, **named)
    found = delivery_of(taken, thread_with(waiting, SAID), waiting)
    assert found == Drop(waiting)
    cancelled = dispatch(request=RunRequest(messages=(SAID,)), cancel_cause="user", **named)
    found = delivery_of(cancelled, thread_with(waiting, SAID), waiting)
    assert isinstance(found, EndRun)
    assert found.has_begun


def test_another_message_of_a_known_id_is_delivered() -> None:
    waiting = run("w", RunStatus.WAITING)
    other = msgspec.structs.replace(user("something else"), id="m")
    asked = dispatch(run_id="w", request=RunRequest(messages=(other,)))
    found = delivery_of(asked, thread_with(waiting, SAID), waiting)
    assert isinstance(found, Deliver)
    assert found.request.messages == (other,)


def test_input_that_a_run_took_in_before_another_one_is_not_given_again() -> None:
    running = run("w", dispatch_id="another")
    for asked in (
        dispatch(taken_by="w"),
        dispatch(run_id="w", request=RunRequest(messages=(SAID,))),
    ):
        found = delivery_of(asked, thread_with(running, SAID), running)
        assert isinstance(found, Deliver)
        assert (found.request.continue_run_id, found.request.messages) == ("w", ())


@pytest.mark.parametrize("reason", WaitingReason)
def test_a_release_continues_a_paused_run_and_no_other(reason: WaitingReason) -> None:
    paused = msgspec.structs.replace(
        run(status=RunStatus.WAITING), waiting=Waiting(reason=reason, message="x")
    )
    released = dispatch(
        dispatch_id="released:1", request=RunRequest(thread_id="t", continue_run_id="r")
    )
    found = delivery_of(released, thread(paused), paused)
    # A run that no process could continue keeps its dispatch, whatever that is.
    if reason in (
        WaitingReason.MANUAL_PAUSE,
        WaitingReason.PINNED_CONFIG_UNUSABLE,
        WaitingReason.WORKFLOW_DIVERGED,
    ):
        assert isinstance(found, Deliver)
        assert found.request.continue_run_id == "r"
    else:
        assert found == Drop(paused)
