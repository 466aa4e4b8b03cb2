"""Watch a run: its spans as a tree, and how long everything took.

It needs the extra `otel`: `pip install '.[otel]'`.
"""

import asyncio

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from awaken import Agent, AgentRuntime, tool
from awaken.extensions.observability import ObservabilityPlugin, Providers
from awaken.testing import ScriptedModel, ToolCalls


@tool(effect="none")
async def search(words: str) -> list[str]:
    """Search the archive."""
    return [f"a page about {words}"]


def agents() -> list[Agent]:
    """A lead that asks a researcher, which searches."""
    ask = ToolCalls([("agent_run_researcher", {"prompt": "owls"})])
    look = ToolCalls([("search", {"words": "owls"})])
    return [
        Agent("lead", model=ScriptedModel([ask, "Owls hunt at night."]), delegates=["researcher"]),
        Agent("researcher", model=ScriptedModel([look, "They hunt at night."]), tools=[search]),
    ]


def show(spans: list[ReadableSpan], above: int | None = None, depth: int = 0) -> None:
    """Print the spans below one, and what is below them."""
    for span in spans:
        if (span.parent.span_id if span.parent else None) != above:
            continue
        took = ((span.end_time or 0) - (span.start_time or 0)) / 1e6
        print(f"{'  ' * depth}{span.name}  {took:.1f} ms")
        show(spans, span.get_span_context().span_id, depth + 1)


async def main() -> None:
    """Run, then show what was told."""
    kept = InMemorySpanExporter()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(kept))
    plugin = ObservabilityPlugin(providers=Providers(tracers=tracers), keeps_statistics=True)
    async with AgentRuntime(agents(), everywhere=[plugin]) as runtime:
        result = await runtime.run("lead", "When do owls hunt?")
    print(result.text)
    show(sorted(kept.get_finished_spans(), key=lambda span: span.start_time or 0))
    for name, timing in plugin.statistics().tools.items():
        print(f"{name}: {timing.count} calls, half of them within {timing.p50_ms:.1f} ms")


if __name__ == "__main__":
    asyncio.run(main())
