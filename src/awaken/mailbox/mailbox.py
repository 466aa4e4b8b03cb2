"""The mailbox: sends input to threads, decides and cancels. No agent code runs here.

Everything is durable when a method returns, whichever process executes the run.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from awaken.contracts.clock import Clock, IdSource
from awaken.contracts.errors import (
    AwakenError,
    DedupeConflict,
    InvalidInput,
    InvalidResume,
    NothingToResume,
    RecordNotFound,
    UnknownRun,
)
from awaken.contracts.identity import normalize_id
from awaken.contracts.runs.records import RunRecord, RunRequest
from awaken.contracts.storage.bus import Bus
from awaken.contracts.storage.dispatch import InputMode, RunDispatch
from awaken.contracts.storage.queries import LIMIT_MAX, DispatchQuery, Page
from awaken.contracts.storage.store import OutboxEntry, Store
from awaken.contracts.suspension.tickets import DecisionReceipt
from awaken.contracts.tenancy import tenant_in
from awaken.runtime.journal.request_checks import check_id
from awaken.runtime.suspension.dispatch_plan import is_workflow_event

from . import cancels
from .config import MailboxConfig, choose_times
from .decisions import Decider, Decision
from .queue_gauge import QueueGauge
from .receipts import SubmitReceipt, receipt_of
from .services import MailboxServices
from .submissions import (
    Delivery,
    check_submission,
    digest,
    dispatch_for,
    hash_of,
    repeat_request,
)

if TYPE_CHECKING:
    from .nodes import NodeDirectory

INTERRUPT = "interrupt"
"""The cause of a run that is cancelled because of new input."""


class Mailbox:
    """The use cases of durable input, for any process that shares the store."""

    def __init__(
        self,
        store: Store,
        bus: Bus,
        clock: Clock,
        ids: IdSource,
        config: MailboxConfig,
        nodes: "NodeDirectory | None" = None,
    ) -> None:
        config = choose_times(config, has_nodes=nodes is not None)
        self.services = MailboxServices(
            store=store, bus=bus, clock=clock, ids=ids, config=config, nodes=nodes
        )
        self._store = store
        self._decider = Decider(self.services)
        self._gauge = QueueGauge(store, clock, config.queue_limit, config.tenants)

    async def submit(
        self,
        request: RunRequest,
        *,
        mode: InputMode = InputMode.QUEUE,
        priority: int = 128,
        dedupe_key: str | None = None,
        delay_ms: int = 0,
        asked: Any = None,
    ) -> SubmitReceipt:
        """Send input to a thread; it is durable when this returns.

        The same request with the same dedupe key changes nothing and returns the receipt of the
        first, whatever the status of its run. `asked` is the original input of the sender, if the
        request was derived from it and from the state of the thread: then `asked` is compared.
        With `resume` the decisions of the request are taken as `decide` takes them.

        Raises:
            InvalidInput: Something is malformed; nothing was written or cancelled.
            QueueFull: Too many dispatches wait; the error says when to try again.
            TenantQueueFull: So it is for the tenant: see `MailboxConfig.tenants`.
            DedupeConflict: The key was used for another request; nothing was cancelled.
            InvalidResume: No run of the thread waits, or the requested run id is used.
            UnknownThread: The thread belongs to another tenant.
            UnknownRun: The run to resume does not exist.
            UnknownTicket: A decision names no ticket of the waiting run.
            AlreadyDecided: A ticket has another decision.
            ThreadHasWorkflow: Another agent than the open workflow of the thread is named.
        """
        delivery = Delivery(mode=mode, priority=priority, dedupe_key=dedupe_key, delay_ms=delay_ms)
        check_submission(request, delivery)
        request = request.with_stored_ids()
        hashed = hash_of(mode, request) if asked is None else digest(asked)
        delivery = msgspec.structs.replace(delivery, request_hash=hashed)
        with self.services.time_operation("submit"):
            if dedupe_key is None:
                return await self._submit(request, delivery)
            return await self._submit_once(request, delivery)

    async def decide(self, decisions: Sequence[Decision]) -> tuple[DecisionReceipt, ...]:
        """Take decisions on tickets of one run, all or none, and continue the run.

        The same decisions return the same receipts again. A run that executes acts on them when
        its other calls are done.

        Raises:
            InvalidInput: There is no decision, or one is malformed or not allowed.
            UnknownTicket: A ticket does not exist, or belongs to another run than the first.
            AlreadyDecided: A ticket has another decision, is closed, or has expired.
        """
        receipts, _ = await self.take_decisions(decisions)
        return receipts

    async def take_decisions(
        self, decisions: Sequence[Decision]
    ) -> tuple[tuple[DecisionReceipt, ...], RunDispatch | None]:
        """Decide as `decide` does; also returns the new dispatch, None if all was taken before."""
        with self.services.time_operation("decide"):
            return await self._decider.decide(decisions)

    async def cancel(self, id_: str, cause: str = "user") -> bool:
        """Cancel by dispatch, run or thread id, wherever it is executed.

        A queued dispatch never starts. An executing run ends as soon as its worker sees the
        request, even if that worker dies first. A waiting run has ended when this returns. The id
        of a thread cancels its open run, or all its queued dispatches if there is none.

        Returns False if there is nothing to cancel.
        """
        check_id("dispatch, run or thread id", id_)
        with self.services.time_operation("cancel"):
            return await cancels.cancel(self.services, id_, cause)

    async def cancel_run(self, run_id: str, cause: str = "user") -> bool:
        """Cancel a run as `cancel` does, but never a thread or a dispatch with that id."""
        with self.services.time_operation("cancel"):
            return await cancels.cancel_run(self.services, run_id, cause)

    async def cancel_thread(self, thread_id: str, cause: str = "user") -> bool:
        """Cancel the work of a thread as `cancel` does, but never a run with that id."""
        with self.services.time_operation("cancel"):
            return await cancels.cancel_thread(self.services, thread_id, cause)

    async def find_cancel_target(self, id_: str) -> cancels.CancelTarget | None:
        """Return what an id names that can be cancelled, or None."""
        check_id("dispatch, run or thread id", id_)
        return await cancels.find_cancel_target(self._store, id_)

    async def replay_dead_letter(self, dispatch_id: str) -> SubmitReceipt:
        """Queue a dead letter again, under a new id and with all its attempts; at most once.

        A run that has ended stays ended: its request is repeated by a new run.

        Raises:
            RecordNotFound: There is no such dispatch.
            IllegalTransition: It is not a dead letter, or its run has not ended and is continued.
            InvalidResume: The dispatch continues a run that has ended.
        """
        check_id("dispatch_id", dispatch_id)
        dead = await self._store.find_dispatch(dispatch_id)
        # The run that took in the input ended with it.
        asked = None if dead is None else dead.taken_by or dead.run_id
        run = None if asked is None else await self._store.load_run(asked)
        if dead is None or run is None or not run.status.is_terminal:
            revived = await self._store.revive(dispatch_id, self.services.ids.new_id())
            self.services.announce_queued(revived)
            return receipt_of(revived)
        if dead.request.continue_run_id is not None:
            raise InvalidResume(run_id=run.run_id, problem="it has ended")
        return await self._enqueue(repeat_request(dead, self.services.ids))

    async def list_dead_orders(self, thread_id: str | None = None) -> tuple[OutboxEntry, ...]:
        """List the orders of one thread or of all that were given up, oldest first."""
        limit = LIMIT_MAX
        while len(found := await self._store.list_dead_outbox(thread_id, limit=limit)) == limit:
            limit *= 10
        return found

    async def retry_order(self, entry_id: str) -> OutboxEntry:
        """Retry an order that was given up, with all its attempts.

        Raises:
            RecordNotFound: No order with that id was given up.
        """
        check_id("order id", entry_id)
        for dead in await self.list_dead_orders():
            if dead.entry_id == entry_id:
                again = msgspec.structs.replace(dead, attempts=0, due_at=0, is_dead=False)
                if await self._store.save_outbox(again):
                    return again
        raise RecordNotFound(kind="Dead order", record_id=entry_id)

    async def status(self, dispatch_id: str) -> RunDispatch | None:
        """Return a dispatch with its status, or None if there is none with that id."""
        check_id("dispatch_id", dispatch_id)
        return await self._store.find_dispatch(dispatch_id)

    async def list_dispatches(self, query: DispatchQuery) -> Page[RunDispatch]:
        """List dispatches, oldest first."""
        return await self._store.list_dispatches(query)

    async def _submit_once(self, request: RunRequest, delivery: Delivery) -> SubmitReceipt:
        """Submit a request once for its dedupe key, whatever the state of its thread is now."""
        known = await self._find_receipt(request, delivery)
        if known is not None:
            return known
        try:
            return await self._submit(request, delivery)
        except AwakenError:
            # The same request, sent at the same moment, may have been queued meanwhile.
            known = await self._find_receipt(request, delivery)
            if known is None:
                raise
            return known

    async def _find_receipt(self, request: RunRequest, delivery: Delivery) -> SubmitReceipt | None:
        """Return the receipt of the request that was sent with the same key before, or None.

        Raises:
            DedupeConflict: Another request was sent with the key.
        """
        thread_id, key = request.thread_id or "", delivery.dedupe_key or ""
        keyed = DispatchQuery(thread_id=thread_id, dedupe_key=key, limit=1)
        known = next(iter((await self._store.list_dispatches(keyed)).items), None)
        if known is None or normalize_id(known.request.tenant_id) != normalize_id(
            request.tenant_id
        ):
            # No tenant learns of another tenant's input: the thread itself refuses the request.
            return None
        if known.request_hash != delivery.request_hash:
            raise DedupeConflict(thread_id=thread_id, dedupe_key=key)
        return receipt_of(known, is_duplicate=True)

    async def _submit(self, request: RunRequest, delivery: Delivery) -> SubmitReceipt:
        # An operator may send to a thread of a tenant without being one.
        await self._gauge.reserve_place(
            normalize_id(request.tenant_id) or tenant_in(request.thread_id or "")
        )
        if delivery.mode is not InputMode.STEER or request.agent_id is not None:
            delivery = await self._address(request, delivery)
        match delivery.mode:
            case InputMode.QUEUE | InputMode.STEER:
                dispatch = await self._make_dispatch(request, delivery)
                return await self._enqueue(dispatch)
            case InputMode.INTERRUPT:
                return await self._interrupt(await self._make_dispatch(request, delivery))
            case InputMode.RESUME:
                return await self._resume(request, delivery)

    async def _address(self, request: RunRequest, delivery: Delivery) -> Delivery:
        """Return how input is delivered: what is said to an open workflow is an event of it."""
        thread = await self._store.load_thread(request.thread_id) if request.thread_id else None
        if thread is None or thread.open_run_id is None:
            return delivery
        thread.check_tenant(request.tenant_id)
        run = await self._store.load_run(thread.open_run_id)
        is_event = run is not None and is_workflow_event(request, run)
        if not is_event or delivery.mode is InputMode.RESUME:
            return delivery
        return msgspec.structs.replace(delivery, mode=InputMode.STEER)

    async def _make_dispatch(self, request: RunRequest, delivery: Delivery) -> RunDispatch:
        config = self.services.config
        dispatch = dispatch_for(
            request, delivery, self.services.ids, max_attempts=config.max_attempts
        )
        if not delivery.delay_ms:
            return dispatch
        due_at = await self._store.now_ms() + delivery.delay_ms
        return msgspec.structs.replace(dispatch, available_at=due_at)

    async def _enqueue(self, dispatch: RunDispatch) -> SubmitReceipt:
        backlog = self.services.config.thread_backlog
        stored = await self._store.enqueue(dispatch, backlog_max=backlog)
        await self.services.announce_input(stored)
        return receipt_of(stored, is_duplicate=stored.dispatch_id != dispatch.dispatch_id)

    async def _interrupt(self, dispatch: RunDispatch) -> SubmitReceipt:
        # Read first: the interrupt must not end the run that begins with it.
        thread = await self._store.load_thread(dispatch.thread_id)
        await self._store.interrupt(dispatch.thread_id, INTERRUPT, then=dispatch)
        # Changes nothing: it only returns the dispatch that the store has for this request.
        receipt = await self._enqueue(dispatch)
        if thread is not None and thread.open_run_id and not receipt.is_duplicate:
            await cancels.end_waiting(self.services, thread.id, thread.open_run_id, INTERRUPT)
        return receipt

    async def _resume(self, request: RunRequest, delivery: Delivery) -> SubmitReceipt:
        run = await self._run_to_resume(request)
        wanted = msgspec.structs.replace(
            request,
            continue_run_id=run.run_id,
            run_mode=run.run_mode,
            adapter=run.adapter,
            session_id=request.session_id or run.session_id,
            transport_request_id=request.transport_request_id or run.transport_request_id,
        )
        dispatch = await self._make_dispatch(wanted, delivery)
        if request.decisions:
            return await self._resume_decided(run, dispatch)
        if not run.is_resumable_waiting:
            raise InvalidResume(run_id=run.run_id, problem="it is not waiting")
        return await self._enqueue(dispatch)

    async def _resume_decided(self, run: RunRecord, dispatch: RunDispatch) -> SubmitReceipt:
        request = dispatch.request
        rest = msgspec.structs.replace(request, decisions=())
        taken = await self._decider.take(run.run_id, request.decisions, rest)
        if taken is not None:
            return receipt_of(taken)
        known = await self._store.find_dispatch_of_run(run.run_id)
        return receipt_of(known or dispatch, is_duplicate=True)

    async def _run_to_resume(self, request: RunRequest) -> RunRecord:
        """Return the run that the request names, else the open run, else the latest one."""
        if not request.messages and not request.decisions:
            raise InvalidInput(what="The request", problem="it has no decision and no message")
        thread_id = request.thread_id or ""
        thread = await self._store.load_thread(thread_id)
        if thread is not None:
            thread.check_tenant(request.tenant_id)
        shown = None if thread is None else thread.open_run_id or thread.latest_run_id
        run_id = request.continue_run_id or shown
        if run_id is None:
            problem = f"no run of thread '{thread_id}' waits"
            raise NothingToResume(run_id="", problem=problem)
        run = await self._store.load_run(run_id)
        if run is None or run.thread_id != thread_id:
            raise UnknownRun(run_id=run_id)
        return run
