"""The mailbox of the memory store: one method for each method of the port."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping

from awaken.contracts.clock import Clock
from awaken.contracts.errors import AlreadyExists, InvalidRecord, RecordNotFound
from awaken.contracts.record import EMPTY
from awaken.contracts.storage.dispatch import (
    DispatchStatus,
    Interruption,
    Purged,
    Release,
    RunDispatch,
)
from awaken.contracts.storage.mailbox import THREAD_BACKLOG_MAX, LeaseKeeper, TenantLimits
from awaken.contracts.storage.queries import DispatchQuery, Page, page_of
from awaken.contracts.suspension.tickets import Ticket
from awaken.stores.rules import dispatches as rules
from awaken.stores.rules.claims import check_holder, claim_tokens
from awaken.stores.rules.interrupts import is_stale

from .claims import Claims
from .leases import MemoryLeaseKeeper
from .listings import list_dispatches
from .queues import Queues
from .retention import list_expired_tickets, purge
from .tables import Tables


class MemoryTenantQueues:
    """The queues of tenants."""

    _tables: Tables

    async def count_queued_by_tenant(self) -> Mapping[str, int]:
        """Count the queued dispatches of each tenant that has some."""
        counts: Counter[str] = Counter()
        for thread in self._tables.threads.values():
            if thread.queue and thread.shown.tenant_id:
                counts[thread.shown.tenant_id] += len(thread.queue)
        return counts


class MemoryMailbox(MemoryTenantQueues):
    """The part of the store that queues and hands out dispatches."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._tables = Tables()
        self._queues = Queues(self._tables, clock)
        self._claims = Claims(self._tables, self._queues, clock)

    async def now_ms(self) -> int:
        """The store's clock, in milliseconds since the epoch."""
        return self.clock.now_ms()

    async def enqueue(
        self, dispatch: RunDispatch, *, backlog_max: int = THREAD_BACKLOG_MAX
    ) -> RunDispatch:
        """Queue a dispatch, once; see `MailboxStore.enqueue`."""
        known = self._queues.find_known(dispatch)
        if known is not None:
            return self._claims.add_lease_end(known)
        self._queues.check_run_id(dispatch)
        thread = self._tables.threads.get(dispatch.thread_id)
        if thread is not None:
            rules.check_backlog(dispatch.thread_id, len(thread.queue), backlog_max)
        return self._queues.add(dispatch)

    async def claim(
        self,
        worker_id: str,
        claim_token: str,
        lease_ms: int,
        *,
        limit: int = 1,
        agents: Collection[str] | None = None,
        tenants: Mapping[str, TenantLimits] = EMPTY,
    ) -> tuple[RunDispatch, ...]:
        """Claim dispatches that are due, at most one for each unclaimed thread."""
        if tenants:
            tokens = tuple(claim_tokens(claim_token, limit))
            return self._claims.claim_shared(worker_id, tokens, lease_ms, agents, tenants)
        claimed: list[RunDispatch] = []
        for token in claim_tokens(claim_token, limit):
            dispatch = self._claims.claim_next(worker_id, token, lease_ms, agents)
            if dispatch is None:
                break
            claimed.append(dispatch)
        return tuple(claimed)

    async def claim_dispatch(
        self, dispatch_id: str, worker_id: str, claim_token: str, lease_ms: int
    ) -> RunDispatch | None:
        """Claim one dispatch now, even if it is not due or not the first of its thread."""
        dispatch = self._tables.dispatches.get(dispatch_id)
        if dispatch is None or dispatch.status is not DispatchStatus.QUEUED:
            return None
        thread = self._tables.threads[dispatch.thread_id]
        if thread.claim is not None:
            return None
        if is_stale(thread, dispatch):
            self._queues.drop(dispatch, DispatchStatus.SUPERSEDED)
            return None
        return self._claims.claim(thread, dispatch, worker_id, claim_token, lease_ms)

    async def release(
        self, dispatch_id: str, claim_token: str, release: Release | None = None
    ) -> RunDispatch:
        """End a claim outside of a commit, because nothing has to be written."""
        thread, dispatch = self._claims.find_held(dispatch_id, claim_token)
        return self._claims.finish(thread, dispatch, release or Release())

    async def requeue(
        self,
        dispatch_id: str,
        claim_token: str,
        *,
        delay_ms: int = 0,
        error: str | None = None,
        is_charged: bool = True,
    ) -> RunDispatch:
        """Give a claimed dispatch back; it is due again after the delay, before its successors."""
        thread, dispatch = self._claims.find_held(dispatch_id, claim_token)
        now = self.clock.now_ms()
        back = rules.mark_requeued(
            dispatch, now, delay_ms=delay_ms, error=error, is_charged=is_charged
        )
        return self._claims.put_back(thread, back)

    async def give_up_claim(self, thread_id: str, claim_token: str) -> RunDispatch | None:
        """Give back a claim that a commit took; the rest is queued, and no attempt is charged."""
        thread = self._tables.threads.get(thread_id)
        check_holder(thread, thread_id, claim_token)
        assert thread is not None
        assert thread.claim is not None
        executed = thread.claim.dispatch_id
        if executed is not None:
            return await self.requeue(executed, claim_token, is_charged=False)
        return self._claims.continue_run(thread, attempts=0)

    async def cancel_dispatch(self, dispatch_id: str) -> RunDispatch | None:
        """Cancel a queued dispatch; returns None if it does not exist or is no longer queued."""
        dispatch = self._tables.dispatches.get(dispatch_id)
        if dispatch is None or dispatch.status is not DispatchStatus.QUEUED:
            return None
        return self._queues.drop(dispatch, DispatchStatus.CANCELLED)

    async def request_cancel(
        self, thread_id: str, cause: str, run_id: str | None = None
    ) -> str | None:
        """Ask the worker that executes a run of the thread to cancel it, now or after a crash."""
        thread = self._tables.threads.get(thread_id)
        if thread is None or not self._claims.want_cancel(thread, cause, run_id):
            return None
        return None if thread.claim is None else thread.claim.worker_id

    async def interrupt(
        self, thread_id: str, cause: str, then: RunDispatch | None = None
    ) -> Interruption:
        """Raise the thread's epoch, drop its queue, request a cancel, and queue `then`."""
        if then is not None and then.thread_id != thread_id:
            problem = f"it does not belong to thread '{thread_id}'"
            raise InvalidRecord(what=f"Dispatch '{then.dispatch_id}'", problem=problem)
        is_again = then is not None and self._queues.find_known(then) is not None
        if then is not None and not is_again:
            self._queues.check_run_id(then)
        tenant_id = None if then is None else then.request.tenant_id
        thread = self._queues.ensure_thread(thread_id, tenant_id)
        # A repeated interrupt has had its effect: it would drop what it queued the first time.
        dropped = () if is_again else self._claims.interrupt(thread, cause)
        if then is not None:
            self._queues.add(then)
        holder = None if thread.claim is None else thread.claim.worker_id
        return Interruption(epoch=thread.epoch, superseded=dropped, holder=holder)

    async def reclaim(
        self, limit: int = 100, is_gone: Callable[[str], bool] | None = None
    ) -> tuple[RunDispatch, ...]:
        """Take back claims whose lease has run out or whose worker is gone."""
        back: list[RunDispatch] = []
        # A clock that was set back must not prolong the pauses between attempts.
        self._queues.turns.look_again(self.clock.now_ms())
        for thread in self._claims.list_expired(is_gone):
            if len(back) >= limit:
                break
            dispatch = self._claims.take_back(thread)
            if dispatch is not None:
                back.append(dispatch)
        return tuple(back)

    async def find_dispatch(self, dispatch_id: str) -> RunDispatch | None:
        """Return a dispatch, or None."""
        dispatch = self._tables.dispatches.get(dispatch_id)
        return None if dispatch is None else self._claims.add_lease_end(dispatch)

    async def find_dispatch_of_run(self, run_id: str) -> RunDispatch | None:
        """Return the newest dispatch that names a run, or None."""
        named = self._tables.run_dispatches.get(run_id)
        if named is None:
            return None
        newest = max(named, key=self._tables.arrivals.__getitem__)
        return self._claims.add_lease_end(self._tables.dispatches[newest])

    async def list_dispatches(self, query: DispatchQuery) -> Page[RunDispatch]:
        """List dispatches, oldest first, ties by id."""
        page = list_dispatches(self._tables, query)
        shown = tuple(self._claims.add_lease_end(dispatch) for dispatch in page.items)
        return page_of(shown, page.total or 0, query)

    async def list_inputs(self, thread_id: str) -> tuple[RunDispatch, ...]:
        """Return queued `steer` and `resume` input that an executing run may take in, in order."""
        thread = self._tables.threads.get(thread_id)
        return () if thread is None else self._queues.list_inputs(thread)

    async def count_queued(self) -> int:
        """Count the queued dispatches of all threads."""
        return self._tables.queued_count

    async def revive(self, dispatch_id: str, new_id: str) -> RunDispatch:
        """Queue a dead letter again as a new dispatch with all its attempts."""
        dispatch = self._tables.dispatches.get(dispatch_id)
        if dispatch is None:
            raise RecordNotFound(kind="Dispatch", record_id=dispatch_id)
        marked, fresh = rules.revive_dead_letter(dispatch, new_id, self.clock.now_ms())
        rules.check_new(fresh)
        if new_id in self._tables.dispatches:
            raise AlreadyExists(kind="Dispatch", record_id=new_id)
        self._tables.dispatches[dispatch_id] = marked
        return self._queues.add(fresh)

    async def list_expired_tickets(self, limit: int = 100) -> tuple[Ticket, ...]:
        """Return open tickets whose deadline has passed, oldest deadline first."""
        return list_expired_tickets(self._tables, self.clock.now_ms(), limit)

    async def purge(
        self, before_ms: int, limit: int = 1000, kept: Mapping[str, str] | None = None
    ) -> Purged:
        """Remove records that ended before a time; see `MailboxStore.purge`."""
        return purge(self._tables, before_ms, limit, kept or {})

    def lease_keeper(self) -> LeaseKeeper:
        """Return a lease keeper that another operating-system thread may use."""
        return MemoryLeaseKeeper(self._tables, self._queues, self._claims)
