"""Threads: the durable identity of a conversation. Messages are stored separately."""

from typing import Any

import msgspec

from awaken.contracts.errors import UnknownThread
from awaken.contracts.identity import normalize_id
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.record import Record

from .records import RunRecord

# Bound once: Python 3.11 reads a member through its class slowly.
_RUNNING, _DONE = RunStatus.RUNNING, RunStatus.DONE

DEMO_PREFIX = "demo-data-"
"""How the ids of the threads of the demo data begin."""


class ThreadMetadata(Record, frozen=True, kw_only=True):
    """User-defined metadata of a thread."""

    created_at: int | None = None
    updated_at: int | None = None
    title: str | None = None
    custom: dict[str, Any] = {}


class ForkPoint(Record, frozen=True, kw_only=True):
    """Where a thread branched off: it shares the other thread's messages up to this one."""

    thread_id: str
    message_id: str | None = None
    """The last shared message; absent: the threads share none."""


class NewestBranch(Record, frozen=True, kw_only=True):
    """The thread in which a client continues a conversation that it has branched."""

    number: int
    """How often the conversation was branched; a lower number never replaces a higher one."""
    thread_id: str


class Thread(Record, frozen=True, kw_only=True):
    """A conversation."""

    id: str
    tenant_id: str | None = None
    """The tenant that owns it; set when it is created, never changed."""
    resource_id: str | None = None
    parent_thread_id: str | None = None
    forked_from: ForkPoint | None = None
    """Set when it is created, never changed."""
    newest_branch: NewestBranch | None = None
    """Where clients continue after they regenerated an answer or edited a message here."""
    metadata: ThreadMetadata = ThreadMetadata()
    active_run_id: str | None = None
    """The run that is executing."""
    open_run_id: str | None = None
    """The run that has not ended: executing or waiting."""
    latest_run_id: str | None = None
    latest_run_updated_at: int = 0
    version: int = 0
    """Incremented by every commit."""
    message_count: int = 0
    event_seq: int = 0
    """The sequence number of the latest event in the log."""

    def normalize(self) -> "Thread":
        """Trim the lineage; blank means absent."""
        resource, parent = normalize_id(self.resource_id), normalize_id(self.parent_thread_id)
        if resource == self.resource_id and parent == self.parent_thread_id:
            return self
        return msgspec.structs.replace(self, resource_id=resource, parent_thread_id=parent)

    def check_tenant(self, tenant_id: str | None) -> None:
        """Refuse a tenant that does not own the thread; without a tenant any thread may be used.

        Raises:
            UnknownThread: The thread belongs to another tenant, or to none.
        """
        wanted = normalize_id(tenant_id)
        if wanted is not None and wanted != self.tenant_id:
            raise UnknownThread(thread_id=self.id)

    def touch(self, now_ms: int) -> "Thread":
        """Set the creation time once and the update time always."""
        old = self.metadata
        metadata = ThreadMetadata(
            created_at=old.created_at if old.created_at is not None else now_ms,
            updated_at=now_ms,
            title=old.title,
            custom=old.custom,
        )
        return msgspec.structs.replace(self, metadata=metadata)

    def project_run(self, run: RunRecord) -> "Thread":
        """Update the thread's run pointers; a run older than the latest one changes nothing.

        The open run always counts as current, even if its writer's clock is behind: otherwise it
        could neither open nor end here.
        """
        is_late = run.updated_at < self.latest_run_updated_at and run.run_id != self.latest_run_id
        if is_late and not self._opens_or_ends(run):
            return self
        active: str | None = run.run_id
        opened: str | None = run.run_id
        if run.status is _DONE:
            active = None if self.active_run_id == run.run_id else self.active_run_id
            opened = None if self.open_run_id == run.run_id else self.open_run_id
        elif run.status is not _RUNNING:
            active = None
        parent = self.parent_thread_id
        if parent is None and run.parent_thread_id is not None:
            parent = normalize_id(run.parent_thread_id)
        return msgspec.structs.replace(
            self,
            latest_run_id=run.run_id,
            latest_run_updated_at=run.updated_at,
            active_run_id=active,
            open_run_id=opened,
            parent_thread_id=parent,
        )

    def _opens_or_ends(self, run: RunRecord) -> bool:
        if run.status is RunStatus.DONE:
            return run.run_id == self.open_run_id
        return self.open_run_id in (None, run.run_id)
