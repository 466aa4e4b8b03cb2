"""Outbox commands: what a commit requests outside of its thread, sent once it succeeded.

Each command is an outbox entry of the commit. The relay executes it at least once, and every
command is idempotent.
"""

from typing import Any, get_args

import msgspec

from awaken.contracts.errors import CorruptRecord
from awaken.contracts.identity import derive_id
from awaken.contracts.lifecycle import Blocked, Cancelled, Failed, RunStatus, Stopped
from awaken.contracts.messages.inbox import TaskEnded
from awaken.contracts.record import Record
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.tasks import PARENT, SUB_AGENT, TaskStatus, task_status

from .dispatch import RunDispatch
from .store import OutboxEntry

REPORT_CHARS = 100_000
"""How much of a text the owner of a task receives; the task's record has all of it."""
THREAD_DELETED = "thread_deleted"
"""The error code of a run that ended because its thread was deleted."""


class ThreadMessage(Record, frozen=True, kw_only=True, tag_field="order", tag="letter"):
    """Deliver an inbox payload to a thread: into its run, or as a new run."""

    thread_id: str
    payload: Any
    agent_id: str | None = None
    """The agent that should read it; absent: the thread's agent."""
    tenant_id: str | None = None
    user_id: str | None = None
    """The user of the sending run; a run that the message starts belongs to the same user."""
    sender_thread_id: str | None = None
    run_id: str | None = None
    """Deliver only into this run; once it has ended, the message is dropped."""


class ReportToParent(Record, frozen=True, kw_only=True, tag_field="order", tag="report"):
    """Continue a parent that waits for a child, if the child has ended."""

    parent_thread_id: str
    parent_run_id: str
    child_run_id: str
    child: RunRecord | None = None
    """The last record of a child whose thread was deleted; absent: the store has the child.

    Such a report stays in the outbox until a call has taken it or the parent run has ended: a
    parent that is executed again finds it there, and does not start the child a second time.
    """


class StopChildren(Record, frozen=True, kw_only=True, tag_field="order", tag="stop_children"):
    """Cancel the children of an ended run: its delegates, and the tasks bound to it."""

    thread_id: str
    run_id: str
    child_run_id: str | None = None
    """Only this child; absent: all children."""


class AbortRemote(Record, frozen=True, kw_only=True, tag_field="order", tag="abort_remote"):
    """Cancel the work that an ended run had started at a remote backend."""

    thread_id: str
    run_id: str
    agent_id: str


class QueueRun(Record, frozen=True, kw_only=True, tag_field="order", tag="queue_run"):
    """Queue a run on another thread; a commit itself queues on its own thread only."""

    dispatch: RunDispatch


OutboxCommand = ThreadMessage | ReportToParent | StopChildren | AbortRemote | QueueRun
COMMAND_KINDS = frozenset(it.__struct_config__.tag for it in get_args(OutboxCommand))
"""The kinds of entries that this version can execute; a newer one may have written others."""


def decode_command(payload: Any) -> OutboxCommand:
    """Decode the command of an outbox entry.

    Raises:
        CorruptRecord: The entry has no known form.
    """
    try:
        order: OutboxCommand = msgspec.convert(payload, OutboxCommand)
    except msgspec.ValidationError as error:
        raise CorruptRecord(what="An outbox entry", problem=str(error)) from error
    return order


def entry_of(order: OutboxCommand, entry_id: str) -> OutboxEntry:
    """Return the outbox entry that carries a command."""
    data = msgspec.to_builtins(order)
    return OutboxEntry(entry_id=entry_id, kind=str(data["order"]), payload=data)


def end_message_id(run_id: str) -> str:
    """Return the id of the end message of a run, which is also the id of its dispatch."""
    return derive_id(run_id, "ended")


def deletion_report_id(run_id: str) -> str:
    """Return the id of the report that a delegate was deleted.

    It is not that of the end: a relay that has just sent the end would delete the report with it.
    """
    return derive_id(run_id, "deleted")


def build_end_notice(record: RunRecord) -> OutboxEntry:
    """Build the notice of a run's end to the run or thread that started it."""
    command = _build_report(record) if record.task is None else _build_task_message(record)
    return entry_of(command, end_message_id(record.run_id))


def build_deletion_notice(record: RunRecord) -> OutboxEntry:
    """Build the notice that a run is deleted, from its last record.

    A report carries the record, because no store has it any more.
    """
    if record.task is not None:
        return build_end_notice(record)
    report = msgspec.structs.replace(_build_report(record), child=record)
    return entry_of(report, deletion_report_id(record.run_id))


def end_deleted_run(record: RunRecord, now_ms: int) -> RunRecord:
    """Return the last record of an open run whose thread is deleted; no store keeps it."""
    return msgspec.structs.replace(
        record,
        status=RunStatus.DONE,
        waiting=None,
        termination=Failed(message="The thread of the run was deleted.", code=THREAD_DELETED),
        bookmark=None,
        finished_at=now_ms,
        updated_at=now_ms,
    )


def _build_report(record: RunRecord) -> ReportToParent:
    return ReportToParent(
        parent_thread_id=record.parent_thread_id or "",
        parent_run_id=record.parent_run_id or "",
        child_run_id=record.run_id,
    )


def _build_task_message(record: RunRecord) -> ThreadMessage:
    assert record.task is not None
    assert record.termination is not None
    status = task_status(record.termination)
    return ThreadMessage(
        thread_id=record.parent_thread_id or "",
        tenant_id=record.tenant_id,
        user_id=record.user_id,
        sender_thread_id=record.thread_id,
        # A message that begins a run begins it in reality, and what is below a world never is.
        run_id=None if record.world is None else record.parent_run_id,
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
