"""The calls, runs and texts of a recording, as scorers read them."""

from collections.abc import Iterator

from awaken.contracts.evals.recordings import RecordedCall, Recording
from awaken.contracts.evals.scores import Outcome
from awaken.contracts.suspension.tickets import ToolCallOutcome
from awaken.contracts.tool_results import ToolStatus

from .marks import CannotScore

NOT_REACHED = frozenset(
    {"blocked", "guardrail", "invalid_arguments", "tool_denied", "tool_disabled", "tool_not_found"}
)
"""The codes of results that the runtime gives instead of running the tool."""


def read_recording(outcome: Outcome) -> Recording:
    """The recording, if it is whole: what is missing could be what a scorer looks for.

    Raises:
        CannotScore: Parts of the run are not in it.
    """
    if missing := outcome.recording.incomplete:
        problem = f"the recording is incomplete: {'; '.join(missing)[:200]}"
        raise CannotScore(problem)
    return outcome.recording


def list_calls(outcome: Outcome) -> list[RecordedCall]:
    """The calls of the run itself, in order."""
    return [call for step in read_recording(outcome).steps for call in step.calls]


def list_all_calls(outcome: Outcome) -> list[RecordedCall]:
    """The calls of the run and of every run that it started."""
    return [
        call
        for it in list_runs(read_recording(outcome))
        for step in it.steps
        for call in step.calls
    ]


def list_runs(recording: Recording) -> Iterator[Recording]:
    """The run and every run below it.

    Raises:
        CannotScore: One of them is not recorded whole.
    """
    waiting = [recording]
    while waiting:
        one = waiting.pop()
        if one.incomplete:
            problem = f"the recording of run '{one.run.run_id}' is incomplete"
            raise CannotScore(problem)
        yield one
        waiting += [child for step in one.steps for child in step.children]


def has_run(call: RecordedCall) -> bool:
    """Whether the tool's code was reached; a call that waits or was refused did not reach it."""
    if call.outcome is ToolCallOutcome.SUSPENDED:
        return False
    result = call.result
    return result.status is not ToolStatus.ERROR or result.error_class not in NOT_REACHED
