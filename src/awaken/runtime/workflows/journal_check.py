"""Whether the code of a workflow fits the journal of a run; nothing of it is executed."""

from functools import partial

from awaken.authoring.workflows import Workflow
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


async def find_journal_problem(
    workflow: Workflow,
    record: RunRecord,
    checkout: Checkout,
    records: tuple[ToolRecord, ...],
    *,
    is_open: bool = True,
) -> str | None:
    """Return why a run could not go on with this code, or None.

    Every step is answered from the journal. Where the journal ends, so does the check. A run that
    is not open may have taken its last steps when it was cancelled: no code comes by them here.
    """
    try:
        arguments = workflow.read_arguments(find_input(record, Transcript(checkout.messages)))
    except InvalidWorkflowInput as error:
        return str(error)
    identity = find_first_identity(record, record.identity)
    flow = Flow(workflow, records, identity, WakeSignal())
    flow.journal.recall = partial(find_arguments, checkout.messages, checkout.tickets)
    flow.enter(arguments)
    assert flow.root is not None
    try:
        looks = 0
        while not (flow.divergence or flow.fatal or flow.root.done() or flow.branches.is_idle):
            if looks >= LOOKS:
                return "the workflow waits for something that is no step"
            # Only in vain: a long journal may take many.
            looks += not await flow.branches.changed.wait(LOOK_S)
        if is_open and checkout.cancel_cause is None and not flow.root.done() and not flow.fatal:
            flow.check_replayed()
        return _describe(flow)
    finally:
        await flow.leave(LOOK_S)


def _describe(flow: Flow) -> str | None:
    root, found = flow.root, flow.divergence
    assert root is not None
    if found is None and flow.fatal is not None:
        return f"the workflow failed: {flow.fatal}"
    if found is None and root.done() and not root.cancelled():
        error = root.exception()
        if error is not None and not isinstance(error, ContinueAsNew | Diverged):
            return f"the workflow raised: {describe_error(error)}"
        try:
            flow.journal.check_all_seen()
        except Diverged as diverged:
            found = diverged.divergence
    return None if found is None else describe_divergence(found)


def describe_divergence(found: Divergence) -> str:
    """Describe where code and journal differ."""
    return f"step {found.step}: the journal has {found.recorded}, the code does {found.found}"
