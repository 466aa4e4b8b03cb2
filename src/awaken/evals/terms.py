"""The terms on which the evals of a gate are made: the gate states them, not their caller."""

from collections.abc import Iterator

import msgspec

from awaken.contracts.evals.eval_runs import EvalMode, EvalSpec
from awaken.contracts.evals.worlds import Variant
from awaken.scoring.gates import GateTerms

from .pins import has_changes

_TERMS = (
    "mode",
    "repeats",
    "seed",
    "tools",
    "judge_model_id",
    "judge",
    "baseline",
    "cell_timeout_ms",
    "max_tokens_per_cell",
)


def apply_terms(spec: EvalSpec, terms: GateTerms) -> EvalSpec:
    """Return a spec with the terms of its gate where it says nothing itself; what it says counts.

    Nothing is open then: what the terms do not say either has its default.
    """
    return msgspec.structs.replace(
        spec,
        mode=_find_mode(terms) if spec.mode is None else spec.mode,
        cell_timeout_ms=terms.cell_timeout_ms
        if spec.cell_timeout_ms is None
        else spec.cell_timeout_ms,
        max_tokens_per_cell=terms.max_tokens_per_cell
        if spec.max_tokens_per_cell is None
        else spec.max_tokens_per_cell,
        variants=tuple(
            it if it.agent_id is not None else msgspec.structs.replace(it, agent_id=terms.agent_id)
            for it in spec.variants
        ),
        repeats=terms.repeats if spec.repeats is None else spec.repeats,
        seed=terms.seed if spec.seed is None else spec.seed,
        tools=terms.tools if spec.tools is None else spec.tools,
        judge_model_id=spec.judge_model_id or terms.judge_model_id,
        judge=terms.judge if spec.judge is None else spec.judge,
        baseline=terms.baseline if spec.baseline is None else spec.baseline,
    )


def _find_mode(terms: GateTerms) -> EvalMode:
    """Return the mode that counts: `live` unless the terms name another one."""
    return EvalMode.LIVE if terms.mode is None else terms.mode


def list_off_terms(spec: EvalSpec, terms: GateTerms) -> tuple[str, ...]:
    """Return in what a kept spec departs from the terms of its dataset's gate; nothing: it counts.

    What an eval departs in was chosen by its caller, and could have made the gate pass.
    """
    return tuple(_find_departures(spec, terms))


def _find_departures(spec: EvalSpec, terms: GateTerms) -> Iterator[str]:
    if spec.gate is not None:
        yield "it has a gate of its own"
    if spec.scorers:
        yield "it has scorers of its own"
    if spec.cases or spec.tags or spec.split:
        yield "its cases were chosen"
    if spec.has_drafts:
        yield "drafts of cases took part"
    if spec.stop_early:
        yield "it may stop early"
    filled = msgspec.structs.replace(terms, mode=_find_mode(terms))
    for name in _TERMS:
        given, wanted = getattr(spec, name), getattr(filled, name)
        if given != wanted:
            yield f"{name} is {_show(given)} instead of {_show(wanted)}"
    judged, first = spec.variants[-1], spec.variants[0]
    if judged.agent_id != terms.agent_id:
        yield f"agent_id is {_show(judged.agent_id)} instead of {_show(terms.agent_id)}"
    if first is not judged and not _is_live(first, judged):
        yield f"variant '{first.name}', with which others are compared, is not what is live"


def _is_live(variant: Variant, judged: Variant) -> bool:
    """Whether a variant is the judged agent as it is live, unchanged."""
    is_other = variant.draft_id is not None or variant.publication is not None
    is_changed = has_changes(variant) or variant.overrides is not None
    return not (is_other or is_changed) and variant.agent_id == judged.agent_id


def _show(value: object) -> str:
    return "not given" if value is None else msgspec.json.encode(value).decode()
