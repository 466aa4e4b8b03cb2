"""One reading of decisions: a clear yes, a clear no, data, or a refusal."""

from typing import Any

import pytest
from tests.server.decision_corpus import payloads, texts

from awaken.contracts.suspension.errors import InvalidDecision
from awaken.contracts.suspension.permissions import PermissionScope, Remember
from awaken.contracts.suspension.tickets import (
    Asks,
    DecisionAction,
    ResumeMode,
    SuspendTicket,
    Suspension,
    Ticket,
    ToolCallResume,
)
from awaken.contracts.suspension.verdicts import NO, YES, read_decision, read_text

RESUME, CANCEL = DecisionAction.RESUME, DecisionAction.CANCEL


def ticket(asks: Asks = Asks.PERMISSION, **fields: Any) -> Ticket:
    known = {"ticket_id": "t", "thread_id": "th", "run_id": "r", "call_id": "c", "tool_name": "x"}
    return Ticket(**known, asks=asks, **fields)


def said(payload: Any, action: DecisionAction = RESUME, **more: Any) -> ToolCallResume:
    return ToolCallResume(decision_id="d", action=action, result=payload, **more)


def test_a_permission_is_given_by_a_clear_yes_only() -> None:
    for payload in payloads("yes"):
        assert read_decision(ticket(), said(payload)).action is RESUME, payload
    for payload in payloads("no"):
        read = read_decision(ticket(), said(payload))
        assert (read.action, read.result, read.arguments) == (CANCEL, None, None), payload
    for payload in payloads("unclear"):
        with pytest.raises(InvalidDecision):
            read_decision(ticket(), said(payload))


def test_there_are_enough_spellings() -> None:
    assert min(len(payloads("yes")), len(payloads("no"))) >= 60
    assert not YES & NO


def test_an_action_that_contradicts_its_payload_is_refused() -> None:
    for payload in payloads("yes"):
        with pytest.raises(InvalidDecision):
            read_decision(ticket(), said(payload, CANCEL))
    for payload in (*payloads("no"), None, {}):
        assert read_decision(ticket(), said(payload, CANCEL)).action is CANCEL


def test_an_action_alone_decides() -> None:
    assert read_decision(ticket(), said(None)).action is RESUME
    assert read_decision(ticket(), said({})).action is RESUME
    held = Remember(scope=PermissionScope.THREAD)
    assert read_decision(ticket(), said({"remember": "thread"}, remember=held)).action is RESUME
    assert read_decision(ticket(), said(None, CANCEL)).action is CANCEL


def test_edits_that_a_wire_has_not_read_are_no_approval_of_the_call_as_it_was() -> None:
    asked = ticket(arguments={"amount": 5})
    for name in ("editedArgs", "edited_args", "EditedArgs", "arguments", "args"):
        for payload in ({name: {"amount": 1}}, {"approved": True, name: {"amount": 1}}):
            with pytest.raises(InvalidDecision):
                read_decision(asked, said(payload))
    edited = said({"editedArgs": {"amount": 1}}, arguments={"amount": 1})
    assert read_decision(asked, edited) is edited
    shown = said({"approved": True, "arguments": {"amount": 5}})
    assert read_decision(asked, shown) is shown


def test_data_is_never_read() -> None:
    for payload in (*payloads("yes"), *payloads("no"), *payloads("unclear")):
        given = said(payload)
        assert read_decision(ticket(Asks.ANSWER), given) is given


def test_a_tool_that_says_nothing_of_it_hears_data_and_never_a_refusal() -> None:
    open_ticket = ticket(Asks.EITHER)
    for text in texts("no"):
        assert read_decision(open_ticket, said(text)).action is CANCEL, text
    for payload in (False, {"approved": False}, {"decision": "deny"}, {"denied": True}):
        assert read_decision(open_ticket, said(payload)).action is CANCEL
    for payload in (
        "blue",
        42,
        {"answer": "no", "size": 3},
        {"action": "left"},
        ["no"],
        "yes",
        None,
    ):
        given = said(payload)
        assert read_decision(open_ticket, given) is given
    for payload in ({"approved": "maybe"}, {"approved": True, "denied": True}):
        with pytest.raises(InvalidDecision):
            read_decision(open_ticket, said(payload))


def test_a_refusal_keeps_what_the_model_is_told() -> None:
    cases: list[tuple[ToolCallResume, tuple[Any, str | None]]] = [
        (said({"approved": False, "reason": "not today"}), (None, "not today")),
        (said({"approved": False, "reason": "x"}, reason="mine"), (None, "mine")),
        (said("too risky", CANCEL), (None, "too risky")),
        (said("no", CANCEL), (None, None)),
        (said({"instead": "ask ann"}, CANCEL), ({"instead": "ask ann"}, None)),
    ]
    for given, told in cases:
        read = read_decision(ticket(), given)
        assert (read.action, read.result, read.reason) == (CANCEL, *told)
        assert read_decision(ticket(), read) == read


def test_the_ways_of_a_ticket_are_read_by_what_they_allow() -> None:
    asked = ticket(suspension=Suspension(choices={"opt_1": True, "opt_2": False}))
    assert read_decision(asked, said("opt_1")).action is RESUME
    assert read_decision(asked, said({"option_id": "opt_1"})).action is RESUME
    refused = read_decision(asked, said({"optionId": "opt_2"}))
    assert (refused.action, refused.result) == (CANCEL, {"option_id": "opt_2"})
    for payload in ("opt_3", {"option_id": "opt_1", "approved": False}):
        with pytest.raises(InvalidDecision):
            read_decision(asked, said(payload))


def test_tickets_of_before_ask_what_their_mode_says() -> None:
    form = Suspension(response_schema={"type": "object"})
    cases = [
        (Ticket, {"resume_mode": ResumeMode.REPLAY_TOOL_CALL}, Asks.PERMISSION),
        (Ticket, {"resume_mode": ResumeMode.USE_DECISION_AS_TOOL_RESULT}, Asks.ANSWER),
        (Ticket, {"resume_mode": ResumeMode.PASS_DECISION_TO_TOOL}, Asks.EITHER),
        (
            Ticket,
            {"resume_mode": ResumeMode.PASS_DECISION_TO_TOOL, "suspension": form},
            Asks.ANSWER,
        ),
    ]
    known = {"ticket_id": "t", "thread_id": "th", "run_id": "r", "call_id": "c", "tool_name": "x"}
    for kind, fields, asked in cases:
        assert kind(**known, **fields).question_kind is asked  # type: ignore[arg-type]
        assert SuspendTicket(**fields).question_kind is asked  # type: ignore[arg-type]
    held = {"resume_mode": ResumeMode.USE_DECISION_AS_TOOL_RESULT, "held": said("x")}
    assert Ticket(**known, **held).question_kind is Asks.PERMISSION  # type: ignore[arg-type]


def test_words_are_read_whatever_they_wear() -> None:
    wide = "\uff59\uff45\uff53"
    assert [read_text(it) for it in ("YES", " Ok! ", "no.", "N", "Go ahead", wide)] == [
        True, True, False, False, True, True,
    ]  # fmt: skip
    assert [read_text(it) for it in ("", "maybe", "yes no", "0")] == [None] * 4
