"""What telemetry costs: CPU of a turn without the plugin, with it and no SDK, and with an SDK.

    python bench/telemetry.py [seconds]

The runtimes take turns in short slices, in random order, and each slice is compared with that of
the same round without the plugin, so that all see the same machine; the row that measures the same
thing again says how much of a difference is luck. A turn is W1: one run of an agent without tools;
W2 has ten tool rounds. The bound is 5 % for a plugin without a listener.
"""

import asyncio
import json
import random
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from awaken import Agent, AgentRuntime, tool
from awaken.extensions.observability import ObservabilityPlugin, Providers
from awaken.testing import ScriptedModel, ToolCalls

ROUNDS = 10
SLICE = {"W1": 50, "W2": 10}
SECONDS = 20.0


class Nowhere(SpanExporter):
    """Takes spans and forgets them: what is measured is making them."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Forget them."""
        return SpanExportResult.SUCCESS


@dataclass
class Row:
    """One way to run, and the CPU of its slices in milliseconds for each turn."""

    name: str
    plugins: list[ObservabilityPlugin]
    runtime: AgentRuntime = field(init=False)
    cpu: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in SLICE})


@tool(effect="none")
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def agents() -> list[Agent]:
    """One agent for each workload."""
    rounds = [ToolCalls([("add", {"a": 1, "b": 2})])] * ROUNDS
    return [
        Agent("W1", model=ScriptedModel(["The answer is ready."], cycle=True)),
        Agent("W2", model=ScriptedModel([*rounds, "Done."], cycle=True), tools=[add]),
    ]


def with_sdk() -> Providers:
    """A real SDK whose spans go nowhere."""
    tracers = TracerProvider()
    tracers.add_span_processor(BatchSpanProcessor(Nowhere()))
    meters = MeterProvider(metric_readers=[InMemoryMetricReader()])
    return Providers(tracers=tracers, meters=meters, loggers=LoggerProvider())


async def measure(row: Row, workload: str) -> None:
    """One slice."""
    turns = SLICE[workload]
    started = time.process_time()
    for _ in range(turns):
        await row.runtime.run(workload, "go")
    row.cpu[workload].append((time.process_time() - started) * 1000 / turns)


async def main(seconds: float) -> None:
    """Measure and print."""
    rows = [
        Row("no plugin", []),
        Row("no plugin, again", []),
        Row("plugin, no listener", [ObservabilityPlugin()]),
        Row("plugin, SDK", [ObservabilityPlugin(providers=with_sdk())]),
    ]
    for row in rows:
        row.runtime = AgentRuntime(agents(), everywhere=row.plugins)
        await row.runtime.__aenter__()
        for workload in SLICE:
            await measure(row, workload)
            row.cpu[workload].clear()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for workload in SLICE:
            for row in random.sample(rows, len(rows)):
                await measure(row, workload)
    for row in rows:
        await row.runtime.__aexit__(None, None, None)
    figures = {}
    for workload in SLICE:
        base = rows[0].cpu[workload]
        for row in rows:
            cpu = row.cpu[workload]
            more = statistics.median(it / own for it, own in zip(cpu, base, strict=True)) - 1
            print(f"{workload}  {row.name:24} {statistics.median(cpu):8.3f} ms/turn  {more:+7.1%}")
            figures[f"{workload} {row.name}: ms"] = statistics.median(cpu)
            figures[f"{workload} {row.name}: more"] = more
    if "--json" in sys.argv:
        print(json.dumps(figures))


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS))
