"""What scorers see of a sample, and the item that stays of it."""

from collections.abc import Sequence

import msgspec

from awaken.contracts.evals.eval_runs import EvalItem, ItemStatus
from awaken.contracts.evals.recordings import RecordedStep, Recording
from awaken.contracts.evals.scores import AskedTicket, Outcome, Score
from awaken.contracts.evals.worlds import ReplayDivergence
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.models.model_specs import NANOS

from .planning import PlannedSample
from .samples import SampleCase, list_messages
from .sampling import SampleEnd

TEXT_CHARS = 8_000
"""How much of an answer an item keeps."""
CALLS_MAX = 200
"""How many calls an item names."""


def merge_turns(recordings: Sequence[Recording]) -> Recording:
    """Return the turns of a sample as one recording: it begins as the first, ends as the last."""
    first, last = recordings[0], recordings[-1]
    if len(recordings) == 1:
        return first
    steps: list[RecordedStep] = []
    for turn, recording in enumerate(recordings):
        for step in recording.steps:
            is_opening = turn > 0 and step is recording.steps[0]
            inputs = (*recording.input, *step.inputs) if is_opening else step.inputs
            steps.append(msgspec.structs.replace(step, n=len(steps) + 1, inputs=inputs))
    usage = recordings[0].run.usage
    for recording in recordings[1:]:
        usage = usage.plus(recording.run.usage)
    times = [it.run.duration_ms for it in recordings]
    run = msgspec.structs.replace(
        last.run,
        run_id=first.run.run_id,
        usage=usage,
        duration_ms=None if None in times else sum(it or 0 for it in times),
        created_at=first.run.created_at,
    )
    return msgspec.structs.replace(
        last,
        run=run,
        history=first.history,
        input=first.input,
        state=first.state,
        steps=tuple(steps),
    )


def build_outcome(
    given: SampleCase, recording: Recording, divergences: tuple[ReplayDivergence, ...] = ()
) -> Outcome:
    """Build what scorers see."""
    case = given.case
    is_typed, output = _read_output(recording)
    return Outcome(
        case_id=case.id,
        input="\n".join(it.text for it in list_messages(given)) if has_input(given) else "",
        expected=case.expected,
        expected_tools=None if case.expect is None else case.expect.tool_sequence,
        recording=recording,
        output=output,
        is_output_typed=is_typed,
        cost_usd=price_of(recording.run.usage),
        ms=recording.run.duration_ms,
        divergences=divergences,
        tickets=_list_tickets(recording),
        metadata=case.metadata,
    )


def has_input(given: SampleCase) -> bool:
    """Whether a case begins with an input of its own."""
    case = given.case
    return bool(case.input) or case.user_input is not None or given.recording is not None


def price_of(usage: TokenUsage) -> float | None:
    """Return the cost of usage in dollars; None if it is not known."""
    return None if usage.cost_nanos is None else usage.cost_nanos / NANOS


def build_item(
    sample: PlannedSample,
    given: SampleCase,
    end: SampleEnd,
    outcome: Outcome | None,
    scores: tuple[Score, ...],
) -> EvalItem:
    """Build the item of a sample."""
    run = None if outcome is None else outcome.recording.run
    is_passed = bool(scores) and all(it.passed for it in scores)
    # An agent that fails as its case expects has done what it should.
    is_expected = end.status is ItemStatus.FAILED and is_passed
    status = ItemStatus.SCORED if is_expected else end.status
    if status is not ItemStatus.SCORED:
        # What passes only because nothing was said counts as nothing.
        scores = tuple(it for it in scores if it.passed is False)
    calls = () if outcome is None else _list_tools(outcome.recording)
    return EvalItem(
        number=sample.number,
        case_id=sample.case_id,
        variant=sample.variant,
        sample=sample.sample,
        status=status,
        run_id=end.run_ids[-1] if end.run_ids else None,
        scores=scores,
        usage=None if run is None else run.usage,
        cost_usd=None if outcome is None else outcome.cost_usd,
        ms=None if outcome is None else outcome.ms,
        divergence=outcome.divergences[0] if outcome is not None and outcome.divergences else None,
        error=end.error,
        text="" if outcome is None else outcome.text[:TEXT_CHARS],
        calls=calls[:CALLS_MAX],
        weight=given.case.weight,
    )


def _list_tools(recording: Recording) -> tuple[str, ...]:
    return tuple(call.tool for step in recording.steps for call in step.calls)


def _list_tickets(recording: Recording) -> tuple[AskedTicket, ...]:
    return tuple(
        AskedTicket(
            call_id=call.id,
            tool=call.tool,
            action=None if it.decision is None else str(it.decision.action),
        )
        for step in recording.steps
        for call in step.calls
        for it in call.decisions
    )


def _read_output(recording: Recording) -> tuple[bool, object]:
    """Return whether the answer is JSON, and the JSON: an agent with an output type answers so."""
    text = (recording.run.final_output or "").strip()
    if not text.startswith(("{", "[")):
        return False, None
    try:
        return True, msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False, None
