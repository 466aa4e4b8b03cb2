"""The delegates of calls: started once, followed in any process, and given the decisions on them.

A child is identified by its id. The waiting call starts the child if it does not exist, follows it
if it executes here, takes it over if its dispatch is queued, and polls its record otherwise.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Protocol

import msgspec

from awaken.contracts.backends.errors import BackendExecutionFailed
from awaken.contracts.errors import (
    AlreadyDecided,
    InvalidResume,
    LeaseLost,
    StorageError,
    StoreUnavailable,
    ThreadBusy,
    UnknownTicket,
)
from awaken.contracts.identity import derive_id
from awaken.contracts.lifecycle import RunStatus, TicketStatus
from awaken.contracts.messages.message import user
from awaken.contracts.runs.records import RunRecord, RunRequest, RunResult
from awaken.contracts.storage.dispatch import Claim, DispatchStatus, RunDispatch
from awaken.contracts.storage.store import Store
from awaken.contracts.suspension.tickets import DecisionReceipt, ToolCallResume
from awaken.contracts.tasks import PARENT
from awaken.runtime.admission.active_runs import ActiveRun, ActiveRuns
from awaken.runtime.admission.handles import RunHandle
from awaken.runtime.journal.leases import Lease, LeaseBook, RunHandedOver
from awaken.runtime.journal.streams import EventReader
from awaken.runtime.primitives.cancellation import CarriedWork
from awaken.runtime.run import Run
from awaken.runtime.suspension.dispatch_plan import Decision

from .child_requests import is_child
from .progress import ProgressForwarder

logger = logging.getLogger(__name__)

LOOK_S = 0.25
"""How often to poll a child that executes elsewhere."""
TRIES = 40
"""How often to try to start a child whose thread is busy."""


class DelegateRuns(Protocol):
    """The engine, as far as delegates need it."""

    store: Store
    active: ActiveRuns
    carried: CarriedWork

    async def start(self, request: RunRequest, reader: EventReader | None = None) -> RunHandle:
        """Start a request and return once the run is durable."""
        ...

    async def execute(self, dispatch: RunDispatch) -> RunResult:
        """Execute a dispatch that was claimed for this process."""
        ...

    async def decide(self, decisions: Sequence[Decision]) -> tuple[DecisionReceipt, ...]:
        """Take decisions on tickets of one run."""
        ...


class Children:
    """The child runs that calls of this process wait for."""

    def __init__(self, runs: DelegateRuns, leases: LeaseBook | None) -> None:
        self._runs = runs
        self._store = runs.store
        self._leases = leases

    async def wait_until_settled(
        self,
        run: Run,
        forwarder: ProgressForwarder,
        request: Callable[[], Awaitable[RunRequest | None]],
    ) -> RunRecord | None:
        """Return the record of the forwarder's child once it has ended or waits for input.

        `request` is called if the child does not exist, and returns None if it existed before.
        Then, and if it is deleted meanwhile, this returns None: no child is started twice.
        Cancelling the run cancels the child.

        Raises:
            BackendExecutionFailed: The child cannot start: another run has its id or thread.
        """
        run.has_children = True
        child_id = forwarder.child_run_id
        has_begun = False
        while True:
            active = self._runs.active.of_thread(child_id)
            try:
                if active is not None and _may_be_child(run, active):
                    await self._follow(run, active, forwarder)
                    has_begun = has_begun or active.run is not None
                elif (record := await self._store.load_run(child_id)) is None:
                    wanted = None if has_begun else await request()
                    if wanted is None:
                        return None
                    await self._begin(child_id, wanted, forwarder)
                    has_begun = True
                elif not is_child(run, record):
                    raise _id_taken_error(child_id)
                elif record.status is RunStatus.DONE or await self._rests(record):
                    return record
                else:
                    has_begun = True
                    await self._look_elsewhere(record)
            except StoreUnavailable:
                if not self._store.is_shared:
                    raise
                # The store recovers, or this run loses its lease and another process continues.
                await asyncio.sleep(LOOK_S)

    async def pass_on(
        self, record: RunRecord, answer: ToolCallResume, asked: Collection[str]
    ) -> bool:
        """Pass a decision on to a waiting child; False when the child cannot use it.

        `asked` are the tickets that the decider was shown: an answer never applies to a question
        that was asked later, nor to several questions at once.
        """
        if record.waiting is None:
            return False
        tickets = await self._store.list_run_tickets(record.thread_id, record.run_id)
        opened = [it.ticket_id for it in tickets if it.status is TicketStatus.OPEN]
        if set(opened) != set(asked) or len(opened) > 1:
            return False
        given_id = derive_id(answer.decision_id, record.run_id)
        try:
            if opened:
                given = msgspec.structs.replace(
                    answer,
                    decision_id=given_id,
                    arguments=None,
                    arguments_hash=None,
                    resume_mode=None,
                )
                await self._runs.decide([(opened[0], given)])
            elif answer.result is None:
                return False
            else:
                await self._runs.start(_build_answer_request(record, answer.result, given_id))
        except (AlreadyDecided, UnknownTicket, ThreadBusy, InvalidResume):
            # Another process was faster: the caller checks the child's state again.
            pass
        return True

    def cancel_here(self, run_id: str) -> None:
        """Cancel a child that executes here, because no call waits for it any more."""
        active = self._runs.active.of_thread(run_id)
        if active is not None and active.run_id in ("", run_id):
            active.cancel(PARENT)

    async def _begin(
        self, child_id: str, request: RunRequest, forwarder: ProgressForwarder
    ) -> None:
        for _ in range(TRIES):
            try:
                await self._runs.start(request, forwarder)
            except (ThreadBusy, InvalidResume):
                # Another process is starting the child, or has its thread.
                await asyncio.sleep(LOOK_S)
                if await self._store.load_run(child_id) is None:
                    continue
            return
        raise _id_taken_error(child_id)

    async def _follow(self, run: Run, active: ActiveRun, forwarder: ProgressForwarder) -> None:
        """Wait for a child that executes here, and show its progress in its parent."""
        unlink = run.token.on_cancel(partial(_cancel_with, run, active))
        if active.run is not None and forwarder.feed is not active.run.feed:
            active.run.feed.attach(forwarder)
        try:
            if active.run is None:
                await active.released.wait()
            else:
                await asyncio.shield(active.outcome())
        except (StorageError, RunHandedOver, ThreadBusy):
            child_id = forwarder.child_run_id
            if not self._store.is_shared and await self._store.load_run(child_id) is not None:
                raise
            # This attempt has ended, but not the child: check again where it executes.
            await asyncio.sleep(LOOK_S)
        finally:
            unlink()
            forwarder.leave()
        await active.released.wait()

    async def _rests(self, record: RunRecord) -> bool:
        """Whether a child waits for input from outside, and no dispatch for it is pending."""
        if record.waiting is None or record.awaits_tasks:
            return False
        dispatch = await self._store.find_dispatch_of_run(record.run_id)
        return dispatch is None or dispatch.status.is_terminal

    async def _look_elsewhere(self, record: RunRecord) -> None:
        """Take over a child whose dispatch is queued, or pause while it executes elsewhere."""
        if not self._store.is_shared and record.status is RunStatus.RUNNING:
            problem = f"the end of run '{record.run_id}' could not be written"
            raise BackendExecutionFailed(problem=problem)
        dispatch = await self._store.find_dispatch_of_run(record.run_id)
        is_free = dispatch is not None and dispatch.status is DispatchStatus.QUEUED
        # Execute it at once: its parent may occupy the worker's last slot.
        if not (dispatch and is_free and await self._take_over(dispatch)):
            await asyncio.sleep(LOOK_S)

    async def _take_over(self, dispatch: RunDispatch) -> bool:
        lease = None if self._leases is None else self._leases.open(dispatch.thread_id)
        if lease is None or lease.claim is None:
            return False
        # The parent may be cancelled meanwhile: a claim that nobody works for would keep the child,
        # which is cancelled too, until its lease expires.
        work = self._claim_and_execute(dispatch, lease, lease.claim)
        return await self._runs.carried.carry(work, f"take over {dispatch.run_id}")

    async def _claim_and_execute(self, dispatch: RunDispatch, lease: Lease, claim: Claim) -> bool:
        claimed = await self._store.claim_dispatch(
            dispatch.dispatch_id, claim.worker_id, lease.token, claim.lease_ms
        )
        if claimed is None:
            return False
        try:
            await self._runs.execute(claimed)
        except (LeaseLost, RunHandedOver):
            return False
        except asyncio.CancelledError:
            # The engine is closed. If the run executes, whoever stops it gives it back.
            if self._runs.active.of_thread(claimed.thread_id) is None:
                await self._store.requeue(claimed.dispatch_id, lease.token, is_charged=False)
            raise
        except Exception as error:
            # Any worker may try the dispatch again, until its attempts are used up.
            logger.warning("Run '%s' could not be taken over.", claimed.run_id, exc_info=error)
            await self._store.requeue(claimed.dispatch_id, lease.token, error=str(error))
            return False
        return True


def _may_be_child(run: Run, active: ActiveRun) -> bool:
    """Whether a slot has the child of a run, or may have it: a run in admission has no id yet."""
    return active.run is None or is_child(run, active.run.record)


def _id_taken_error(child_id: str) -> BackendExecutionFailed:
    return BackendExecutionFailed(problem=f"'{child_id}' is taken by another run")


def _cancel_with(run: Run, active: ActiveRun) -> None:
    if run.journal.closed_by is None:
        active.cancel(PARENT)


def _build_answer_request(record: RunRecord, result: object, message_id: str) -> RunRequest:
    """Build a request that answers a waiting run."""
    text = result if isinstance(result, str) else msgspec.json.encode(result).decode()
    return RunRequest(
        thread_id=record.thread_id,
        continue_run_id=record.run_id,
        messages=(msgspec.structs.replace(user(text), id=message_id),),
        run_mode=record.run_mode,
        adapter=record.adapter,
        session_id=record.session_id,
    )
