"""Threads without an open run, as their latest commit left them.

Their next run need not read them, if the database proves that nothing newer has been written.
"""

import msgspec

from awaken.contracts.runs.records import RunRecord
from awaken.contracts.runs.threads import Thread

from .heads import StoredHead


class IdleThread(msgspec.Struct):
    """All that a checkout needs of a thread without an open run, besides its messages."""

    no: int
    latest_run: RunRecord | None
    _thread: Thread | None

    def take_thread(self) -> Thread | None:
        """Return the thread once: the taker may change parts of it."""
        thread, self._thread = self._thread, None
        return thread


def show_idle(head: StoredHead) -> IdleThread | None:
    """Return what a checkout needs of a thread without an open run; None if it has to be read.

    State has to be read. Metadata with parts as well: the taker may change them, and the head is
    written again with the next commit.
    """
    if head.has_state or head.has_run_state:
        return None
    if head.cancel_cause is not None or head.live_tickets or head.shown.metadata.custom:
        return None
    return IdleThread(head.no, head.latest_run, head.view())
