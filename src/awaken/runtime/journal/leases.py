"""Leases: a run's claim on its thread while other processes share the store.

The engine opens a lease for each run, and reports when it is taken and when it is over. The lease
book renews it meanwhile, and notifies the run of a lost lease, a cancel request or queued input.
"""

from typing import Protocol

import msgspec

from awaken.contracts.errors import RunError
from awaken.contracts.storage.dispatch import Claim


class Lease(msgspec.Struct, eq=False):
    """One run's hold on its thread."""

    token: str
    claim: Claim | None = None
    """To be taken with the run's first commit; None once the lease is held."""
    dispatch_id: str | None = None
    """The dispatch that executes under the lease; None for a run that was started here."""
    patience_ms: int = 0
    """How long a commit waits at most for a store that is away, while the lease is held."""
    is_kept: bool = False
    """Whether the lease outlasts the run, because the dispatch has still to be delivered."""


class LeaseHolder(Protocol):
    """A run as the lease book sees it; its methods are called in the run's event loop."""

    def lease_lost(self) -> None:
        """Stop at once and write nothing more: another process has the thread."""
        ...

    def cancel(self, cause: str) -> object:
        """End as cancelled."""
        ...

    def notify_input(self) -> None:
        """Take in queued input at the next step boundary."""
        ...


class LeaseBook(Protocol):
    """Keeps the leases of one process alive."""

    patience_ms: int
    """How long a commit under a lease waits at most for a store that is away; 0: not at all.

    Only a book that tells in time of a lease that may be over, whatever the store does, has any.
    """

    def open(self, thread_id: str) -> Lease:
        """Return a new lease for a run that claims its thread with its first commit."""
        ...

    def watch(self, lease: Lease, run: LeaseHolder) -> None:
        """Begin to renew a lease that is already held."""
        ...

    def forget(self, lease: Lease) -> None:
        """Stop renewing the lease; a lease that was never watched is ignored."""
        ...


class RunHandedOver(RunError):
    """The runtime stopped before the run ended; another process continues it from the store."""

    code = "run_handed_over"
    retryable = True
    template = "Run '{run_id}' was given back to be continued elsewhere; ask for it by its id."
    run_id: str


class RuntimeClosing(RunError):
    """The runtime is being closed; nothing of the request was written."""

    code = "runtime_closing"
    retryable = True
    template = "The runtime is being closed; nothing of run '{run_id}' was written, send it again."
    run_id: str
