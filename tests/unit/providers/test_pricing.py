"""What models cost: their own prices, the list's, or nobody knows."""

import sys
from datetime import UTC, datetime
from typing import Any

import genai_prices
import pytest

from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.models.model_specs import ModelPrices, ModelSpec
from awaken.providers.pricing import KnownPrices
from awaken.testing.fakes import FakeClock

USAGE = TokenUsage(prompt_tokens=1000, completion_tokens=1000, cache_read_tokens=500)


NOW = datetime(2026, 9, 21, 12, tzinfo=UTC)


def prices(clock: FakeClock | None = None) -> KnownPrices:
    return KnownPrices(clock or clock_now())


def clock_now() -> FakeClock:
    return FakeClock(int(NOW.timestamp() * 1000))


def model(provider: str, upstream: str, own: ModelPrices | None = None) -> ModelSpec:
    return ModelSpec(id="m", provider_id=provider, upstream_model=upstream, prices=own)


def test_a_models_own_prices_come_first() -> None:
    spec = model("openai", "gpt-5-mini", ModelPrices(input=1, output=1))
    assert prices().nanos(spec, USAGE) == 2_000_000


@pytest.mark.parametrize(
    ("provider", "upstream", "vendor"),
    [
        ("openai", "gpt-5-mini", "openai"),
        ("openai", "gpt-5-mini-2025-08-07", "openai"),
        ("anthropic", "claude-sonnet-4-5-20250929", "anthropic"),
        ("google", "gemini-2.5-pro", "google"),
        ("gemini", "gemini-2.5-flash", "google"),
        ("bedrock", "anthropic.claude-sonnet-4-5-20250929-v1:0", "aws"),
        ("xai", "grok-4", "x-ai"),
        ("deepseek", "deepseek-chat", "deepseek"),
    ],
)
def test_the_list_is_asked_with_its_own_names_and_gives_the_same_every_time(
    provider: str, upstream: str, vendor: str
) -> None:
    known, spec = prices(), model(provider, upstream)
    counts: Any = genai_prices.Usage(
        input_tokens=1000, output_tokens=1000, cache_read_tokens=500, cache_write_tokens=0
    )
    wanted = genai_prices.calc_price(
        counts, upstream, provider_id=vendor, genai_request_timestamp=NOW
    ).total_price
    for _ in range(2):
        assert known.nanos(spec, USAGE) == round(wanted * 10**9) > 0


def test_a_price_that_depends_on_the_time_of_day_is_not_kept() -> None:
    clock = clock_now()
    known, spec = prices(clock), model("deepseek", "deepseek-chat")
    by_day = known.nanos(spec, USAGE)
    clock.advance(8 * 3_600_000)
    by_night = known.nanos(spec, USAGE)
    clock.advance(16 * 3_600_000)
    assert by_day is not None
    assert by_night is not None
    assert by_night < by_day == known.nanos(spec, USAGE)


def test_a_request_that_is_long_enough_for_another_tier_costs_more() -> None:
    known, spec = prices(), model("google", "gemini-2.5-pro")
    short = known.nanos(spec, TokenUsage(prompt_tokens=100_000))
    long = known.nanos(spec, TokenUsage(prompt_tokens=1_000_000))
    assert short is not None
    assert long is not None
    assert long > 10 * short


@pytest.mark.parametrize(
    ("provider", "upstream"),
    [("openai", "no-such-model"), ("my-gateway", "gpt-5-mini"), ("scripted", "scripted"), ("", "")],
)
def test_what_the_list_does_not_know_has_no_price(provider: str, upstream: str) -> None:
    known = prices()
    spec = ModelSpec(id="m", provider_id=provider or "p", upstream_model=upstream or "m")
    assert [known.nanos(spec, USAGE), known.nanos(spec, USAGE)] == [None, None]


@pytest.mark.parametrize(
    "usage",
    [
        TokenUsage(),
        TokenUsage(prompt_tokens=1, cache_read_tokens=50, cache_creation_tokens=9),
        TokenUsage(completion_tokens=5),
    ],
)
@pytest.mark.parametrize("upstream", ["gpt-5-mini", "gemini-2.5-pro"])
def test_counts_that_do_not_add_up_are_no_error(usage: TokenUsage, upstream: str) -> None:
    provider = "openai" if upstream.startswith("gpt") else "google"
    assert (prices().nanos(model(provider, upstream), usage) or 0) >= 0


def test_without_the_extra_only_own_prices_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    known = prices()
    assert known.nanos(model("openai", "gpt-5-mini"), USAGE) is None
    own = ModelPrices(input=1, output=1)
    assert known.nanos(model("openai", "gpt-5-mini", own), USAGE) == 2_000_000
