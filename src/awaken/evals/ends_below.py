"""How the runs below a sample ended: what a run above caught decides the sample all the same.

A workflow may catch the error of a call, and a model may answer although its delegate failed. What
came of it says nothing about the agent if the call had no recorded answer, the budget of the eval
was used up, or a provider failed.
"""

from collections.abc import Iterator, Sequence

import msgspec

from awaken.contracts.evals.errors import ReplayDiverged
from awaken.contracts.evals.eval_runs import EvalMode, ItemStatus
from awaken.contracts.evals.recordings import Recording
from awaken.contracts.tool_results import ToolStatus

from .sampling import SampleEnd, classify_termination

_GRAVEST = (ItemStatus.DIVERGED, ItemStatus.CUT, ItemStatus.INFRA_ERROR)
_OPEN = (ItemStatus.SCORED, ItemStatus.FAILED)


def check_below(end: SampleEnd, recordings: Sequence[Recording], mode: EvalMode) -> SampleEnd:
    """Return how a sample ended, with what happened in its calls and in the runs below it."""
    if end.status not in _OPEN:
        return end
    found = [it for recording in recordings for it in _list_ends(recording, mode)]
    for status in _GRAVEST:
        for it in found:
            if it.status is status:
                has_begun = any(map(_has_asked, recordings))
                return msgspec.structs.replace(
                    end, status=status, error=it.error, has_begun=has_begun
                )
    return end


def _list_ends(recording: Recording, mode: EvalMode) -> Iterator[SampleEnd]:
    for step in recording.steps:
        for call in step.calls:
            is_error = call.result.status is ToolStatus.ERROR
            if is_error and call.result.error_class == ReplayDiverged.code:
                error = call.result.message
                yield SampleEnd(status=ItemStatus.DIVERGED, error=f"{ReplayDiverged.code}: {error}")
        for child in step.children:
            yield from _list_ends(child, mode)
    yield classify_termination(recording.run.termination, mode)


def _has_asked(recording: Recording) -> bool:
    """Whether a model was asked in a run or below it."""
    return any(step.model or any(map(_has_asked, step.children)) for step in recording.steps)
