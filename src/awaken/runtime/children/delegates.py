"""The delegates of calls: started once, followed wherever they execute, and told what was decided.

A child is known by its id. Whoever waits for it starts it if nobody has, follows it if it executes
here, takes it over if it was given back, and looks at its record if it executes elsewhere.
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
from awaken.contracts.runs.records import DecisionReceipt, RunRecord, RunRequest, RunResult
from awaken.contracts.storage.dispatch import DispatchStatus, RunDispatch
from awaken.contracts.storage.store import Store
from awaken.contracts.suspension.tickets import ToolCallResume
from awaken.contracts.tasks import PARENT
from awaken.runtime.admission.active_runs import ActiveRun, ActiveRuns
from awaken.runtime.admission.handles import RunHandle
from awaken.runtime.journal.leases import LeaseBook, RunHandedOver
from awaken.runtime.journal.streams import EventReader
from awaken.runtime.run import Run
from awaken.runtime.suspension.dispatch_plan import Decision

from .child_requests import is_child
from .progress import ProgressForwarder

logger = logging.getLogger(__name__)

LOOK_S = 0.25
"""How often a child that executes elsewhere is looked at."""
TRIES = 40
"""How often a child is begun whose thread somebody else has."""


class DelegateRuns(Protocol):
    """The engine, as far as delegates need it."""

    store: Store
    active: ActiveRuns

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
    """The runs that calls of this process wait for."""

    def __init__(self, runs: DelegateRuns, leases: LeaseBook | None) -> None:
        self._runs = runs
        self._store = runs.store
        self._leases = leases

    async def wait_until_settled(
        self, run: Run, forwarder: ProgressForwarder, request: Callable[[], Awaitable[RunRequest]]
    ) -> RunRecord:
        """The record of the forwarder's child once it has ended or waits for somebody.

        It is asked for if there is none of that id. Cancelling the run cancels the child.

        Raises:
            BackendExecutionFailed: It cannot be begun: somebody else's run has its id or thread.
        """
        run.has_children = True
        child_id = forwarder.child_run_id
        while True:
            active = self._runs.active.of_thread(child_id)
            try:
                if active is not None and _may_be_child(run, active):
                    await self._follow(run, active, forwarder)
                elif (record := await self._store.load_run(child_id)) is None:
                    await self._begin(child_id, await request(), forwarder)
                elif not is_child(run, record):
                    raise _id_taken_error(child_id)
                elif record.status is RunStatus.DONE or await self._rests(record):
                    return record
                else:
                    await self._look_elsewhere(record)
            except StoreUnavailable:
                if not self._store.is_shared:
                    raise
                # It comes back, or this run loses its lease and others look after the child.
                await asyncio.sleep(LOOK_S)

    async def pass_on(
        self, record: RunRecord, answer: ToolCallResume, asked: Collection[str]
    ) -> bool:
        """Give a child that waits what was decided for it; False when it cannot use that.

        `asked` are the tickets that the decider was shown: an answer is never given to a question
        that came later, nor to several at once.
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
            # Somebody else was faster: what is there now is looked at again.
            pass
        return True

    def cancel_here(self, run_id: str) -> None:
        """Cancel a child that executes here, because nobody waits for it any more."""
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
                # Somebody else begins it just now, or has its thread.
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
            if not self._store.is_shared:
                raise
            # This attempt is over, not the child: look again where it is.
            await asyncio.sleep(LOOK_S)
        finally:
            unlink()
            forwarder.leave()
        await active.released.wait()

    async def _rests(self, record: RunRecord) -> bool:
        """Whether a child waits for somebody else than itself, and nothing is on its way to it."""
        if record.waiting is None or record.awaits_tasks:
            return False
        dispatch = await self._store.find_dispatch_of_run(record.run_id)
        return dispatch is None or dispatch.status.is_terminal

    async def _look_elsewhere(self, record: RunRecord) -> None:
        """Take over a child that was given back, or wait a moment for whoever executes it."""
        if not self._store.is_shared and record.status is RunStatus.RUNNING:
            problem = f"the end of run '{record.run_id}' could not be written"
            raise BackendExecutionFailed(problem=problem)
        dispatch = await self._store.find_dispatch_of_run(record.run_id)
        is_free = dispatch is not None and dispatch.status is DispatchStatus.QUEUED
        # Executed at once: its parent may have the last place that a worker has.
        if not (dispatch and is_free and await self._take_over(dispatch)):
            await asyncio.sleep(LOOK_S)

    async def _take_over(self, dispatch: RunDispatch) -> bool:
        lease = None if self._leases is None else self._leases.open(dispatch.thread_id)
        if lease is None or lease.claim is None:
            return False
        claim = lease.claim
        claimed = await self._store.claim_dispatch(
            dispatch.dispatch_id, claim.worker_id, lease.token, claim.lease_ms
        )
        if claimed is None:
            return False
        try:
            await self._runs.execute(claimed)
        except (LeaseLost, RunHandedOver):
            return False
        except Exception as error:
            # Tried again by whoever is first, until its attempts are used up.
            logger.warning("Run '%s' could not be taken over.", claimed.run_id, exc_info=error)
            await self._store.requeue(claimed.dispatch_id, lease.token, error=str(error))
            return False
        return True


def _may_be_child(run: Run, active: ActiveRun) -> bool:
    """Whether a slot has the child of a run, or may have: what is being admitted has no name."""
    return active.run is None or is_child(run, active.run.record)


def _id_taken_error(child_id: str) -> BackendExecutionFailed:
    return BackendExecutionFailed(problem=f"'{child_id}' is taken by another run")


def _cancel_with(run: Run, active: ActiveRun) -> None:
    if run.journal.closed_by is None:
        active.cancel(PARENT)


def _build_answer_request(record: RunRecord, result: object, message_id: str) -> RunRequest:
    """A request that gives a waiting run what it asked for."""
    text = result if isinstance(result, str) else msgspec.json.encode(result).decode()
    return RunRequest(
        thread_id=record.thread_id,
        continue_run_id=record.run_id,
        messages=(msgspec.structs.replace(user(text), id=message_id),),
        run_mode=record.run_mode,
        adapter=record.adapter,
        session_id=record.session_id,
    )
