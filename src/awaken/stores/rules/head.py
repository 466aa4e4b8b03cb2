"""The head of a thread: all that is needed to check a commit, however long the thread is."""

from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from awaken.contracts.errors import InvalidRecord
from awaken.contracts.identity import normalize_id
from awaken.contracts.record import Record
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.runs.threads import Thread, ThreadMetadata
from awaken.contracts.storage.dispatch import RunDispatch
from awaken.contracts.storage.store import Commit
from awaken.contracts.suspension.tickets import Ticket
from awaken.contracts.tenancy import TENANT_MARK, tenant_in

OpenCalls = dict[str, tuple[str, ...]]
"""Calls without a result, each with the open or decided tickets that it waits on."""


class HeldClaim(Record, frozen=True, kw_only=True):
    """Which worker has claimed the thread; the store itself keeps the end of the lease."""

    token: str
    worker_id: str
    dispatch_id: str | None = None
    """The dispatch that is executed; None for a run that claimed the thread with a commit."""


class ThreadHead(msgspec.Struct, eq=False, gc=False):
    """One thread as it is before a commit."""

    shown: Thread
    """Lineage, metadata and pointers; `view` adds the fields that every commit changes."""
    version: int = 0
    updated_at: int | None = None
    message_count: int = 0
    event_seq: int = 0
    open_calls: OpenCalls = {}
    """Tool calls without a result, in call order."""
    latest_run: RunRecord | None = None
    open_run: RunRecord | None = None
    live_tickets: dict[str, Ticket] = {}
    """Open and decided tickets of the open run; cleared when it ends."""
    claim: HeldClaim | None = None
    cancel_cause: str | None = None
    """The worker that holds the open run must end it, however often another worker claims the
    thread until then. Without an open run, the cause applies to the claim's dispatch."""
    epoch: int = 0

    def view(self) -> Thread:
        """Return the thread as readers see it."""
        shown, metadata, latest = self.shown, self.shown.metadata, self.latest_run
        return Thread(
            id=shown.id,
            tenant_id=shown.tenant_id,
            resource_id=shown.resource_id,
            parent_thread_id=shown.parent_thread_id,
            forked_from=shown.forked_from,
            newest_branch=shown.newest_branch,
            metadata=ThreadMetadata(
                created_at=metadata.created_at,
                updated_at=self.updated_at,
                title=metadata.title,
                # Not the head's own dict: the reader may change it.
                custom=metadata.custom or {},
            ),
            active_run_id=shown.active_run_id,
            open_run_id=shown.open_run_id,
            latest_run_id=shown.latest_run_id,
            latest_run_updated_at=0 if latest is None else latest.updated_at,
            version=self.version,
            message_count=self.message_count,
            event_seq=self.event_seq,
        )


class Found(Protocol):
    """The records that a commit may refer to besides its own thread."""

    def find_run(self, run_id: str) -> RunRecord | None:
        """Return a run of any thread."""
        ...

    def find_ticket(self, ticket_id: str) -> Ticket | None:
        """Return a ticket of any thread."""
        ...

    def find_dispatch(self, dispatch_id: str) -> RunDispatch | None:
        """Return a dispatch of any thread."""
        ...

    def parents(self) -> Mapping[str, str | None]:
        """Return the parent of each thread; a thread that is not a key does not exist."""
        ...

    def has_messages(self, thread_id: str, ids: Iterable[str]) -> bool:
        """Whether the thread has a message with one of these ids."""
        ...


def tenant_of(commit: Commit) -> str | None:
    """Return the tenant that owns the thread if the commit creates it."""
    if commit.thread is not None and (named := normalize_id(commit.thread.tenant_id)) is not None:
        return named
    return None if commit.run is None else commit.run.tenant_id


def blank_thread(thread_id: str, tenant_id: str | None = None) -> Thread:
    """Return a new, empty thread; it belongs to the tenant that its id names.

    Raises:
        InvalidRecord: The id is blank.
        UnknownThread: The id belongs to another tenant.
    """
    if not thread_id.strip():
        raise InvalidRecord(what="Thread", problem="its id is blank")
    owner = tenant_in(thread_id) if thread_id[0] == TENANT_MARK else None
    thread = Thread(id=thread_id, tenant_id=owner)
    if tenant_id is not None:
        thread.check_tenant(tenant_id)
    return thread
