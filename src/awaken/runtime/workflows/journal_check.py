"""Whether the code of a workflow fits the journal of a run; nothing of it is executed."""

from functools import partial

import msgspec

from awaken.authoring.workflows import Workflow
from awaken.contracts.errors import AwakenError
from awaken.contracts.messages.message import Transcript
from awaken.contracts.runs.records import Divergence, RunRecord
from awaken.contracts.storage.store import Checkout, ToolRecord
from awaken.contracts.workflows.errors import InvalidWorkflowInput
from awaken.redaction import describe_error
from awaken.runtime.primitives.signals import WakeSignal

from .event_queue import find_input
from .flow import ContinueAsNew, Flow
from .step_journal import Diverged, find_arguments, find_first_identity

LOOKS = 50
LOOK_S = 0.1


class JournalReading(msgspec.Struct, frozen=True, kw_only=True):
    """What the code of a workflow did with a journal."""

    problem: str | None = None
    """Why code and journal do not fit; None if they do."""
    has_ended: bool = False
    """Whether the code came to its end; otherwise the journal ended first."""
    text: str | None = None
    """The text of its result."""
    error: BaseException | None = None
    """What it raised at its end."""


async def find_journal_problem(
    workflow: Workflow,
    record: RunRecord,
    checkout: Checkout,
    records: tuple[ToolRecord, ...],
) -> str | None:
    """Return why a run could not go on with this code, or None.

    Every step is answered from the journal. Where the journal ends, so does the check.
    """
    found = await read_journal(workflow, record, checkout, records)
    if found.problem is None and found.error is not None:
        return f"the workflow raised: {describe_error(found.error)}"
    return found.problem


async def read_journal(
    workflow: Workflow,
    record: RunRecord,
    checkout: Checkout,
    records: tuple[ToolRecord, ...],
    *,
    is_open: bool = True,
) -> JournalReading:
    """Enter the code of a workflow with a journal, and say what it did; nothing is executed.

    A run that is not open may have taken its last steps when it was cancelled: no code comes by
    them here.
    """
    try:
        arguments = workflow.read_arguments(find_input(record, Transcript(checkout.messages)))
    except InvalidWorkflowInput as error:
        return JournalReading(problem=str(error))
    identity = find_first_identity(record, record.identity)
    flow = Flow(workflow, records, identity, WakeSignal())
    flow.journal.recall = partial(find_arguments, checkout.messages, checkout.tickets)
    flow.enter(arguments)
    assert flow.root is not None
    try:
        looks = 0
        while not (flow.divergence or flow.fatal or flow.root.done() or flow.branches.is_idle):
            if looks >= LOOKS:
                return JournalReading(problem="the workflow waits for something that is no step")
            # Only in vain: a long journal may take many.
            looks += not await flow.branches.changed.wait(LOOK_S)
        if is_open and checkout.cancel_cause is None and not flow.root.done() and not flow.fatal:
            flow.check_replayed()
        return _describe(flow, workflow)
    finally:
        await flow.leave(LOOK_S)


def _describe(flow: Flow, workflow: Workflow) -> JournalReading:
    root, found = flow.root, flow.divergence
    assert root is not None
    if found is None and flow.fatal is not None:
        return JournalReading(problem=f"the workflow failed: {flow.fatal}")
    error: BaseException | None = None
    text: str | None = None
    has_ended = found is None and root.done() and not root.cancelled()
    if has_ended:
        error = root.exception() or flow.find_unawaited()
        try:
            flow.journal.check_all_seen()
            text = workflow.encode_result(root.result()) if error is None else None
        except Diverged as diverged:
            found = diverged.divergence
        except AwakenError as refusal:
            error = refusal
    if isinstance(error, ContinueAsNew | Diverged):
        error = None
    problem = None if found is None else describe_divergence(found)
    return JournalReading(problem=problem, has_ended=has_ended, text=text, error=error)


def describe_divergence(found: Divergence) -> str:
    """Describe where code and journal differ."""
    return f"step {found.step}: the journal has {found.recorded}, the code does {found.found}"
