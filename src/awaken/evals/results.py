"""What an eval says: figures of its variants, comparisons, and its gate."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from awaken.contracts.evals.cases import DatasetRevision
from awaken.contracts.evals.errors import NotComparable, UnknownEval
from awaken.contracts.evals.eval_runs import EvalItem, EvalRecord, EvalStatus
from awaken.contracts.evals.store import EvalStore
from awaken.contracts.evals.verdicts import (
    Calibration,
    EvalComparison,
    GateResult,
    SequentialLook,
    VariantFigures,
)
from awaken.contracts.record import Record
from awaken.scoring.comparisons import ComparisonPlan, compare_items
from awaken.scoring.figures import list_variants, summarize_variant
from awaken.scoring.gates import GateEvidence, evaluate_gate, parse_gate

from .calibrating import calibrate_all
from .driving import list_items
from .planning import list_simulated
from .preparing import EvalParts, PreparedEval

ITEMS_ON_LOOP = 400
"""Up to so many items are compared on the event loop: in about a tenth of a second. 10,000 take
several seconds for each scorer."""


class EvalFigures(Record, frozen=True, kw_only=True):
    """The figures of an eval, as its record keeps them."""

    variants: tuple[VariantFigures, ...] = ()
    comparisons: tuple[EvalComparison, ...] = ()
    """Of each variant with that of the baseline, else with the first variant."""
    gate: GateResult | None = None
    warnings: tuple[str, ...] = ()


class ComparedEval(msgspec.Struct, frozen=True, kw_only=True):
    """An eval with its items, to be compared with another one."""

    record: EvalRecord
    items: Sequence[EvalItem]
    hashes: Mapping[str, str]
    """The hashes of its cases, by id."""


class ComparedEvals(Record, frozen=True, kw_only=True):
    """The variants of the second eval against those of the first."""

    comparisons: tuple[EvalComparison, ...]
    warnings: tuple[str, ...] = ()


class EvalEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """What the figures of an eval are made from."""

    own: ComparedEval
    baseline: ComparedEval | None = None
    gate: Mapping[str, Any] | None = None
    calibrations: Mapping[str, Calibration] = {}
    tags: Mapping[str, Sequence[str]] = {}
    simulated: Sequence[str] = ()
    """Cases whose tools a model simulates."""
    look: SequentialLook | None = None


async def summarize_eval(
    parts: EvalParts,
    record: EvalRecord,
    prepared: PreparedEval,
    items: Sequence[EvalItem],
    look: SequentialLook | None = None,
) -> EvalFigures:
    """Return the figures of an eval, with its baseline and its gate."""
    baseline = None
    if record.spec.baseline is not None:
        baseline = await load_compared(parts.evals, record.spec.baseline)
    evidence = EvalEvidence(
        own=ComparedEval(record=record, items=items, hashes=hash_cases(prepared.revision)),
        baseline=baseline,
        gate=prepared.gate,
        calibrations=await calibrate_all(parts.evals, items),
        tags={it.id: it.tags for it in prepared.revision.cases},
        simulated=list_simulated(record.spec, [it.case for it in prepared.cases.values()]),
        look=look,
    )
    return await compute_figures(evidence)


async def compute_figures(evidence: EvalEvidence) -> EvalFigures:
    """Return the figures of an eval; those of a large one do not hold up the event loop.

    Raises:
        NotComparable: The baseline was made in another mode.
        InvalidGate: The gate cannot be read.
    """
    baseline = () if evidence.baseline is None else evidence.baseline.items
    if len(evidence.own.items) + len(baseline) <= ITEMS_ON_LOOP:
        return build_figures(evidence)
    return await asyncio.to_thread(build_figures, evidence)


async def compute_comparison(first: ComparedEval, second: ComparedEval) -> ComparedEvals:
    """Compare two evals as `compare_ended` does; large ones do not hold up the event loop.

    Raises:
        NotComparable: They tried different things, one has no sample, or nothing scored both.
    """
    if len(first.items) + len(second.items) <= ITEMS_ON_LOOP:
        return compare_ended(first, second)
    return await asyncio.to_thread(compare_ended, first, second)


def build_figures(evidence: EvalEvidence) -> EvalFigures:
    """Sum up an eval, compare it with its baseline, and judge its last variant by a gate.

    Raises:
        NotComparable: The baseline was made in another mode.
        InvalidGate: The gate cannot be read.
    """
    own, baseline, warnings = evidence.own, evidence.baseline, list[str]()
    names = list_variants(own.items)
    plan = ComparisonPlan(seed=own.record.spec.seed_or_zero, look=evidence.look)
    if baseline is not None:
        comparisons = compare_evals(baseline, own, plan, warnings)
    else:
        first = own.record.spec.variants[0].name
        comparisons = tuple(
            compare_items(own.items, first, own.items, it, plan) for it in names if it != first
        )
    return EvalFigures(
        variants=tuple(summarize_variant(own.items, it, evidence.calibrations) for it in names),
        comparisons=comparisons,
        gate=None if evidence.gate is None else _judge(evidence, evidence.gate),
        warnings=tuple(warnings),
    )


def _judge(evidence: EvalEvidence, gate: Mapping[str, Any]) -> GateResult:
    own, baseline = evidence.own, evidence.baseline
    spec = own.record.spec
    judged, first = spec.variants[-1].name, spec.variants[0].name
    items, variant = own.items, first
    if baseline is not None:
        # A case that was changed since is another one.
        changed = find_changed(baseline, own)
        items, variant = [it for it in baseline.items if it.case_id not in changed], judged
    if baseline is not None and judged not in list_variants(items):
        variant = next(iter(list_variants(items)), "")
    has_baseline = baseline is not None or judged != first
    return evaluate_gate(
        parse_gate(gate),
        GateEvidence(
            items=own.items,
            variant=judged,
            planned=own.record.planned // len(spec.variants),
            baseline_items=items if has_baseline else None,
            baseline_variant=variant if has_baseline else "",
            tags=evidence.tags,
            calibrations=evidence.calibrations,
            simulated=evidence.simulated,
            seed=spec.seed_or_zero,
            look=evidence.look,
        ),
    )


def compare_evals(
    first: ComparedEval,
    second: ComparedEval,
    plan: ComparisonPlan | None = None,
    warnings: list[str] | None = None,
) -> tuple[EvalComparison, ...]:
    """Compare the variants of the second eval with those of the first, by name if it has them.

    Only cases that are the same in both count.

    Raises:
        NotComparable: They were made in different modes, or of different datasets.
    """
    told = [] if warnings is None else warnings
    one, two = first.record, second.record
    check_comparable(one, two)
    changed = find_changed(first, second)
    if one.revision != two.revision:
        told.append(
            f"revision {one.revision} is compared with {two.revision}; "
            f"{len(changed)} changed cases are left out"
        )
    told += _warn_of_end(first)
    old = [it for it in first.items if it.case_id not in changed]
    new = [it for it in second.items if it.case_id not in changed]
    known = list_variants(first.items)
    return tuple(
        compare_items(old, it if it in known else known[0], new, it, plan)
        for it in list_variants(second.items)
        if known
    )


def compare_ended(first: ComparedEval, second: ComparedEval) -> ComparedEvals:
    """Compare two evals as people ask for it: what was not tried is not called the same.

    Raises:
        NotComparable: They tried different things, one has no sample, or nothing scored both.
    """
    one, two = first.record, second.record
    check_comparable(one, two)
    check_tried(one, first.items, two)
    check_tried(two, second.items, one)
    warnings: list[str] = []
    found = compare_evals(first, second, None, warnings)
    warnings += _warn_of_end(second)
    if not any(it.scorers for it in found):
        problem = "no scorer has scored samples of both"
        raise NotComparable(first=one.eval_id, second=two.eval_id, problem=problem)
    return ComparedEvals(comparisons=found, warnings=tuple(warnings))


def check_tried(record: EvalRecord, items: Sequence[EvalItem], other: EvalRecord) -> None:
    """Refuse to compare with an eval that has no sample.

    Raises:
        NotComparable: It has none.
    """
    if not items:
        problem = f"'{record.eval_id}' is {record.status} and has no sample"
        raise NotComparable(first=record.eval_id, second=other.eval_id, problem=problem)


def _warn_of_end(compared: ComparedEval) -> list[str]:
    record, count = compared.record, len(compared.items)
    if record.status is EvalStatus.DONE:
        return []
    return [f"eval '{record.eval_id}' is {record.status}: {count} of {record.planned} samples"]


def find_changed(first: ComparedEval, second: ComparedEval) -> set[str]:
    """Return the ids of cases that both evals have, and that are not the same in both."""
    return {
        name for name, hashed in first.hashes.items() if second.hashes.get(name, hashed) != hashed
    }


def check_comparable(one: EvalRecord, two: EvalRecord) -> None:
    """Refuse to compare evals that tried different things.

    Raises:
        NotComparable: They were made in different modes, or of different datasets.
    """
    problem = None
    if one.spec.mode_or_live is not two.spec.mode_or_live:
        problem = f"one is {one.spec.mode_or_live}, the other {two.spec.mode_or_live}"
    elif one.spec.dataset_id != two.spec.dataset_id:
        problem = f"their datasets are '{one.spec.dataset_id}' and '{two.spec.dataset_id}'"
    if problem is not None:
        raise NotComparable(first=one.eval_id, second=two.eval_id, problem=problem)


async def load_compared(evals: EvalStore, eval_id: str) -> ComparedEval:
    """Load an eval with its items.

    Raises:
        UnknownEval: There is no such eval.
    """
    record = await evals.load_eval(eval_id)
    if record is None:
        raise UnknownEval(eval_id=eval_id)
    revision = await evals.load_dataset(record.spec.dataset_id, record.revision)
    return ComparedEval(
        record=record,
        items=await list_items(evals, eval_id),
        hashes={} if revision is None else hash_cases(revision),
    )


def hash_cases(revision: DatasetRevision) -> dict[str, str]:
    """Return the hashes of the cases of a revision, by id."""
    return {it.id: it.hash for it in revision.cases}
