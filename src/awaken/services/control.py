"""Controls runs that execute in this process or another one, are queued, or have ended.

A run in this process is controlled directly. For every other run the command is written to the
store, where the process that executes the run finds it.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from awaken.contracts.errors import (
    AmbiguousId,
    DemoRecord,
    InvalidResume,
    NotServedHere,
    StorageError,
    ThreadBusy,
    UnknownRun,
)
from awaken.contracts.events import LoggedEvent, ends_run
from awaken.contracts.lifecycle import Cancelled, Failed, RunStatus, Termination, TicketStatus
from awaken.contracts.messages.message import Message
from awaken.contracts.resolver_errors import AgentResolverFailed
from awaken.contracts.runs.records import RunKind, RunRecord, RunRequest, RunResult, SteerReceipt
from awaken.contracts.runs.threads import DEMO_PREFIX
from awaken.contracts.storage.bus import Signal, SignalKind
from awaken.contracts.storage.dispatch import (
    DeliveryOptions,
    DispatchStatus,
    InputMode,
    RunDispatch,
)
from awaken.contracts.storage.mailbox import MailboxWatcher
from awaken.contracts.storage.store import EventStore
from awaken.contracts.suspension.tickets import DecisionReceipt, ToolCallResume
from awaken.mailbox.cancels import CancelTarget
from awaken.mailbox.mailbox import INTERRUPT, Mailbox
from awaken.mailbox.receipts import SubmitReceipt
from awaken.runtime.admission.active_runs import ActiveRun
from awaken.runtime.engine import RunEngine
from awaken.runtime.journal.leases import RunHandedOver
from awaken.runtime.outbox import delegate_of

logger = logging.getLogger(__name__)

IDLE_POLL_S = 2.0
"""The longest interval in which the store is asked for what a lost signal would have told."""
_AT_REST = (RunStatus.WAITING, RunStatus.DONE)


class RunControl:
    """Waits for runs, cancels, decides and steers them, wherever they are."""

    def __init__(
        self,
        engine: RunEngine,
        mailbox: Mailbox,
        on_queued: Callable[[], None],
        has_worker: Callable[[], bool] = lambda: False,
    ) -> None:
        self._engine = engine
        self._mailbox = mailbox
        self._on_queued = on_queued
        """Called when something was queued, so that a worker executes it."""
        self._has_worker = has_worker
        """Whether a worker of this process claims what is queued; then only it may start it."""
        self._store = engine.store

    @property
    def engine(self) -> RunEngine:
        """Executes the runs of this process."""
        return self._engine

    @property
    def mailbox(self) -> Mailbox:
        """The durable input of this process."""
        return self._mailbox

    def start_queued(self) -> None:
        """Let a worker execute what was queued."""
        self._on_queued()

    @property
    def mailbox_watchers(self) -> list[MailboxWatcher]:
        """The watchers that are notified of mailbox operations."""
        return self._mailbox.services.watchers

    async def wait(self, run_id: str, timeout_ms: int | None) -> RunResult:
        """Wait until a run ends or waits for a decision, whichever processes execute it.

        If another run took the input, its result is returned.

        Raises:
            UnknownRun: There is no such run.
            TimeoutError: It takes too long.
        """
        async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
            while True:
                taken_by = await self._wait_for_rest(run_id)
                try:
                    result = await self._engine.wait(taken_by)
                except UnknownRun:
                    return _build_undelivered_result(await self._dispatch(taken_by))
                except (StorageError, RunHandedOver):
                    if not self._store.is_shared:
                        raise
                    # This attempt is over, not the run: find out where the run is now.
                    await asyncio.sleep(0)
                    continue
                is_at_rest = result.status in _AT_REST and not result.awaits_tasks
                if is_at_rest or not (self._store.is_shared or result.awaits_tasks):
                    return result
                # An ended run leaves its slot in the next iteration of the event loop: without a
                # pause this loop would ask again and again, and no other task would ever run.
                await asyncio.sleep(0)

    async def record(self, run_id: str) -> RunRecord:
        """Load a run's record; for a queued run, the record that it will begin with.

        Raises:
            UnknownRun: There is no such run.
        """
        record = await self._store.load_run(run_id)
        if record is not None:
            return record
        dispatch = await self._dispatch(run_id)
        if dispatch.taken_by is not None:
            return await self.record(dispatch.taken_by)
        return _record_before_start(dispatch)

    async def submit(
        self, request: RunRequest, mode: InputMode, delivery: DeliveryOptions, asked: Any = None
    ) -> SubmitReceipt:
        """Send input to a thread; a run that executes in this process is notified at once.

        `asked` is the sender's own input, if the request was derived from the thread's state.
        """
        screened = await self._engine.screen_request(request)
        if asked is None and "dedupe_key" in delivery:
            # What screens do depends on the thread's current agent, so they are left out.
            asked = [mode, msgspec.structs.replace(request, trace=None)]
        receipt = await self._mailbox.submit(screened, mode=mode, asked=asked, **delivery)
        self._on_queued()
        active = self._engine.active.of_thread(receipt.thread_id)
        if active is None or receipt.mode is InputMode.QUEUE:
            return receipt
        # A run that is still being admitted may be the one that this input starts.
        is_other = active.run is not None and active.run_id != receipt.run_id
        is_unreachable = receipt.mode is InputMode.INTERRUPT and active.lease is None
        if is_unreachable and is_other and not receipt.is_duplicate:
            # A run without a claim does not read cancels from the store.
            await self._engine.cancel_active(active, INTERRUPT)
        active.notify_input()
        return receipt

    async def clear_thread(self, thread_id: str) -> bool:
        """Drop what a thread has queued, cancel its run in this process and wait for its end.

        Returns False, and changes nothing, if no run of it executes in this process, or one of a
        workflow does: what is said to that is an event.
        """
        active = self._engine.active.of_thread(thread_id)
        if active is None or (active.run is not None and active.run.record.is_workflow):
            return False
        if (await self._store.interrupt(thread_id, INTERRUPT)).superseded:
            await self.notify_changed(thread_id)
        await self._cancel_active(active, INTERRUPT)
        await active.released.wait()
        return True

    async def interrupt(self, thread_id: str) -> int | None:
        """Cancel the run of a thread and drop what is queued on it.

        Returns how many dispatches were dropped, or None when the thread had nothing to do.
        """
        thread = await self._store.load_thread(thread_id)
        active = self._engine.active.of_thread(thread_id)
        # Looked up first: a run that begins after the interrupt continues.
        run_id = active.run_id if active is not None else thread and thread.open_run_id
        interruption = await self._store.interrupt(thread_id, INTERRUPT)
        is_cancelled = bool(run_id) and await self.cancel_run(run_id or "")
        if interruption.superseded:
            await self.notify_changed(thread_id)
        if interruption.has_claim:
            self._mailbox.services.tell_holder(thread_id, interruption.holder)
        elif not (interruption.superseded or is_cancelled):
            return None
        return len(interruption.superseded)

    async def notify_changed(self, thread_id: str) -> None:
        """Notify all readers of a thread, in every process, that it may have changed."""
        self._mailbox.services.send_signal(SignalKind.RUN_CHANGED, thread_id)

    async def cancel_and_wait(self, id_: str, timeout_ms: int) -> bool:
        """Cancel, and wait for the end; False when there was nothing or it takes too long."""
        active = self._engine.active.find(id_)
        if active is None:
            thread = await self._store.load_thread(id_)
            run_id = (thread.open_run_id if thread is not None else None) or id_
            if not await self.cancel(id_):
                return False
        else:
            is_free = await self._engine.cancel_and_wait(active, timeout_ms)
            if not active.is_left:
                return is_free
            run_id = active.run_id
            await self._mailbox.cancel_run(run_id)
        try:
            await self.wait(run_id, timeout_ms)
        except TimeoutError:
            return False
        except UnknownRun:
            # Only queued input had that id: it never runs.
            return True
        return True

    async def cancel(self, id_: str) -> bool:
        """Cancel by run, thread or dispatch id; False when there is nothing to cancel.

        Only for callers that may cancel everything: clients choose the ids of threads and runs. An
        id that means two different runs cancels neither.
        """
        active = self._engine.active.find(id_)
        if active is not None:
            return await self._cancel_active(active)
        match await self._mailbox.find_cancel_target(id_):
            case CancelTarget.RUN:
                return await self.cancel_run(id_)
            case CancelTarget.THREAD:
                return await self.cancel_thread(id_)
            case _:
                return await self._mailbox.cancel(id_)

    async def cancel_run(self, run_id: str, cause: str = "user") -> bool:
        """Cancel a run, wherever it is; False when there is nothing to cancel."""
        if self._engine.tasks.cancel_function(run_id, cause):
            return True
        active = self._engine.active.of_run(run_id)
        if active is not None:
            return await self._cancel_active(active, cause)
        # A run whose agent this process does not have is ended through the store.
        with suppress(NotServedHere, AgentResolverFailed):
            if await self._engine.cancel_waiting(run_id, cause):
                return True
        return await self._mailbox.cancel_run(run_id, cause)

    async def cancel_thread(self, thread_id: str) -> bool:
        """Cancel a thread's open run, else what it has queued; False when it has neither."""
        active = self._engine.active.of_thread(thread_id)
        if active is not None:
            return await self._cancel_active(active)
        thread = await self._store.load_thread(thread_id)
        if thread is not None and thread.open_run_id is not None:
            return await self.cancel_run(thread.open_run_id)
        return await self._mailbox.cancel_thread(thread_id)

    async def _cancel_active(self, active: ActiveRun, cause: str = "user") -> bool:
        """Cancel a run of this process; one that another process took over is cancelled there."""
        if await self._engine.cancel_active(active, cause):
            return True
        if not (active.is_left or active.released.is_set()):
            return False
        if not active.run_id:
            return await self._mailbox.cancel_thread(active.thread_id, cause)
        return await self._mailbox.cancel_run(active.run_id, cause)

    async def decide(
        self, decisions: Sequence[tuple[str, ToolCallResume]]
    ) -> tuple[DecisionReceipt, ...]:
        """Store decisions on tickets of one run, all or none, and resume the run.

        Raises:
            UnknownTicket: A ticket does not exist, or belongs to another run than the first.
            AlreadyDecided: A ticket was decided differently or closed.
            DemoRecord: They are demo data.
        """
        receipts, queued = await self._mailbox.take_decisions(
            await self._screen_decisions(decisions)
        )
        if queued is not None and not await self._continue_here(queued):
            self._on_queued()
        return receipts

    async def _continue_here(self, queued: RunDispatch) -> bool:
        """Resume a decided run in this process; if False, the worker with its dispatch does."""
        if self._has_worker():
            active = self._engine.active.of_thread(queued.thread_id)
            if active is not None:
                active.notify_input()
            return False
        try:
            return await self._engine.go_on(queued)
        except (ThreadBusy, NotServedHere, AgentResolverFailed, InvalidResume):
            # Another process executes it, or this process does not have its agent.
            return False
        except StorageError as error:
            # The decision is durable, and so is the dispatch that resumes the run.
            logger.info("Run '%s' does not continue in this process: %s", queued.run_id, error)
            return False

    async def _screen_decisions(
        self, decisions: Sequence[tuple[str, ToolCallResume]]
    ) -> Sequence[tuple[str, ToolCallResume]]:
        """Pass decisions through the agent's screens before they are stored."""
        first = await self._store.find_ticket(decisions[0][0]) if decisions else None
        if first is None:
            return decisions
        if first.thread_id.startswith(DEMO_PREFIX):
            run = await self._store.load_run(first.run_id)
            if run is not None and run.purpose is RunKind.DEMO:
                raise DemoRecord(record_id=first.ticket_id)
        request = RunRequest(thread_id=first.thread_id, decisions=tuple(decisions))
        return (await self._engine.screen_request(request)).decisions

    async def steer(self, id_: str, messages: Sequence[Message]) -> SteerReceipt:
        """Send messages into a running run; it reads them before its next inference.

        Raises:
            AmbiguousId: The id is that of a run, and that of a thread with another run.
        """
        if not self._store.is_shared:
            return self._engine.steer(id_, messages)
        running = await self._find_running(id_)
        if running is None:
            return SteerReceipt(is_accepted=False)
        request = RunRequest(thread_id=running.thread_id, messages=tuple(messages))
        request = await self._engine.screen_request(request)
        receipt = await self._mailbox.submit(request, mode=InputMode.STEER)
        active = self._engine.active.of_run(running.run_id)
        if active is not None:
            active.notify_input()
        return SteerReceipt(
            is_accepted=True, run_id=running.run_id, message_ids=receipt.message_ids
        )

    async def _wait_for_rest(self, run_id: str) -> str:
        """Wait for a run that is queued or in another process; returns the run that took it."""
        changed = asyncio.Event()
        thread_id = await self._find_thread(run_id)

        def hear(signal: Signal) -> None:
            if signal.is_resting and signal.thread_id == thread_id:
                changed.set()

        bus = self._mailbox.services.bus
        stops = [bus.subscribe(hear)]
        if thread_id is not None:
            stops.append(bus.follow(thread_id))
        first = pause = self._mailbox.services.config.poll_ms / 1000
        try:
            while (became := await self.find_resting_run(run_id)) is None:
                # Signals may be lost, so the store is polled as well, ever more slowly.
                try:
                    async with asyncio.timeout(pause):
                        await changed.wait()
                    pause = first
                except TimeoutError:
                    pause = min(pause * 2, max(first, IDLE_POLL_S))
                changed.clear()
            return became
        finally:
            for stop in stops:
                stop()

    async def _find_thread(self, run_id: str) -> str | None:
        record = await self._store.load_run(run_id)
        if record is not None:
            return record.thread_id
        dispatch = await self._store.find_dispatch_of_run(run_id)
        return None if dispatch is None else dispatch.thread_id

    async def find_resting_run(self, run_id: str) -> str | None:
        """Find the run that has the result, or None while there is none yet.

        Raises:
            UnknownRun: There is no such run.
        """
        if self._engine.active.of_run(run_id) is not None:
            return run_id
        record = await self._store.load_run(run_id)
        if record is not None and record.status is not RunStatus.WAITING:
            # In a store that no other process sees, a run that does not execute here stays so.
            is_over = record.status is RunStatus.DONE or not self._store.is_shared
            return run_id if is_over else None
        dispatch = await self._store.find_dispatch_of_run(run_id)
        if record is None:
            if dispatch is None:
                raise UnknownRun(run_id=run_id)
            if dispatch.taken_by is not None:
                return await self.find_resting_run(dispatch.taken_by)
            return run_id if dispatch.status.is_terminal else None
        if record.awaits_tasks:
            # It waits only for its own tasks, and resumes by itself.
            return None
        # A decision or a message that was sent resumes it, and so does its delegate; but only a
        # person, or a process with other code, lets a held run go on.
        is_queued = dispatch is not None and not dispatch.status.is_terminal
        is_sent = is_queued and not record.is_held
        return None if is_sent or await self._has_busy_delegates(record) else run_id

    async def _has_busy_delegates(self, record: RunRecord) -> bool:
        """Whether a run waits only for delegates, and none of them waits for a decision."""
        tickets = await self._store.list_run_tickets(record.thread_id, record.run_id)
        delegates = [delegate_of(it) for it in tickets if it.status is TicketStatus.OPEN]
        return bool(delegates) and not any(
            [delegate is None or await self.is_waiting(delegate) for delegate in delegates]
        )

    async def is_waiting(self, run_id: str) -> bool:
        """Whether a run waits, and nothing that would resume it was sent."""
        if self._engine.active.of_run(run_id) is not None:
            return False
        record = await self._store.load_run(run_id)
        is_waiting = record is not None and record.status is RunStatus.WAITING
        return is_waiting and await self.find_resting_run(run_id) is not None

    async def _find_running(self, id_: str) -> RunRecord | None:
        """Find the run of a run or thread id, if it executes in any process.

        Raises:
            AmbiguousId: The id means two runs.
        """
        thread = await self._store.load_thread(id_)
        run_id = None if thread is None else thread.active_run_id
        named, on_thread = await self._load_if_running(id_), None
        if run_id is not None and run_id != id_:
            on_thread = await self._load_if_running(run_id)
        if named is not None and on_thread is not None:
            raise AmbiguousId(given=id_, thread_id=named.thread_id, run_id=on_thread.run_id)
        return named or on_thread

    async def _load_if_running(self, run_id: str) -> RunRecord | None:
        record = await self._store.load_run(run_id)
        return record if record is not None and record.status is RunStatus.RUNNING else None

    async def _dispatch(self, run_id: str) -> RunDispatch:
        dispatch = await self._store.find_dispatch_of_run(run_id)
        if dispatch is None:
            raise UnknownRun(run_id=run_id)
        return dispatch


async def run_events(
    store: EventStore, run: RunRecord, after: int, limit: int
) -> tuple[LoggedEvent, ...]:
    """Read a run's events after a position in the log; stops at the end of the run."""
    found: list[LoggedEvent] = []
    while len(found) < limit and (page := await store.list_events(run.thread_id, after=after)):
        after = page[-1].seq
        own = [it for it in page if it.run_id == run.run_id]
        found += own
        if own and ends_run(own[-1].event):
            break
    return tuple(found[:limit])


def _record_before_start(dispatch: RunDispatch) -> RunRecord:
    """The record of a run that has not begun, or never will."""
    termination = _termination(dispatch)
    return RunRecord(
        run_id=dispatch.run_id,
        thread_id=dispatch.thread_id,
        agent_id=dispatch.request.agent_id or "",
        status=RunStatus.CREATED if termination is None else RunStatus.DONE,
        termination=termination,
        dispatch_id=dispatch.dispatch_id,
        created_at=dispatch.created_at,
        finished_at=dispatch.completed_at,
        updated_at=dispatch.updated_at,
    )


def _build_undelivered_result(dispatch: RunDispatch) -> RunResult:
    """The result of a run that never began."""
    record = _record_before_start(dispatch)
    return RunResult(
        run_id=record.run_id,
        thread_id=record.thread_id,
        agent_id=record.agent_id,
        status=record.status,
        termination=record.termination,
    )


def _termination(dispatch: RunDispatch) -> Termination | None:
    match dispatch.status:
        case DispatchStatus.CANCELLED:
            return Cancelled(cause=dispatch.cancel_cause or "user")
        case DispatchStatus.SUPERSEDED:
            return Cancelled(cause="superseded")
        case DispatchStatus.DEAD_LETTER:
            message = dispatch.last_error or "it could not be delivered"
            return Failed(message=message, code="dead_letter")
        case _:
            return None
