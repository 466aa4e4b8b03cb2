"""Samples of later variants beside the first variant's sample of the same case and repeat."""

from collections.abc import Sequence

import msgspec

from awaken.contracts.errors import AwakenError
from awaken.contracts.evals.eval_runs import EvalItem, ItemStatus
from awaken.contracts.evals.scores import Outcome, Score, Scorer
from awaken.scoring.judged import compares_variants

from .outcomes import TEXT_CHARS
from .recording import Recorder


async def add_other(outcome: Outcome, lead: EvalItem | None, recorder: Recorder) -> Outcome:
    """Return an outcome with the answer of the first variant, or with why there is none."""
    text, problem = await _read_answer(lead, recorder)
    return msgspec.structs.replace(outcome, other=text, other_problem=problem)


async def _read_answer(lead: EvalItem | None, recorder: Recorder) -> tuple[str | None, str]:
    if lead is None:
        return None, "the first variant has no sample of this case and repeat"
    if lead.status is not ItemStatus.SCORED or lead.run_id is None:
        return None, f"the sample of variant '{lead.variant}' to compare with is {lead.status}"
    if len(lead.text) < TEXT_CHARS:
        return lead.text, ""
    try:
        # An item keeps the beginning of a long answer.
        recording = await recorder.record(lead.run_id)
    except AwakenError as error:
        problem = str(error).rstrip(".")
        return None, f"the long answer of variant '{lead.variant}' is gone: {problem}"
    return recording.run.final_output or "", ""


async def score_pair(scorers: Sequence[Scorer], outcome: Outcome, lead: str) -> tuple[Score, ...]:
    """Score an outcome; scores that compare name the variant that they compare with."""
    scores = []
    for it in scorers:
        score = await it.score(outcome)
        is_compared = compares_variants(it.spec)
        scores.append(msgspec.structs.replace(score, against=lead) if is_compared else score)
    return tuple(scores)
