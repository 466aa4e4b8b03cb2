"""The rows of threads as this process last saw them.

A row that is kept here may be out of date, which no process can know. So it is only ever used for a
guess: the statement that writes compares the row, and if any process has written to it since, the
write fails and the work is done again under a lock.
"""

from collections import OrderedDict
from typing import Any

from awaken.contracts.record import Record
from awaken.contracts.storage.dispatch import DispatchStatus
from awaken.contracts.storage.inspection import StoreWatcher
from awaken.stores.sql.session import Row

from .clock import ServerClock
from .texts import Texts

KEPT_MAX = 512
COLUMNS = (
    "no", "version", "message_count", "event_seq", "purged_seq", "updated_at", "resource_id",
    "parent_id", "head", "claim_token", "claimed_by", "claim_dispatch", "cancel_cause", "epoch",
    "queued", "served_at", "id", "latest_run_id", "tenant_id",
)  # fmt: skip
"""The columns of a thread's row, in the order of `lock_thread`."""
_PLACES = {name: place for place, name in enumerate(COLUMNS)}


class KnownThread(Record, frozen=True):
    """The row of a thread, and the row of its latest run."""

    row: tuple[Any, ...]
    mark: int
    """Which transaction wrote the row; every change of a row changes it."""
    run: Row | None
    """As `find_run` returns it: record, thread and first version."""

    def change(self, values: dict[str, Any], mark: int, run: Row | None) -> "KnownThread":
        """Return the row after columns were written by a transaction."""
        row = list(self.row)
        for name, value in values.items():
            if name in _PLACES:
                row[_PLACES[name]] = value
        return KnownThread(tuple(row), mark, run)


def decode_known(row: Row) -> KnownThread:
    """Return what a row of `guess_thread` says."""
    run = None if row[19] is None else (row[19], row[21], row[22])
    return KnownThread(tuple(row[:19]), row[20], run)


class KnownThreads:
    """The threads and executed dispatches that were used last; the rest is forgotten."""

    def __init__(self) -> None:
        self._threads: OrderedDict[str, KnownThread | None] = OrderedDict()
        """None for a thread that did not exist when it was looked for."""
        self._dispatches: OrderedDict[str, bytes] = OrderedDict()

    def find(self, thread_id: str) -> KnownThread | None:
        """Return a thread's row, or None."""
        return self._threads.get(thread_id)

    def is_absent(self, thread_id: str) -> bool:
        """Whether a thread did not exist when it was last looked for."""
        return thread_id in self._threads and self._threads[thread_id] is None

    def is_drained(self, thread_id: str) -> bool:
        """Whether a thread was unclaimed, and its queue empty, when it was last seen."""
        known = self._threads.get(thread_id)
        if known is None:
            return False
        return known.row[_PLACES["claim_token"]] is None and known.row[_PLACES["queued"]] == 0

    def keep(self, thread_id: str, known: KnownThread | None) -> None:
        """Keep a thread's row; None if it does not exist."""
        _keep(self._threads, thread_id, known)

    def find_dispatch(self, dispatch_id: str) -> bytes | None:
        """Return the record of a dispatch, or None."""
        return self._dispatches.get(dispatch_id)

    def keep_dispatch(self, dispatch_id: str, record: bytes) -> None:
        """Keep the record of a dispatch that is executed."""
        _keep(self._dispatches, dispatch_id, record)

    def forget(self, thread_id: str) -> None:
        """Forget a thread's row, which turned out to be out of date."""
        self._threads.pop(thread_id, None)

    def forget_dispatch(self, dispatch_id: str) -> None:
        """Forget a dispatch, which has ended or turned out to be out of date."""
        self._dispatches.pop(dispatch_id, None)

    def clear(self) -> None:
        """Forget everything: a server that takes over may count transactions anew."""
        self._threads.clear()
        self._dispatches.clear()


class PostgresContext:
    """What all sessions of a database share: texts, the clock, rows they have seen, watchers."""

    def __init__(self, schema: str | None = None) -> None:
        self.texts = Texts(schema)
        self.clock = ServerClock()
        self.known = KnownThreads()
        self.watchers: list[StoreWatcher] = []
        """Who is told what the server is asked."""

    def count(self, op: str) -> None:
        """Tell the watchers of a round trip."""
        for watcher in self.watchers:
            watcher.on_statement(op)

    def forget(self) -> None:
        """Forget what may be wrong of the next server: a standby has its own clock."""
        self.clock.forget()
        self.known.clear()


def keep_executed(known: KnownThreads, dispatch_id: str, status: str, record: bytes) -> None:
    """Keep the record of a dispatch while it is executed: the end of its run asks for it."""
    if status == DispatchStatus.CLAIMED.value:
        known.keep_dispatch(dispatch_id, record)
    else:
        known.forget_dispatch(dispatch_id)


def _keep(kept: OrderedDict[str, Any], key: str, value: Any) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > KEPT_MAX:
        kept.popitem(last=False)
