"""Specs as people write them: defaults, sections, limits, and nothing unknown."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.contracts.errors import InvalidSpec, KeyCodecError
from awaken.contracts.models.inference import (
    CompactionMode,
    ContextWindowPolicy,
    Effort,
    EffortBudget,
    InferenceOverride,
    ReasoningEffort,
)
from awaken.contracts.models.model_specs import ModelSpec
from awaken.contracts.secrets import encode_secret
from awaken.contracts.specs.agents import (
    AgentSpec,
    ConsecutiveErrors,
    ContentMatch,
    LoopDetection,
    MaxRounds,
    RemoteEndpoint,
    StopCondition,
    StopOnTool,
    Timeout,
    TokenBudget,
    decode_spec,
)

AGENT = {"id": "a", "model_id": "m", "system_prompt": "Be brief."}
FULL_AGENT = {
    **AGENT,
    "description": "d",
    "max_rounds": 3,
    "max_continuation_retries": 0,
    "context_policy": {"max_context_tokens": 9},
    "reasoning_effort": {"budget": 5},
    "plugin_ids": ["p"],
    "active_hook_filter": ["p"],
    "allowed_tools": ["a*"],
    "excluded_tools": ["ab"],
    "stop_conditions": [{"type": "timeout", "seconds": 4}],
    "budgets": [{"scope": "thread", "tokens": 9, "soft": True}],
    "parallel_tools": False,
    "frontend_tools_may_replace": True,
    "endpoint": {"base_url": "https://x", "backend": "acp", "options": {"poll": 1}},
    "delegates": ["b"],
    "sections": {"s": {"on": True}},
    "registry": "r",
}


def written(spec: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(spec, enc_hook=encode_secret))


def test_an_agent_needs_little_and_gets_the_documented_defaults() -> None:
    spec = decode_spec(AGENT, AgentSpec)
    assert (spec.max_rounds, spec.max_continuation_retries) == (16, 2)
    assert (spec.plugin_ids, spec.active_hook_filter, spec.delegates) == ((), (), ())
    assert spec.allowed_tools is spec.excluded_tools is spec.context_policy is spec.endpoint is None
    assert spec.sections == {}
    assert written(spec) == AGENT


def test_an_agent_with_everything_survives_its_json_form() -> None:
    spec = decode_spec(msgspec.json.encode(FULL_AGENT), AgentSpec)
    assert written(spec) == FULL_AGENT
    assert decode_spec(written(spec), AgentSpec) == spec
    assert set(AgentSpec.__struct_fields__) == set(FULL_AGENT)


@pytest.mark.parametrize(
    ("type_", "data"),
    [
        (AgentSpec, {**AGENT, "modle": "m"}),
        (AgentSpec, {**AGENT, "active_plugins": ["p"]}),
        (AgentSpec, {"id": "a"}),
        (AgentSpec, {**AGENT, "id": " "}),
        (AgentSpec, {**AGENT, "id": "a "}),
        (AgentSpec, {**AGENT, "max_rounds": -1}),
        (AgentSpec, {**AGENT, "max_rounds": "3"}),
        (AgentSpec, {**AGENT, "max_continuation_retries": -1}),
        (AgentSpec, {**AGENT, "stop_conditions": [{"type": "bored"}]}),
        (AgentSpec, {**AGENT, "context_policy": {"max_tokens": 1}}),
        (AgentSpec, b"{"),
        (RemoteEndpoint, {"base_url": "https://x", "bearer_token": "t"}),
        (RemoteEndpoint, {"base_url": "https://x", "agent_id": "a"}),
        (RemoteEndpoint, {"base_url": "https://x", "poll_interval_ms": 1}),
        (RemoteEndpoint, {"base_url": "https://x", "backend": " "}),
        (RemoteEndpoint, {"base_url": ""}),
        (ModelSpec, {"id": "m", "provider": "p", "model": "u"}),
        (ModelSpec, {"id": "m", "provider_id": " ", "upstream_model": "u"}),
        (InferenceOverride, {"model": "x"}),
        (InferenceOverride, {"fallback_models": ["x"]}),
    ],
)
def test_what_is_unknown_malformed_or_senseless_is_refused_when_it_is_written(
    type_: type, data: Any
) -> None:
    with pytest.raises(InvalidSpec) as refused:
        decode_spec(data, type_)
    assert refused.value.fields["what"] == type_.__name__


def test_an_endpoint_has_one_form() -> None:
    endpoint = decode_spec({"base_url": "https://x"}, RemoteEndpoint)
    assert (endpoint.backend, endpoint.timeout_ms, endpoint.options) == ("a2a", 300_000, {})
    assert written(endpoint) == {"base_url": "https://x"}
    full = {
        "base_url": "https://x",
        "backend": "acp",
        "auth": {"type": "bearer", "token": "t"},
        "target": "agent",
        "timeout_ms": 1,
        "options": {"poll_interval_ms": 2},
    }
    assert written(decode_spec(full, RemoteEndpoint)) == full


class Retry(msgspec.Struct):
    times: int = 3


class Tone(msgspec.Struct):
    style: str = "plain"


def test_sections_are_typed_independent_and_plain_json() -> None:
    spec = decode_spec({**AGENT, "sections": {"raw": {"deep": [1]}}}, AgentSpec)
    with_retry = spec.with_config("retry", Retry(times=5))
    assert with_retry.sections == {"raw": {"deep": [1]}, "retry": {"times": 5}}
    assert with_retry.config("retry", Retry) == Retry(times=5)
    assert with_retry.config("tone", Tone) == Tone()
    assert with_retry.config("raw", dict) == {"deep": [1]}
    assert with_retry.with_config("tone", Tone("dry")).config("retry", Retry).times == 5
    assert "retry" not in spec.sections
    assert decode_spec(written(with_retry), AgentSpec) == with_retry
    with pytest.raises(KeyCodecError, match="retry"):
        spec.with_config("retry", {"times": "often"}).config("retry", Retry)


CONDITIONS: list[tuple[StopCondition, dict[str, Any]]] = [
    (MaxRounds(rounds=1), {"type": "max_rounds", "rounds": 1}),
    (Timeout(seconds=1), {"type": "timeout", "seconds": 1}),
    (TokenBudget(max_total=1), {"type": "token_budget", "max_total": 1}),
    (ConsecutiveErrors(max=1), {"type": "consecutive_errors", "max": 1}),
    (StopOnTool(tool_name="t"), {"type": "stop_on_tool", "tool_name": "t"}),
    (ContentMatch(pattern="p"), {"type": "content_match", "pattern": "p"}),
    (LoopDetection(window=2), {"type": "loop_detection", "window": 2}),
]


@pytest.mark.parametrize(("condition", "wire"), CONDITIONS)
def test_every_stop_condition_has_one_form(condition: StopCondition, wire: dict[str, Any]) -> None:
    assert written(condition) == wire
    assert msgspec.convert(wire, StopCondition) == condition


@pytest.mark.parametrize(
    ("effort", "wire"),
    [*((each, each.value) for each in Effort), (EffortBudget(budget=7), {"budget": 7})],
)
def test_every_reasoning_effort_has_one_form(effort: ReasoningEffort, wire: Any) -> None:
    assert written(effort) == wire
    assert msgspec.convert(wire, ReasoningEffort) == effort


def test_a_context_policy_has_the_documented_defaults_and_older_ones_are_filled_in() -> None:
    policy = ContextWindowPolicy()
    assert msgspec.structs.asdict(policy) == {
        "max_context_tokens": 200_000,
        "max_output_tokens": 16_384,
        "min_recent_messages": 10,
        "enable_prompt_cache": True,
        "autocompact_threshold": None,
        "compaction_mode": CompactionMode("keep_recent_raw_suffix"),
        "compaction_raw_suffix_messages": 2,
    }
    older = {"max_context_tokens": 9, "compaction_mode": "compact_to_safe_frontier"}
    back = decode_spec(older, ContextWindowPolicy)
    assert back.compaction_mode is CompactionMode.COMPACT_TO_SAFE_FRONTIER
    assert back.max_output_tokens == 16_384
    assert written(back) == older


overrides = st.builds(
    InferenceOverride,
    upstream_model=st.none() | st.sampled_from(["m1", "m2"]),
    temperature=st.none() | st.sampled_from([0.0, 1.0]),
    max_tokens=st.none() | st.integers(0, 2),
    top_p=st.none() | st.sampled_from([0.0, 0.5]),
    reasoning_effort=st.none() | st.sampled_from([Effort.LOW, EffortBudget(budget=0)]),
)


@given(st.lists(overrides, max_size=4))
def test_merged_overrides_take_the_last_word_on_each_field(given_: list[InferenceOverride]) -> None:
    merged = InferenceOverride()
    for override in given_:
        merged = merged.merge(override)
    for name in InferenceOverride.__struct_fields__:
        said = [value for each in given_ if (value := getattr(each, name)) is not None]
        assert getattr(merged, name) == (said[-1] if said else None)
    assert merged.is_empty is all(each.is_empty for each in given_)
    assert merged.merge(None) == merged
    assert decode_spec(written(merged), InferenceOverride) == merged


@pytest.mark.parametrize(
    "values", [{"upstream_model": ""}, {"temperature": 0.0}, {"max_tokens": 0}, {"top_p": 0.0}]
)
def test_an_override_that_says_nothing_much_still_says_something(values: dict[str, Any]) -> None:
    assert not InferenceOverride(**values).is_empty
    assert InferenceOverride().is_empty


def test_an_endpoint_shows_no_secret_and_survives_its_json_form() -> None:
    data = {
        "base_url": "stdio:",
        "auth": {"type": "bearer", "token": "SECRET-1"},
        "options": {"env": {"KEY": "SECRET-2", "TERM": None}},
    }
    endpoint = decode_spec(data, RemoteEndpoint)
    assert "SECRET" not in repr(endpoint)
    assert endpoint.auth is not None
    assert endpoint.auth["type"] == "bearer"
    assert written(endpoint) == data
    assert decode_spec(written(endpoint), RemoteEndpoint) == endpoint
