"""The dataset and the evals of the demo data; their figures are computed as those of real ones."""

from collections.abc import Iterator

import msgspec

from awaken.contracts.evals.cases import Case, CaseEntry, DatasetRevision, Expectation
from awaken.contracts.evals.eval_runs import (
    EvalItem,
    EvalRecord,
    EvalSpec,
    EvalStatus,
    ItemStatus,
)
from awaken.contracts.evals.scores import Score
from awaken.contracts.evals.worlds import Variant
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.runs.threads import DEMO_PREFIX
from awaken.evals.case_checks import digest_input, encode_case
from awaken.evals.results import ComparedEval, EvalEvidence, build_figures, hash_cases
from awaken.services.demo_evals import DemoEval, DemoEvals

from .demo_unattended import ASSISTANT

DATASET = DEMO_PREFIX + "refunds"
REPEATS = 3
_HOUR_MS = 60 * 60 * 1000
_BY = "demo data"
_LOOKED, _ANSWERED = "expect.tool_sequence", "expect.final_answer_contains"
_BEFORE = Variant(name="before", agent_id=ASSISTANT)
_CAREFUL = Variant(
    name="careful", agent_id=ASSISTANT, instructions="Look up the order before you refund it."
)
_CASES = tuple(
    Case(
        id=name,
        description=description,
        user_input=said,
        expect=Expectation(
            tool_sequence=("find_order", "refund"), final_answer_contains=("refund",)
        ),
        tags=tags,
    )
    for name, description, said, tags in (
        ("late", "It was delivered late", "A-1042 came late. Refund it.", ("refund",)),
        ("unpaid", "It was never paid", "I want my money back for A-0001.", ("refund", "trap")),
        ("twice", "It was refunded before", "Refund A-0977 again.", ("refund", "trap")),
        ("part", "One of two parts is broken", "Refund half of A-1050.", ("refund",)),
        ("other", "It belongs to another customer", "Refund A-2000 to me.", ("trap",)),
        ("polite", "A long story before the wish", "I hope you are well. About A-1042", ()),
    )
)
_PASSED = {
    "before": {"late": "xxx", "unpaid": "...", "twice": ".x.", "part": "xxx", "other": "..."},
    "careful": {"late": "xxx", "unpaid": "xxx", "twice": "xxx", "part": "xxx", "other": "xx."},
}
"""Which samples of a variant looked first, by case; what is not named, all."""


def make_evals(now_ms: int) -> DemoEvals:
    """Make a dataset with a gate, an eval that failed it, and one of a change that passed it."""
    encoded = {case.id: encode_case(case) for case in _CASES}
    dataset = DatasetRevision(
        dataset_id=DATASET,
        revision=1,
        description="Refunds: the order is looked up before anything is paid back",
        cases=tuple(
            CaseEntry(id=it.id, hash=encoded[it.id][0], tags=it.tags, input_digest=digest_input(it))
            for it in _CASES
        ),
        gate={"require": [{"scorer": _LOOKED, "min_rate": 0.8}]},
        is_demo=True,
        at=now_ms - 30 * _HOUR_MS,
        by=_BY,
    )
    evals = (
        _make_eval(dataset, "first", (_BEFORE,), now_ms - 26 * _HOUR_MS),
        _make_eval(dataset, "change", (_BEFORE, _CAREFUL), now_ms - 2 * _HOUR_MS),
    )
    return DemoEvals(dataset=dataset, objects=dict(encoded.values()), evals=evals)


def _make_eval(
    dataset: DatasetRevision, name: str, variants: tuple[Variant, ...], at: int
) -> DemoEval:
    items = tuple(_make_items(variants))
    tokens = sum((it.usage.total_tokens or 0) for it in items if it.usage is not None)
    record = EvalRecord(
        eval_id=f"{DEMO_PREFIX}{name}",
        spec=EvalSpec(dataset_id=DATASET, revision=1, variants=variants, repeats=REPEATS),
        revision=1,
        status=EvalStatus.DONE,
        planned=len(items),
        spent={"tokens": tokens, "cost_usd": round(sum(it.cost_usd or 0 for it in items), 4)},
        is_demo=True,
        created_by=_BY,
        created_at=at,
        started_at=at + 40,
        finished_at=at + 40 + 900 * len(items),
    )
    own = ComparedEval(record=record, items=items, hashes=hash_cases(dataset))
    tags = {it.id: it.tags for it in dataset.cases}
    figures = build_figures(EvalEvidence(own=own, gate=dataset.gate, tags=tags))
    summary = msgspec.to_builtins(figures)
    return DemoEval(record=msgspec.structs.replace(record, summary=summary), items=items)


def _make_items(variants: tuple[Variant, ...]) -> Iterator[EvalItem]:
    number = 0
    for sample in range(REPEATS):
        for case in _CASES:
            for variant in variants:
                has_looked = _PASSED[variant.name].get(case.id, "x" * REPEATS)[sample] == "x"
                yield _make_item(number, case.id, variant.name, sample, has_looked=has_looked)
                number += 1


def _make_item(
    number: int, case_id: str, variant: str, sample: int, *, has_looked: bool
) -> EvalItem:
    steps = 3 if has_looked else 2
    return EvalItem(
        number=number,
        case_id=case_id,
        variant=variant,
        sample=sample,
        status=ItemStatus.SCORED,
        scores=(
            _score(_LOOKED, "The order was not looked up.", has_passed=has_looked),
            _score(_ANSWERED, "", has_passed=True),
        ),
        usage=TokenUsage(
            prompt_tokens=200 * steps, completion_tokens=20 * steps, total_tokens=220 * steps
        ),
        cost_usd=0.0004 * steps,
        ms=700 * steps + 10 * number,
        text="The refund is on its way.",
        calls=("find_order", "refund") if has_looked else ("refund",),
    )


def _score(name: str, problem: str, *, has_passed: bool) -> Score:
    return Score(
        name=name,
        value=float(has_passed),
        passed=has_passed,
        reason="" if has_passed else problem,
        version="1",
    )
