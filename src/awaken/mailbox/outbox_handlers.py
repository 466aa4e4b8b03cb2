"""How each order of a commit is carried out. Every handler is idempotent."""

import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial

import msgspec

from awaken.contracts.errors import AlreadyDecided, UnknownRun, UnknownThread, UnknownTicket
from awaken.contracts.identity import RunMode, RunOrigin, derive_id
from awaken.contracts.lifecycle import TicketStatus
from awaken.contracts.messages.inbox import inbox_messages
from awaken.contracts.messages.message import Message, SenderKind
from awaken.contracts.runs.records import RunRecord, RunRequest
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.dispatch import InputMode, RunDispatch
from awaken.contracts.storage.outbox import (
    AbortRemote,
    OutboxCommand,
    QueueRun,
    ReportToParent,
    StopChildren,
    ThreadMessage,
)
from awaken.contracts.storage.queries import LIMIT_MAX, DispatchQuery, Order, RunQuery, at_cursor
from awaken.contracts.suspension.tickets import ToolCallResume
from awaken.contracts.tasks import PARENT, TaskFate
from awaken.contracts.tenancy import namespace_in
from awaken.runtime.children.child_threads import threads_below
from awaken.runtime.outbox import delegate_of
from awaken.runtime.tools.delegate_tickets import load_deleted_child, report_end

from .mailbox import Mailbox
from .submissions import (
    OUTBOX_KEY,
    PRIORITY_MAX,
    Delivery,
    check_submission,
    digest,
)

Abort = Callable[[AbortRemote], Awaitable[None]]
CancelRun = Callable[[str], Awaitable[bool]]
Decide = Callable[[Sequence[tuple[str, ToolCallResume]]], Awaitable[object]]
OnQueued = Callable[[str], None]


class OutboxHandlers:
    """Carries out orders, whichever process executes the runs that they concern."""

    def __init__(
        self,
        mailbox: Mailbox,
        abort: Abort,
        *,
        cancel_run: CancelRun | None = None,
        decide: Decide | None = None,
        on_queued: OnQueued = lambda _thread_id: None,
    ) -> None:
        self._services = mailbox.services
        self._store = mailbox.services.store
        self._abort = abort
        self._cancel_run = cancel_run or partial(mailbox.cancel_run, cause=PARENT)
        self._decide = decide or mailbox.decide
        self._on_queued = on_queued
        """Called with the id of a thread that has new work, besides the signal to all processes."""

    async def carry_out(self, entry_id: str, order: OutboxCommand) -> bool:
        """Carry out an order; its run or thread may have ended or been deleted meanwhile.

        Returns False if the order has to stay in the outbox, although nothing failed.

        Raises:
            UnknownThread: A message is for a thread that does not exist or belongs to another
                tenant, or an agent's message is for a thread that only other users have used.
            InvalidInput: A message cannot be read.
            AwakenError: The command cannot be executed now, or never can be.
        """
        match order:
            case ThreadMessage():
                await self._deliver(entry_id, order)
            case ReportToParent():
                return await self._report(order)
            case StopChildren(child_run_id=str(only)):
                await self._cancel_run(only)
            case StopChildren():
                await self._stop_children(order)
            case AbortRemote():
                await self._abort(order)
            case QueueRun():
                await self._queue(order.dispatch)
        return True

    async def _queue(self, dispatch: RunDispatch) -> None:
        # Its order was written before it was known what waits there.
        queued = await self._store.enqueue(dispatch, backlog_max=sys.maxsize)
        self._services.announce_queued(queued)
        self._on_queued(queued.thread_id)

    async def _deliver(self, entry_id: str, message: ThreadMessage) -> None:
        config = self._services.config
        dispatch = _make_dispatch(entry_id, message, config.max_attempts)
        # A thread is created only if an agent is named: without one no run could read the message.
        if message.agent_id is None and await self._store.load_thread(message.thread_id) is None:
            raise UnknownThread(thread_id=message.thread_id)
        if _is_from(SenderKind.AGENT, dispatch) and not await self._may_write(message):
            raise UnknownThread(thread_id=message.thread_id)
        if message.run_id is None and _is_from(SenderKind.TASK, dispatch):
            dispatch = await self._keep_from_beginning_workflow(dispatch)
        # The limits of tasks bound the number of their ends; a refused end would be lost.
        is_end = all(it.sender is not None and it.sender.is_end for it in dispatch.request.messages)
        backlog_max = sys.maxsize if is_end else config.thread_backlog
        queued = await self._store.enqueue(dispatch, backlog_max=backlog_max)
        self._services.announce_queued(queued)
        self._on_queued(queued.thread_id)

    async def _keep_from_beginning_workflow(self, dispatch: RunDispatch) -> RunDispatch:
        """Deliver the news of a task into the workflow that it is for, and into nothing else.

        They are no arguments: a workflow that had ended would begin again, and start its task
        again, without an end.
        """
        query = RunQuery(thread_id=dispatch.thread_id, order=Order.DESC, limit=1)
        for newest in (await self._store.list_runs(query)).items:
            if newest.is_workflow:
                request = msgspec.structs.replace(dispatch.request, continue_run_id=newest.run_id)
                return msgspec.structs.replace(dispatch, request=request, run_id=newest.run_id)
        return dispatch

    async def _may_write(self, message: ThreadMessage) -> bool:
        """Whether the sender's user has runs on the thread, or no user has."""
        if message.user_id is None:
            return True
        query = RunQuery(thread_id=message.thread_id, limit=LIMIT_MAX)
        users: set[str | None] = set()
        while message.user_id not in users:
            page = await self._store.list_runs(query)
            users.update(run.user_id for run in page.items)
            if page.damaged:
                # A run that cannot be read may be another user's.
                users.add("")
            if page.next_cursor is None:
                break
            query = at_cursor(query, page.next_cursor)
        return message.user_id in users or users <= {None}

    async def _report(self, order: ReportToParent) -> bool:
        """Continue the calls that wait for a child which has ended.

        The report of a deleted child stays until a call has taken it or the parent run has ended.
        """
        child_id = order.child_run_id
        child = await self._store.load_run(child_id)
        if child is not None and not child.status.is_terminal:
            return True
        # A parent may be checked by an order that was written before the child was deleted.
        deleted = order.child or await load_deleted_child(self._store, child_id)
        decision = report_end(child_id, None if child is not None else deleted)
        tickets = await self._store.list_run_tickets(order.parent_thread_id, order.parent_run_id)
        is_taken = order.child is None
        for ticket in tickets:
            if ticket.status is TicketStatus.OPEN and delegate_of(ticket) == child_id:
                # Decided or deleted meanwhile: then no run waits for it.
                with suppress(AlreadyDecided, UnknownTicket, UnknownRun):
                    await self._decide([(ticket.ticket_id, decision)])
                    self._on_queued(order.parent_thread_id)
                    is_taken = True
        if is_taken:
            return True
        parent = await self._store.load_run(order.parent_run_id)
        return parent is None or parent.status.is_terminal

    async def _stop_children(self, order: StopChildren) -> None:
        for thread in await threads_below(self._store, order.thread_id):
            for run_id, child in await self._list_open_runs(thread):
                is_cascaded = child.task is None or child.task.fate is TaskFate.CASCADE
                if child.parent_run_id == order.run_id and is_cascaded:
                    await self._cancel_run(run_id)

    async def _list_open_runs(self, thread: Thread) -> list[tuple[str, RunRecord | RunRequest]]:
        """List the runs of a child's thread that can be cancelled: open, or not yet begun."""
        if thread.open_run_id is not None:
            run = await self._store.load_run(thread.open_run_id)
            return [] if run is None else [(run.run_id, run)]
        if thread.latest_run_id is not None:
            # Every child has its own thread, and the run of this one has ended.
            return []
        query = DispatchQuery(thread_id=thread.id, limit=LIMIT_MAX)
        sent = (await self._store.list_dispatches(query)).items
        return [(it.run_id, it.request) for it in sent if not it.status.is_terminal]


def _is_from(kind: SenderKind, dispatch: RunDispatch) -> bool:
    senders = (it.sender for it in dispatch.request.messages)
    return any(it is not None and it.kind is kind for it in senders)


def _make_dispatch(entry_id: str, message: ThreadMessage, max_attempts: int) -> RunDispatch:
    """Make the dispatch of a message; its id depends only on the entry, so that it is sent once.

    Raises:
        InvalidInput: The message cannot be read, or an id is malformed.
        LimitExceeded: A message is too large.
    """
    request = RunRequest(
        thread_id=message.thread_id,
        agent_id=message.agent_id,
        tenant_id=message.tenant_id,
        user_id=message.user_id,
        messages=_assign_ids(entry_id, inbox_messages(message.payload)),
        origin=RunOrigin.INTERNAL,
        run_mode=RunMode.INTERNAL_WAKE,
        continue_run_id=message.run_id,
        dispatch_id=entry_id,
    )
    check_submission(request, Delivery(mode=InputMode.STEER))
    return RunDispatch(
        dispatch_id=entry_id,
        thread_id=message.thread_id,
        run_id=message.run_id or namespace_in(message.thread_id) + derive_id(entry_id, "run"),
        request=request,
        mode=InputMode.STEER,
        # Input of people goes first; the run that it starts takes in this message too.
        priority=PRIORITY_MAX,
        dedupe_key=f"{OUTBOX_KEY}{entry_id}",
        request_hash=digest(message),
        max_attempts=max_attempts,
    )


def _assign_ids(entry_id: str, messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Give the first message the id of the entry, and the others ids derived from it."""
    return tuple(
        msgspec.structs.replace(message, id=derive_id(entry_id, str(n)) if n else entry_id)
        for n, message in enumerate(messages)
    )
