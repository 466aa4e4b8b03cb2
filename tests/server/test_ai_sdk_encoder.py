"""Events as the AI SDK's chunks: what each event becomes, and that nothing dangles."""

import json
from typing import Any

import pytest

from awaken import (
    BehaviorRequested,
    Blocked,
    Cancelled,
    Failed,
    NaturalEnd,
    ReasoningDelta,
    Stopped,
    Suspended,
    SuspendTicket,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
    ToolResult,
    user,
)
from awaken.contracts import events as ev
from awaken.events import StoppedReason, Termination
from awaken.messages import Visibility
from awaken.models import TokenUsage
from awaken.protocols.ai_sdk.encoder import PREVIEW_CHARS, AiSdkEncoder
from awaken.tools import ResumeMode, Suspension

START = ev.RunStart(thread_id="t", run_id="r")
STEP = ev.StepStart(message_id="m")
END = NaturalEnd()
CALL = ToolCallStart(id="c", name="add")
READY = ev.ToolCallReady(id="c", name="add", arguments={"a": 1})


def chunks(encoder: AiSdkEncoder, *events: ev.AgentEvent) -> list[dict[str, Any]]:
    lines = [line for event in events for line in encoder.encode(event)]
    assert all(line.startswith(b"data: {") for line in lines)
    return [json.loads(line[6:]) for line in lines]


def kinds(found: list[dict[str, Any]]) -> list[str]:
    return [it["type"] for it in found if not it.get("transient")]


def ended(termination: Termination = END) -> ev.RunFinish:
    return ev.RunFinish(thread_id="t", run_id="r", termination=termination)


def done(result: ToolResult, **fields: Any) -> ev.ToolCallDone:
    return ev.ToolCallDone(id="c", message_id="x", result=result, outcome=result.outcome, **fields)


def asking(mode: ResumeMode = ResumeMode.REPLAY_TOOL_CALL, **fields: Any) -> ev.ToolCallDone:
    ticket = SuspendTicket(suspension=Suspension(message="sure?"), resume_mode=mode)
    return done(ToolResult.from_ticket("add", ticket), **fields)


def called(version: int = 6) -> AiSdkEncoder:
    encoder = AiSdkEncoder(version)
    chunks(encoder, START, STEP, CALL, READY)
    return encoder


def test_a_run_is_a_message_with_the_runs_id() -> None:
    start, info = chunks(AiSdkEncoder(), START)
    assert start == {"type": "start", "messageId": "r"}
    assert info["type"] == "data-run-info"
    assert info["data"] == {"runId": "r", "threadId": "t"}
    assert info["id"] == "r"


def test_blocks_are_opened_once_and_closed_before_anything_else_begins() -> None:
    found = chunks(
        AiSdkEncoder(), START, STEP, ReasoningDelta(delta="h"), ReasoningDelta(delta="m"),
        TextDelta(delta="a"), TextDelta(delta="b"), CALL, TextDelta(delta="c"), ev.StepEnd(),
    )[2:]  # fmt: skip
    assert [(it["type"], it.get("id"), it.get("delta")) for it in found] == [
        ("start-step", None, None),
        ("reasoning-start", "reasoning_m", None),
        ("reasoning-delta", "reasoning_m", "h"),
        ("reasoning-delta", "reasoning_m", "m"),
        ("reasoning-end", "reasoning_m", None),
        ("text-start", "txt_1", None),
        ("text-delta", "txt_1", "a"),
        ("text-delta", "txt_1", "b"),
        ("text-end", "txt_1", None),
        ("tool-input-start", None, None),
        ("text-start", "txt_2", None),
        ("text-delta", "txt_2", "c"),
        ("text-end", "txt_2", None),
        ("finish-step", None, None),
    ]


def test_two_thoughts_of_a_step_are_two_blocks() -> None:
    think, say = ReasoningDelta(delta="h"), TextDelta(delta="a")
    found = chunks(AiSdkEncoder(), START, STEP, think, say, think, ev.StepEnd())
    ids = [it["id"] for it in found if it["type"] == "reasoning-start"]
    assert ids == ["reasoning_m", "reasoning_m_2"]
    assert kinds(found)[-2:] == ["reasoning-end", "finish-step"]


def test_a_call_is_streamed_and_comes_out() -> None:
    found = chunks(
        AiSdkEncoder(), START, STEP, CALL, ToolCallDelta(id="c", args_delta='{"a"'), READY,
        done(ToolResult.success("add", 3)),
    )[3:]  # fmt: skip
    assert found == [
        {"type": "tool-input-start", "toolCallId": "c", "toolName": "add"},
        {"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": '{"a"'},
        {
            "type": "tool-input-available",
            "toolCallId": "c",
            "toolName": "add",
            "input": {"a": 1},
        },
        {
            "type": "tool-output-available",
            "toolCallId": "c",
            "output": 3,
            "providerExecuted": True,
        },
    ]


def test_metadata_of_a_result_stands_beside_its_data() -> None:
    result = ToolResult(tool_name="add", data=3, metadata={"ms": 1})
    (output,) = chunks(called(), done(result))
    assert output["output"] == {"data": 3, "metadata": {"ms": 1}}


def test_a_failed_call_says_why() -> None:
    (output,) = chunks(called(), done(ToolResult.error("add", "no such number")))
    assert output["type"] == "tool-output-error"
    assert output["errorText"] == "no such number"
    assert output["providerExecuted"] is True


def test_output_of_a_running_tool_is_preliminary_and_bounded() -> None:
    pieces = [ev.ToolCallStreamDelta(id="c", name="add", delta=it) for it in ("one ", "two")]
    *_, last = chunks(called(), *pieces)
    assert (last["output"], last["preliminary"]) == ("one two", True)
    assert "providerExecuted" not in last, "clients keep it, and the call may ask them something"
    long = ev.ToolCallStreamDelta(id="c", name="add", delta="x" * PREVIEW_CHARS + "end")
    (shown,) = chunks(called(), long)
    assert len(shown["output"]) == PREVIEW_CHARS
    assert shown["output"].endswith("end")


def test_a_replayed_call_asks_for_approval_under_its_tickets_id() -> None:
    assert chunks(called(), asking(ticket_id="k")) == [
        {"type": "tool-approval-request", "toolCallId": "c", "approvalId": "k"}
    ]
    (seven,) = chunks(called(7), asking(ticket_id="k"))
    assert seven["reason"] == "sure?"


@pytest.mark.parametrize(
    "mode", [ResumeMode.USE_DECISION_AS_TOOL_RESULT, ResumeMode.PASS_DECISION_TO_TOOL]
)
def test_a_call_that_the_client_answers_stays_an_input(mode: ResumeMode) -> None:
    assert chunks(called(), asking(mode, ticket_id="k")) == []


@pytest.mark.parametrize(
    ("result", "kind", "field"),
    [
        ({"error": "no"}, "tool-output-error", {"errorText": "no"}),
        ({"approved": False, "id": "k"}, "tool-output-denied", {}),
        ({"approved": True}, "tool-output-available", {"output": {"approved": True}}),
        ({"error": {"code": 1}}, "tool-output-available", {"output": {"error": {"code": 1}}}),
        ("suspended", "tool-output-available", {"output": "suspended"}),
    ],
)
def test_a_resumed_call_comes_out_as_its_result_says(
    result: Any, kind: str, field: dict[str, Any]
) -> None:
    encoder = called()
    chunks(encoder, asking(ticket_id="k"), ended(Suspended()))
    resumed = ev.ToolCallResumed(target_id="c", message_id="x", result=result)
    *_, last = chunks(encoder, START, resumed)
    assert last["type"] == kind
    assert field.items() <= last.items()
    assert "approval" not in last


def test_version_7_hears_what_was_answered() -> None:
    for result, approved in (("ok", True), ({"approved": False}, False)):
        encoder = called(7)
        chunks(encoder, asking(ticket_id="k"), ended(Suspended()), START)
        response, _ = chunks(encoder, ev.ToolCallResumed(target_id="c", result=result))
        assert response == {
            "type": "tool-approval-response",
            "approvalId": "k",
            "approved": approved,
        }


@pytest.mark.parametrize(
    ("termination", "reason", "before"),
    [
        (NaturalEnd(), "stop", []),
        (BehaviorRequested(), "stop", []),
        (Stopped(reason=StoppedReason(code="max_rounds")), "stop", []),
        (Cancelled(), "stop", ["abort"]),
        (Blocked(reason="rule"), "content-filter", []),
        (Failed(message="it broke"), "error", ["error"]),
        (Suspended(), "tool-calls", []),
    ],
)
def test_the_end_closes_everything_and_says_why(
    termination: Termination, reason: str, before: list[str]
) -> None:
    encoder = AiSdkEncoder()
    usage = TokenUsage(prompt_tokens=1, completion_tokens=2, total_tokens=3)
    chunks(encoder, START, STEP, ev.InferenceComplete(model="m", usage=usage), TextDelta(delta="a"))
    found = chunks(encoder, ended(termination))
    assert kinds(found) == ["text-end", "finish-step", *before, "finish"]
    assert found[-1]["finishReason"] == reason
    metadata = found[-1]["messageMetadata"]
    assert (metadata["runId"], metadata["threadId"]) == ("r", "t")
    assert metadata["usage"] == {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}
    if before == ["error"]:
        assert found[-2]["errorText"] == "it broke"


def test_usage_is_that_of_all_steps() -> None:
    turn = ev.InferenceComplete(model="m", usage=TokenUsage(prompt_tokens=4))
    unknown = ev.InferenceComplete(model="m")
    *_, last = chunks(AiSdkEncoder(), START, STEP, turn, ev.StepEnd(), unknown, turn, ended())
    assert last["messageMetadata"]["usage"] == {"inputTokens": 8}


def test_nothing_follows_the_end_unless_a_suspended_run_goes_on() -> None:
    encoder = called()
    chunks(encoder, ended(Suspended()))
    assert chunks(encoder, TextDelta(delta="x")) == []
    assert kinds(chunks(encoder, START, STEP, TextDelta(delta="x")))[0] == "start"
    chunks(encoder, ended())
    assert chunks(encoder, START, TextDelta(delta="x"), ended()) == []


def test_an_error_is_the_last_word() -> None:
    encoder = called()
    found = chunks(encoder, TextDelta(delta="a"), ev.ErrorEvent(message="stopping"))
    assert kinds(found)[-2:] == ["text-end", "error"]
    assert found[-1]["errorText"] == "stopping"
    assert chunks(encoder, TextDelta(delta="b"), ended()) == []


def test_a_reset_marks_the_step_for_version_6_and_begins_a_new_one() -> None:
    encoder = AiSdkEncoder()
    chunks(encoder, START, STEP, ReasoningDelta(delta="h"), TextDelta(delta="stale"), CALL)
    found = chunks(encoder, TextDelta(delta="more"), ev.StreamReset(reason="again"))[2:]
    assert kinds(found) == [
        "text-end", "tool-input-error", "data-stream-reset", "finish-step", "start-step",
    ]  # fmt: skip
    assert found[1]["providerExecuted"] is True
    assert found[2]["data"] == {"reason": "again"}
    (start, delta) = chunks(encoder, STEP, TextDelta(delta="fresh"))
    assert (start["type"], start["id"], delta["delta"]) == ("text-start", "txt_1", "fresh")
    assert chunks(encoder, ReasoningDelta(delta="h"))[1]["id"] == "reasoning_m"


def test_a_reset_takes_the_step_back_for_version_7() -> None:
    encoder = AiSdkEncoder(7)
    chunks(encoder, START, STEP, TextDelta(delta="stale"), CALL)
    assert chunks(encoder, ev.StreamReset(reason="again")) == [{"type": "reset-step"}]
    # The call is gone from the message: nothing may refer to it.
    assert chunks(encoder, ToolCallDelta(id="c", args_delta="{")) == []
    assert chunks(encoder, TextDelta(delta="fresh"))[0]["id"] == "txt_1"
    assert kinds(chunks(encoder, READY, done(ToolResult.success("add", 3)))) == [
        "text-end",
        "tool-input-available",
        "tool-output-available",
    ]


@pytest.mark.parametrize("version", [6, 7])
def test_a_reset_of_nothing_says_nothing(version: int) -> None:
    encoder = AiSdkEncoder(version)
    reset = ev.StreamReset(reason="again")
    assert kinds(chunks(encoder, START, reset, STEP, reset)) == [
        "start",
        "data-run-info",
        "start-step",
    ]
    chunks(encoder, TextDelta(delta="kept"), ev.StepEnd())
    assert chunks(encoder, reset) == []


def test_a_call_that_was_given_up_is_closed() -> None:
    encoder = AiSdkEncoder()
    chunks(encoder, START, STEP, CALL)
    given_up = ev.ToolCallCancel(id="c", name="add", reason="cut off")
    (closed,) = chunks(encoder, given_up)
    assert (closed["type"], closed["errorText"]) == ("tool-input-error", "cut off")
    assert closed["providerExecuted"] is True
    assert chunks(encoder, given_up) == []
    assert chunks(encoder, done(ToolResult.success("add", 1))) == []


def test_what_the_message_does_not_have_is_not_referred_to() -> None:
    encoder = AiSdkEncoder(7)
    found = chunks(
        encoder,
        START,
        ToolCallDelta(id="c", args_delta="{"),
        ev.ToolCallStreamDelta(id="c", name="add", delta="x"),
        done(ToolResult.success("add", 1)),
        asking(ticket_id="k"),
        ev.ToolCallResumed(target_id="c", result=1),
    )
    assert kinds(found) == ["start", "data-run-info"]


def test_a_new_message_on_a_run_that_goes_on_has_its_own_id_and_its_own_calls() -> None:
    encoder = AiSdkEncoder(earlier={"c": ("add", {"a": 1})})
    start, _, shown, output = chunks(encoder, START, ev.ToolCallResumed(target_id="c", result=3))
    assert start == {"type": "start"}
    assert (shown["type"], shown["input"]) == ("tool-input-available", {"a": 1})
    assert output["output"] == 3
    encoder = AiSdkEncoder(earlier={"c": ("add", {"a": 1})})
    shown, again = chunks(encoder, asking(ticket_id="k"))
    assert (shown["type"], shown["input"]) == ("tool-input-available", {"a": 1})
    assert (again["type"], again["approvalId"]) == ("tool-approval-request", "k")
    assert (
        chunks(
            AiSdkEncoder(7, earlier={}),
            asking(ticket_id="k"),
            ev.ToolCallResumed(target_id="c", result=3),
        )
        == []
    )
    assert chunks(AiSdkEncoder(earlier={}), done(ToolResult.error("add", "superseded"))) == []


def test_a_step_that_is_told_anew_is_not_opened_twice() -> None:
    found = chunks(AiSdkEncoder(), START, STEP, STEP, ev.StepEnd(), ev.StepEnd())
    assert kinds(found)[2:] == ["start-step", "finish-step"]


def test_other_events_are_data_parts() -> None:
    hidden = user("secret", visibility=Visibility.INTERNAL)
    found = chunks(
        AiSdkEncoder(),
        START,
        ev.StateSnapshot(snapshot={"a": 1}),
        ev.StateDelta(delta=[{"op": "add"}]),
        ev.MessagesSnapshot(messages=(user("hi"), hidden)),
        ev.InferenceComplete(model="m"),
        ev.ReasoningEncryptedValue(encrypted_value="s"),
        ev.ActivityDelta(message_id="m", activity_type="x", patch=[]),
        ev.ActivitySnapshot(message_id="m", activity_type="x", content=1),
    )[2:]
    assert [(it["type"], it.get("transient", False)) for it in found] == [
        ("data-state-snapshot", True),
        ("data-state-delta", True),
        ("data-messages-snapshot", True),
        ("data-inference-complete", True),
        ("data-reasoning-encrypted", True),
        ("data-activity-delta", True),
        ("data-activity-snapshot", False),
    ]
    assert found[0]["data"] == {"a": 1}
    assert len(found[2]["data"]) == 1
    assert found[4]["id"]
    assert found[6]["id"]


@pytest.mark.parametrize(
    ("kind", "content", "own"),
    [
        ("source-url", {"url": "https://a", "title": "A"}, {"sourceId": "m", "title": "A"}),
        ("file", {"url": "https://a", "mediaType": "image/png"}, {"mediaType": "image/png"}),
        ("file", {"url": "https://a"}, None),
        ("source-document", {"mediaType": "a/b", "title": 1}, None),
        ("source-url", "https://a", None),
    ],
)
def test_sources_and_files_are_parts_of_their_own_when_they_are_whole(
    kind: str, content: Any, own: dict[str, Any] | None
) -> None:
    event = ev.ActivitySnapshot(message_id="m", activity_type=kind, content=content)
    data, *more = chunks(AiSdkEncoder(), START, event)[2:]
    assert data["type"] == "data-activity-snapshot"
    assert len(more) == (own is not None)
    if own is not None:
        assert more[0]["type"] == kind
        assert own.items() <= more[0].items()
