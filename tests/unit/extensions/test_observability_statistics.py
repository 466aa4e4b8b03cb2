"""Statistics of a process: exact counts, close percentiles, a window that moves, bounded memory."""

import asyncio
import random
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, RunFailed, tool
from awaken.contracts.messages.message import TokenUsage
from awaken.contracts.models.errors import Unauthorized
from awaken.extensions.observability import ObservabilityPlugin, RuntimeStatistics
from awaken.extensions.observability.statistics import (
    BUCKET_MS,
    BUCKETS,
    NAMES_MAX,
    OTHER,
)
from awaken.testing import FakeClock, ScriptedModel, ToolCalls


class Stopwatch:
    """Time that somebody else moves."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


class World:
    """Statistics with time of its own."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.watch = Stopwatch()
        self.statistics = RuntimeStatistics(self.clock, self.watch)

    def took(self, ms: float, name: str = "t", *, is_error: bool = False) -> None:
        """Something took so long."""
        self.statistics.record("tools", name, ms, is_error=is_error)

    def of(self, name: str = "t") -> Any:
        return self.statistics.snapshot().tools[name]


def close_to(ms: float) -> Any:
    return pytest.approx(ms, rel=0.021)


def test_counts_are_exact_and_percentiles_at_most_two_percent_off() -> None:
    world = World()
    for ms in random.Random(1).sample(range(1, 101), 100):
        world.took(ms, is_error=ms > 90)
    found = world.of()
    assert (found.count, found.errors, found.mean_ms) == (100, 10, 50.5)
    told = (found.p50_ms, found.p95_ms, found.p99_ms)
    assert told == (close_to(50), close_to(95), close_to(99))


@pytest.mark.parametrize("ms", [0, 1e-9, 1e12])
def test_a_duration_without_measure_is_one_of_the_shortest_or_longest(ms: float) -> None:
    world = World()
    world.took(ms)
    world.took(-ms)
    assert world.of().count == 2
    assert world.of().p50_ms <= 0.001
    assert world.of().p99_ms <= BUCKETS * BUCKET_MS * 1.04


def test_very_many_durations_take_no_more_room_than_there_are_bins() -> None:
    world = World()
    for number in range(20_000):
        world.took(1.001**number)
    (bucket,) = world.statistics._series["tools"]["", "t"]._buckets
    assert bucket.count == 20_000
    assert len(bucket.bins) < 800


def test_every_bucket_weighs_as_much_as_it_counted() -> None:
    world = World()
    for _ in range(900):
        world.took(10)
    world.clock.advance(BUCKET_MS)
    for _ in range(100):
        world.took(1000)
    found = world.of()
    assert (found.p50_ms, found.p95_ms) == (close_to(10), close_to(1000))


def test_what_is_older_than_a_day_no_longer_counts() -> None:
    world = World()
    world.took(1)
    world.clock.advance(BUCKET_MS * (BUCKETS - 1))
    world.took(3)
    assert world.of().count == 2
    world.clock.advance(BUCKET_MS)
    assert (world.of().count, world.of().p50_ms) == (1, close_to(3))
    world.clock.advance(BUCKET_MS * BUCKETS)
    assert world.statistics.snapshot().tools == {}
    for _ in range(BUCKETS * 2):
        world.clock.advance(BUCKET_MS)
        world.took(1)
    assert world.of().count == BUCKETS


def test_names_beyond_a_bound_are_counted_together() -> None:
    world = World()
    for number in range(NAMES_MAX + 50):
        world.took(1, f"tool-{number}")
    assert len(world.statistics._series["tools"]) == NAMES_MAX + 1
    assert world.of(OTHER).count == 50
    world.took(1, "tool-3")
    assert world.of("tool-3").count == 2


def test_agents_models_and_tools_are_told_apart_and_failures_counted() -> None:
    @tool(effect="none")
    async def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @tool(effect="none")
    async def fail() -> str:
        """Fail."""
        raise RuntimeError("no")

    calls = ToolCalls([("add", {"a": 1, "b": 2}), ("fail", {})])
    good = Agent("good", model=ScriptedModel([calls, "Done."]), tools=[add, fail])
    bad = Agent("bad", model=ScriptedModel([Unauthorized("no")]))
    plugin = ObservabilityPlugin(keeps_statistics=True)

    async def scenario() -> None:
        async with AgentRuntime([good, bad], everywhere=[plugin]) as runtime:
            await runtime.run("good", "go")
            with pytest.raises(RunFailed):
                await runtime.run("bad", "go")

    asyncio.run(asyncio.wait_for(scenario(), 30))
    found = plugin.statistics()
    counts = {
        kind: {name: (it.count, it.errors) for name, it in getattr(found, kind).items()}
        for kind in ("agents", "models", "tools")
    }
    assert counts == {
        "agents": {"good": (1, 0), "bad": (1, 1)},
        "models": {"good:model": (2, 0), "bad:model": (1, 1)},
        "tools": {"add": (1, 0), "fail": (1, 1)},
    }
    assert ObservabilityPlugin().statistics().agents == {}


def test_figures_of_agents_can_be_added_up_and_narrowed_to_a_window() -> None:
    world = World()
    usage = TokenUsage(prompt_tokens=10, completion_tokens=2, cost_nanos=5)
    for agent, ms in (("a", 10.0), ("a", 30.0), ("b", 1000.0)):
        world.statistics.record("models", "m", ms, is_error=ms > 500, agent_id=agent, usage=usage)
    world.statistics.count_event("handoffs", "a")
    world.clock.advance(2 * BUCKET_MS)
    world.statistics.record("tools", "t", 5.0, is_error=False, agent_id="a")
    day = world.statistics.summarize()
    a, b = day.agents["a"], day.agents["b"]
    assert (a.inferences.count, a.inferences.min_ms, a.inferences.max_ms) == (2, 10.0, 30.0)
    assert (a.handoffs, a.tools["t"].count, b.inferences.errors) == (1, 1, 1)
    assert (day.models["m"].input_tokens, day.models["m"].cost_nanos) == (30, 15)
    assert day.models["m"].percentile_ms(0.95) == pytest.approx(1000, rel=0.02)
    twice = day.plus(day)
    assert twice.agents["a"].inferences.count == 4
    assert twice.models["m"].percentile_ms(0.5) == day.models["m"].percentile_ms(0.5)
    recent = world.statistics.summarize(BUCKET_MS)
    assert (recent.agents["a"].inferences.count, recent.agents["a"].handoffs) == (0, 0)
    assert recent.agents["a"].tools["t"].count == 1
    assert "b" not in recent.agents
