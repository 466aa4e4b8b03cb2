"""State over time in memory: the values after each commit that changed some, as noted there."""

from awaken.contracts.storage.state_history import (
    FoldedState,
    MissingHistory,
    StateChange,
    StateChanges,
)

from .tables import StoredThread, Tables


def fold_state(tables: Tables, run_id: str, seq: int) -> FoldedState:
    """Return the state after the last commit up to an event; see `StateHistoryStore`."""
    found = _find(tables, run_id)
    if found is None:
        return FoldedState()
    thread, _ = found
    if seq < thread.purged_seq:
        return FoldedState(missing=MissingHistory.PURGED)
    notes = [it for it in thread.state_notes if it.event_seq <= seq]
    missing = None
    # A note has all values: what was not kept before it does not matter.
    unkept = [it for it in thread.unkept_seqs or () if it <= seq]
    if unkept:
        if not notes or notes[-1].event_seq < unkept[-1]:
            missing = MissingHistory.NOT_KEPT
    elif not notes and thread.has_dropped_notes:
        missing = MissingHistory.PURGED
    if not notes:
        return FoldedState(missing=missing)
    newest = notes[-1]
    own = newest.values[1] if newest.run_id == run_id else {}
    return FoldedState(thread=dict(newest.values[0]), run=dict(own), missing=missing)


def list_state_changes(tables: Tables, run_id: str) -> StateChanges:
    """Return which keys each commit of a run changed; see `StateHistoryStore`."""
    found = _find(tables, run_id)
    if found is None:
        return StateChanges()
    thread, log_start = found
    missing = MissingHistory.NOT_KEPT if run_id in thread.unkept_runs else None
    changes = tuple(
        StateChange(event_seq=it.event_seq, thread=it.names[0], run=it.names[1])
        for it in thread.state_notes
        if it.run_id == run_id
    )
    if log_start < thread.purged_seq:
        missing = MissingHistory.PURGED
    return StateChanges(changes=changes, missing=missing)


def _find(tables: Tables, run_id: str) -> tuple[StoredThread, int] | None:
    run = tables.runs.get(run_id)
    thread = None if run is None else tables.threads.get(run.thread_id)
    return None if run is None or thread is None else (thread, run.log_start)
