"""The parents of threads, the edits that people make to a thread, and what its deletion tells."""

from collections.abc import Container, Mapping

import msgspec

from awaken.contracts.errors import CorruptRecord, InvalidRecord
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.runs.threads import NewestBranch, Thread, ThreadMetadata
from awaken.contracts.storage.outbox import (
    ReportToParent,
    build_deletion_notice,
    decode_command,
    end_deleted_run,
)
from awaken.contracts.storage.store import OutboxEntry
from awaken.contracts.tenancy import have_same_tenant

Parents = Mapping[str, str | None]
"""The parent of each thread; a thread that is not in it does not exist."""


def check_parent(parents: Parents, thread_id: str, parent_id: str | None) -> None:
    """Check all ancestors of a thread.

    Raises:
        InvalidRecord: An ancestor does not exist, or is the thread itself.
    """
    ancestor_id = parent_id
    while ancestor_id is not None:
        if ancestor_id == thread_id:
            raise InvalidRecord(what=f"Thread '{thread_id}'", problem="it would be its own parent")
        if ancestor_id not in parents:
            problem = f"its parent '{ancestor_id}' does not exist"
            raise InvalidRecord(what=f"Thread '{thread_id}'", problem=problem)
        ancestor_id = parents[ancestor_id]


def apply_edit(parents: Parents, old: Thread, new: Thread) -> Thread:
    """Return `old` with the lineage and metadata of `new`; the rest stays as it was.

    Raises:
        UnknownThread: The edit comes from another tenant.
        InvalidRecord: The edit is for another thread, or its parent is invalid.
    """
    if new.id != old.id:
        raise InvalidRecord(what=f"Thread '{old.id}'", problem=f"the edit is for '{new.id}'")
    new = new.normalize()
    old.check_tenant(new.tenant_id)
    if new.parent_thread_id != old.parent_thread_id:
        check_parent(parents, old.id, new.parent_thread_id)
    created_at = old.metadata.created_at
    return msgspec.structs.replace(
        old,
        resource_id=new.resource_id,
        parent_thread_id=new.parent_thread_id,
        forked_from=new.forked_from if created_at is None else old.forked_from,
        newest_branch=_pick_newest(old.newest_branch, new.newest_branch),
        metadata=ThreadMetadata(
            created_at=new.metadata.created_at if created_at is None else created_at,
            updated_at=new.metadata.updated_at,
            title=new.metadata.title,
            custom=new.metadata.custom,
        ),
    )


def _pick_newest(old: NewestBranch | None, new: NewestBranch | None) -> NewestBranch | None:
    """Return the branch with the higher number; between equal numbers, always the same one.

    An edit made from a stale copy of the thread therefore changes nothing.
    """
    if old is None or new is None:
        return old or new
    return max(old, new, key=lambda it: (it.number, it.thread_id))


def check_same_tenant(thread_id: str, run_id: str) -> None:
    """Check that the id of a new run belongs to the tenant of its thread.

    Raises:
        InvalidRecord: It belongs to another tenant, or to none.
    """
    if not have_same_tenant(run_id, thread_id):
        problem = f"its id is not one of the tenant that owns thread '{thread_id}'"
        raise InvalidRecord(what=f"Run '{run_id}'", problem=problem)


def find_told_run(run: RunRecord | None, gone: Container[str]) -> str | None:
    """Return the parent run that is told that a run is deleted.

    If it waits for the run, it would wait for ever; if it is executed again, it would start the
    run a second time. A parent on one of the threads `gone`, which are deleted together, does
    neither. The end of a task was sent as a message when it ended.
    """
    if run is None or not run.parent_thread_id or run.parent_thread_id in gone:
        return None
    if run.task is not None and run.status.is_terminal:
        return None
    return run.parent_run_id


def list_deletion_notices(
    run: RunRecord, parent: RunRecord | None, now_ms: int
) -> tuple[OutboxEntry, ...]:
    """Return what the deletion of a run tells its parent; nothing if neither of them is open."""
    if not run.status.is_terminal:
        return (build_deletion_notice(end_deleted_run(run, now_ms)),)
    if parent is None or parent.status.is_terminal:
        return ()
    return (build_deletion_notice(run),)


def find_reported_thread(entry: OutboxEntry) -> str | None:
    """Return the thread that an entry reports the end of a child to, if it does so."""
    try:
        command = decode_command(entry.payload)
    except CorruptRecord:
        # The relay records the error when it tries the entry.
        return None
    return command.parent_thread_id if isinstance(command, ReportToParent) else None
