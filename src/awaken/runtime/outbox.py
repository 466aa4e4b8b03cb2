"""The outbox commands that a run writes when it ends or begins to wait.

They are part of the commit that ends the run. So they are sent no matter which process wrote that
commit: the one that executed the run, or one that ended it by force.
"""

from collections.abc import Iterable

from awaken.contracts.identity import derive_id
from awaken.contracts.lifecycle import Blocked, Cancelled, Failed, Stopped
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.dispatch import RunDispatch
from awaken.contracts.storage.outbox import (
    AbortRemote,
    QueueRun,
    ReportToParent,
    StopChildren,
    build_end_notice,
    entry_of,
)
from awaken.contracts.storage.store import OutboxEntry
from awaken.contracts.suspension.tickets import Ticket

DELEGATE_TICKET = "delegate_run:"
"""Prefix of the topic of a question that waits for a delegate's run."""


def list_commands_at_end(
    record: RunRecord, *, may_have_children: bool, is_remote: bool = False
) -> list[OutboxEntry]:
    """Return the commands that follow from the end of a run; `record` is its last one."""
    run_id, termination = record.run_id, record.termination
    found = []
    if record.parent_thread_id and record.parent_run_id:
        found.append(build_end_notice(record))
    is_broken = isinstance(termination, Cancelled | Failed | Stopped | Blocked)
    if is_broken and may_have_children:
        order = StopChildren(thread_id=record.thread_id, run_id=run_id)
        found.append(entry_of(order, derive_id(run_id, "stop_children")))
    if is_remote:
        abort = AbortRemote(thread_id=record.thread_id, run_id=run_id, agent_id=record.agent_id)
        found.append(entry_of(abort, derive_id(run_id, "abort")))
    return found


def list_successors(
    dispatches: Iterable[RunDispatch], thread_id: str
) -> tuple[tuple[RunDispatch, ...], list[OutboxEntry]]:
    """Divide the runs that follow a run: those of its thread, and the orders for other threads."""
    own, orders = list[RunDispatch](), list[OutboxEntry]()
    for dispatch in dispatches:
        if dispatch.thread_id == thread_id:
            own.append(dispatch)
        else:
            orders.append(entry_of(QueueRun(dispatch=dispatch), dispatch.dispatch_id))
    return tuple(own), orders


def list_commands_at_rest(record: RunRecord, tickets: Iterable[Ticket]) -> list[OutboxEntry]:
    """Return commands that check the delegates of a waiting run, which may have ended meanwhile."""
    return [
        entry_of(
            ReportToParent(
                parent_thread_id=record.thread_id,
                parent_run_id=record.run_id,
                child_run_id=child_run_id,
            ),
            derive_id(ticket.ticket_id, "report"),
        )
        for ticket in tickets
        if (child_run_id := delegate_of(ticket)) is not None
    ]


def delegate_of(ticket: Ticket) -> str | None:
    """Return the run id of the delegate that a suspended call waits for, if it waits for one."""
    wanted = ticket.question[2]
    return wanted.removeprefix(DELEGATE_TICKET) if wanted.startswith(DELEGATE_TICKET) else None
