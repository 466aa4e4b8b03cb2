"""Statistics of a process: exact counts, fair percentiles, a window that moves, bounded memory."""

import asyncio
import random
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, RunFailed, tool
from awaken.contracts.model_errors import Unauthorized
from awaken.extensions.observability import ObservabilityPlugin, RuntimeStatistics
from awaken.extensions.observability.statistics import (
    BUCKET_MS,
    BUCKETS,
    NAMES_MAX,
    OTHER,
    SAMPLES_MAX,
)
from awaken.testing import FakeClock, ScriptedModel, ToolCalls


class Stopwatch:
    """Time that somebody else moves."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


class World:
    """Statistics with time and luck of its own."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.watch = Stopwatch()
        self.statistics = RuntimeStatistics(self.clock, random.Random(7), self.watch)

    def took(self, ms: float, name: str = "t", *, is_error: bool = False) -> None:
        """Something took so long."""
        started, self.watch.at = self.watch.at, self.watch.at + ms / 1000
        self.statistics.add(self.statistics.tools, name, started, is_error=is_error)

    def of(self, name: str = "t") -> Any:
        return self.statistics.snapshot().tools[name]


def test_percentiles_and_counts_are_exact_while_every_sample_is_kept() -> None:
    world = World()
    for ms in random.Random(1).sample(range(1, 101), 100):
        world.took(ms, is_error=ms > 90)
    found = world.of()
    assert (found.count, found.errors, found.mean_ms) == (100, 10, 50.5)
    assert (found.p50_ms, found.p95_ms, found.p99_ms) == (50, 95, 99)


def test_very_many_are_sampled_fairly_and_counted_exactly() -> None:
    world = World()
    for number in range(20_000):
        world.took(number / 20)
    found = world.of()
    assert found.count == 20_000
    assert found.mean_ms == pytest.approx(499.975, abs=0.01)
    assert found.p50_ms == pytest.approx(500, abs=60)
    assert found.p99_ms == pytest.approx(990, abs=20)
    (bucket,) = world.statistics.tools["t"]._buckets
    assert len(bucket.samples) == SAMPLES_MAX


def test_a_busy_bucket_weighs_as_much_as_it_counted() -> None:
    world = World()
    for _ in range(SAMPLES_MAX * 9):
        world.took(10)
    world.clock.advance(BUCKET_MS)
    for _ in range(SAMPLES_MAX):
        world.took(1000)
    found = world.of()
    assert (found.p50_ms, found.p95_ms) == (10, 1000)


def test_what_is_older_than_a_day_no_longer_counts() -> None:
    world = World()
    world.took(1)
    world.clock.advance(BUCKET_MS * (BUCKETS - 1))
    world.took(3)
    assert world.of().count == 2
    world.clock.advance(BUCKET_MS)
    assert (world.of().count, world.of().p50_ms) == (1, 3)
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
    assert len(world.statistics.tools) == NAMES_MAX + 1
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
