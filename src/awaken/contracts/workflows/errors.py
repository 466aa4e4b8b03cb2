"""Errors of workflows: of their input, of a step, and of events that are sent to them."""

from awaken.contracts.errors import DedupeConflict, InvalidInput, RunError, UsageError


class WorkflowError(RunError):
    """A workflow, or a step of it, went wrong."""

    code = "workflow_error"


class InvalidWorkflowInput(UsageError):
    """The input is not what the workflow takes; no run began."""

    code = "invalid_workflow_input"
    template = "The input does not fit workflow '{workflow}': {problem}."
    workflow: str
    problem: str


class WorkflowResultInvalid(WorkflowError):
    """What the function returned is not of the type that it declares, or has no JSON form."""

    code = "workflow_result_invalid"
    template = "The result of workflow '{workflow}' does not fit: {problem}."
    workflow: str
    problem: str


class WorkflowMisuse(WorkflowError):
    """The context of a workflow was used in a way that could not be replayed."""

    code = "workflow_misuse"
    template = "{problem}"
    problem: str


class ValueTooLarge(WorkflowMisuse):
    """A value is larger than a journal keeps; nothing of it was written."""

    code = "workflow_value_too_large"
    template = (
        "{what} has {size} bytes, the limit is {limit}; keep the data elsewhere, and pass "
        "a reference to it{problem}."
    )
    what: str
    size: int
    limit: int
    problem: str = ""


class ForeignTask(WorkflowMisuse):
    """The context was used from a task that the workflow does not own."""

    code = "workflow_foreign_task"
    template = (
        "The context of workflow '{workflow}' was used from another task; run steps side by side "
        "with ctx.gather or ctx.race, not with asyncio{problem}."
    )
    workflow: str
    problem: str = ""


class TooManySteps(WorkflowError):
    """A run of the workflow has taken as many steps as it may."""

    code = "workflow_too_long"
    template = "The run has taken {limit} steps; begin a fresh one with ctx.continue_as_new(…)."
    limit: int


class StepFailed(WorkflowError):
    """A step failed; `code` of the cause is in `cause_code`."""

    code = "step_failed"
    template = "Step {step} ({name}) failed ({cause_code}): {problem}"
    step: str
    """The path of the step."""
    name: str
    problem: str
    cause_code: str = "tool_error"


class OutcomeUnknown(StepFailed):
    """The process stopped inside a `once` call; it may or may not have taken effect."""

    code = "outcome_unknown"
    template = "The outcome of step {step} ({name}) is unknown: {problem}"


class StepTimedOut(StepFailed):
    """A step took longer than its timeout, or no event came in time."""

    code = "step_timed_out"
    template = "Step {step} ({name}) timed out: {problem}"


class StepDeclined(StepFailed):
    """A person declined the call of a step."""

    code = "step_declined"
    template = "Step {step} ({name}) was declined: {problem}"


class StepBlocked(StepFailed):
    """A gate refused the call of a step."""

    code = "step_blocked"
    template = "Step {step} ({name}) was blocked: {problem}"


class ResultTooLarge(StepFailed):
    """The result of a step is larger than a journal keeps; it is never cut."""

    code = "step_result_too_large"
    template = "The result of step {step} ({name}) is too large: {problem}"


class EventInvalid(StepFailed):
    """The event that a step waited for does not fit its schema."""

    code = "event_invalid"
    template = "The event of step {step} ({name}) does not fit: {problem}"


class EventRefused(InvalidInput):
    """The event does not fit the schema of the step that waits for it; it was not kept."""

    code = "event_refused"
    template = "{what} does not fit: {problem}."


class TooManyEvents(UsageError):
    """As many events wait as a run keeps, and no step waits for this one; it was not kept."""

    code = "too_many_events"
    template = (
        "Run '{run_id}' has {count} events that no step has taken, the limit is {limit}; send the "
        "event when a step waits for it."
    )
    run_id: str
    count: int
    limit: int


class RunHasEnded(UsageError):
    """The run has ended and takes no more events."""

    code = "run_has_ended"
    template = "Run '{run_id}' has ended{problem}."
    run_id: str
    problem: str = ""


class RunStillQueued(UsageError):
    """The run is still queued: it takes events once it has begun."""

    code = "run_still_queued"
    retryable = True
    template = (
        "Run '{run_id}' is queued and has not begun; try again later, an event under the same id."
    )
    run_id: str


class EventIdReused(DedupeConflict):
    """The id of an event was used for another event of the run; this one was not kept."""

    template = (
        "The event_id '{dedupe_key}' was used for an event of run '{run_id}' with another payload; "
        "give a new event a new id."
    )
    run_id: str


class NotAWorkflow(UsageError):
    """The run is not a workflow's, so it has neither events nor steps to reset."""

    code = "not_a_workflow"
    template = "Run '{run_id}' is not a run of a workflow."
    run_id: str


class ResetRefused(UsageError):
    """The run cannot be reset to that step."""

    code = "reset_refused"
    template = "Run '{run_id}' cannot be reset to step {step}: {problem}."
    run_id: str
    step: str
    problem: str
