"""Events on the wire: one form each, complete for readers, and back again."""

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.contracts.events import (
    ActivityDelta,
    ActivitySnapshot,
    AgentEvent,
    ErrorEvent,
    InferenceComplete,
    MessagesSnapshot,
    ReasoningEncryptedValue,
    RunFinish,
    RunStart,
    StateDelta,
    StateSnapshot,
    StepEnd,
    StepStart,
    StreamReset,
    ToolCallCancel,
    ToolCallDone,
    ToolCallReady,
    ToolCallResumed,
    ToolCallStreamDelta,
    decode_event,
    encode_event,
    extract_response,
    is_terminal,
)
from awaken.contracts.identity import Adapter, RunIdentity, RunMode
from awaken.contracts.lifecycle import NaturalEnd, Stopped, StoppedReason
from awaken.contracts.messages.content import Image, Text, UrlSource
from awaken.contracts.messages.deltas import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.contracts.messages.message import ToolCall, Visibility, assistant, user
from awaken.contracts.models.inference import StreamResult, TokenUsage
from awaken.contracts.suspension.tickets import (
    PendingToolCall,
    ResumeMode,
    SuspendTicket,
    Suspension,
    ToolCallOutcome,
)
from awaken.contracts.tool_results import ToolResult

IDENTITY = RunIdentity(thread_id="t", run_id="r", agent_id="a")
IDENTITY_WIRE = {"thread_id": "t", "run_id": "r", "agent_id": "a", "origin": "user"}
IDS = {"thread_id": "t", "run_id": "r"}
DONE = {"event_type": "tool_call_done", "id": "c"}

# Each event with the whole of its wire form; first those with nothing but what they must have.
FORMS: list[tuple[AgentEvent, dict[str, Any]]] = [
    (RunStart(**IDS), {"event_type": "run_start", **IDS}),
    (
        RunStart(**IDS, parent_run_id="p", identity=IDENTITY),
        {"event_type": "run_start", **IDS, "parent_run_id": "p", "identity": IDENTITY_WIRE},
    ),
    (
        RunFinish(**IDS, termination=NaturalEnd()),
        {"event_type": "run_finish", **IDS, "termination": {"type": "natural_end"}},
    ),
    (
        RunFinish(
            **IDS,
            identity=IDENTITY,
            result={"response": "hi"},
            termination=Stopped(reason=StoppedReason(code="timeout")),
        ),
        {
            "event_type": "run_finish",
            **IDS,
            "identity": IDENTITY_WIRE,
            "result": {"response": "hi"},
            "termination": {"type": "stopped", "value": {"code": "timeout"}},
        },
    ),
    (TextDelta(delta="x"), {"event_type": "text_delta", "delta": "x"}),
    (ReasoningDelta(delta="x"), {"event_type": "reasoning_delta", "delta": "x"}),
    (
        ReasoningEncryptedValue(encrypted_value="s"),
        {"event_type": "reasoning_encrypted_value", "encrypted_value": "s"},
    ),
    (
        ToolCallStart(id="c", name="n"),
        {"event_type": "tool_call_start", "id": "c", "name": "n"},
    ),
    (
        ToolCallDelta(id="c", args_delta="{"),
        {"event_type": "tool_call_delta", "id": "c", "args_delta": "{"},
    ),
    (
        ToolCallReady(id="c", name="n"),
        {"event_type": "tool_call_ready", "id": "c", "name": "n", "arguments": None},
    ),
    (
        ToolCallDone(
            id="c", result=ToolResult.success("n", None), outcome=ToolCallOutcome.SUCCEEDED
        ),
        {
            **DONE,
            "message_id": "",
            "result": {"tool_name": "n", "status": "success", "data": None},
            "outcome": "succeeded",
        },
    ),
    (
        ToolCallDone(
            id="c",
            message_id="m",
            result=ToolResult.error_with_code("n", "x", "no"),
            outcome=ToolCallOutcome.FAILED,
        ),
        {
            **DONE,
            "message_id": "m",
            "result": {
                "tool_name": "n",
                "status": "error",
                "data": {"error": {"code": "x", "message": "no"}},
                "message": "[x] no",
            },
            "outcome": "failed",
        },
    ),
    (
        ToolCallDone(
            id="c",
            result=ToolResult.from_ticket(
                "n",
                SuspendTicket(
                    suspension=Suspension(id="s", action="tool:n", message="May I?"),
                    pending=PendingToolCall(id="c", name="n", arguments={"a": 1}),
                    resume_mode=ResumeMode.PASS_DECISION_TO_TOOL,
                ),
            ),
            outcome=ToolCallOutcome.SUSPENDED,
        ),
        {
            **DONE,
            "message_id": "",
            "result": {
                "tool_name": "n",
                "status": "pending",
                "data": None,
                "message": "May I?",
                "suspension": {
                    "suspension": {"id": "s", "action": "tool:n", "message": "May I?"},
                    "pending": {"id": "c", "name": "n", "arguments": {"a": 1}},
                    "resume_mode": "pass_decision_to_tool",
                },
            },
            "outcome": "suspended",
        },
    ),
    (
        ToolCallStreamDelta(id="c", name="n", delta="x"),
        {"event_type": "tool_call_stream_delta", "id": "c", "name": "n", "delta": "x"},
    ),
    (
        ToolCallResumed(target_id="c"),
        {"event_type": "tool_call_resumed", "target_id": "c", "message_id": "", "result": None},
    ),
    (
        ToolCallCancel(id="c", name="n", reason="gone"),
        {"event_type": "tool_call_cancel", "id": "c", "name": "n", "reason": "gone"},
    ),
    (StreamReset(reason="goaway"), {"event_type": "stream_reset", "reason": "goaway"}),
    (
        MessagesSnapshot(messages=(user([Text(text="a"), Image(source=UrlSource(url="u"))]),)),
        {
            "event_type": "messages_snapshot",
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "a"},
                        {"type": "image", "source": {"type": "url", "url": "u"}},
                    ],
                }
            ],
        },
    ),
    (
        ActivitySnapshot(message_id="c", activity_type="p"),
        {
            "event_type": "activity_snapshot",
            "message_id": "c",
            "activity_type": "p",
            "content": None,
        },
    ),
    (
        ActivitySnapshot(message_id="c", activity_type="p", content=1, replace=True),
        {
            "event_type": "activity_snapshot",
            "message_id": "c",
            "activity_type": "p",
            "content": 1,
            "replace": True,
        },
    ),
    (
        ActivityDelta(message_id="c", activity_type="p", patch=[{"op": "add"}]),
        {
            "event_type": "activity_delta",
            "message_id": "c",
            "activity_type": "p",
            "patch": [{"op": "add"}],
        },
    ),
    (StepStart(), {"event_type": "step_start", "message_id": ""}),
    (StepEnd(), {"event_type": "step_end"}),
    (
        InferenceComplete(model="m"),
        {"event_type": "inference_complete", "model": "m", "duration_ms": 0},
    ),
    (
        InferenceComplete(model="m", usage=TokenUsage(prompt_tokens=1), duration_ms=5),
        {
            "event_type": "inference_complete",
            "model": "m",
            "usage": {"prompt_tokens": 1},
            "duration_ms": 5,
        },
    ),
    (StateSnapshot(snapshot={}), {"event_type": "state_snapshot", "snapshot": {}}),
    (StateDelta(delta=[]), {"event_type": "state_delta", "delta": []}),
    (ErrorEvent(message="m"), {"event_type": "error", "message": "m"}),
    (ErrorEvent(message="m", code="x"), {"event_type": "error", "message": "m", "code": "x"}),
]


def test_the_table_of_forms_has_every_event() -> None:
    assert {type(event) for event, _ in FORMS} == set(get_args(AgentEvent))


@pytest.mark.parametrize(("event", "wire"), FORMS, ids=lambda each: type(each).__name__)
def test_an_event_has_one_form_with_every_field_that_readers_need(
    event: AgentEvent, wire: dict[str, Any]
) -> None:
    encoded = encode_event(event)
    assert msgspec.json.decode(encoded) == wire
    assert decode_event(encoded) == event
    assert is_terminal(event) is (wire["event_type"] in ("run_finish", "error"))


def test_an_identity_is_flat_and_leaves_out_what_is_usual() -> None:
    identity = msgspec.structs.replace(
        IDENTITY,
        parent_run_id="p",
        parent_tool_call_id="c",
        dispatch_id="d",
        run_mode=RunMode.RESUME,
        adapter=Adapter.AG_UI,
    )
    assert msgspec.to_builtins(identity) == {
        **IDENTITY_WIRE,
        "parent_run_id": "p",
        "parent_tool_call_id": "c",
        "dispatch_id": "d",
        "run_mode": "resume",
        "adapter": "ag_ui",
    }
    assert msgspec.convert(msgspec.to_builtins(identity), RunIdentity) == identity


@given(
    st.recursive(
        st.none() | st.booleans() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=5,
    )
)
def test_whatever_a_tool_says_survives_inside_its_event(data: Any) -> None:
    result = ToolResult.success("n", data)
    event = ToolCallDone(id="c", result=result, outcome=result.outcome)
    back = decode_event(encode_event(event))
    assert isinstance(back, ToolCallDone)
    assert back.result.data == data


@pytest.mark.parametrize(
    ("result", "response"),
    [
        ({"response": "hi"}, "hi"),
        ({"response": 1}, ""),
        ({"other": "hi"}, ""),
        (None, ""),
        ("hi", ""),
    ],
)
def test_the_response_is_the_text_in_the_result_or_nothing(result: Any, response: str) -> None:
    assert extract_response(result) == response


def test_a_turn_keeps_its_words_and_calls_on_the_way_to_a_reader() -> None:
    calls = (ToolCall(id="c", name="n", arguments={"a": [1]}),)
    turn = StreamResult(content=(Text(text="a"), Text(text="b")), tool_calls=calls)
    message = assistant(turn.content, turn.tool_calls)
    hidden = user("psst", visibility=Visibility.INTERNAL)
    back = decode_event(encode_event(MessagesSnapshot(messages=(message, hidden))))
    assert isinstance(back, MessagesSnapshot)
    assert (back.messages[0].text, back.messages[0].tool_calls) == ("ab", calls)
    assert [m for m in back.messages if m.visibility is Visibility.ALL] == [message]
