"""Budgets as data: what is a budget, what is left of it, and what a child gets."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.models.budgets import (
    HOLD_MS,
    Allowance,
    Amount,
    Budget,
    BudgetExceeded,
    BudgetScope,
    Hold,
    Ledger,
    OwnPrices,
    decode_ledger,
    split_budgets,
)
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.models.model_specs import ModelPrices, ModelSpec
from awaken.contracts.specs.agents import AgentSpec, decode_spec

NOW = 1_000_000_000


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"soft": True},
        {"tokens": 0},
        {"tokens": -1},
        {"cost_usd": 0.0},
        {"cost_usd": float("inf")},
        {"cost_usd": float("nan")},
        {"tokens": 5, "time_ms": 0},
    ],
)
def test_a_budget_needs_a_limit_and_limits_are_positive(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"limit"):
        Budget(**fields)


def test_an_agent_says_its_budgets_as_data_and_a_misspelt_one_is_refused() -> None:
    data = {"id": "a", "model_id": "m", "budgets": [{"scope": "thread", "tokens": 9, "soft": True}]}
    spec = decode_spec(data, AgentSpec)
    assert spec.budgets == (Budget(scope=BudgetScope.THREAD, tokens=9, soft=True),)
    assert msgspec.json.decode(msgspec.json.encode(spec), type=AgentSpec) == spec
    for wrong in ({"token": 9}, {"scope": "planet", "tokens": 9}, {"tokens": -9}):
        with pytest.raises(InvalidSpec):
            decode_spec({**data, "budgets": [wrong]}, AgentSpec)


def test_what_is_left_is_the_limit_without_what_is_spent_or_promised_to_others() -> None:
    budget = Budget(tokens=100, cost_usd=0.5)
    ledger = Ledger(
        spent=Amount(tokens=30, nanos=100_000_000),
        holds={
            "me": Hold(amount=Amount(tokens=50), at=NOW),
            "other": Hold(amount=Amount(tokens=20, nanos=150_000_000), at=NOW),
        },
    )
    mine = Allowance.of(budget, ledger, NOW, "me")
    assert (mine.remainder("tokens"), mine.remainder("nanos"), mine.remainder("ms")) == (
        50,
        250_000_000,
        None,
    )
    assert mine.limit_reached is None
    everybodys = Allowance.of(budget, ledger, NOW)
    assert (everybodys.remainder("tokens"), everybodys.limit_reached) == (0, "run: 100 tokens")
    soft = Allowance.of(msgspec.structs.replace(budget, soft=True), ledger, NOW)
    assert soft.remainder("tokens") == 70


def test_a_reservation_that_nobody_settles_counts_for_an_hour_and_no_longer() -> None:
    ledger = Ledger().reserve("dead", Amount(tokens=40), NOW)
    budget = Budget(tokens=100)
    assert Allowance.of(budget, ledger, NOW + HOLD_MS - 1).remainder("tokens") == 60
    assert Allowance.of(budget, ledger, NOW + HOLD_MS).remainder("tokens") == 100
    later = ledger.reserve("alive", Amount(tokens=1), NOW + HOLD_MS)
    assert set(later.holds) == {"alive"}
    assert ledger.settle("other", Amount(), NOW + HOLD_MS).holds == {}


def test_a_run_that_goes_on_elsewhere_replaces_its_own_reservation() -> None:
    ledger = Ledger().reserve("run", Amount(tokens=40), NOW).reserve("run", Amount(tokens=10), NOW)
    assert ledger.holds == {"run": Hold(amount=Amount(tokens=10), at=NOW)}
    settled = ledger.settle("run", Amount(tokens=7), NOW)
    assert (settled.spent, settled.holds) == (Amount(tokens=7), {})


@pytest.mark.parametrize(
    ("spent", "times", "left"), [(100, 1, 100), (150, 1, 50), (350, 3, 50), (400, 4, 100)]
)
def test_extending_gives_as_much_again_and_always_leaves_something(
    spent: int, times: int, left: int
) -> None:
    budget = Budget(tokens=100, soft=True)
    used = Amount(tokens=spent)
    ledger = Ledger(spent=used).extend_budget(budget, used)
    assert ledger.extended == {budget.key: times}
    assert Allowance.of(budget, ledger, NOW).remainder("tokens") == left
    assert ledger.extend_budget(budget, used) == ledger


def test_a_ledger_comes_back_from_its_stored_form() -> None:
    ledger = Ledger(
        spent=Amount(tokens=1, nanos=2, ms=3),
        holds={"r": Hold(amount=Amount(tokens=4), at=5)},
        extended={"k": 6},
    )
    assert decode_ledger(msgspec.to_builtins(ledger)) == ledger
    assert decode_ledger(None) == Ledger()


@pytest.mark.parametrize(
    ("budget", "unit", "words"),
    [
        (Budget(scope=BudgetScope.THREAD, tokens=1000), "tokens", "thread: 1,000 tokens"),
        (Budget(scope=BudgetScope.TENANT, cost_usd=0.5), "nanos", "tenant: $0.5"),
        (Budget(time_ms=60_000), "ms", "run: 60,000 ms"),
    ],
)
def test_a_limit_is_named_as_people_read_it(budget: Budget, unit: str, words: str) -> None:
    assert Allowance(budget=budget, used=Amount()).describe_limit(unit) == words


def test_a_child_gets_its_share_of_what_is_left() -> None:
    parent = Allowance(
        budget=Budget(scope=BudgetScope.THREAD, tokens=1000, cost_usd=1.0, time_ms=100, soft=True),
        used=Amount(tokens=400, nanos=500_000_000, ms=1),
    )
    tenant = Allowance(budget=Budget(scope=BudgetScope.TENANT, tokens=5), used=Amount(tokens=5))
    (child,) = split_budgets([parent, tenant], 0.5)
    assert child == Budget(tokens=300, cost_usd=0.25, time_ms=49, soft=True)


def test_nothing_is_split_off_a_budget_that_is_used_up() -> None:
    parent = Allowance(budget=Budget(tokens=10), used=Amount(tokens=10))
    with pytest.raises(BudgetExceeded) as refused:
        split_budgets([parent], 1)
    assert refused.value.reason.detail == "run: 10 tokens"
    for share in (0, -1, 1.5):
        with pytest.raises(ValueError, match="share"):
            split_budgets([], share)


@given(
    limit=st.integers(1, 10**9),
    used=st.integers(0, 10**9),
    shares=st.lists(st.floats(0.01, 1), min_size=1, max_size=5),
)
def test_no_child_gets_more_than_is_left(limit: int, used: int, shares: list[float]) -> None:
    parent = Allowance(
        budget=Budget(tokens=limit, time_ms=limit), used=Amount(tokens=used, ms=used)
    )
    for share in shares:
        try:
            (child,) = split_budgets([parent], share)
        except BudgetExceeded:
            assert (limit - used) * share < 1
            continue
        assert child.tokens is not None
        assert 0 < child.tokens <= (limit - used) * share
        assert child.scope is BudgetScope.RUN


def test_a_model_without_prices_costs_nobody_knows_what() -> None:
    spec = ModelSpec(id="m", provider_id="p", upstream_model="m")
    usage = TokenUsage(prompt_tokens=1_000_000, completion_tokens=1_000_000)
    assert OwnPrices().nanos(spec, usage) is None
    priced = msgspec.structs.replace(spec, prices=ModelPrices(input=1, output=2))
    assert OwnPrices().nanos(priced, usage) == 3_000_000_000
