"""Asks a model one small question, to see its features and its speed."""

from contextlib import aclosing

from awaken.contracts.clock import Clock
from awaken.contracts.messages.deltas import ReasoningDelta, TextDelta, ToolCallStart
from awaken.contracts.messages.message import user
from awaken.contracts.models.inference import (
    InferenceRequest,
    ModelEvent,
    ModelTool,
    TokenUsage,
    UsageReport,
)
from awaken.contracts.record import Record, always
from awaken.runtime.resolution.models import ModelRoute

QUESTION = "Say the word 'ready', and then call the tool `report` with the number 7."
REPORT = ModelTool(
    id="report",
    description="Takes a number down.",
    parameters={
        "type": "object",
        "properties": {"number": {"type": "integer"}},
        "required": ["number"],
        "additionalProperties": False,
    },
)


class Trial(Record, frozen=True, kw_only=True):
    """The result of one question to a model."""

    model: str
    first_token_ms: int | None = None
    total_ms: int
    tokens_per_s: float | None = None
    has_text: bool = always(default=False)
    has_tool_call: bool = always(default=False)
    has_reasoning: bool = always(default=False)
    has_usage: bool = always(default=False)
    has_cached_tokens: bool = always(default=False)
    usage: TokenUsage | None = None


async def try_model(route: ModelRoute, clock: Clock) -> Trial:
    """Ask one small question with one tool, and evaluate the answer.

    Raises:
        ModelError: The model did not answer.
    """
    request = InferenceRequest(
        upstream_model=route.spec.upstream_model,
        messages=[user(QUESTION)],
        tools=(REPORT,),
        overrides=route.overrides(None),
    )
    # Imports of the first call do not count as the model's time.
    asked = route.client.stream(request)
    began, first, seen = clock.monotonic_ms(), None, list[ModelEvent]()
    async with aclosing(asked) as events:
        async for event in events:
            if first is None and isinstance(event, TextDelta | ReasoningDelta | ToolCallStart):
                first = clock.monotonic_ms()
            seen.append(event)
    ended = clock.monotonic_ms()
    usage = _usage(seen)
    written = usage.completion_tokens if usage is not None else None
    spoken_ms = ended - (began if first is None else first)
    return Trial(
        model=route.id,
        first_token_ms=None if first is None else first - began,
        total_ms=ended - began,
        tokens_per_s=round(written * 1000 / spoken_ms, 1) if written and spoken_ms > 0 else None,
        has_text=_saw(seen, TextDelta),
        has_tool_call=_saw(seen, ToolCallStart),
        has_reasoning=_saw(seen, ReasoningDelta),
        has_usage=usage is not None,
        has_cached_tokens=bool(usage and usage.cache_read_tokens is not None),
        usage=usage,
    )


def _saw(seen: list[ModelEvent], kind: type) -> bool:
    return any(isinstance(event, kind) for event in seen)


def _usage(seen: list[ModelEvent]) -> TokenUsage | None:
    reports = [event.usage for event in seen if isinstance(event, UsageReport)]
    total: TokenUsage | None = None
    for report in reports:
        total = report if total is None else total.plus(report)
    return total
