"""The AG-UI encoder by itself: each event's form, what opens is closed, and patches that apply."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampling import choose_size, sampled

from awaken import (
    AgentEvent,
    Cancelled,
    ErrorEvent,
    Failed,
    Message,
    NaturalEnd,
    ReasoningDelta,
    RunFinish,
    RunStart,
    StepEnd,
    StepStart,
    StreamReset,
    Suspended,
    SuspendTicket,
    TextDelta,
    ToolCallDelta,
    ToolCallDone,
    ToolCallReady,
    ToolCallStart,
    ToolResult,
    user,
)
from awaken.events import (
    ActivityDelta,
    ActivitySnapshot,
    InferenceComplete,
    MessagesSnapshot,
    ReasoningEncryptedValue,
    StateDelta,
    StateSnapshot,
    Termination,
    ToolCallCancel,
    ToolCallResumed,
    ToolCallStreamDelta,
)
from awaken.messages import Role, Visibility
from awaken.models import TokenUsage
from awaken.protocols.ag_ui.encoder import AgUiEncoder
from awaken.protocols.ag_ui.patch import difference, is_patch
from awaken.tools import PendingToolCall, ResumeMode, Suspension, ToolCallOutcome

from .ag_ui_oracle import Client, check_form, patched
from .serving import Frame

START = RunStart(thread_id="t", run_id="r")
STEP = StepStart(message_id="m")


def finish(termination: Termination | None = None, result: Any = None) -> RunFinish:
    ending = termination or NaturalEnd()
    return RunFinish(thread_id="t", run_id="r", termination=ending, result=result)


def encoded(*events: AgentEvent, encoder: AgUiEncoder | None = None) -> list[dict[str, Any]]:
    encoder = encoder or AgUiEncoder()
    lines = [line for event in events for line in encoder.encode(event)]
    found = [json.loads(line.removeprefix(b"data: ")) for line in lines]
    for event in found:
        check_form(event)
    return found


def client_of(*events: AgentEvent) -> Client:
    return Client().read([Frame(None, event) for event in encoded(*events)])


def kinds(*events: AgentEvent) -> list[str]:
    return [event["type"] for event in encoded(*events)]


def suspended(call_id: str, **ticket: Any) -> ToolCallDone:
    told = {"pending": PendingToolCall(id=call_id, name="ask")} | ticket
    result = ToolResult.from_ticket("ask", SuspendTicket(**told))
    return ToolCallDone(id=call_id, result=result, outcome=ToolCallOutcome.SUSPENDED)


def test_whatever_is_open_is_closed_before_the_next_thing_and_at_the_end() -> None:
    opened = [
        START, STEP, ReasoningDelta(delta="a"), TextDelta(delta="b"), ReasoningDelta(delta="c"),
        ReasoningEncryptedValue(encrypted_value="d"), ReasoningEncryptedValue(encrypted_value="e"),
        TextDelta(delta="f"), ToolCallStart(id="1", name="x"), ToolCallStart(id="2", name="y"),
        ToolCallDelta(id="1", args_delta="{"), TextDelta(delta="g"), StepStart(message_id="m2"),
        TextDelta(delta="h"),
    ]  # fmt: skip
    for length in range(1, len(opened) + 1):
        client = client_of(*opened[:length], finish())
        assert client.kinds[-1] == "RUN_FINISHED", length
        assert client_of(*opened[:length], finish(Failed(message="x"))).kinds[-1] == "RUN_ERROR"
        assert client_of(*opened[:length], StreamReset(reason="x"), STEP, finish())
    client = client_of(*opened, finish())
    thoughts = [it for it in client.messages if it["role"] == "reasoning"]
    assert [(it["content"], it.get("encryptedValue")) for it in thoughts] == [
        ("a", None), ("c", "d"), ("", "e"),
    ]  # fmt: skip
    assert client.message("m")["content"] == "bfg"
    assert client.kinds.count("STEP_FINISHED") == 2


def test_a_run_begins_before_anything_else_and_says_nothing_after_its_end() -> None:
    assert kinds(finish(Cancelled())) == ["RUN_STARTED", "RUN_FINISHED"]
    assert kinds(ErrorEvent(message="x")) == ["RUN_ERROR"]
    assert kinds(START, START) == ["RUN_STARTED"]
    late = [TextDelta(delta="x"), STEP, StateSnapshot(snapshot={}), finish(), START]
    for end in (finish(), finish(Cancelled()), finish(Failed(message="x")), ErrorEvent(message="")):
        encoder = AgUiEncoder()
        encoded(START, suspended("1"), end, encoder=encoder)
        assert encoded(*late, encoder=encoder) == []
    encoder = AgUiEncoder()
    encoded(START, STEP, suspended("1"), finish(Suspended()), encoder=encoder)
    assert encoded(*late[:-1], encoder=encoder) == []
    again = encoded(START, STEP, StepEnd(), finish(), encoder=encoder)
    assert [it["type"] for it in again][:2] == ["RUN_STARTED", "STEP_STARTED"]
    assert again[1]["stepName"] == "step_1"
    told = encoded(START, finish(Suspended()), START)
    assert told[1]["outcome"] == {"type": "success"}
    assert told[2]["type"] == "RUN_STARTED"


def test_a_call_is_told_once_with_the_arguments_that_were_streamed_or_whole() -> None:
    ready = ToolCallReady(id="1", name="x", arguments={"a": 1})
    deltas = [ToolCallDelta(id="1", args_delta='{"a"'), ToolCallDelta(id="1", args_delta=":1}")]
    for events in ([ready], [ToolCallStart(id="1", name="x"), ready],
                   [ToolCallStart(id="1", name="x"), *deltas, ready]):  # fmt: skip
        client = client_of(START, STEP, *events)
        assert client.call("1")["function"] == {"name": "x", "arguments": '{"a":1}'}
        assert client.kinds.count("TOOL_CALL_START") == client.kinds.count("TOOL_CALL_END") == 1
    bare = client_of(START, STEP, ToolCallReady(id="1", name="x"))
    assert bare.call("1")["function"]["arguments"] == "{}"
    assert kinds(START, *deltas) == ["RUN_STARTED"]


@pytest.mark.parametrize(
    ("event", "content"),
    [
        (ToolCallDone(id="1", message_id="x", result=ToolResult.success("t", {"a": 1}),
                      outcome=ToolCallOutcome.SUCCEEDED), '{"a":1}'),
        (ToolCallDone(id="1", message_id="x", result=ToolResult.success("t", "text"),
                      outcome=ToolCallOutcome.SUCCEEDED), "text"),
        (ToolCallDone(id="1", message_id="x", result=ToolResult.success("t", 1, "said"),
                      outcome=ToolCallOutcome.SUCCEEDED), "said"),
        (ToolCallDone(id="1", message_id="x", result=ToolResult.error("t", "bad"),
                      outcome=ToolCallOutcome.FAILED), "bad"),
        (ToolCallDone(id="1", message_id="x", result=ToolResult.error("t", ""),
                      outcome=ToolCallOutcome.FAILED), "tool error"),
        (ToolCallResumed(target_id="1", message_id="x", result={"error": "no"}), "no"),
        (ToolCallResumed(target_id="1", message_id="x", result={"error": "no", "b": 1}),
         '{"error":"no","b":1}'),
        (ToolCallResumed(target_id="1", message_id="x", result=[1]), "[1]"),
    ],
)  # fmt: skip
def test_a_result_is_the_text_that_the_history_has(event: AgentEvent, content: str) -> None:
    (told,) = encoded(START, event)[1:]
    assert told == {
        "type": "TOOL_CALL_RESULT", "messageId": "x", "toolCallId": "1", "content": content,
        "role": "tool",
    }  # fmt: skip
    assert encoded(START, event, encoder=AgUiEncoder({"2"}))[1:] == [told]
    encoder = AgUiEncoder({"1"})
    assert encoded(START, event, encoder=encoder)[1:] == []
    assert encoded(event, encoder=encoder) == [told]


def test_a_call_that_was_given_up_waits_for_nothing() -> None:
    events = [ToolCallStart(id="1", name="x"), ToolCallCancel(id="1", name="x", reason="cut")]
    told = encoded(START, STEP, *events, StepEnd(), finish())
    assert [it["type"] for it in told[2:5]] == [
        "TOOL_CALL_START", "TOOL_CALL_END", "TOOL_CALL_RESULT",
    ]  # fmt: skip
    assert (told[4]["content"], told[4]["messageId"]) == ("cut", "1:result")


def test_every_question_that_is_open_is_an_interrupt_of_its_own() -> None:
    mode = ResumeMode.USE_DECISION_AS_TOOL_RESULT
    called = Suspension(id="s", action="tool:ask")
    asks = [
        suspended("1", suspension=Suspension(id="own", message="Really?"), expires_at=1_000),
        suspended("2", suspension=Suspension(id="same")),
        suspended("3", suspension=Suspension(id="same"), expires_at=10**18),
        suspended("4", suspension=called, resume_mode=mode, asked_by="gate"),
        suspended("5", suspension=called),
        suspended("6", suspension=Suspension(action="tool:ask", message="?"), resume_mode=mode),
        suspended("7", suspension=Suspension(action="other"), resume_mode=mode),
    ]
    client_call = suspended("8", suspension=called, resume_mode=mode)
    answered = ToolCallResumed(target_id="7", result=1)
    outcome = encoded(START, *asks, client_call, answered, finish(Suspended()))[-1]["outcome"]
    told = outcome["interrupts"]
    assert [it["id"] for it in told] == ["1", "2", "3", "4", "5", "6"]
    assert [it["toolCallId"] for it in told] == ["1", "2", "3", "4", "5", "6"]
    assert told[0]["reason"] == "tool_approval"
    assert told[0]["expiresAt"] == "1970-01-01T00:00:01+00:00"
    assert "expiresAt" not in told[2]
    assert told[4]["reason"] == "tool:ask"
    only = encoded(START, client_call, finish(Suspended()))[-1]["outcome"]
    assert only == {"type": "success", "pendingToolCallIds": ["8"]}


def test_the_first_state_is_whole_and_later_ones_are_changes() -> None:
    states: list[Any] = [{"a": {"b/c": 1, "~": 2}}, {"a": {"b/c": True}, "n": None}, {"a": [1]}]
    events = [StateSnapshot(snapshot=it) for it in states]
    client = client_of(START, *events[:2], events[1], *events[2:])
    assert client.kinds[1:] == ["STATE_SNAPSHOT", "STATE_DELTA", "STATE_DELTA"]
    assert client.state == states[-1]
    change = StateDelta(delta=[{"op": "add", "path": "/x", "value": 1}])
    assert kinds(START, events[0], change, events[1])[1:] == [
        "STATE_SNAPSHOT", "STATE_DELTA", "STATE_SNAPSHOT",
    ]  # fmt: skip
    assert kinds(START, StateDelta(delta=["no"]))[1:] == ["CUSTOM"]


def test_activities_are_objects_and_their_changes_apply() -> None:
    named = {"message_id": "x", "activity_type": "plan"}
    patch = [{"op": "replace", "path": "", "value": 2}]
    told = encoded(
        START,
        ActivitySnapshot(**named, content=1, replace=True),
        ActivityDelta(**named, patch=patch),
        ActivitySnapshot(**named, content={"a": 1}),
        ActivityDelta(**named, patch=[{"op": "copy", "from": "/a", "path": "/b"}]),
        ActivityDelta(**named, patch=[{"op": "copy", "path": "/b"}]),
    )
    assert (told[1]["content"], told[1]["replace"]) == ({"value": 1}, True)
    assert told[2]["patch"] == [{"op": "replace", "path": "/value", "value": 2}]
    assert told[3]["content"] == {"a": 1}
    assert "replace" not in told[3]
    assert told[4]["patch"] == [{"op": "copy", "from": "/a", "path": "/b"}]
    assert (told[5]["type"], told[5]["name"]) == ("CUSTOM", "activity_delta")


def test_a_tools_output_comes_piece_by_piece() -> None:
    pieces = [ToolCallStreamDelta(id="1", name="x", delta=it) for it in "ab"]
    told = encoded(START, *pieces)[1:]
    assert [it["type"] for it in told] == ["ACTIVITY_SNAPSHOT", "ACTIVITY_DELTA", "ACTIVITY_DELTA"]
    assert {it["activityType"] for it in told} == {"tool-stream-output"}
    assert {it["messageId"] for it in told} == {"1:output"}
    assert told[2]["patch"] == [{"op": "add", "path": "/delta", "value": "b"}]


def test_what_a_run_costs_is_told_by_model_and_starts_anew_when_it_goes_on() -> None:
    usage = TokenUsage(prompt_tokens=5, completion_tokens=3, cache_read_tokens=2, thinking_tokens=1)
    spent = [InferenceComplete(model=it, usage=usage, duration_ms=7) for it in ("a", "b", "a")]
    encoder = AgUiEncoder()
    silent = InferenceComplete(model="c")
    asked = suspended("1")
    told = encoded(START, *spent, silent, asked, finish(Suspended()), encoder=encoder)
    counts = {"inputTokens": 5, "outputTokens": 3, "reasoningTokens": 1, "cachedInputTokens": 2}
    doubled = {name: 2 * it for name, it in counts.items()}
    assert told[-1]["usage"] == [{"model": "a", **doubled}, {"model": "b", **counts}]
    assert told[1]["value"]["durationMs"] == 7
    again = encoded(START, spent[0], ErrorEvent(message="x", code="y"), encoder=encoder)[-1]
    assert again["usage"] == [{"model": "a", **counts}]
    assert again["code"] == "y"


def test_a_snapshot_of_messages_has_what_clients_may_see() -> None:
    hidden = user("only for the model", visibility=Visibility.INTERNAL)
    told = encoded(
        START,
        MessagesSnapshot(messages=(user("hi"), hidden, Message(role=Role.SYSTEM, id="s"))),
        StreamReset(reason="why"),
    )
    assert [it["role"] for it in told[1]["messages"]] == ["user", "system"]
    assert told[2] == {
        "type": "CUSTOM",
        "name": "stream_reset",
        "value": {"reason": "why", "scope": "turn"},
    }


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(0, 2) | st.sampled_from(["", "a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "~", "/", "~1", ""]), inner, max_size=3)
    ),
    max_leaves=12,
)


@sampled
@settings(max_examples=choose_size(60, 300), deadline=None)
@given(_JSON, _JSON)
def test_a_difference_turns_the_old_document_into_the_new_one(old: Any, new: Any) -> None:
    operations = difference(old, new)
    assert is_patch(operations)
    assert json.dumps(patched(copy.deepcopy(old), copy.deepcopy(operations)), sort_keys=True) == (
        json.dumps(new, sort_keys=True)
    )
    assert difference(new, copy.deepcopy(new)) == []


def test_a_number_and_a_truth_are_different_things() -> None:
    for old, new in ((1, True), (0, False), ([1], [True]), ({"a": 1}, {"a": True})):
        assert [it["op"] for it in difference(old, new)] == ["replace"]


@pytest.mark.parametrize(
    "bad",
    [
        "x", {}, {"op": "add"}, {"op": "add", "path": "/a"}, {"op": "add", "path": "a", "value": 1},
        {"op": "remove", "path": "/~2"}, {"op": "move", "path": "/a"}, {"op": ["add"], "path": ""},
        {"op": "move", "path": "/a", "from": 3}, {"op": "what", "path": ""}, {"op": "remove"},
        {"op": "remove", "path": "", "from": 3},
    ],
)  # fmt: skip
def test_what_is_no_patch_is_recognized(bad: Any) -> None:
    assert not is_patch([bad])
    assert is_patch([{"op": "test", "path": "", "value": None}, {"op": "remove", "path": "/a~1b"}])
