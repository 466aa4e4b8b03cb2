"""The vocabulary of tools: descriptors, results, errors, kinds, tickets and gates' answers."""

from typing import Any

import msgspec
import pytest

from awaken.contracts.plugins.plugin import (
    Allow,
    Block,
    GateDecision,
    SetResult,
    Suspend,
)
from awaken.contracts.suspension.tickets import (
    DecisionAction,
    PendingToolCall,
    ResumeMode,
    SuspendTicket,
    Suspension,
    Ticket,
    ToolCallOutcome,
    ToolCallResume,
    ToolCallState,
)
from awaken.contracts.tool_results import ToolResult, ToolStatus
from awaken.contracts.tools.tool import (
    ExecutionFailed,
    InvalidArguments,
    ToolDenied,
    ToolDescriptor,
    ToolEffect,
    ToolError,
    ToolInternalError,
    ToolKind,
    ToolNotFound,
    ToolOutput,
    ToolTimeout,
    infer_kind,
)

TICKET = SuspendTicket(
    suspension=Suspension(id="s", action="ask", message="May I?", parameters={"a": 1}),
    pending=PendingToolCall(id="c", name="n", arguments={"a": 1}),
    resume_mode=ResumeMode.USE_DECISION_AS_TOOL_RESULT,
)

RESULTS: list[tuple[ToolResult, str, str, dict[str, Any]]] = [
    (ToolResult.success("n", [1]), "success", "succeeded", {"data": [1]}),
    (
        ToolResult.success("n", None, "done"),
        "success",
        "succeeded",
        {"data": None, "message": "done"},
    ),
    (
        ToolResult.error("n", "no", code="x"),
        "error",
        "failed",
        {"data": None, "message": "no", "metadata": {"code": "x"}},
    ),
    (
        ToolResult.error_with_code("n", "denied", "no"),
        "error",
        "failed",
        {"data": {"error": {"code": "denied", "message": "no"}}, "message": "[denied] no"},
    ),
    (
        ToolResult.from_ticket("n"),
        "pending",
        "suspended",
        {"data": None, "suspension": msgspec.to_builtins(SuspendTicket())},
    ),
    (
        ToolResult.from_ticket("n", TICKET),
        "pending",
        "suspended",
        {"data": None, "message": "May I?", "suspension": msgspec.to_builtins(TICKET)},
    ),
]


@pytest.mark.parametrize(("result", "status", "outcome", "rest"), RESULTS)
def test_a_result_says_how_it_went_in_one_form(
    result: ToolResult, status: str, outcome: str, rest: dict[str, Any]
) -> None:
    wire = msgspec.json.decode(msgspec.json.encode(result))
    assert wire == {"tool_name": "n", "status": status, **rest}
    assert msgspec.convert(wire, ToolResult) == result
    assert (result.status, result.outcome) == (ToolStatus(status), ToolCallOutcome(outcome))
    assert ToolOutput(result=result).command.is_empty


def test_a_descriptor_needs_an_id_and_its_schema_is_an_empty_object() -> None:
    plain = ToolDescriptor(id="t")
    assert (plain.name, plain.description, plain.category, plain.kind) == ("", "", None, None)
    assert plain.parameters == {"type": "object", "properties": {}}
    assert plain.metadata == {}
    assert (plain.effect, plain.is_repeatable) == (ToolEffect.ONCE, False)
    full = ToolDescriptor(
        id="t",
        name="T",
        description="d",
        parameters={"type": "object", "properties": {"a": {}}},
        category="c",
        kind=ToolKind.READ,
        effect=ToolEffect.IDEMPOTENT,
        metadata={"m": 1},
    )
    assert full.is_repeatable
    assert msgspec.json.decode(msgspec.json.encode(full), type=ToolDescriptor) == full


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (InvalidArguments, "Invalid arguments: x"),
        (ExecutionFailed, "Execution failed: x"),
        (ToolDenied, "Denied: x"),
        (ToolNotFound, "Not found: x"),
        (ToolInternalError, "Internal error: x"),
        (ToolTimeout, "Timed out: x"),
    ],
)
def test_the_texts_of_tool_errors_are_stable(error: type[ToolError], text: str) -> None:
    assert str(error("x")) == text
    assert isinstance(error("x"), ToolError)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("edit_file", "edit"),
        ("DeleteUser", "edit"),
        ("create-and-search", "edit"),
        ("grep", "search"),
        ("find_and_read", "search"),
        ("readFile", "read"),
        ("http.get", "read"),
        ("list then run", "read"),
        ("run_shell", "execute"),
        ("target_margin", "other"),
        ("trunk", "other"),
        ("weather", "other"),
        ("", "other"),
    ],
)
def test_a_kind_is_guessed_from_whole_words_in_the_documented_order(name: str, kind: str) -> None:
    assert infer_kind(name) is ToolKind(kind)


def test_tickets_and_decisions_survive_the_wire_and_leave_out_what_is_empty() -> None:
    decision = ToolCallResume(decision_id="d", result={"ok": True}, reason="r", updated_at=4)
    ticket = Ticket(
        ticket_id="k",
        thread_id="t",
        run_id="r",
        call_id="c",
        tool_name="n",
        arguments={"a": 1},
        resume_mode=ResumeMode.PASS_DECISION_TO_TOOL,
        suspension=TICKET.suspension,
        deciders=("ann",),
    )
    for value, type_ in ((TICKET, SuspendTicket), (decision, ToolCallResume), (ticket, Ticket)):
        assert msgspec.json.decode(msgspec.json.encode(value), type=type_) == value
    assert msgspec.to_builtins(SuspendTicket()) == {
        "suspension": {"id": "", "action": ""},
        "pending": {"id": "", "name": "", "arguments": None},
        "resume_mode": "replay_tool_call",
    }
    assert msgspec.to_builtins(ToolCallResume(decision_id="d")) == {
        "decision_id": "d",
        "action": "resume",
        "result": None,
        "updated_at": 0,
    }
    assert ToolCallState(call_id="c", tool_name="n").status == "new"
    assert [mode.value for mode in ResumeMode] == [
        "replay_tool_call",
        "use_decision_as_tool_result",
        "pass_decision_to_tool",
    ]
    assert [action.value for action in DecisionAction] == ["resume", "cancel"]


SET = SetResult(result=ToolResult.success("n", 1))


@pytest.mark.parametrize("answer", [Allow(), Block(reason="no"), Suspend(ticket=TICKET), SET])
def test_what_a_gate_answers_survives_encoding(answer: Allow | GateDecision) -> None:
    assert msgspec.json.decode(msgspec.json.encode(answer), type=Allow | GateDecision) == answer
