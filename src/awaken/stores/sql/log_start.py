"""Where a thread's log begins now: what was purged of it, or went with the days of the log."""

from . import rows
from .session import SqlSession

DROPPED_LOG = "log_dropped"
"""The fact that parts of the log were dropped with all their threads; only Postgres writes it."""
LOG_MARKS = "log_marks"
"""The fact that threads are no longer told how much of their log was dropped."""


async def has_dropped_days(session: SqlSession) -> bool:
    """Whether commits went without a mark in their threads."""
    return await session.one("find_fact", DROPPED_LOG) is not None


async def find_purged_seq(session: SqlSession, thread_no: int, marked: int, latest: int) -> int:
    """Return the number of the last event that was purged; 0 if the log is complete.

    `marked` is what the thread knows of it and `latest` its newest event.
    """
    if not await has_dropped_days(session):
        return marked
    row = await session.one("find_first_commit", *rows.all_places(thread_no))
    if row is None:
        return latest
    event_seq, run_id, committed_at, blob = row
    if blob is None:
        return max(marked, int(event_seq))
    what = f"Events of thread {thread_no}"
    events = rows.unpack(blob, rows.EVENTS, what, event_seq, run_id, committed_at)
    return max(marked, int(event_seq) - len(events))
