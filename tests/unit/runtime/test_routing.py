"""Which model of a pool is asked: stable homes, turns, backups, and who is refused and why."""

from collections import Counter
from typing import Any

import pytest

from awaken.contracts.models.errors import AllModelsUnavailable, Overloaded
from awaken.contracts.models.model_specs import ModelPool, ModelSpec, PoolMember
from awaken.runtime.inference.routing import candidates, order_routes, within
from awaken.runtime.model_health.health import ModelHealth
from awaken.runtime.resolution.models import ModelRoute
from awaken.testing import FakeClock, ScriptedModel

CLIENT = ScriptedModel([])


def pool(*members: PoolMember, **fields: Any) -> ModelPool:
    return ModelPool(id="pool", members=members, **fields)


def member(model_id: str, **fields: Any) -> PoolMember:
    return PoolMember(model_id=model_id, **fields)


def routes(*ids: str) -> tuple[ModelRoute, ...]:
    return tuple(
        ModelRoute(spec=ModelSpec(id=id_, provider_id="p", upstream_model=id_), client=CLIENT)
        for id_ in ids
    )


def order(of: ModelPool, thread_id: str = "t", turn: int = 0) -> list[str]:
    found = order_routes(routes(*(it.model_id for it in of.members)), of, thread_id, turn)
    return [route.id for route in found]


def home(of: ModelPool, thread_id: str) -> str:
    return order(of, thread_id)[0]


THREADS = [f"thread-{number}" for number in range(2_000)]


def test_a_single_model_needs_no_order() -> None:
    assert order_routes(routes("a"), None, "t", 5) == routes("a")


def test_a_thread_keeps_its_home_in_every_process_and_version() -> None:
    letters = pool(member("a"), member("b"), member("c"))
    assert [order(letters, thread) for thread in ("t1", "t2", "t3")] == GOLDEN
    assert order(letters, "t1", turn=7) == order(letters, "t1")


GOLDEN = [["b", "c", "a"], ["c", "a", "b"], ["a", "b", "c"]]
"""What every version must answer: threads would lose the caches of their models."""


def test_threads_spread_over_members_by_weight() -> None:
    homes = Counter(home(pool(member("a", weight=3.0), member("b")), it) for it in THREADS)
    assert 0.7 < homes["a"] / len(THREADS) < 0.8


def test_a_member_that_goes_moves_only_its_own_threads() -> None:
    before = pool(member("a"), member("b"), member("c"))
    after = pool(member("a"), member("b"))
    for thread in THREADS:
        if home(before, thread) != "c":
            assert home(after, thread) == home(before, thread)
    moved = [it for it in THREADS if home(before, it) == "c"]
    assert {home(after, thread) for thread in moved} == {"a", "b"}


def test_round_robin_takes_turns_whatever_the_thread() -> None:
    turns = pool(member("a"), member("b"), member("c"), routing="round_robin")
    assert [order(turns, f"t{turn}", turn) for turn in range(4)] == [
        ["a", "b", "c"],
        ["b", "c", "a"],
        ["c", "a", "b"],
        ["a", "b", "c"],
    ]


def test_round_robin_with_weights_is_even_at_every_moment() -> None:
    turns = pool(member("a", weight=3.0), member("b"), routing="round_robin")
    firsts = [order(turns, "t", turn)[0] for turn in range(400)]
    for start in range(0, 400, 40):
        assert 29 <= firsts[start : start + 40].count("a") <= 31


@pytest.mark.parametrize("routing", ["sticky", "round_robin"])
def test_models_for_failover_come_last_as_they_were_written(routing: str) -> None:
    spare = pool(
        member("z", role="failover_only", weight=1e9),
        member("a"),
        member("y", role="failover_only"),
        member("b"),
        routing=routing,
    )
    for turn, thread in enumerate(THREADS[:50]):
        assert order(spare, thread, turn)[2:] == ["z", "y"]


def sick(clock: FakeClock, *models: str) -> ModelHealth:
    health = ModelHealth(clock)
    for model in models:
        for _ in range(5):
            health.record_failure(model, Overloaded("full"))
    return health


def test_only_models_that_are_well_and_not_too_expensive_are_asked() -> None:
    health = sick(FakeClock(), "b")
    found = candidates(routes("a", "b", "c"), health, lambda route: route.id != "a")
    assert [route.id for route in found] == ["c"]


def test_looking_for_candidates_uses_up_no_probe() -> None:
    clock = FakeClock()
    health = sick(clock, "a")
    clock.advance(30_000)
    for _ in range(3):
        assert candidates(routes("a"), health) == routes("a")
    assert health.try_begin("a")


def test_when_nobody_is_left_every_model_is_named_with_its_reason_and_the_first_moment() -> None:
    clock = FakeClock()
    health = sick(clock, "a")
    clock.advance(10_000)
    for _ in range(5):
        health.record_failure("b", Overloaded("full"))
    with pytest.raises(AllModelsUnavailable) as refused:
        candidates(routes("a", "b", "c"), health, lambda _: False)
    text = str(refused.value)
    assert "'a' failed too often, its breaker is open for 20000 ms" in text
    assert "'b' failed too often, its breaker is open for 30000 ms" in text
    assert "'c' costs too much for this call" in text
    assert "ask again in 20000 ms" in text
    assert refused.value.retry_after_ms == 20_000
    assert not refused.value.retryable


def test_when_all_are_too_expensive_waiting_is_not_advised() -> None:
    with pytest.raises(AllModelsUnavailable) as refused:
        candidates(routes("a"), ModelHealth(FakeClock()), lambda _: False)
    assert "ask again" not in str(refused.value)
    assert refused.value.retry_after_ms is None


@pytest.mark.parametrize(
    ("limit", "cost", "is_fine"),
    [
        (0.01, 10_000_000, True),
        (0.01, 10_000_001, False),
        (0.0, 1, False),
        (0.01, None, True),
        (None, 10**12, True),
    ],
)
def test_a_pools_limit_refuses_calls_that_may_cost_more(
    limit: float | None, cost: int | None, is_fine: bool
) -> None:
    may_afford = within(pool(member("a"), max_call_usd=limit), lambda _: cost)
    assert may_afford(routes("a")[0]) is is_fine


def test_without_a_pool_nothing_is_too_expensive_for_one() -> None:
    assert within(None, lambda _: 10**12)(routes("a")[0])
