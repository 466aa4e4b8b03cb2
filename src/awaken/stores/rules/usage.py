"""What one ended run adds to the usage of its day."""

from collections.abc import Iterable

from awaken.contracts.events import AgentEvent, InferenceComplete
from awaken.contracts.lifecycle import Failed
from awaken.contracts.messages.message import NO_USAGE, TokenUsage
from awaken.contracts.runs.records import RunKind, RunRecord
from awaken.contracts.storage.usage import DAY_MS, UsageKey, UsageSums

UNCOUNTED_KINDS = (RunKind.DEMO, RunKind.PREVIEW)
"""Kinds of runs that are in no statistics of usage."""
_COUNTS = (
    "prompt_tokens",
    "completion_tokens",
    "cache_read_tokens",
    "cache_creation_tokens",
    "cost_nanos",
)


def add_run(
    totals: dict[UsageKey, UsageSums],
    run: RunRecord,
    finished_at: int,
    events: Iterable[AgentEvent],
    tenant_id: str | None,
) -> None:
    """Add a run to the sums of its day, by the models that its events name.

    What the run has used beyond its logged calls counts for a model without a name, as all of it
    does if its events were purged.
    """
    if run.kind in UNCOUNTED_KINDS:
        return
    by_model: dict[str, TokenUsage] = {}
    last = ""
    for event in events:
        if isinstance(event, InferenceComplete):
            last = event.model
            by_model[last] = by_model.get(last, NO_USAGE).plus(event.usage)
    left = _subtract(run.usage, by_model.values())
    if left is not None:
        by_model[""] = by_model.get("", NO_USAGE).plus(left)
    by_model.setdefault(last, NO_USAGE)
    for model, usage in by_model.items():
        is_counted = model == last
        key = UsageKey(
            day=finished_at // DAY_MS, agent_id=run.agent_id, model=model, tenant_id=tenant_id
        )
        is_error = is_counted and isinstance(run.termination, Failed)
        sums = _sum_usage(usage, runs=int(is_counted), errors=int(is_error))
        totals[key] = totals.get(key, UsageSums()).plus(sums)


def _subtract(whole: TokenUsage, parts: Iterable[TokenUsage]) -> TokenUsage | None:
    """Return what of a usage is in none of its parts; None if nothing is left."""
    total = NO_USAGE
    for part in parts:
        total = total.plus(part)
    left = {
        name: (getattr(whole, name) or 0) - (getattr(total, name) or 0)
        for name in _COUNTS
        if getattr(whole, name) is not None
    }
    left = {name: count for name, count in left.items() if count > 0}
    return TokenUsage(**left) if left else None


def _sum_usage(usage: TokenUsage, *, runs: int, errors: int) -> UsageSums:
    return UsageSums(
        runs=runs,
        errors=errors,
        input_tokens=usage.prompt_tokens or 0,
        output_tokens=usage.completion_tokens or 0,
        cache_read_tokens=usage.cache_read_tokens or 0,
        cache_creation_tokens=usage.cache_creation_tokens or 0,
        cost_nanos=usage.cost_nanos,
    )
