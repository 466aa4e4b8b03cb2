"""The model port: whole turns, usage, failures, and what to do after a broken stream."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.contracts.errors import AwakenError
from awaken.contracts.messages.content import ContentBlock, Text, Thinking
from awaken.contracts.messages.message import ToolCall
from awaken.contracts.models import errors as model_errors
from awaken.contracts.models.errors import ModelError, Overloaded, ProviderFailed, RateLimited
from awaken.contracts.models.inference import InferenceFailure, StopReason, StreamResult, TokenUsage
from awaken.contracts.models.stream_recovery import (
    InFlightTool,
    InterruptSnapshot,
    RecoveryPlan,
    recovery_plan,
)

CALL = ToolCall(id="c", name="n", arguments={})
SAID = (Text(text="hi"),)


@pytest.mark.parametrize("stop", [*StopReason, None])
@pytest.mark.parametrize("content", [(), SAID, (Text(text=""),), (Thinking(thinking="hm"),)])
@pytest.mark.parametrize("calls", [(), (CALL,)])
@pytest.mark.parametrize("is_incomplete", [False, True])
def test_a_turn_needs_recovery_only_when_it_was_cut_off_in_the_middle_of_something(
    stop: StopReason | None,
    content: tuple[ContentBlock, ...],
    calls: tuple[ToolCall, ...],
    is_incomplete: bool,
) -> None:
    turn = StreamResult(
        content=content,
        tool_calls=calls,
        stop_reason=stop,
        has_incomplete_tool_calls=is_incomplete,
    )
    was_talking = content == SAID and not calls
    assert turn.needs_truncation_recovery is (
        stop is StopReason.MAX_TOKENS and (is_incomplete or was_talking)
    )
    assert msgspec.json.decode(msgspec.json.encode(turn), type=StreamResult) == turn


def test_the_text_of_a_turn_is_its_text_blocks() -> None:
    blocks = (Text(text="a"), Thinking(thinking="x"), Text(text="b"))
    assert StreamResult(content=blocks).text == "ab"
    assert StreamResult(content=(Thinking(thinking="x"),)).text == StreamResult().text == ""


counts = st.none() | st.integers(0, 9)
usages = st.builds(TokenUsage, **dict.fromkeys(TokenUsage.__struct_fields__, counts))


@given(st.lists(usages, max_size=4))
def test_usage_adds_up_field_by_field_and_unknown_stays_unknown(parts: list[TokenUsage]) -> None:
    total = TokenUsage()
    for part in parts:
        total = total.plus(part)
    for name in TokenUsage.__struct_fields__:
        known = [count for part in parts if (count := getattr(part, name)) is not None]
        assert getattr(total, name) == (sum(known) if known else None)
    wire = msgspec.json.decode(msgspec.json.encode(total))
    assert None not in wire.values()
    assert msgspec.convert(wire, TokenUsage) == total
    assert msgspec.json.encode(TokenUsage()) == b"{}"
    assert total.plus(None) == total


def test_nonsense_from_a_provider_does_not_lower_the_bill() -> None:
    assert TokenUsage(prompt_tokens=5).plus(TokenUsage(prompt_tokens=-3)).prompt_tokens == 5


def test_a_failure_names_its_type_and_leaves_out_an_unknown_class() -> None:
    failure = InferenceFailure(type="Overloaded", message="busy")
    assert msgspec.to_builtins(failure) == {"type": "Overloaded", "message": "busy"}
    known = InferenceFailure(type="T", message="m", error_class="overloaded")
    assert msgspec.convert(msgspec.to_builtins(known), InferenceFailure) == known


MODEL_ERRORS = [
    error
    for error in vars(model_errors).values()
    if isinstance(error, type) and issubclass(error, ModelError) and error is not ModelError
]


def test_exactly_the_passing_failures_are_worth_another_try() -> None:
    assert {error.code for error in MODEL_ERRORS if error.retryable} == {
        "provider_failed", "rate_limited", "overloaded", "model_timeout", "stream_interrupted",
        "transport_failed", "malformed_answer",
    }  # fmt: skip
    assert {error.code for error in MODEL_ERRORS if not error.retryable} == {
        "context_overflow", "invalid_request", "unauthorized", "model_not_found",
        "content_filtered", "all_models_unavailable", "quota_exceeded", "answer_too_large",
        "provider_broken", "provider_unusable", "model_disabled",
    }  # fmt: skip
    assert {error.code for error in MODEL_ERRORS if error.blames_request} == {
        "context_overflow", "invalid_request", "content_filtered", "all_models_unavailable",
        "model_disabled",
    }  # fmt: skip


@pytest.mark.parametrize("error", MODEL_ERRORS)
def test_an_error_says_what_the_provider_said_and_when_to_come_back(error: Any) -> None:
    assert str(error("overloaded today")) == "overloaded today"
    assert issubclass(error, AwakenError)
    assert error("x").retry_after_ms is None
    assert RateLimited("x", retry_after_ms=7).retry_after_ms == 7
    assert Overloaded("x", retry_after_ms=7).retry_after_ms == 7
    assert ProviderFailed("x").retry_after_ms is None


@given(st.none() | st.sampled_from(["", "said"]), st.booleans(), st.booleans())
def test_recovery_loses_as_little_as_possible_of_what_the_client_saw(
    text: str | None, has_call: bool, has_tool: bool
) -> None:
    tool = InFlightTool(id="c2", name="n", partial_args='{"a"') if has_tool else None
    snapshot = InterruptSnapshot(
        text=text, completed_tool_calls=(CALL,) if has_call else (), in_flight_tool=tool
    )
    expected = {
        (True, True): RecoveryPlan.SYNTHESIZE_TOOL_USE,
        (True, False): RecoveryPlan.SYNTHESIZE_TOOL_USE,
        (False, True): RecoveryPlan.TRUNCATE_BEFORE_TOOL if tool else RecoveryPlan.CONTINUE_TEXT,
        (False, False): RecoveryPlan.WHOLE_RESTART,
    }
    assert recovery_plan(snapshot) is expected[has_call, bool(text)]
