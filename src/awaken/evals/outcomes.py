"""What scorers see of a sample, and the item that stays of it."""

from collections.abc import Iterable, Sequence

import msgspec

from awaken.contracts.evals.cases import Case
from awaken.contracts.evals.eval_runs import EvalItem, ItemStatus
from awaken.contracts.evals.recordings import RecordedStep, Recording
from awaken.contracts.evals.scores import AskedTicket, Outcome, Score, ScorerSpec
from awaken.contracts.evals.worlds import ReplayDivergence, ScriptedTurn
from awaken.contracts.lifecycle import Failed
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.models.model_specs import NANOS
from awaken.contracts.tool_results import ToolStatus

from .planning import PlannedSample
from .samples import SampleCase, list_messages
from .sampling import SampleEnd

TEXT_CHARS = 8_000
"""How much of an answer an item keeps."""
CALLS_MAX = 200
"""How many calls an item names."""
SCRIPT_UNUSED = "script_unused"
"""How the error of a sample begins whose script was not used up."""


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


def check_script(case: Case, recordings: Sequence[Recording], end: SampleEnd) -> SampleEnd:
    """Return how a scripted sample ended: it fails if its script was not used up.

    An answer that was never asked for is a call that the agent did not make, or a turn that it left
    out. What failed otherwise keeps its error. A simulated person hears the script in every turn.
    """
    is_checked = end.status in (ItemStatus.SCORED, ItemStatus.FAILED) and case.user is None
    if case.allow_unused_provider_script or not is_checked:
        return end
    scripts = [case.provider_script, *(it.provider_script for it in case.continued_turns)]
    for turn, (script, recording) in enumerate(zip(scripts, recordings, strict=False), start=1):
        unused = _count_unused(script, recording)
        if unused:
            where = f" of turn {turn}" if len(scripts) > 1 else ""
            problem = f"{unused} of the {len(script)} scripted answers{where} were not asked for"
            error = end.error or f"{SCRIPT_UNUSED}: {problem}; or set allow_unused_provider_script"
            return msgspec.structs.replace(
                end, status=ItemStatus.FAILED, error=error, has_unused_script=True
            )
    return end


def _count_unused(script: Sequence[ScriptedTurn], recording: Recording) -> int:
    answers = [place for place, turn in enumerate(script) if turn.error is None]
    asked = sum(step.answer is not None for step in recording.steps)
    if asked < len(answers):
        return len(answers) - asked
    # Errors behind the last answer end a run, so one that has not failed has not met them.
    has_failed = isinstance(recording.run.termination, Failed)
    return 0 if has_failed else len(script) - (answers[-1] + 1 if answers else 0)


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
    *,
    expects_failure: bool = False,
) -> EvalItem:
    """Build the item of a sample; `expects_failure` says whether its scorers look for one."""
    run = None if outcome is None else outcome.recording.run
    can_expect = expects_failure and not end.has_unused_script
    status, scores = settle_scores(end.status, scores, can_expect=can_expect)
    made = EvalItem(
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
        weight=given.case.weight,
    )
    return made if outcome is None else _count_work(made, outcome.recording)


def _count_work(item: EvalItem, recording: Recording) -> EvalItem:
    """Return an item with what its models and tools did."""
    calls = [call for step in recording.steps for call in step.calls]
    failed = [it.tool for it in calls if it.result.status is ToolStatus.ERROR]
    is_failed = isinstance(recording.run.termination, Failed)
    lost = sum(step.answer is None and is_failed for step in recording.steps)
    return msgspec.structs.replace(
        item,
        calls=tuple(it.tool for it in calls[:CALLS_MAX]),
        failed_calls=tuple(failed[:CALLS_MAX]),
        agent_id=recording.run.agent_id,
        inferences=sum(step.answer is not None for step in recording.steps),
        failed_inferences=lost + sum(step.attempts - 1 for step in recording.steps),
    )


def settle_scores(
    status: ItemStatus, scores: tuple[Score, ...], *, can_expect: bool
) -> tuple[ItemStatus, tuple[Score, ...]]:
    """Return what became of a sample, and the scores that count; `can_expect` a failure."""
    # An agent that fails as its case expects has done what it should. Scorers that do not look at
    # the end pass a run that said nothing wrong before it failed: they do not count here.
    is_passed = bool(scores) and all(it.passed for it in scores)
    if status is ItemStatus.FAILED and is_passed and can_expect:
        return ItemStatus.SCORED, scores
    if status is ItemStatus.SCORED:
        return status, scores
    # What passes only because nothing was said counts as nothing.
    return status, tuple(it for it in scores if it.passed is False)


def name_unscored(item: EvalItem, specs: Iterable[ScorerSpec]) -> EvalItem:
    """Return an item that names every scorer of its case by which its failed sample fails."""
    if item.status is ItemStatus.SCORED or item.status.is_missing:
        return item
    given = {it.name for it in item.scores}
    names = tuple(it.shown_name for it in specs if it.shown_name not in given)
    return msgspec.structs.replace(item, unscored=names)


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
