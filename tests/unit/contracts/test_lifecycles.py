"""Life cycles: every legal move, every refused one, and how a run's end looks from outside."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.contracts.errors import IllegalTransition
from awaken.contracts.lifecycle import (
    RUN_TRANSITIONS,
    TICKET_TRANSITIONS,
    TOOL_CALL_TRANSITIONS,
    BehaviorRequested,
    Blocked,
    Cancelled,
    Failed,
    NaturalEnd,
    RunStatus,
    Stopped,
    StoppedReason,
    Suspended,
    Termination,
    ToolCallStatus,
    check_transition,
    reason_text,
    status_after,
)
from awaken.contracts.plugins.loop_state import (
    ACTIVE_AGENT,
    RUN_LIFECYCLE,
    TOOL_CALL_STATES,
    Begin,
    CompleteStep,
    End,
    LifecycleUpdate,
    RunLifecycle,
    Wait,
)
from awaken.contracts.runs.records import RunRecord, Waiting, WaitingReason
from awaken.contracts.storage.dispatch import DISPATCH_TRANSITIONS, DispatchStatus, RunDispatch
from awaken.contracts.suspension.tickets import ResumeMode, ToolCallResume, ToolCallState

# The tables of the specification, written out: from → where it may go besides staying.
RUN_MOVES = {
    "created": "running done",
    "running": "waiting done",
    "waiting": "running done",
    "done": "",
}
CALL_MOVES = {
    "new": "running suspended resuming succeeded failed cancelled",
    "running": "suspended succeeded failed cancelled",
    "suspended": "resuming cancelled",
    "resuming": "running suspended succeeded failed cancelled",
    "succeeded": "",
    "failed": "",
    "cancelled": "",
}
TICKET_MOVES = {"open": "decided closed", "decided": "", "closed": ""}


@pytest.mark.parametrize(
    ("table", "moves"),
    [
        (RUN_TRANSITIONS, RUN_MOVES),
        (TOOL_CALL_TRANSITIONS, CALL_MOVES),
        (TICKET_TRANSITIONS, TICKET_MOVES),
    ],
    ids=["run", "tool call", "ticket"],
)
def test_exactly_the_listed_moves_are_legal_and_staying_is_always(
    table: Mapping[StrEnum, frozenset[StrEnum]], moves: dict[str, str]
) -> None:
    assert {status.value for status in table} == set(moves)
    for old in table:
        for new in table:
            if new is old or new.value in moves[old.value].split():
                check_transition(table, "It", old, new)
                continue
            with pytest.raises(IllegalTransition) as refused:
                check_transition(table, "It", old, new)
            assert refused.value.fields == {"thing": "It", "old": old.value, "new": new.value}


def test_only_ends_are_terminal() -> None:
    assert [status for status in RunStatus if status.is_terminal] == [RunStatus.DONE]
    ends = ["succeeded", "failed", "cancelled"]
    assert [status for status in ToolCallStatus if status.is_terminal] == ends
    gone = ["acked", "cancelled", "superseded", "dead_letter"]
    assert [status for status in DispatchStatus if status.is_terminal] == gone
    assert all(not DISPATCH_TRANSITIONS[DispatchStatus(status)] for status in gone)


TERMINATIONS: list[tuple[Termination, str, str, dict[str, Any]]] = [
    (NaturalEnd(), "done", "natural", {"type": "natural_end"}),
    (BehaviorRequested(), "done", "behavior_requested", {"type": "behavior_requested"}),
    (
        Stopped(reason=StoppedReason(code="timeout", detail="9 of 8")),
        "done",
        "stopped:timeout",
        {"type": "stopped", "value": {"code": "timeout", "detail": "9 of 8"}},
    ),
    (
        Stopped(reason=StoppedReason(code="max_rounds")),
        "done",
        "stopped:max_rounds",
        {"type": "stopped", "value": {"code": "max_rounds"}},
    ),
    (Cancelled(), "done", "cancelled", {"type": "cancelled"}),
    (Cancelled(cause="shutdown"), "done", "cancelled", {"type": "cancelled", "cause": "shutdown"}),
    (Blocked(reason="a:b"), "done", "blocked:a:b", {"type": "blocked", "value": "a:b"}),
    (Suspended(), "waiting", "suspended", {"type": "suspended"}),
    (Failed(message="m", code="x"), "done", "error", {"type": "error", "value": "m", "code": "x"}),
]  # fmt: skip


@pytest.mark.parametrize(("termination", "status", "reason", "wire"), TERMINATIONS)
def test_a_termination_decides_status_and_reason_and_survives_the_wire_whole(
    termination: Termination, status: str, reason: str, wire: dict[str, Any]
) -> None:
    assert status_after(termination) == status
    assert reason_text(termination) == reason
    encoded = msgspec.json.encode(termination)
    assert msgspec.json.decode(encoded) == wire
    assert msgspec.json.decode(encoded, type=Termination) == termination


LIFECYCLE_UPDATES = st.one_of(
    st.builds(Begin, run_id=st.sampled_from(["r1", "r2"]), step_count=st.integers(0, 3)),
    st.just(CompleteStep()),
    st.builds(Wait, reason=st.sampled_from(WaitingReason)),
    st.builds(End, termination=st.sampled_from([case[0] for case in TERMINATIONS])),
)


def after(value: RunLifecycle, update: LifecycleUpdate) -> RunLifecycle | None:
    """The rules of the specification in another form; None where the update is illegal."""
    if value.status is RunStatus.DONE:
        return value if isinstance(update, End) else None
    if value.status is RunStatus.CREATED and isinstance(update, Wait):
        return None
    kept = {"run_id": value.run_id, "step_count": value.step_count}
    match update:
        case End(termination=how):
            return RunLifecycle(**kept, status=RunStatus.DONE, termination=how)
        case Wait(reason=why):
            return RunLifecycle(**kept, status=RunStatus.WAITING, waiting_for=why)
        case Begin(run_id=run_id, step_count=count):
            kept = {"run_id": run_id, "step_count": count}
        case CompleteStep():
            kept["step_count"] += 1
    return RunLifecycle(**kept, status=RunStatus.RUNNING)


@given(st.lists(LIFECYCLE_UPDATES, max_size=12))
def test_a_run_moves_by_its_table_counts_its_steps_and_its_first_end_stays(
    updates: list[LifecycleUpdate],
) -> None:
    value = RUN_LIFECYCLE.default
    assert (value.status, value.step_count) == (RunStatus.CREATED, 0)
    for update in updates:
        expected = after(value, update)
        if expected is None:
            with pytest.raises(IllegalTransition):
                RUN_LIFECYCLE.apply_update(value, update)
        else:
            value = RUN_LIFECYCLE.apply_update(value, update)
            assert value == expected
    assert (value.termination is not None) is (value.status is RunStatus.DONE)
    assert (value.waiting_for is not None) is (value.status is RunStatus.WAITING)


CALL_STATES = st.builds(
    ToolCallState,
    call_id=st.sampled_from(["c1", "c2"]),
    tool_name=st.just("t"),
    status=st.sampled_from(ToolCallStatus),
    updated_at=st.integers(0, 9),
)


@given(st.lists(st.lists(CALL_STATES, min_size=1, max_size=2), max_size=8))
def test_calls_move_independently_and_an_illegal_update_changes_none_of_them(
    updates: list[list[ToolCallState]],
) -> None:
    value = TOOL_CALL_STATES.default
    for update in updates:
        expected, is_legal = dict(value), True
        for state in update:
            old = expected.get(state.call_id)
            moves = CALL_MOVES[old.status].split() if old else []
            is_legal &= old is None or state.status in (old.status, *moves)
            expected[state.call_id] = state
        if is_legal:
            value = TOOL_CALL_STATES.apply_update(value, tuple(update))
            assert value == expected
        else:
            before = dict(value)
            with pytest.raises(IllegalTransition):
                TOOL_CALL_STATES.apply_update(value, tuple(update))
            assert value == before
    assert TOOL_CALL_STATES.default == {}


def test_a_call_keeps_its_name_its_arguments_and_what_it_waits_for() -> None:
    state = ToolCallState(
        call_id="c1",
        tool_name="pay",
        arguments={"eur": 5},
        status=ToolCallStatus.SUSPENDED,
        updated_at=7,
        resume_mode=ResumeMode.PASS_DECISION_TO_TOOL,
        ticket_id="t-1",
        suspension_id="s-1",
        suspension_reason="tool:pay",
        resume_input=ToolCallResume(decision_id="d", result={"ok": True}),
    )
    value = TOOL_CALL_STATES.apply_update({}, (state,))
    data = msgspec.json.encode(value)
    assert msgspec.json.decode(data, type=dict[str, ToolCallState]) == {"c1": state}


def test_the_active_agent_is_replaced_also_by_nobody() -> None:
    assert ACTIVE_AGENT.apply_update("writer", "editor") == "editor"
    assert ACTIVE_AGENT.apply_update("writer", None) is None


@given(st.sampled_from(DispatchStatus), st.none() | st.text(min_size=1))
def test_a_dispatch_has_a_claim_token_exactly_while_it_is_claimed(
    status: DispatchStatus, token: str | None
) -> None:
    fields: dict[str, Any] = {"dispatch_id": "d", "thread_id": "t", "run_id": "r"}
    if (status is DispatchStatus.CLAIMED) is (token is None):
        with pytest.raises(ValueError, match="claim token"):
            RunDispatch(**fields, status=status, claim_token=token)
        return
    dispatch = RunDispatch(**fields, status=status, claim_token=token, dispatch_epoch=3)
    assert msgspec.json.decode(msgspec.json.encode(dispatch), type=RunDispatch) == dispatch


@pytest.mark.parametrize("status", RunStatus)
@pytest.mark.parametrize("waiting", [None, Waiting(reason=WaitingReason.USER_INPUT)])
def test_a_run_can_be_resumed_exactly_when_it_waits_and_says_for_what(
    status: RunStatus, waiting: Waiting | None
) -> None:
    record = RunRecord(run_id="r", thread_id="t", agent_id="a", status=status, waiting=waiting)
    is_resumable = status is RunStatus.WAITING and waiting is not None
    assert record.is_resumable_waiting is is_resumable
