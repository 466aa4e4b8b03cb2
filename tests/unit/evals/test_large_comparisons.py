"""Figures and comparisons of large evals do not hold up the event loop."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from awaken.contracts.evals.eval_runs import (
    EvalItem,
    EvalRecord,
    EvalSpec,
    EvalStatus,
    ItemStatus,
)
from awaken.contracts.evals.scores import Score
from awaken.evals import results
from awaken.evals.results import ComparedEval, EvalEvidence, compute_comparison, compute_figures


def make_eval(name: str, count: int) -> ComparedEval:
    def make_item(number: int) -> EvalItem:
        scores = (Score(name="s", value=1.0, passed=True, version="1"),)
        return EvalItem(
            number=number,
            case_id=f"c{number}",
            variant="default",
            sample=0,
            status=ItemStatus.SCORED,
            scores=scores,
        )

    record = EvalRecord(
        eval_id=name, spec=EvalSpec(dataset_id="d"), revision=1, status=EvalStatus.DONE
    )
    items: Sequence[EvalItem] = tuple(map(make_item, range(count)))
    return ComparedEval(record=record, items=items, hashes={})


@pytest.mark.parametrize(("count", "is_on_loop"), [(100, True), (1_000, False)])
def test_only_small_evals_are_compared_on_the_event_loop(
    count: int, is_on_loop: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    compare = results.compare_items

    def note(*arguments: Any) -> Any:
        threads.append(threading.get_ident())
        return compare(*arguments)

    monkeypatch.setattr(results, "compare_items", note)
    one, two = make_eval("one", count), make_eval("two", count)

    async def main() -> None:
        found = await compute_comparison(one, two)
        assert found.comparisons[0].scorers[0].cases == count
        figures = await compute_figures(EvalEvidence(own=two, baseline=one))
        assert figures.comparisons == found.comparisons

    asyncio.run(main())
    assert len(threads) == 2
    assert {it == threading.get_ident() for it in threads} == {is_on_loop}
