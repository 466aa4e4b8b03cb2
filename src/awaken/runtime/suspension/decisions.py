"""Taking decisions: each is written to its ticket in the store, and only there.

Several processes may take decisions while another executes the run. The store accepts exactly one
decision for a ticket, in the same transaction as the dispatch that continues the run. The decision
that was acknowledged is the one that the run finds at its ticket.
"""

from collections.abc import Sequence

import msgspec

from awaken.contracts.clock import Clock
from awaken.contracts.errors import LimitExceeded
from awaken.contracts.runs.records import RunRequest
from awaken.contracts.storage.dispatch import InputMode, RunDispatch
from awaken.contracts.storage.store import Store
from awaken.contracts.suspension.tickets import DecisionReceipt, Ticket, ToolCallResume
from awaken.contracts.suspension.verdicts import read_decision

from .dispatch_plan import Decision
from .resume import check_decision, stamp_decision

_WORKFLOW = "workflow:"
_ENVELOPE_BYTES = 10_000
"""What the answer of a step has besides the decision."""
Named = tuple[Ticket, ToolCallResume]
"""A decision with the ticket that it names."""


async def write_decisions(
    store: Store, clock: Clock, named: Sequence[Named], then: RunDispatch
) -> RunDispatch | None:
    """Check decisions on tickets of one run, write them, all or none, and queue the run.

    Returns the dispatch that continues the run, or None when all were taken before.

    Raises:
        AlreadyDecided: A ticket was decided otherwise, closed, or has expired, or its run is
            being cancelled.
        InvalidInput: A decision does not fit its ticket.
        LimitExceeded: It is larger than what a step of a workflow may keep.
    """
    # Processes that share a store use its clock, so that a deadline is the same for all of them.
    now = await store.now_ms() if store.is_shared else clock.now_ms()
    read = [(ticket, read_decision(ticket, given)) for ticket, given in named]
    for ticket, given in read:
        if ticket.suspension.action.startswith(_WORKFLOW):
            _check_size(given)
    fresh = [
        (ticket.ticket_id, stamp_decision(given, now))
        for ticket, given in read
        if check_decision(ticket, given, now)
    ]
    if not fresh:
        return None
    request = msgspec.structs.replace(then.request, decisions=tuple(fresh))
    queued = msgspec.structs.replace(then, request=request)
    return await store.decide(then.thread_id, then.run_id, fresh, queued)


def _check_size(given: ToolCallResume) -> None:
    """Refuse a decision that would end the workflow which waits for it: the ticket stays open."""
    # Few programs have workflows.
    from awaken.contracts.workflows.steps import RESULT_BYTES  # noqa: PLC0415

    size, limit = len(msgspec.json.encode(given)), RESULT_BYTES - _ENVELOPE_BYTES
    if size > limit:
        raise LimitExceeded(what="The decision in bytes", size=size, limit=limit)


def build_resume_dispatch(
    request: RunRequest, dispatch_id: str, max_attempts: int = 5
) -> RunDispatch:
    """The dispatch that continues a run after its tickets are decided."""
    return RunDispatch(
        dispatch_id=dispatch_id,
        thread_id=request.thread_id or "",
        run_id=request.continue_run_id or "",
        request=msgspec.structs.replace(request, dispatch_id=dispatch_id),
        mode=InputMode.RESUME,
        max_attempts=max_attempts,
    )


def receipts_of(first: Ticket, decisions: Sequence[Decision]) -> tuple[DecisionReceipt, ...]:
    """The receipts for the caller who decided on tickets of one run."""
    return tuple(
        DecisionReceipt(
            ticket_id=ticket_id,
            run_id=first.run_id,
            thread_id=first.thread_id,
            decision_id=given.decision_id,
        )
        for ticket_id, given in decisions
    )
