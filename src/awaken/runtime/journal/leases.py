"""Leases: what a run holds on its thread while other processes can see the store.

The engine opens a lease for each run and says when it is taken and when it is over. Whoever keeps
the book renews it meanwhile, and tells the run what it learns.
"""

from dataclasses import dataclass
from typing import Protocol

from awaken.contracts.errors import RunError
from awaken.contracts.storage.dispatch import Claim


@dataclass(slots=True, eq=False)
class Lease:
    """One run's hold on its thread."""

    token: str
    claim: Claim | None = None
    """To be taken with the run's first commit; None once somebody holds it."""
    dispatch_id: str | None = None
    """The dispatch that is executed under it; None for a run that was started here."""
    is_kept: bool = False
    """Whether it outlasts the run, because the dispatch has still to be delivered."""


class LeaseHolder(Protocol):
    """A run as the keeper of its lease sees it; to be called in the run's event loop."""

    def lease_lost(self) -> None:
        """Stop at once and write nothing more: somebody else has the thread."""
        ...

    def cancel(self, cause: str) -> object:
        """End as cancelled."""
        ...

    def notify_input(self) -> None:
        """Take queued input in at the next step boundary."""
        ...


class LeaseBook(Protocol):
    """Keeps the leases of one process alive."""

    def open(self, thread_id: str) -> Lease:
        """A new lease for a run that takes its thread with its first commit."""
        ...

    def watch(self, lease: Lease, run: LeaseHolder) -> None:
        """Begin to renew a lease; it is held already."""
        ...

    def forget(self, lease: Lease) -> None:
        """The run is over here; one that was never watched is ignored."""
        ...


class RunHandedOver(RunError):
    """The runtime stopped before the run was over; the run goes on elsewhere from the store."""

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
