"""Models, prices, pools, providers and secrets as data: what is accepted, refused and hidden."""

import copy
import math
from typing import Any

import msgspec
import pytest

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.models.model_specs import (
    Modalities,
    Modality,
    ModelPool,
    ModelPrices,
    ModelSpec,
    PoolMember,
    PoolRole,
    ProviderSpec,
    RetryPolicy,
)
from awaken.contracts.secrets import RedactedString, decode_secret, encode_secret
from awaken.contracts.specs.agents import decode_spec

MODEL = {"id": "m", "provider_id": "p", "upstream_model": "u"}
KEY = "sk-canary-0123456789"


def test_a_full_model_survives_its_json() -> None:
    spec = ModelSpec(
        **MODEL,
        context_window=200_000,
        max_output_tokens=64_000,
        modalities=Modalities(input=(Modality.TEXT, Modality.IMAGE)),
        knowledge_cutoff="2026-03",
        prices=ModelPrices(input=3, output=15, cache_read=0.3),
        options={"seed": 7},
    )
    assert decode_spec(msgspec.json.encode(spec), ModelSpec) == spec
    assert decode_spec(MODEL, ModelSpec) == ModelSpec(**MODEL)


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"id": " "}, "id"),
        ({"context_window": 0}, "context_window"),
        ({"max_output_tokens": -1}, "max_output_tokens"),
        ({"context_window": 10, "max_output_tokens": 11}, "exceeds"),
        ({"modalities": {"input": ["text", "text"]}}, "twice"),
        ({"modalities": {"output": ["smell"]}}, "smell"),
        ({"knowledge_cutoff": "2026"}, "knowledge_cutoff"),
        ({"knowledge_cutoff": "2026-13"}, "knowledge_cutoff"),
        ({"knowledge_cutoff": "2025-02-29"}, "knowledge_cutoff"),
        ({"knowledge_cutoff": "2026-04-31"}, "knowledge_cutoff"),
        ({"prices": {"input": -1, "output": 1}}, "price"),
        ({"prices": {"input": 1}}, "output"),
        ({"colour": "blue"}, "colour"),
    ],
)
def test_a_model_that_makes_no_sense_is_refused(fields: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidSpec, match=word):
        decode_spec({**MODEL, **fields}, ModelSpec)


@pytest.mark.parametrize("price", [math.nan, math.inf])
def test_a_price_that_is_no_number_is_refused(price: float) -> None:
    with pytest.raises(ValueError, match="price"):
        ModelPrices(input=price, output=1)


@pytest.mark.parametrize("text", ["2024-02-29", "2026-12", "2000-02-29"])
def test_a_cutoff_may_be_any_day_of_the_calendar(text: str) -> None:
    assert ModelSpec(**MODEL, knowledge_cutoff=text).knowledge_cutoff == text


def test_cached_tokens_are_part_of_the_prompt_and_have_their_own_price() -> None:
    prices = ModelPrices(input=3, output=15, cache_read=0.3, cache_write=3.75)
    usage = TokenUsage(
        prompt_tokens=1_000,
        completion_tokens=100,
        cache_read_tokens=600,
        cache_creation_tokens=200,
        thinking_tokens=40,
    )
    assert prices.nanos(usage) == 200 * 3_000 + 600 * 300 + 200 * 3_750 + 100 * 15_000
    plain = ModelPrices(input=3, output=15)
    assert plain.nanos(usage) == 1_000 * 3_000 + 100 * 15_000
    assert plain.nanos(TokenUsage()) == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"id": " "},
        {"members": []},
        {"members": [{"model_id": "a"}, {"model_id": "a"}]},
        {"members": [{"model_id": "pool"}]},
        {"members": [{"model_id": "a", "role": "failover_only"}]},
        {"members": [{"model_id": "a", "weight": 0}]},
        {"max_switches": -1},
        {"max_call_usd": -0.1},
    ],
)
def test_a_pool_that_makes_no_sense_is_refused(fields: dict[str, Any]) -> None:
    good = {"id": "pool", "members": [{"model_id": "a"}]}
    assert decode_spec(good, ModelPool).members == (PoolMember(model_id="a"),)
    with pytest.raises(InvalidSpec):
        decode_spec({**good, **fields}, ModelPool)


def test_a_pool_needs_one_member_that_is_asked_first() -> None:
    backup = PoolMember(model_id="b", role=PoolRole.FAILOVER_ONLY)
    assert ModelPool(id="p", members=(PoolMember(model_id="a"), backup))


def test_a_provider_never_shows_its_key() -> None:
    spec = ProviderSpec(id="p", adapter="openai_chat", api_key=RedactedString(KEY))
    for shown in (repr(spec), str(spec), f"{spec}", repr([spec]), f"{spec.api_key:>40}"):
        assert KEY not in shown
    assert spec.key is not None
    assert spec.key.reveal() == KEY
    assert "adapter_options" not in msgspec.to_builtins(spec, enc_hook=encode_secret)


def test_a_provider_survives_its_json_and_an_empty_key_is_none() -> None:
    spec = ProviderSpec(
        id="p", adapter="a", api_key=RedactedString(KEY), adapter_options={"x": [1]}
    )
    data = msgspec.json.encode(spec, enc_hook=encode_secret)
    assert decode_spec(data, ProviderSpec) == spec
    assert decode_spec({"id": "p", "adapter": "a", "api_key": ""}, ProviderSpec).key is None


@pytest.mark.parametrize(
    "fields", [{"id": ""}, {"adapter": " "}, {"timeout_ms": 0}, {"api_key": 7}, {"apikey": "x"}]
)
def test_a_provider_that_makes_no_sense_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpec):
        decode_spec({"id": "p", "adapter": "a", **fields}, ProviderSpec)


def test_a_secret_is_shown_by_nothing_but_reveal() -> None:
    secret = RedactedString(KEY)
    assert repr(secret) == "RedactedString(***)"
    assert str(secret) == f"{secret}" == "***"
    assert KEY not in repr({"a": (secret, [secret])})
    assert copy.deepcopy(secret) == secret == RedactedString(KEY)
    assert secret != KEY
    assert hash(secret) == hash(RedactedString(KEY))
    assert msgspec.json.encode(secret, enc_hook=encode_secret) == f'"{KEY}"'.encode()
    assert msgspec.json.decode(f'"{KEY}"', type=RedactedString, dec_hook=decode_secret) == secret
    with pytest.raises(TypeError):
        encode_secret(object())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("0123456789ab", "0123***89ab"),
        ("0123456789a", "***"),
        ("", "***"),
        ("äöüß東京🙂🙂äöüß", "äöüß***äöüß"),
    ],
)
def test_a_preview_keeps_the_ends_of_a_long_secret(text: str, shown: str) -> None:
    assert RedactedString(text).preview() == shown


@pytest.mark.parametrize("name", RetryPolicy.__struct_fields__)
def test_no_limit_of_a_retry_policy_is_negative(name: str) -> None:
    with pytest.raises(InvalidSpec, match=name):
        decode_spec({name: -1}, RetryPolicy)
    with pytest.raises(InvalidSpec):
        decode_spec({"fallback_upstream_models": []}, RetryPolicy)
