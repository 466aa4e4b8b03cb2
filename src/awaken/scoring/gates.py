"""Gates: what an eval has to show, read strictly and judged in words.

A condition that does not hold fails. Too little data (missing samples, a scorer that often could
not score) is undecided and never passes, whatever `on_undecided` says; that option is for a
comparison that cannot be decided yet.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec
import yaml  # type: ignore[import-untyped]

from awaken.contracts.evals.errors import InvalidGate
from awaken.contracts.evals.eval_runs import CELL_TIMEOUT_MS, REPEATS_MAX, EvalItem, EvalMode
from awaken.contracts.evals.verdicts import (
    Calibration,
    ComparisonVerdict,
    EvalComparison,
    GateCheck,
    GateResult,
    GateStatus,
    ScorerComparison,
    ScorerFigures,
    SequentialLook,
)
from awaken.contracts.evals.worlds import ToolPolicy
from awaken.contracts.record import StrictRecord

from .comparisons import MARGIN, ComparisonPlan, compare_items
from .figures import summarize_variant

GATE_CHARS_MAX = 100_000
ERRORS_MAX = 0.05
"""A scorer that could not score more than this share of samples passes no gate."""
_NEAR = 1e-9
"""Rates that differ by less are equal: rounding must not fail a gate."""


class OnUndecided(StrEnum):
    """What an undecided comparison does to a gate."""

    WARN = "warn"
    FAIL = "fail"


class ComparePolicy(StrEnum):
    """When a comparison fails a gate."""

    STRICT = "strict"
    """Unless the interval's lower end is above minus the margin."""
    LENIENT = "lenient"
    """Only when the verdict is worse."""


class RequireRule(StrictRecord, frozen=True, kw_only=True):
    """What one scorer has to show of the variant alone."""

    scorer: str
    min_rate: float | None = None
    """The least pass rate."""
    min_lower: float | None = None
    """The least lower end of its interval."""
    min_mean: float | None = None


class CompareRule(StrictRecord, frozen=True, kw_only=True):
    """What one scorer has to show against the baseline."""

    scorer: str
    not_worse_than: float = MARGIN
    policy: ComparePolicy = ComparePolicy.STRICT


class CasesRule(StrictRecord, frozen=True, kw_only=True):
    """Cases that have to pass, every time."""

    must_pass: tuple[str, ...] = ()
    """Tags; every sample of a case with one of them has to pass by every scorer."""


class GateTerms(StrictRecord, frozen=True, kw_only=True):
    """How the evals of a gate are made; the caller of one does not choose what it leaves out.

    Without that the caller would decide: by the agent, the number of repeats or a weak baseline.
    """

    agent_id: str | None = None
    """The agent that is tried; absent: that of the case's recording, else the default agent."""
    mode: EvalMode | None = None
    """Absent: `live`, which alone asks the models, lets something be published."""
    repeats: int | None = None
    """Absent: 1 if models and tools are recorded or scripted, else 5."""
    seed: int = 0
    tools: ToolPolicy = ToolPolicy()
    """For cases that say nothing."""
    judge_model_id: str | None = None
    """The model of judges and simulated users that name none."""
    judge: dict[str, Any] | None = None
    """The options of the judge of expectations, `rubric` among them."""
    baseline: str | None = None
    """The id of the eval to compare with; absent: the first variant, which is what is live."""
    cell_timeout_ms: int = CELL_TIMEOUT_MS
    """How long a sample may take. Who chose it could let only what is live take too long."""
    max_tokens_per_cell: int | None = None
    min_cases: int = 1
    """How many cases have to be tried at least."""


class Gate(StrictRecord, frozen=True, kw_only=True):
    """What an eval has to show."""

    terms: GateTerms = GateTerms()
    require: tuple[RequireRule, ...] = ()
    compare: tuple[CompareRule, ...] = ()
    cases: CasesRule = CasesRule()
    max_cost_ratio: float | None = None
    max_missing: float = 0.02
    on_undecided: OnUndecided = OnUndecided.WARN


class GateEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """What a gate looks at."""

    items: Sequence[EvalItem]
    """The items of the eval."""
    variant: str
    """The variant that the gate is for."""
    planned: int | None = None
    """How many samples of the variant were planned; absent: as many as there are."""
    baseline_items: Sequence[EvalItem] | None = None
    baseline_variant: str = ""
    tags: Mapping[str, Sequence[str]] = {}
    """The tags of each case."""
    calibrations: Mapping[str, Calibration] = {}
    """Of judged scorers."""
    simulated: Sequence[str] = ()
    """Cases whose tools a model simulates: what they show is no evidence."""
    seed: int = 0
    look: SequentialLook | None = None
    """The look at which it is judged; absent: the only one."""


def parse_gate(given: str | bytes | Mapping[str, Any]) -> Gate:
    """Read a gate: YAML, JSON, or the object itself.

    Raises:
        InvalidGate: It is no gate; the problem names the field.
    """
    if isinstance(given, Mapping):
        document: Any = dict(given)
    else:
        if len(given) > GATE_CHARS_MAX:
            raise InvalidGate(problem=f"it is longer than {GATE_CHARS_MAX:,} characters")
        try:
            document = yaml.load(given, _PlainLoader)
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            raise InvalidGate(problem=f"it is no YAML: {_shorten(error)}") from error
    try:
        gate = msgspec.convert(document, Gate)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InvalidGate(problem=_shorten(error)) from error
    _check_gate(gate)
    return gate


class _PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
    """No aliases, by which a small text stands for a huge one, and no key twice."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed in a gate")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001, FBT002
        names = [key.value for key, _ in node.value]
        for at, name in enumerate(names):
            if name in names[:at]:
                message = f"the field '{name}' is there twice"
                raise yaml.YAMLError(message)
        return super().construct_mapping(node, deep)


def _shorten(error: Exception) -> str:
    return " ".join(str(error).split())[:300].rstrip(".")


def _check_gate(gate: Gate) -> None:
    for at, rule in enumerate(gate.require):
        limits = {"min_rate": rule.min_rate, "min_lower": rule.min_lower, "min_mean": rule.min_mean}
        if all(it is None for it in limits.values()):
            raise InvalidGate(problem=f"require[{at}] needs min_rate, min_lower or min_mean")
        for name, limit in limits.items():
            if limit is not None and not 0 <= limit <= 1:
                raise InvalidGate(problem=f"require[{at}].{name} must be 0 to 1")
    names = [it.scorer for it in gate.compare]
    for at, compared in enumerate(gate.compare):
        if not 0 <= compared.not_worse_than <= 1:
            raise InvalidGate(problem=f"compare[{at}].not_worse_than must be 0 to 1")
        if compared.scorer in names[:at]:
            raise InvalidGate(problem=f"compare[{at}].scorer '{compared.scorer}' is there twice")
    repeats = gate.terms.repeats
    if repeats is not None and not 1 <= repeats <= REPEATS_MAX:
        raise InvalidGate(problem=f"terms.repeats must be 1 to {REPEATS_MAX}")
    cell = (gate.terms.cell_timeout_ms, gate.terms.max_tokens_per_cell)
    if any(it is not None and it < 1 for it in cell):
        raise InvalidGate(problem="terms.cell_timeout_ms and max_tokens_per_cell must be positive")
    if gate.terms.min_cases < 1:
        raise InvalidGate(problem="terms.min_cases must be at least 1")
    if not 0 <= gate.max_missing <= 1:
        raise InvalidGate(problem="max_missing must be 0 to 1")
    if gate.max_cost_ratio is not None and not 0 < gate.max_cost_ratio < math.inf:
        raise InvalidGate(problem="max_cost_ratio must be positive")
    if not (gate.require or gate.compare or gate.cases.must_pass or gate.max_cost_ratio):
        raise InvalidGate(problem="it asks for nothing; give require, compare or cases.must_pass")


def evaluate_gate(gate: Gate, evidence: GateEvidence) -> GateResult:
    """Judge an eval by a gate."""
    figures = summarize_variant(evidence.items, evidence.variant, evidence.calibrations)
    scorers = {it.scorer: it for it in figures.scorers}
    comparison = _compare(gate, evidence)
    planned = len([it for it in evidence.items if it.variant == evidence.variant])
    planned = max(planned, evidence.planned or 0)
    present = figures.items - figures.missing
    checks = [
        *_check_count(gate, evidence),
        _check_missing(gate, planned - present, planned),
        *_check_simulated(evidence),
        *_check_errors(gate, scorers, has_cases=bool(gate.cases.must_pass)),
        *_check_required(gate, scorers),
        *_check_compared(gate, comparison),
        *_check_cases(gate, evidence),
        *_check_cost(gate, comparison),
    ]
    warnings = [*_warn_of_judges(gate, scorers)]
    if comparison is not None:
        warnings += comparison.warnings
    return _conclude(gate, checks, warnings, _list_open(gate, comparison))


def _list_open(gate: Gate, comparison: EvalComparison | None) -> set[str]:
    """The comparisons that have data: more of it may decide them."""
    scored = {it.scorer: it.interval for it in comparison.scorers} if comparison else {}
    return {
        f"compare[{at}]"
        for at, rule in enumerate(gate.compare)
        if scored.get(rule.scorer) is not None
    }


def _conclude(
    gate: Gate, checks: list[GateCheck], warnings: list[str], open_: set[str]
) -> GateResult:
    status = GateStatus.PASSED
    for check in checks:
        if check.status is GateStatus.FAILED:
            status = GateStatus.FAILED
        elif check.status is GateStatus.UNDECIDED and status is not GateStatus.FAILED:
            is_comparison = check.condition.startswith("compare")
            if is_comparison and gate.on_undecided is OnUndecided.FAIL:
                status = GateStatus.FAILED
            elif check.condition in open_:
                warnings.append(f"{check.condition}: {check.reason}")
            else:
                status = GateStatus.UNDECIDED
    return GateResult(status=status, checks=tuple(checks), warnings=tuple(warnings))


def _list_scorers(gate: Gate) -> dict[str, None]:
    """The scorers that the gate names, each once."""
    required = dict.fromkeys(it.scorer for it in gate.require)
    return required | dict.fromkeys(it.scorer for it in gate.compare)


def _check_count(gate: Gate, evidence: GateEvidence) -> Iterator[GateCheck]:
    own = [it for it in evidence.items if it.variant == evidence.variant]
    tried = len({it.case_id for it in own if not it.status.is_missing})
    if tried < gate.terms.min_cases:
        reason = f"{tried} cases were tried, {gate.terms.min_cases} are needed"
        condition = "terms.min_cases"
        yield GateCheck(condition=condition, status=GateStatus.UNDECIDED, reason=reason)


def _check_missing(gate: Gate, missing: int, planned: int) -> GateCheck:
    share = missing / planned if planned else 1.0
    is_whole = share <= gate.max_missing + _NEAR
    reason = f"{missing} of {planned} samples are missing ({100 * share:.1f} %)"
    reason += f", at most {100 * gate.max_missing:g} % may be"
    status = GateStatus.PASSED if is_whole else GateStatus.UNDECIDED
    return GateCheck(condition="max_missing", status=status, reason=reason)


def _check_simulated(evidence: GateEvidence) -> Iterator[GateCheck]:
    tried = {it.case_id for it in evidence.items}
    if found := sorted(tried.intersection(evidence.simulated)):
        reason = f"a model simulates the tools of {_list_some(found)}: no gate passes on that"
        yield GateCheck(condition="simulated_tools", status=GateStatus.UNDECIDED, reason=reason)


def _check_errors(
    gate: Gate, scorers: Mapping[str, ScorerFigures], *, has_cases: bool
) -> Iterator[GateCheck]:
    named = set(_list_scorers(gate))
    for name, figures in scorers.items():
        if (name in named or has_cases) and figures.error_share > ERRORS_MAX + _NEAR:
            share = 100 * figures.error_share
            reason = f"'{name}' could not score {figures.errors} samples ({share:.1f} %)"
            yield GateCheck(condition="scorer_errors", status=GateStatus.UNDECIDED, reason=reason)


def _check_required(gate: Gate, scorers: Mapping[str, ScorerFigures]) -> Iterator[GateCheck]:
    for at, rule in enumerate(gate.require):
        figures = scorers.get(rule.scorer)
        condition = f"require[{at}]"
        if figures is None or figures.rate is None or figures.interval is None:
            reason = f"'{rule.scorer}' has no score in this eval"
            yield GateCheck(condition=condition, status=GateStatus.UNDECIDED, reason=reason)
            continue
        interval = figures.interval
        shown = f"{figures.rate:.3f} [{interval.low:.3f}, {interval.high:.3f}]"
        limits = (
            ("rate", figures.rate, rule.min_rate),
            ("lower end", interval.low, rule.min_lower),
            ("mean", figures.mean or 0.0, rule.min_mean),
        )
        missed = [
            f"its {name} {value:.3f} is below {limit:g}"
            for name, value, limit in limits
            if limit is not None and value < limit - _NEAR
        ]
        reason = f"'{rule.scorer}' passes {shown}"
        reason += f": {', '.join(missed)}" if missed else ""
        status = GateStatus.FAILED if missed else GateStatus.PASSED
        yield GateCheck(condition=condition, status=status, reason=reason)


def _compare(gate: Gate, evidence: GateEvidence) -> EvalComparison | None:
    if evidence.baseline_items is None:
        return None
    plan = ComparisonPlan(
        margins={it.scorer: it.not_worse_than for it in gate.compare},
        scorers=tuple(it.scorer for it in gate.compare),
        seed=evidence.seed,
        look=evidence.look,
    )
    variant = evidence.baseline_variant or evidence.variant
    if not gate.compare:
        # Only the costs are compared.
        plan = msgspec.structs.replace(plan, scorers=("",))
    found = compare_items(evidence.baseline_items, variant, evidence.items, evidence.variant, plan)
    return found if gate.compare else msgspec.structs.replace(found, warnings=())


def _check_compared(gate: Gate, comparison: EvalComparison | None) -> Iterator[GateCheck]:
    found = {it.scorer: it for it in comparison.scorers} if comparison else {}
    for at, rule in enumerate(gate.compare):
        condition = f"compare[{at}]"
        compared = found.get(rule.scorer)
        if comparison is None:
            reason = f"'{rule.scorer}': there is no baseline to compare with"
            yield GateCheck(condition=condition, status=GateStatus.UNDECIDED, reason=reason)
        elif compared is None:
            reason = f"'{rule.scorer}' is not scored in both evals"
            yield GateCheck(condition=condition, status=GateStatus.UNDECIDED, reason=reason)
        else:
            status = _judge_comparison(rule, compared)
            reason = f"'{rule.scorer}' {compared.reason}"
            yield GateCheck(condition=condition, status=status, reason=reason)


def _judge_comparison(rule: CompareRule, found: ScorerComparison) -> GateStatus:
    if found.interval is None:
        return GateStatus.UNDECIDED
    if rule.policy is ComparePolicy.STRICT:
        if found.interval.low > -rule.not_worse_than or found.interval.low >= 0:
            return GateStatus.PASSED
        # What no case shows cannot fail a gate, and too few cases cannot pass it.
        has_fallen = any(it.difference < 0 for it in found.by_case)
        return GateStatus.FAILED if has_fallen else GateStatus.UNDECIDED
    match found.verdict:
        case ComparisonVerdict.WORSE:
            return GateStatus.FAILED
        case ComparisonVerdict.UNDECIDED:
            # An interval that excludes what would matter leaves nothing open.
            is_held = found.interval.low > -rule.not_worse_than
            return GateStatus.PASSED if is_held else GateStatus.UNDECIDED
    return GateStatus.PASSED


def _check_cases(gate: Gate, evidence: GateEvidence) -> Iterator[GateCheck]:
    wanted = set(gate.cases.must_pass)
    if not wanted:
        return
    chosen = {case for case, tags in evidence.tags.items() if wanted & set(tags)}
    shown = ", ".join(f"'{it}'" for it in gate.cases.must_pass)
    if not chosen:
        reason = f"no case has a tag of {shown}"
        yield GateCheck(condition="cases.must_pass", status=GateStatus.UNDECIDED, reason=reason)
        return
    own = [it for it in evidence.items if it.variant == evidence.variant]
    seen = {it.case_id for it in own if not it.status.is_missing}
    failed = sorted({it.case_id for it in own if it.case_id in chosen and _has_failed(it)})
    unknown = sorted(
        (chosen - seen) | {it.case_id for it in own if it.case_id in chosen and _is_unknown(it)}
    )
    status, reason = GateStatus.PASSED, f"all {len(chosen)} cases of {shown} pass every time"
    if failed:
        status, reason = GateStatus.FAILED, f"cases that must pass fail: {_list_some(failed)}"
    elif unknown:
        status = GateStatus.UNDECIDED
        reason = f"cases that must pass have missing scores: {_list_some(unknown)}"
    yield GateCheck(condition="cases.must_pass", status=status, reason=reason)


def _has_failed(item: EvalItem) -> bool:
    if item.status.is_missing:
        return False
    if not item.scores:
        return True
    return any(it.passed is False for it in item.scores)


def _is_unknown(item: EvalItem) -> bool:
    return item.status.is_missing or any(it.value is None for it in item.scores)


def _list_some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(names[:10]) + more


def _check_cost(gate: Gate, comparison: EvalComparison | None) -> Iterator[GateCheck]:
    if gate.max_cost_ratio is None:
        return
    ratio = None if comparison is None else comparison.cost_ratio
    if ratio is None:
        status, reason = GateStatus.UNDECIDED, "the cost of a sample, or a baseline, is missing"
    else:
        is_held = ratio <= gate.max_cost_ratio + _NEAR
        status = GateStatus.PASSED if is_held else GateStatus.FAILED
        reason = f"a sample costs {ratio:.2f} times as much, at most {gate.max_cost_ratio:g} times"
    yield GateCheck(condition="max_cost_ratio", status=status, reason=reason)


def _warn_of_judges(gate: Gate, scorers: Mapping[str, ScorerFigures]) -> Iterable[str]:
    for name in _list_scorers(gate):
        figures = scorers.get(name)
        if figures is None or not figures.is_judged:
            continue
        calibration = figures.calibration
        if calibration is None or not calibration.is_calibrated:
            labels = calibration.labels if calibration else 0
            yield f"'{name}' is an uncalibrated judge: {labels} labels, 30 are needed"
