"""What an eval will probably use, from what its cases used before."""

from collections import defaultdict
from collections.abc import Iterable

from awaken.contracts.evals.eval_runs import EvalItem, EvalStatus
from awaken.contracts.evals.store import EvalQuery
from awaken.contracts.evals.worlds import ModelSource
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.record import Record

from .driving import list_items
from .outcomes import price_of
from .planning import MODELS
from .preparing import EvalParts, PreparedEval

_ENDED = (EvalStatus.DONE, EvalStatus.INCOMPLETE)


class AmountRange(Record, frozen=True, kw_only=True):
    """An amount with what it was at least and at most, if every sample is as the extreme one."""

    low: float
    expected: float
    high: float


class EvalEstimate(Record, frozen=True, kw_only=True):
    """What an eval will probably use; without judges and simulated users."""

    samples: int
    cases: int
    known_cases: int
    """Cases that an earlier eval or their recording tells of; others count as their mean."""
    source: str
    """`none`, `recordings`, or the id of the eval that it is taken from."""
    tokens: AmountRange | None = None
    cost_usd: AmountRange | None = None
    """None if the cost of the earlier samples is not known."""


async def estimate_eval(parts: EvalParts, prepared: PreparedEval) -> EvalEstimate:
    """Estimate an eval from the last one of its dataset, else from the recordings of its cases."""
    samples, cases = len(prepared.samples), len(prepared.cases)
    if MODELS[prepared.spec.mode_or_live] is not ModelSource.LIVE:
        nothing = AmountRange(low=0, expected=0, high=0)
        return EvalEstimate(
            samples=samples,
            cases=cases,
            known_cases=cases,
            source="none",
            tokens=nothing,
            cost_usd=nothing,
        )
    source, usages = await _find_usages(parts, prepared)
    known = {name: found for name, found in usages.items() if name in prepared.cases and found}
    planned: defaultdict[str, int] = defaultdict(int)
    for it in prepared.samples:
        planned[it.case_id] += 1
    return EvalEstimate(
        samples=samples,
        cases=cases,
        known_cases=len(known),
        source=source,
        tokens=_add_up(planned, {name: [it[0] for it in found] for name, found in known.items()}),
        cost_usd=_add_up(planned, {name: [it[1] for it in found] for name, found in known.items()}),
    )


Usages = dict[str, list[tuple[float | None, float | None]]]
"""Tokens and dollars of earlier samples, by case."""


async def _find_usages(parts: EvalParts, prepared: PreparedEval) -> tuple[str, Usages]:
    query = EvalQuery(dataset_id=prepared.revision.dataset_id, limit=20)
    for _, record in await parts.evals.list_evals(query):
        if record.status in _ENDED and record.spec.mode_or_live is prepared.spec.mode_or_live:
            found = _collect(await list_items(parts.evals, record.eval_id))
            if found:
                return record.eval_id, found
    recorded: Usages = {}
    for name, given in prepared.cases.items():
        if given.recording is not None:
            usage = given.recording.run.usage
            recorded[name] = [(_count_tokens(usage), price_of(usage))]
    return ("recordings" if recorded else "none"), recorded


def _collect(items: Iterable[EvalItem]) -> Usages:
    found: Usages = {}
    for item in items:
        if item.usage is not None and not item.status.is_missing:
            used = _count_tokens(item.usage), item.cost_usd
            found.setdefault(item.case_id, []).append(used)
    return found


def _count_tokens(usage: TokenUsage) -> float | None:
    if usage.prompt_tokens is None and usage.completion_tokens is None:
        return None
    return (usage.prompt_tokens or 0) + (usage.completion_tokens or 0)


def _add_up(planned: dict[str, int], known: dict[str, list[float | None]]) -> AmountRange | None:
    """Add what the samples of each case used; a case that is not known counts as their mean."""
    whole = {
        name: [it for it in values if it is not None]
        for name, values in known.items()
        if None not in values
    }
    if not whole or len(whole) < len(known):
        return None
    count = sum(planned[name] for name in whole)
    total = sum(planned.values())
    sums = [
        sum(planned[name] * choose(values) for name, values in whole.items())
        for choose in (min, _mean, max)
    ]
    low, expected, high = (it * total / count if count else 0.0 for it in sums)
    return AmountRange(low=low, expected=expected, high=high)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
