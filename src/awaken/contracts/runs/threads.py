"""Threads: a conversation's durable identity. Messages are kept beside it, not in it."""

from typing import Any

import msgspec

from awaken.contracts.errors import UnknownThread
from awaken.contracts.identity import present
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.record import Record

from .records import RunRecord


class ThreadMetadata(Record, frozen=True, kw_only=True):
    """What people attach to a thread."""

    created_at: int | None = None
    updated_at: int | None = None
    title: str | None = None
    custom: dict[str, Any] = {}


class ForkPoint(Record, frozen=True, kw_only=True):
    """Where a thread left another one: what that one said up to a message, it says as well."""

    thread_id: str
    message_id: str | None = None
    """The last message that both have; absent: they have none in common."""


class NewestBranch(Record, frozen=True, kw_only=True):
    """Which thread a client means that goes on with a conversation it has branched."""

    number: int
    """How often the conversation was branched; a lower number never takes the place of a higher."""
    thread_id: str


class Thread(Record, frozen=True, kw_only=True):
    """A conversation."""

    id: str
    tenant_id: str | None = None
    """Who owns it; set when it is created, never changed."""
    resource_id: str | None = None
    parent_thread_id: str | None = None
    forked_from: ForkPoint | None = None
    """Set when it is created, never changed."""
    newest_branch: NewestBranch | None = None
    """Where clients go on that regenerated an answer or changed a message of this thread."""
    metadata: ThreadMetadata = ThreadMetadata()
    active_run_id: str | None = None
    """The run that is executing."""
    open_run_id: str | None = None
    """The run that has not ended: executing or waiting."""
    latest_run_id: str | None = None
    latest_run_updated_at: int = 0
    version: int = 0
    """Raised by one with every commit."""
    message_count: int = 0
    event_seq: int = 0
    """The place of the latest event in the log."""

    def normalized(self) -> "Thread":
        """Trim the lineage; blank means absent."""
        resource, parent = present(self.resource_id), present(self.parent_thread_id)
        if resource == self.resource_id and parent == self.parent_thread_id:
            return self
        return msgspec.structs.replace(self, resource_id=resource, parent_thread_id=parent)

    def check_tenant(self, tenant_id: str | None) -> None:
        """Refuse a tenant that does not own the thread; whoever names none may use any.

        Raises:
            UnknownThread: The thread is another tenant's, or nobody's.
        """
        wanted = present(tenant_id)
        if wanted is not None and wanted != self.tenant_id:
            raise UnknownThread(thread_id=self.id)

    def touched(self, now_ms: int) -> "Thread":
        """Set the creation time once and the update time always."""
        old = self.metadata
        metadata = ThreadMetadata(
            created_at=old.created_at if old.created_at is not None else now_ms,
            updated_at=now_ms,
            title=old.title,
            custom=old.custom,
        )
        return msgspec.structs.replace(self, metadata=metadata)

    def projecting(self, run: RunRecord) -> "Thread":
        """Show a run in the thread's pointers; an older run than the shown one changes nothing.

        The open run is never older, whatever its writer's clock says: it opens and ends here.
        """
        is_late = run.updated_at < self.latest_run_updated_at and run.run_id != self.latest_run_id
        if is_late and not self._opens_or_ends(run):
            return self
        active, opened = _pointers(self, run)
        parent = self.parent_thread_id or present(run.parent_thread_id)
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


def _pointers(thread: Thread, run: RunRecord) -> tuple[str | None, str | None]:
    match run.status:
        case RunStatus.RUNNING:
            return run.run_id, run.run_id
        case RunStatus.CREATED | RunStatus.WAITING:
            return None, run.run_id
        case RunStatus.DONE:
            active = None if thread.active_run_id == run.run_id else thread.active_run_id
            opened = None if thread.open_run_id == run.run_id else thread.open_run_id
            return active, opened
