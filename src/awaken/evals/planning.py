"""The plan of an eval: which samples, in which order. Nothing is spent here."""

import random
from collections.abc import Sequence

from awaken.contracts.evals.cases import Case, CaseStatus, DatasetRevision
from awaken.contracts.evals.errors import InvalidEval, UnknownCase
from awaken.contracts.evals.eval_runs import EvalMode, EvalSpec
from awaken.contracts.evals.worlds import ModelSource, ToolPolicy, ToolSource
from awaken.contracts.models.inference import StopReason
from awaken.contracts.record import Record

SAMPLES_MAX = 5_000
"""How many samples an eval may have, unless the server says otherwise."""
LIVE_REPEATS = 5
"""How often a cell is tried whose model or tools may answer differently each time."""
MODELS = {
    EvalMode.LIVE: ModelSource.LIVE,
    EvalMode.RECORDED: ModelSource.RECORDED,
    EvalMode.SCRIPTED: ModelSource.SCRIPTED,
    EvalMode.VERIFY: ModelSource.RECORDED,
}


class PlannedSample(Record, frozen=True, kw_only=True):
    """One sample of a cell, at its place in the plan."""

    number: int
    case_id: str
    variant: str
    sample: int


def select_cases(revision: DatasetRevision, spec: EvalSpec) -> tuple[str, ...]:
    """Return the ids of the cases that take part, in the order of the dataset.

    Raises:
        UnknownCase: The eval names a case that the dataset does not have.
        InvalidEval: It names a draft, or no case is left.
    """
    entries = {it.id: it for it in revision.cases}
    for case_id in spec.cases:
        if case_id not in entries:
            raise UnknownCase(dataset_id=revision.dataset_id, case_id=case_id)
        if entries[case_id].status is CaseStatus.DRAFT and not spec.has_drafts:
            problem = f"case '{case_id}' is a draft; confirm it, or set has_drafts"
            raise InvalidEval(problem=problem)
    found = [
        it.id
        for it in revision.cases
        if (not spec.cases or it.id in spec.cases)
        and (spec.has_drafts or it.status is not CaseStatus.DRAFT)
        and (not spec.tags or not set(spec.tags).isdisjoint(it.tags))
        and (spec.split is None or it.split == spec.split)
    ]
    if not found:
        problem = f"no case of dataset '{revision.dataset_id}' fits its cases, tags and split"
        drafts = sum(it.status is CaseStatus.DRAFT for it in revision.cases)
        if drafts and not spec.has_drafts:
            problem += f"; {drafts} are drafts: set status: ready in them, or has_drafts"
        raise InvalidEval(problem=problem)
    return tuple(found)


def check_case(case: Case, spec: EvalSpec, *, has_scorers: bool) -> None:
    """Refuse a case that this eval cannot try.

    Raises:
        InvalidEval: It lacks what the mode needs, or nothing would score it.
    """
    problem = None
    if not (has_scorers or case.expect is not None or case.scorers):
        problem = "has no expectation and no scorer"
    elif spec.mode_or_live is EvalMode.SCRIPTED and not case.provider_script:
        problem = "has no provider_script"
    elif spec.mode_or_live in (EvalMode.RECORDED, EvalMode.VERIFY) and case.recording is None:
        problem = "has no recording"
    elif MODELS[spec.mode_or_live] is ModelSource.RECORDED and case.continued_turns:
        problem = "has further turns, which its recording does not have; use the mode live"
    elif case.user is not None and case.continued_turns:
        problem = "has both a simulated user and further turns"
    elif spec.mode_or_live is EvalMode.SCRIPTED and any(
        not it.provider_script for it in case.continued_turns
    ):
        problem = "has a further turn without a provider_script"
    elif spec.mode_or_live is EvalMode.SCRIPTED and (stop := _find_wrong_stop(case)) is not None:
        problem = f"has a script with the stop '{stop:.40}'; known: {', '.join(StopReason)}"
    if problem is not None:
        raise InvalidEval(problem=f"case '{case.id}' {problem}")


def _find_wrong_stop(case: Case) -> str | None:
    scripts = (case.provider_script, *(it.provider_script for it in case.continued_turns))
    stops = (turn.stop for script in scripts for turn in script if turn.stop)
    return next((it for it in stops if it not in set(StopReason)), None)


def list_simulated(spec: EvalSpec, cases: Sequence[Case]) -> tuple[str, ...]:
    """Return the ids of cases whose tools a model simulates: exploration, and never a gate."""
    return tuple(it.id for it in cases if (it.tools or spec.tools_or_recorded).is_simulated)


def list_tool_sources(spec: EvalSpec, cases: Sequence[Case]) -> tuple[ToolSource, ...]:
    """Return all who may answer a tool call of one of the cases."""
    found = {source for it in cases for source in (it.tools or spec.tools_or_recorded).sources}
    return tuple(sorted(found))


def plan_samples(
    spec: EvalSpec,
    cases: Sequence[Case],
    samples_max: int = SAMPLES_MAX,
    *,
    has_lead: bool = False,
) -> tuple[PlannedSample, ...]:
    """Return the samples in the order in which they begin.

    Every repeat goes through the cases in an order of its own. The variants of a case begin one
    after another, so that a provider that drifts meanwhile hurts all of them alike. With `has_lead`
    the first variant begins, because a scorer compares the others with it.

    Raises:
        InvalidEval: There are more samples than an eval may have.
    """
    repeats = {it.id: count_repeats(spec, it) for it in cases}
    total = sum(repeats.values()) * len(spec.variants)
    if total > samples_max:
        problem = f"it has {total:,} samples, and an eval may have {samples_max:,}"
        raise InvalidEval(problem=problem)
    chance = random.Random(spec.seed_or_zero)
    planned: list[PlannedSample] = []
    for sample in range(max(repeats.values(), default=0)):
        order = [it.id for it in cases if sample < repeats[it.id]]
        chance.shuffle(order)
        for case_id in order:
            names = [it.name for it in spec.variants]
            chance.shuffle(names)
            if has_lead:
                names.sort(key=lambda it: it != spec.variants[0].name)
            for name in names:
                number = len(planned)
                planned.append(
                    PlannedSample(number=number, case_id=case_id, variant=name, sample=sample)
                )
    return tuple(planned)


def count_repeats(spec: EvalSpec, case: Case) -> int:
    """Return how often each cell of a case is tried."""
    if spec.repeats is not None:
        return spec.repeats
    is_fixed = MODELS[spec.mode_or_live] is not ModelSource.LIVE and case.user is None
    return 1 if is_fixed and _is_fixed(case.tools or spec.tools_or_recorded) else LIVE_REPEATS


def _is_fixed(tools: ToolPolicy) -> bool:
    """Whether the same call has the same answer each time."""
    return tools.source is ToolSource.RECORDED and not tools.allow_live
