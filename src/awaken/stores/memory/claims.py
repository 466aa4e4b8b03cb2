"""Which worker has claimed which thread, and for how long. Nothing here suspends.

A thread has a lease exactly while it has a claim.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from awaken.contracts.clock import Clock
from awaken.contracts.errors import LeaseLost, RecordNotFound
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.dispatch import DispatchStatus, Release, RunDispatch
from awaken.contracts.storage.mailbox import TenantLimits
from awaken.contracts.storage.store import Commit
from awaken.stores.rules import dispatches as rules
from awaken.stores.rules.claims import (
    cause_of_claim,
    find_resumed_run,
    is_cancel_current,
    is_cancel_target,
    is_end_under_claim,
)
from awaken.stores.rules.head import HeldClaim
from awaken.stores.rules.interrupts import apply_interrupt, is_stale

from .queues import Queues
from .tables import StoredLease, StoredThread, Tables

if TYPE_CHECKING:
    from awaken.stores.rules.shares import WaitingHead


class Claims:
    """The claims on the threads of a store, and their effect on its queues."""

    __slots__ = ("_clock", "_queues", "_tables")

    def __init__(self, tables: Tables, queues: Queues, clock: Clock) -> None:
        self._tables = tables
        self._queues = queues
        self._clock = clock

    def claim_next(
        self, worker_id: str, token: str, lease_ms: int, agents: Collection[str] | None
    ) -> RunDispatch | None:
        """Claim the first dispatch of the next thread; returns None if nothing is due."""
        while (thread := self._queues.turns.next(self._clock.now_ms(), agents)) is not None:
            first = self._queues.turns.find_first(thread)
            assert first is not None
            dispatch = self._tables.dispatches[first[2]]
            if not is_stale(thread, dispatch):
                return self.claim(thread, dispatch, worker_id, token, lease_ms)
            self._queues.drop(dispatch, DispatchStatus.SUPERSEDED)
        return None

    def claim_shared(
        self,
        worker_id: str,
        tokens: Sequence[str],
        lease_ms: int,
        agents: Collection[str] | None,
        tenants: Mapping[str, TenantLimits],
    ) -> tuple[RunDispatch, ...]:
        """Claim a dispatch for each token, in the shares and within the limits of tenants."""
        # Few programs limit tenants.
        from awaken.stores.rules.shares import list_full, share_slots  # noqa: PLC0415

        held = [self._tables.threads[it.thread_id] for it in tuple(self._tables.leases.values())]
        busy = Counter(it.shown.tenant_id or "" for it in held)
        heads = self._list_heads(agents, list_full(busy, tenants))
        claimed = []
        for token, head in zip(
            tokens, share_slots(heads, busy, tenants, len(tokens)), strict=False
        ):
            thread = self._tables.threads[head.thread_id]
            first = self._queues.turns.find_first(thread)
            assert first is not None
            dispatch = self._tables.dispatches[first[2]]
            claimed.append(self.claim(thread, dispatch, worker_id, token, lease_ms))
        return tuple(claimed)

    def _list_heads(
        self, agents: Collection[str] | None, full: Collection[str]
    ) -> "list[WaitingHead]":
        """List the threads that could be claimed, in order, but for those of some tenants."""
        from awaken.stores.rules.shares import HEADS_MAX, WaitingHead  # noqa: PLC0415

        turns, now = self._queues.turns, self._clock.now_ms()
        seen: dict[str, StoredThread] = {}
        found: list[WaitingHead] = []
        while len(found) < HEADS_MAX and (thread := turns.take_due(now)) is not None:
            first = turns.find_first(thread)
            assert first is not None
            dispatch, thread_id = self._tables.dispatches[first[2]], thread.shown.id
            if is_stale(thread, dispatch):
                self._queues.drop(dispatch, DispatchStatus.SUPERSEDED)
            elif thread_id not in seen:
                seen[thread_id] = thread
                tenant_id = thread.shown.tenant_id
                if turns.is_for(thread, agents) and (tenant_id or "") not in full:
                    head = WaitingHead(
                        thread_id=thread_id, tenant_id=tenant_id, priority=dispatch.priority
                    )
                    found.append(head)
        for thread in seen.values():
            turns.offer(thread, now)
        return found

    def claim(
        self,
        thread: StoredThread,
        dispatch: RunDispatch,
        worker_id: str,
        token: str,
        lease_ms: int,
    ) -> RunDispatch:
        """Claim a queued dispatch of an unclaimed thread."""
        now = self._clock.now_ms()
        taken = rules.mark_claimed(dispatch, token, worker_id, now)
        thread.claim = rules.claim_of(taken)
        thread.cancel_cause = cause_of_claim(thread, taken)
        thread.served_at = now
        self._begin_lease(thread, token, lease_ms)
        self._queues.pull(thread, taken)
        return self.add_lease_end(taken)

    def settle(
        self,
        thread: StoredThread,
        held: HeldClaim | None,
        before: RunRecord | None,
        commit: Commit,
    ) -> None:
        """Update claim and queue after a commit."""
        if held is None and commit.claim is None:
            if before is not None and before.status is RunStatus.WAITING:
                # Dispatches that the waiting run held back may be claimed now.
                self._queues.turns.offer(thread, self._clock.now_ms())
            return
        run_id = find_resumed_run(before, held, commit)
        if held is not None and held.dispatch_id is not None:
            executed = self._tables.dispatches[held.dispatch_id]
            if run_id is not None:
                executed = rules.set_taken_by(executed, run_id)
                self._tables.dispatches[held.dispatch_id] = executed
            if is_end_under_claim(held, commit):
                thread.cancel_cause = executed.cancel_cause
        if commit.claim is not None and thread.claim is not None:
            self._begin_lease(thread, thread.claim.token, commit.claim.lease_ms)
        elif commit.release is not None and held is not None:
            if held.dispatch_id is not None:
                self.finish(thread, self._tables.dispatches[held.dispatch_id], commit.release)
            else:
                self._end_claim(thread, held)

    def finish(self, thread: StoredThread, dispatch: RunDispatch, release: Release) -> RunDispatch:
        """End the claim of a dispatch, and its delivery.

        Raises:
            IllegalTransition: A claimed dispatch cannot end like this; nothing is changed.
        """
        over = rules.mark_ended(dispatch, release, self._clock.now_ms())
        held = thread.claim or rules.claim_of(dispatch)
        self._tables.dispatches[dispatch.dispatch_id] = over
        self._end_claim(thread, held)
        return over

    def _end_claim(
        self,
        thread: StoredThread,
        held: HeldClaim,
        back: RunDispatch | None = None,
        *,
        attempts: int = 0,
    ) -> RunDispatch | None:
        """Release a thread, and queue `back` and the follow-up dispatch, if there are any.

        Returns the dispatch that continues the thread's run or the claim's dispatch.
        """
        if thread.lease is not None:
            self._tables.leases.pop(thread.lease.token, None)
        thread.claim = thread.lease = None
        if thread.open_run is None:
            thread.cancel_cause = None
        if back is not None:
            self._queues.put(thread, back)
        rest = rules.make_follow_up(thread, held, back, attempts=attempts)
        made = None if rest is None else self._queues.add(rest)
        self._queues.turns.offer(thread, self._clock.now_ms())
        return back or made

    def find_held(self, dispatch_id: str, token: str) -> tuple[StoredThread, RunDispatch]:
        """Return a claimed dispatch with its thread, if the token is the one of its claim.

        Raises:
            RecordNotFound: There is no such dispatch.
            LeaseLost: The token is stale.
        """
        dispatch = self._tables.dispatches.get(dispatch_id)
        if dispatch is None:
            raise RecordNotFound(kind="Dispatch", record_id=dispatch_id)
        rules.check_token(dispatch, token)
        return self._tables.threads[dispatch.thread_id], dispatch

    def put_back(self, thread: StoredThread, dispatch: RunDispatch) -> RunDispatch:
        """End the claim of a dispatch and queue it again at its old place."""
        assert thread.claim is not None
        self._end_claim(thread, thread.claim, dispatch)
        return dispatch

    def continue_run(self, thread: StoredThread, *, attempts: int) -> RunDispatch | None:
        """End a claim without a dispatch, and queue a dispatch that continues the open run."""
        if thread.claim is None:
            raise LeaseLost(thread_id=thread.shown.id)
        return self._end_claim(thread, thread.claim, attempts=attempts)

    def take_back(self, thread: StoredThread) -> RunDispatch | None:
        """End a claim whose lease has run out; returns the dispatch that was queued to continue."""
        held = thread.claim
        if held is None or held.dispatch_id is None:
            return self.continue_run(thread, attempts=1)
        dispatch = self._tables.dispatches[held.dispatch_id]
        return self.put_back(thread, rules.mark_reclaimed(dispatch, self._clock.now_ms()))

    def want_cancel(self, thread: StoredThread, cause: str, run_id: str | None = None) -> bool:
        """Request a cancel of the claimed run; False if none or another one is claimed."""
        held = thread.claim
        if held is None:
            return False
        executed = None if held.dispatch_id is None else self._tables.dispatches[held.dispatch_id]
        if not is_cancel_target(thread, executed, run_id):
            return False
        if is_cancel_current(thread, executed, run_id):
            thread.cancel_cause = thread.cancel_cause or cause
        if executed is not None and (run_id is None or rules.is_of(executed, run_id)):
            wanted = rules.mark_cancel_requested(executed, cause)
            self._tables.dispatches[executed.dispatch_id] = wanted
        return True

    def interrupt(self, thread: StoredThread, cause: str) -> tuple[RunDispatch, ...]:
        """Raise the epoch, request a cancel, and return the dispatches that were dropped."""
        thread.epoch += 1
        self.want_cancel(thread, cause)
        now, dropped = self._clock.now_ms(), []
        for _, _, dispatch_id in thread.queue:
            after = apply_interrupt(thread, self._tables.dispatches[dispatch_id], cause, now)
            if after.status is DispatchStatus.QUEUED:
                self._tables.dispatches[dispatch_id] = after
                self._queues.turns.offer(thread, now)
            else:
                self._queues.pull(thread, after)
                dropped.append(after)
        return tuple(dropped)

    def _begin_lease(self, thread: StoredThread, token: str, lease_ms: int) -> None:
        lease = thread.lease = self._tables.leases[token] = StoredLease(thread.shown.id, token)
        self.extend(lease, lease_ms)

    def extend(self, lease: StoredLease, lease_ms: int) -> None:
        """Extend a lease from now on; another operating-system thread may call this."""
        lease.until = self._clock.monotonic_ms() + lease_ms
        lease.shown_until = self._clock.now_ms() + lease_ms

    def list_expired(self, is_gone: Callable[[str], bool] | None = None) -> list[StoredThread]:
        """List threads whose lease has run out or whose worker is gone, oldest lease first."""
        now = self._clock.monotonic_ms()
        held = [
            (it, self._tables.threads[it.thread_id].claim)
            for it in tuple(self._tables.leases.values())
        ]
        leases = [
            lease
            for lease, claim in held
            if lease.until <= now
            or (is_gone is not None and claim is not None and is_gone(claim.worker_id))
        ]
        leases.sort(key=lambda lease: lease.until)
        return [self._tables.threads[lease.thread_id] for lease in leases]

    def add_lease_end(self, dispatch: RunDispatch) -> RunDispatch:
        """Return a dispatch as readers see it: if it is claimed, with the end of its lease."""
        lease = self._tables.leases.get(dispatch.claim_token or "")
        if lease is None:
            return dispatch
        return msgspec.structs.replace(dispatch, lease_until=lease.shown_until)
