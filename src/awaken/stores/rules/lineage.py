"""The parents of threads, and the edits that people make to a thread."""

from collections.abc import Mapping

import msgspec

from awaken.contracts.errors import InvalidRecord
from awaken.contracts.runs.threads import NewestBranch, Thread, ThreadMetadata
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
