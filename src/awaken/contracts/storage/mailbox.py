"""The mailbox port: durable input for threads, claims on threads, and retention.

Leases are set and checked by the store's own clock, never by a caller's. Every method is atomic
with respect to all processes that use the same store.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from awaken.contracts.errors import InvalidInput
from awaken.contracts.record import EMPTY, StrictRecord
from awaken.contracts.suspension.tickets import Ticket

from .dispatch import Interruption, LeaseReport, Purged, Release, RunDispatch
from .queries import DispatchQuery, Page

THREAD_BACKLOG_MAX = 1000
SWEEP_TURN = "sweep"
RELAY_TURN = "relay"
"""What one process at a time does, where the store knows nodes."""


EVERY_TENANT = "*"
"""Stands for each tenant that has no limits of its own."""
NUMBER_MAX = 2**45
"""The largest limit, and the longest time in milliseconds: 1,115 years. Stores add to them."""
_WEIGHT_MAX = 10_000


class TenantLimits(StrictRecord, frozen=True, kw_only=True):
    """What a tenant may have of a deployment, counted over all its processes.

    Raises:
        InvalidInput: A number is out of range.
    """

    max_busy: int | None = None
    """How many of its threads may be claimed at once before its queued input waits; None: any."""
    weight: int = 100
    """Its share of the slots for which tenants compete: 200 is twice as much as 100."""
    queue_limit: int | None = None
    """How many of its dispatches may wait; more input is refused. None: any number."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is None and name != "weight":
                continue
            if type(value) is not int:
                raise InvalidInput(what=name, problem=f"{value!r} is not a whole number")
            most = _WEIGHT_MAX if name == "weight" else NUMBER_MAX
            if not 1 <= value <= most:
                raise InvalidInput(what=name, problem=f"{value} is not from 1 to {most}")


def find_limits(tenants: Mapping[str, TenantLimits], tenant_id: str | None) -> TenantLimits | None:
    """Return the limits of a tenant; what has no tenant has none."""
    if not tenant_id:
        return None
    return tenants.get(tenant_id) or tenants.get(EVERY_TENANT)


class LeaseKeeper(Protocol):
    """Extends leases from an operating-system thread, over its own connection. Its calls block."""

    def extend(self, claim_tokens: Sequence[str], lease_ms: int) -> tuple[LeaseReport, ...]:
        """Extend the leases that are still held, and report on each of them.

        A lease that has expired but was not taken over is extended as well. A lease that could not
        be extended in time is missing from the result.

        Raises:
            StorageError: The store did not answer; whether the leases were extended is unknown.
        """
        ...

    def close(self) -> None:
        """Release the connection."""
        ...


class MailboxWatcher(Protocol):
    """Observes mailbox operations and deliveries. It must not raise and must not wait."""

    def on_operation(self, operation: str, result: str, ms: int) -> None:
        """Called when an operation is over; the result is `ok` or the code of its error."""
        ...

    def on_start(self, dispatch: RunDispatch, now_ms: int) -> None:
        """Called when this process begins to execute a dispatch."""
        ...

    def on_recovery(self, count: int) -> None:
        """Called when this process has taken back runs from workers that are gone."""
        ...

    def on_delivery(
        self, dispatch: RunDispatch, outcome: str, started_ms: int, now_ms: int
    ) -> None:
        """Called when a dispatch was executed by this process."""
        ...


class TenantQueues(Protocol):
    """The queues of tenants."""

    async def count_queued_by_tenant(self) -> Mapping[str, int]:
        """The number of queued dispatches of each tenant that has some."""
        ...


class MailboxStore(TenantQueues, Protocol):
    """Durable dispatches, at most one claim per thread."""

    async def now_ms(self) -> int:
        """The store's clock, in milliseconds since the epoch."""
        ...

    async def enqueue(
        self, dispatch: RunDispatch, *, backlog_max: int = THREAD_BACKLOG_MAX
    ) -> RunDispatch:
        """Queue a dispatch; it is durable before this returns.

        The status becomes `queued`, and the epoch and the creation time are set. A thread that does
        not exist is created for the tenant of the request. The same dispatch again, or another one
        with the same dedupe key and the same request hash, changes nothing and returns the first.

        Raises:
            AlreadyExists: The dispatch id is used for something else.
            DedupeConflict: The dedupe key was used for another request.
            QueueFull: The thread has `backlog_max` queued dispatches.
            UnknownThread: The request's tenant does not own the thread.
            InvalidResume: It asks for a run id that a run or another dispatch has.
            InvalidRecord: An id is blank.
        """
        ...

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
        """Claim dispatches that are due, at most one of each unclaimed thread.

        Within a thread they are claimed by priority, then in the order they were queued. The thread
        whose first dispatch has the highest priority goes first; threads of equal priority take
        turns: the one that has waited longest since it was queued or last served goes first. A
        store may first prefer the tenant with the fewest claimed threads.
        A dispatch that the thread's open run holds back (`RunDispatch.is_held_by`) is skipped. With
        `agents`, dispatches for other agents are skipped, as far as their agent is known. Counts an
        attempt.

        With `tenants`, a claim never leaves one of them with more than `max_busy` claimed threads,
        however many processes claim at once; claims that commits took count too. Threads of equal
        priority are then shared: the tenant with the fewest claimed threads for its weight goes
        first. A store may look at the first thousand threads only.
        """
        ...

    async def claim_dispatch(
        self, dispatch_id: str, worker_id: str, claim_token: str, lease_ms: int
    ) -> RunDispatch | None:
        """Claim one dispatch now, even if it is not due or not the first of its thread.

        Returns None if it is not queued, or its thread is claimed.
        """
        ...

    async def release(
        self, dispatch_id: str, claim_token: str, release: Release | None = None
    ) -> RunDispatch:
        """End a claim without a commit, because nothing has to be written.

        Raises:
            RecordNotFound: There is no such dispatch.
            LeaseLost: The token is stale; nothing was changed.
        """
        ...

    async def requeue(
        self,
        dispatch_id: str,
        claim_token: str,
        *,
        delay_ms: int = 0,
        error: str | None = None,
        is_charged: bool = True,
    ) -> RunDispatch:
        """Return a claimed dispatch to the queue; it is due after the delay, before its successors.

        If it is not charged, the attempt does not count.

        Raises:
            RecordNotFound: There is no such dispatch.
            LeaseLost: The token is stale; nothing was changed.
        """
        ...

    async def give_up_claim(self, thread_id: str, claim_token: str) -> RunDispatch | None:
        """Give up a claim that a commit took; the remaining work is queued without a charge.

        Returns the dispatch that continues the thread's open run, or None if it has none.

        Raises:
            LeaseLost: The token is stale; nothing was changed.
        """
        ...

    async def cancel_dispatch(self, dispatch_id: str) -> RunDispatch | None:
        """Cancel a queued dispatch; None if it does not exist or is no longer queued."""
        ...

    async def request_cancel(
        self, thread_id: str, cause: str, run_id: str | None = None
    ) -> str | None:
        """Ask the worker that executes a run of the thread to cancel it, now or after a crash.

        With a run id, only that run is cancelled, never a later one. Returns the worker that was
        asked; None if the thread is not claimed, or the claim is for another run.
        """
        ...

    async def interrupt(
        self, thread_id: str, cause: str, then: RunDispatch | None = None
    ) -> Interruption:
        """Raise the thread's epoch, drop queued input, request a cancel, and queue `then`.

        Messages of tasks and other agents are kept; they follow `then` or join its run.

        Raises:
            DedupeConflict: The dedupe key was used for another request; nothing was changed.
            AlreadyExists: The dispatch id is used for something else; nothing was changed.
            InvalidResume: It asks for a run id that is used; nothing was changed.
        """
        ...

    async def reclaim(
        self, limit: int = 100, is_gone: Callable[[str], bool] | None = None
    ) -> tuple[RunDispatch, ...]:
        """End claims whose lease has expired, and queue their dispatches again.

        Claims of workers for which `is_gone` returns True end at once. It is called with the ids of
        workers, possibly in another thread, and must not wait.

        A claim that a commit took has no dispatch: the store creates one that continues the
        thread's open run. Returns what was queued; fewer than `limit` means that none is left.
        """
        ...

    async def find_dispatch(self, dispatch_id: str) -> RunDispatch | None:
        """Return a dispatch, or None."""
        ...

    async def find_dispatch_of_run(self, run_id: str) -> RunDispatch | None:
        """Return the newest dispatch that names a run, or None."""
        ...

    async def list_dispatches(self, query: DispatchQuery) -> Page[RunDispatch]:
        """List dispatches, oldest first, ties by id."""
        ...

    async def list_inputs(self, thread_id: str) -> tuple[RunDispatch, ...]:
        """Return queued `steer` and `resume` input that an executing run may read, in order."""
        ...

    async def count_queued(self) -> int:
        """The number of queued dispatches in all threads."""
        ...

    async def revive(self, dispatch_id: str, new_id: str) -> RunDispatch:
        """Queue a dead letter again as a new dispatch with all its attempts.

        Raises:
            RecordNotFound: There is no such dispatch.
            IllegalTransition: It is not a dead letter, or was revived before.
        """
        ...

    async def list_expired_tickets(self, limit: int = 100) -> tuple[Ticket, ...]:
        """Return open tickets whose deadline has passed, oldest deadline first.

        A deadline has passed when its millisecond is over, as `check_decision` has it.
        """
        ...

    async def purge(
        self, before_ms: int, limit: int = 1000, kept: Mapping[str, str] | None = None
    ) -> Purged:
        """Remove what ended before a time: dispatches, runs with their journal, events.

        Outbox commands that were given up before it are removed as well.
        A thread keeps its messages, its state, its latest run and every event of a run that has
        not ended. Runs in `kept`, which has their threads by run id, stay with their journal, and
        so do the events of their threads from their first one on. Removes at most `limit` of each
        kind; call it until nothing is removed.
        """
        ...

    def lease_keeper(self) -> LeaseKeeper:
        """A new keeper with its own connection; use and close it in one thread."""
        ...
