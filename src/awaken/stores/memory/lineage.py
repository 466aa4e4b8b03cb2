"""Threads as people edit and delete them."""

import msgspec

from awaken.contracts.errors import InvalidRecord, RecordNotFound
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.store import DeleteStrategy
from awaken.stores.rules.head import blank_thread
from awaken.stores.rules.lineage import (
    apply_edit,
    find_reported_thread,
    find_told_run,
    list_deletion_notices,
)

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


def delete_thread(tables: Tables, thread_id: str, strategy: DeleteStrategy, now_ms: int) -> None:
    """Delete a thread and treat its children by the strategy; see `ThreadStore.delete_thread`."""
    if thread_id not in tables.threads:
        raise RecordNotFound(kind="Thread", record_id=thread_id)
    children = _children(tables)
    gone = [thread_id]
    if strategy is DeleteStrategy.CASCADE:
        gone += _descendants(children, thread_id)
    elif strategy is DeleteStrategy.DETACH:
        for child_id in children.get(thread_id, ()):
            child = tables.threads[child_id]
            child.shown = msgspec.structs.replace(child.shown, parent_thread_id=None)
    elif thread_id in children:
        problem = f"it has children: {children[thread_id]}"
        raise InvalidRecord(what=f"Thread '{thread_id}'", problem=problem)
    for gone_id in gone:
        _delete_reports_to(tables, gone_id)
        _tell_parents(tables, gone_id, gone, now_ms)
        tables.remove(gone_id)


def _delete_reports_to(tables: Tables, thread_id: str) -> None:
    """Delete reports to the thread that belong to it: those of deleted children, and its checks."""
    owned = [(key, entry) for key, (owner, entry) in tables.outbox.items() if owner == thread_id]
    for entry_id, entry in owned:
        if find_reported_thread(entry) == thread_id:
            del tables.outbox[entry_id]


def _tell_parents(tables: Tables, thread_id: str, gone: list[str], now_ms: int) -> None:
    """Tell the parents of the open run, and of the run that the thread was created for."""
    opened, first = tables.threads[thread_id].open_run, tables.runs.get(thread_id)
    for run in (opened, None if opened is first else first):
        parent_id = find_told_run(run, gone)
        if run is None or parent_id is None:
            continue
        # It goes with the parent's thread, not with this one.
        owner = run.parent_thread_id if run.parent_thread_id in tables.threads else thread_id
        for notice in list_deletion_notices(run, tables.runs.get(parent_id), now_ms):
            tables.outbox.setdefault(notice.entry_id, (owner or thread_id, notice))


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
