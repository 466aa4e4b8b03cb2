"""The outbox commands that a run writes when it ends or begins to wait.

They are part of the commit that ends the run. So they are sent no matter which process wrote that
commit: the one that executed the run, or one that ended it by force.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from awaken.contracts.identity import derive_id
from awaken.contracts.lifecycle import Blocked, Cancelled, Failed, Stopped
from awaken.contracts.messages.inbox import TaskEnded
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.outbox import (
    AbortRemote,
    OutboxCommand,
    ReportToParent,
    StopChildren,
    ThreadMessage,
)
from awaken.contracts.storage.store import OutboxEntry
from awaken.contracts.suspension.tickets import Ticket
from awaken.contracts.tasks import PARENT, SUB_AGENT, TaskStatus, task_status

DELEGATE_TICKET = "delegate_run:"
"""Prefix of the topic of a question that waits for a delegate's run."""
REPORT_CHARS = 100_000
"""How much of a text the owner of a task receives; the task's record has all of it."""


def entry_of(order: OutboxCommand, entry_id: str) -> OutboxEntry:
    """Return the outbox entry that carries a command."""
    data = msgspec.to_builtins(order)
    return OutboxEntry(entry_id=entry_id, kind=str(data["order"]), payload=data)


def list_commands_at_end(
    record: RunRecord, *, may_have_children: bool, is_remote: bool = False
) -> list[OutboxEntry]:
    """Return the commands that follow from the end of a run; `record` is its last one."""
    run_id, termination = record.run_id, record.termination
    found = []
    if record.parent_thread_id and record.parent_run_id:
        found.append(entry_of(_build_end_notice(record), end_message_id(run_id)))
    is_broken = isinstance(termination, Cancelled | Failed | Stopped | Blocked)
    if is_broken and may_have_children:
        order = StopChildren(thread_id=record.thread_id, run_id=run_id)
        found.append(entry_of(order, derive_id(run_id, "stop_children")))
    if is_remote:
        abort = AbortRemote(thread_id=record.thread_id, run_id=run_id, agent_id=record.agent_id)
        found.append(entry_of(abort, derive_id(run_id, "abort")))
    return found


def end_message_id(run_id: str) -> str:
    """Return the id of the end message of a run, which is also the id of its dispatch."""
    return derive_id(run_id, "ended")


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


def _build_end_notice(record: RunRecord) -> OutboxCommand:
    """Build the end notice: a message to the owner of a task, a report to a delegating run."""
    if record.task is None:
        return ReportToParent(
            parent_thread_id=record.parent_thread_id or "",
            parent_run_id=record.parent_run_id or "",
            child_run_id=record.run_id,
        )
    assert record.termination is not None
    status = task_status(record.termination)
    return ThreadMessage(
        thread_id=record.parent_thread_id or "",
        tenant_id=record.tenant_id,
        user_id=record.user_id,
        sender_thread_id=record.thread_id,
        payload=msgspec.to_builtins(
            TaskEnded(
                task_id=record.run_id,
                status=status.value,
                name=record.task.name,
                result=_truncate_text(task_result(record)),
                error=_truncate_text(task_error(record, status)),
                is_quiet=record.termination == Cancelled(cause=PARENT),
                usage=record.usage if record.task.task_type == SUB_AGENT else None,
            )
        ),
    )


def _truncate_text(value: Any) -> Any:
    """Shorten a text to what a message may carry: a longer one would never be delivered."""
    if not isinstance(value, str) or len(value) <= REPORT_CHARS:
        return value
    return f"{value[:REPORT_CHARS]}\n[Cut: {len(value)} characters, {REPORT_CHARS} shown]"


def task_result(record: RunRecord) -> Any:
    """Return the result of a task: an agent's text, or a function's value."""
    text = record.final_output
    if text is None or record.task is None or record.task.task_type == SUB_AGENT:
        return text
    return msgspec.json.decode(text)


def task_error(record: RunRecord, status: TaskStatus) -> str | None:
    """Return why a task did not complete, or None."""
    match record.termination:
        case Failed(message=message):
            return message
        case Stopped(reason=reason):
            return reason.detail or reason.code
        case Blocked(reason=text):
            return text
        case _:
            return None if status is TaskStatus.COMPLETED else status.value
