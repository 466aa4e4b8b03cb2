"""The mailbox port: durable input for threads, claims on them, and what is kept how long.

Leases are stamped and judged by the store's own clock, never by a caller's. Every method is
atomic to every other process that uses the same store.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from awaken.contracts.suspension.tickets import Ticket

from .dispatch import Interruption, LeaseNews, Purged, Release, RunDispatch
from .queries import DispatchQuery, Page

THREAD_BACKLOG_MAX = 1000


class LeaseKeeper(Protocol):
    """Extends leases from a thread of its own, over a connection of its own. Its calls block."""

    def extend(self, claim_tokens: Sequence[str], lease_ms: int) -> tuple[LeaseNews, ...]:
        """Extend the leases that are still held, and say what each holder should know.

        A lease that has run out but was not taken by anybody is extended as well. One that could
        not be extended in time is left out of the answer.

        Raises:
            StorageError: The store did not answer; whether the leases were extended is unknown.
        """
        ...

    def close(self) -> None:
        """Release the connection."""
        ...


class MailboxWatcher(Protocol):
    """Hears how long the mailbox takes. It must not raise and must not wait."""

    def operated(self, operation: str, result: str, ms: int) -> None:
        """Hear that an operation is over: `ok`, or the code of its error."""
        ...

    def delivered(self, dispatch: RunDispatch, outcome: str, started_ms: int, now_ms: int) -> None:
        """Hear that a dispatch was executed here, and when that began."""
        ...


class MailboxStore(Protocol):
    """Durable dispatches, at most one claim per thread."""

    async def now_ms(self) -> int:
        """The store's clock, in milliseconds since the epoch."""
        ...

    async def enqueue(
        self, dispatch: RunDispatch, *, backlog_max: int = THREAD_BACKLOG_MAX
    ) -> RunDispatch:
        """Queue a dispatch; it is durable before this returns.

        The status becomes `queued`, and epoch and creation time are stamped. A thread that does
        not exist is created, for the tenant of the request. The same dispatch again, or another
        one with the same dedupe key and the same request hash, changes nothing and returns the
        first.

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
    ) -> tuple[RunDispatch, ...]:
        """Claim dispatches that are due, at most one of each thread that nobody has claimed.

        Inside a thread they come by priority, then in the order they were queued. The thread with
        the highest priority goes first (that of its first dispatch); threads of one priority take
        turns: the one that has waited longest since it was queued or last served goes first.
        What the thread's open run holds (`RunDispatch.is_held_by`) is passed over until it does
        not. With `agents`, dispatches for other agents are left alone, as far as it is known for
        whom they are. Counts an attempt.
        """
        ...

    async def claim_dispatch(
        self, dispatch_id: str, worker_id: str, claim_token: str, lease_ms: int
    ) -> RunDispatch | None:
        """Claim one dispatch now, even if it is not due or not the first of its thread.

        None when it is not queued, or its thread is claimed.
        """
        ...

    async def release(
        self, dispatch_id: str, claim_token: str, release: Release | None = None
    ) -> RunDispatch:
        """End a claim outside of a commit, because nothing has to be written.

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
        """Give a claimed dispatch back; it is due again after the delay, before its successors.

        Not charged, the attempt does not count.

        Raises:
            RecordNotFound: There is no such dispatch.
            LeaseLost: The token is stale; nothing was changed.
        """
        ...

    async def give_up_claim(self, thread_id: str, claim_token: str) -> RunDispatch | None:
        """Give back a claim that a commit took; what is left to do is queued, not charged.

        Returns the dispatch that goes on with the thread's open run, or None if it has none.

        Raises:
            LeaseLost: The token is stale; nothing was changed.
        """
        ...

    async def cancel_dispatch(self, dispatch_id: str) -> RunDispatch | None:
        """Cancel a queued dispatch; None when there is none, or it is not queued any more."""
        ...

    async def request_cancel(self, thread_id: str, cause: str, run_id: str | None = None) -> bool:
        """Ask whoever executes a run of the thread to cancel it, now or after a crash.

        With a run id, only that run is meant, never another one that came meanwhile. False when
        nothing of the thread is claimed, or something else.
        """
        ...

    async def interrupt(
        self, thread_id: str, cause: str, then: RunDispatch | None = None
    ) -> Interruption:
        """Raise the thread's epoch, drop what is queued, ask for a cancel, and queue `then`.

        News of tasks and other agents is not dropped; it comes after `then`, or into its run.

        Raises:
            DedupeConflict: The dedupe key was used for another request; nothing was changed.
            AlreadyExists: The dispatch id is used for something else; nothing was changed.
            InvalidResume: It asks for a run id that is used; nothing was changed.
        """
        ...

    async def reclaim(
        self, limit: int = 100, is_gone: Callable[[str], bool] | None = None
    ) -> tuple[RunDispatch, ...]:
        """Take back claims whose lease has run out, and queue their dispatches again.

        Those of workers that `is_gone` says have ended are taken back at once. It is asked with
        the ids of workers, perhaps in another thread, and must not wait.

        A claim that a commit took has no dispatch: one that goes on with the thread's open run
        is made. Returns what was queued; fewer than `limit` means that none is left.
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
        """Return queued `steer` and `resume` input that an executing run may take in, in order."""
        ...

    async def count_queued(self) -> int:
        """How many dispatches wait, in all threads."""
        ...

    async def revive(self, dispatch_id: str, new_id: str) -> RunDispatch:
        """Queue a dead letter again as a new dispatch with all its attempts.

        Raises:
            RecordNotFound: There is no such dispatch.
            IllegalTransition: It is not a dead letter, or it was revived before.
        """
        ...

    async def list_expired_tickets(self, limit: int = 100) -> tuple[Ticket, ...]:
        """Return open tickets whose deadline has passed, oldest deadline first."""
        ...

    async def purge(self, before_ms: int, limit: int = 1000) -> Purged:
        """Remove what ended before a time: dispatches, runs with their journal, events.

        Orders that were given up before it are removed too.
        A thread keeps its messages, its state, its latest run and every event of a run that has
        not ended. Removes at most `limit` of each kind; call it until nothing is removed.
        """
        ...

    def lease_keeper(self) -> LeaseKeeper:
        """A new keeper with its own connection; to be used and closed in one thread."""
        ...
