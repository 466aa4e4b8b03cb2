"""Items of evals for tests of figures, comparisons and gates."""

from collections.abc import Mapping, Sequence
from typing import Any

from awaken.contracts.evals.eval_runs import EvalItem, ItemStatus
from awaken.contracts.evals.scores import Score

Values = Mapping[str, Sequence[float | None]]


def make_items(
    variant: str, values: Values, scorer: str = "ok", weights: Mapping[str, float] | None = None
) -> list[EvalItem]:
    """Items with one score each; None is a sample that the scorer could not score."""
    return [
        make_item(
            case_id,
            variant,
            sample,
            make_score(scorer, value),
            weight=(weights or {}).get(case_id, 1.0),
        )
        for case_id, given in values.items()
        for sample, value in enumerate(given)
    ]


def make_score(name: str, value: float | None, **fields: Any) -> Score:
    if value is None:
        return Score(name=name, error="it could not be scored", **fields)
    return Score(name=name, value=value, passed=value >= 0.5, **fields)


def make_item(case_id: str, variant: str, sample: int, *scores: Score, **fields: Any) -> EvalItem:
    given: dict[str, Any] = {
        "number": sample,
        "case_id": case_id,
        "variant": variant,
        "sample": sample,
        "status": ItemStatus.SCORED,
        "scores": scores,
    }
    return EvalItem(**{**given, **fields})
