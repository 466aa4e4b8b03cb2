"""Kills inside the process: before or after the n-th SQL statement, whatever it is.

A connection class stands in for SQLite's own; nothing of the store is changed.
"""

import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from awaken.contracts.errors import StorageError
from awaken.stores.sqlite import connection

from .children import Child, Ended

BEFORE, AFTER, FAILING = "before", "after", "failing"
"""Killed before a statement, killed after it, or told that the disk has failed instead of it."""


class _Plan:
    """What happens at which statement; one per process."""

    number = 0
    what = ""
    seen = 0


def counts(work: Callable[[int], None]) -> dict[str, int]:
    """How many statements a child runs: each is two places to kill at, and one to fail."""
    out, into = os.pipe()

    def counting(fd: int) -> None:
        _install(0, "")
        work(fd)
        os.write(into, str(_Plan.seen).encode())

    ended = Child(counting).wait()
    os.close(into)
    told = os.read(out, 64)
    os.close(out)
    if not ended.is_done:
        raise RuntimeError("the scenario broke")
    return dict.fromkeys((BEFORE, AFTER, FAILING), int(told))


def killed_at(work: Callable[[int], None], what: str, number: int) -> Ended:
    """Kill a child before or after its n-th statement, or let that statement fail."""

    def doomed(fd: int) -> None:
        _install(number, what)
        # What fails while the store is opened is told to whoever opens it, not to a client.
        with suppress(StorageError):
            work(fd)

    return Child(doomed).wait()


def _install(number: int, what: str) -> None:
    _Plan.number, _Plan.what, _Plan.seen = number, what, 0
    connection.sqlite3 = SimpleNamespace(  # type: ignore[attr-defined]
        **(vars(sqlite3) | {"connect": _connect})
    )


def _connect(*args: Any, **options: Any) -> sqlite3.Connection:
    return sqlite3.connect(*args, **options, factory=_Killing)


class _Killing(sqlite3.Connection):
    def execute(self, *args: Any) -> sqlite3.Cursor:
        return _counted(super().execute, *args)

    def executemany(self, *args: Any) -> sqlite3.Cursor:
        return _counted(super().executemany, *args)


def _counted(run: Callable[..., sqlite3.Cursor], *args: Any) -> sqlite3.Cursor:
    _Plan.seen += 1
    is_it = _Plan.seen == _Plan.number
    if is_it and _Plan.what == BEFORE:
        os.kill(os.getpid(), signal.SIGKILL)
    if is_it and _Plan.what == FAILING:
        raise _disk_fault()
    cursor = run(*args)
    if is_it and _Plan.what == AFTER:
        os.kill(os.getpid(), signal.SIGKILL)
    return cursor


def _disk_fault() -> sqlite3.OperationalError:
    """Return what SQLite raises for a failing disk, with the code that its errors carry."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR
    error.sqlite_errorname = "SQLITE_IOERR"
    return error
