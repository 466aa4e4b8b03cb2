"""From the result of a step to the exception that its workflow sees."""

import msgspec

from awaken.contracts.errors import AwakenError
from awaken.contracts.tool_results import ToolResult, ToolStatus
from awaken.contracts.tools.tool import ToolEffect, ToolOutput
from awaken.contracts.workflows.errors import (
    OutcomeUnknown,
    ResultTooLarge,
    StepBlocked,
    StepDeclined,
    StepFailed,
    StepTimedOut,
    WorkflowMisuse,
)

from .step_journal import WorkflowStep

WORKFLOW_FAILED = "workflow_failed"
"""The code of a workflow whose code raised something that the runtime does not know."""
DECLINED = "declined"
TIMED_OUT = "timed_out"
ONCE_TIMEOUT = "once_timeout"
"""A `once` call that took too long: it may have taken effect, and is not tried again."""
TOO_LARGE = "step_result_too_large"
_CLASSES: dict[str, type[StepFailed]] = {
    "outcome_unknown": OutcomeUnknown,
    "tool_timeout": StepTimedOut,
    ONCE_TIMEOUT: StepTimedOut,
    TIMED_OUT: StepTimedOut,
    DECLINED: StepDeclined,
    "blocked": StepBlocked,
    TOO_LARGE: ResultTooLarge,
}


def raise_failure(step: WorkflowStep, result: ToolResult) -> None:
    """Raise the exception of a failed step.

    Raises:
        StepFailed: The step failed.
    """
    if result.status is not ToolStatus.ERROR:
        return
    code = result.error_class
    kind = _CLASSES.get(code, StepFailed)
    problem = result.message or code
    raise kind(step=step.path, name=step.name, problem=problem, cause_code=code)


def can_retry(error: StepFailed) -> bool:
    """Whether a step may be tried again: a person's no and a fault of the call stay what they are.

    So does a `once` call that may have taken effect.
    """
    if isinstance(error, StepDeclined | StepBlocked | ResultTooLarge | OutcomeUnknown):
        return False
    return error.cause_code not in ("invalid_arguments", "tool_not_found", ONCE_TIMEOUT)


def explain_timeout(result: ToolResult, effect: ToolEffect, timeout_ms: int | None) -> ToolOutput:
    """Name the time that the step gave the call; a `once` call may have taken effect."""
    if timeout_ms is not None:
        result = msgspec.structs.replace(result, message=f"no result within {timeout_ms} ms")
    if effect is ToolEffect.ONCE:
        metadata = {**result.metadata, "code": ONCE_TIMEOUT}
        result = msgspec.structs.replace(result, metadata=metadata)
    return ToolOutput(result=result)


def find_misuse(error: BaseException) -> WorkflowMisuse | None:
    """Return what a workflow was refused for, also from inside of a group."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(find_misuse, error.exceptions)), None)
    return error if isinstance(error, WorkflowMisuse) else None


def name_failure(error: BaseException) -> str:
    """Return the code of the end of a workflow that raised an error."""
    cause = find_misuse(error) or error
    return cause.code if isinstance(cause, AwakenError) else WORKFLOW_FAILED
