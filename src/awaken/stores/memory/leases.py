"""Extends leases from another operating-system thread of this process."""

from collections.abc import Sequence

from awaken.contracts.storage.dispatch import LeaseReport

from .claims import Claims
from .queues import Queues
from .tables import Tables


class MemoryLeaseKeeper:
    """A `LeaseKeeper` over the store's own tables.

    It changes only the end of a lease, which is one assignment; everything else that it reads may
    be slightly stale. So it needs no lock against the event loop that owns the store.
    """

    def __init__(self, tables: Tables, queues: Queues, claims: Claims) -> None:
        self._tables = tables
        self._queues = queues
        self._claims = claims

    def extend(self, claim_tokens: Sequence[str], lease_ms: int) -> tuple[LeaseReport, ...]:
        """Extend the leases that are still held, and report to each holder what has changed."""
        return tuple(self._extend_one(token, lease_ms) for token in claim_tokens)

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def _extend_one(self, token: str, lease_ms: int) -> LeaseReport:
        lease = self._tables.leases.get(token)
        thread = None if lease is None else self._tables.threads.get(lease.thread_id)
        held = None if thread is None else thread.claim
        if lease is None or thread is None or held is None or held.token != token:
            return LeaseReport(claim_token=token, is_held=False)
        self._claims.extend(lease, lease_ms)
        return LeaseReport(
            claim_token=token,
            cancel_cause=thread.cancel_cause,
            has_input=bool(self._queues.list_inputs(thread)),
        )
