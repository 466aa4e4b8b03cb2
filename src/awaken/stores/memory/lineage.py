"""Which thread belongs under which, and the edits that people make to a thread."""

import msgspec

from awaken.contracts.errors import InvalidRecord, RecordNotFound
from awaken.contracts.storage import DeleteStrategy
from awaken.contracts.threads import Thread, ThreadMetadata

from .tables import StoredThread, Tables


def check_parent(tables: Tables, thread_id: str, parent_id: str | None) -> None:
    """Follow the parents upwards.

    Raises:
        InvalidRecord: One of them does not exist, or is the thread itself.
    """
    ancestor_id = parent_id
    while ancestor_id is not None:
        if ancestor_id == thread_id:
            raise InvalidRecord(what=f"Thread '{thread_id}'", problem="it would be its own parent")
        ancestor = tables.threads.get(ancestor_id)
        if ancestor is None:
            problem = f"its parent '{ancestor_id}' does not exist"
            raise InvalidRecord(what=f"Thread '{thread_id}'", problem=problem)
        ancestor_id = ancestor.shown.parent_thread_id


def edited(tables: Tables, old: Thread, new: Thread) -> Thread:
    """Return `old` with the lineage and metadata of `new`; pointers and creation time stay.

    Raises:
        InvalidRecord: It is another thread, or the lineage is broken.
    """
    if new.id != old.id:
        raise InvalidRecord(what=f"Thread '{old.id}'", problem=f"the edit is for '{new.id}'")
    new = new.normalized()
    if new.parent_thread_id != old.parent_thread_id:
        check_parent(tables, old.id, new.parent_thread_id)
    created_at = old.metadata.created_at
    return msgspec.structs.replace(
        old,
        resource_id=new.resource_id,
        parent_thread_id=new.parent_thread_id,
        metadata=ThreadMetadata(
            created_at=new.metadata.created_at if created_at is None else created_at,
            updated_at=new.metadata.updated_at,
            title=new.metadata.title,
            custom=new.metadata.custom,
        ),
    )


def blank_thread(thread_id: str) -> Thread:
    """Return a thread that nobody has written to.

    Raises:
        InvalidRecord: The id is blank.
    """
    if not thread_id.strip():
        raise InvalidRecord(what="Thread", problem="its id is blank")
    return Thread(id=thread_id)


def save_thread(tables: Tables, thread: Thread) -> Thread:
    """Create a thread, or edit one; see `ThreadStore.save_thread`."""
    stored = tables.threads.get(thread.id)
    old = blank_thread(thread.id) if stored is None else stored.shown
    shown = edited(tables, old, thread)
    if stored is None:
        stored = tables.threads[thread.id] = StoredThread(shown)
    stored.shown = shown
    if shown.metadata.updated_at is not None:
        stored.updated_at = shown.metadata.updated_at
    return stored.view()


def delete_thread(tables: Tables, thread_id: str, strategy: DeleteStrategy) -> None:
    """Delete a thread and treat its children by the strategy; see `ThreadStore.delete_thread`."""
    if thread_id not in tables.threads:
        raise RecordNotFound(kind="Thread", record_id=thread_id)
    children = _children(tables)
    if strategy is DeleteStrategy.CASCADE:
        for descendant_id in _descendants(children, thread_id):
            tables.remove(descendant_id)
    elif strategy is DeleteStrategy.DETACH:
        for child_id in children.get(thread_id, ()):
            child = tables.threads[child_id]
            child.shown = msgspec.structs.replace(child.shown, parent_thread_id=None)
    elif thread_id in children:
        problem = f"it has children: {children[thread_id]}"
        raise InvalidRecord(what=f"Thread '{thread_id}'", problem=problem)
    tables.remove(thread_id)


def _children(tables: Tables) -> dict[str, list[str]]:
    children: dict[str, list[str]] = {}
    for thread_id, thread in tables.threads.items():
        parent_id = thread.shown.parent_thread_id
        if parent_id is not None:
            children.setdefault(parent_id, []).append(thread_id)
    return children


def _descendants(children: dict[str, list[str]], thread_id: str) -> list[str]:
    found = list(children.get(thread_id, ()))
    for descendant_id in found:
        found.extend(children.get(descendant_id, ()))
    return found
