"""Threads as people edit and delete them."""

import msgspec

from awaken.contracts.errors import InvalidRecord, RecordNotFound
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.store import DeleteStrategy
from awaken.stores.rules.head import blank_thread
from awaken.stores.rules.lineage import apply_edit

from .tables import StoredThread, Tables


def save_thread(tables: Tables, thread: Thread) -> Thread:
    """Create a thread, or edit one; see `ThreadStore.save_thread`."""
    stored = tables.threads.get(thread.id)
    old = blank_thread(thread.id, thread.tenant_id) if stored is None else stored.shown
    shown = apply_edit(tables.parents(), old, thread)
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
