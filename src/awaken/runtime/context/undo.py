"""Removing every mark and cut of a thread, so that its whole history is sent again."""

from awaken.contracts.clock import Clock, IdSource
from awaken.contracts.errors import VersionConflict
from awaken.contracts.state.context_state import CONTEXT_STATE, HistoryRestored
from awaken.contracts.storage.store import Commit, CommitStore


async def undo_compaction(store: CommitStore, thread_id: str, clock: Clock, ids: IdSource) -> bool:
    """Remove the marks and the cut of a thread; return whether there were any.

    No run of the thread may execute in this process meanwhile.

    Raises:
        ThreadClaimed: A run of the thread executes in another process.
    """
    while True:
        checkout = await store.checkout(thread_id)
        stored = checkout.state.get(CONTEXT_STATE.name) if checkout is not None else None
        if checkout is None or stored is None:
            return False
        known = CONTEXT_STATE.decode(stored)
        restored = CONTEXT_STATE.apply_update(known, HistoryRestored())
        if restored == known:
            return False
        commit = Commit(
            commit_id=ids.new_id(),
            thread_id=thread_id,
            expected_version=checkout.thread.version,
            committed_at=clock.now_ms(),
            state={CONTEXT_STATE.name: CONTEXT_STATE.encode(restored)},
        )
        try:
            await store.commit(commit)
        except VersionConflict:
            # Another writer has changed the thread in between.
            continue
        return True
