"""A log line that says which process has locked the file, instead of a silent wait.

Several processes may share a file; each writes for a moment. A process that takes longer is worth
a line in the log.
"""

import logging
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

logger = logging.getLogger("awaken.store")

NOTICE_MS = 1_000
"""How long another process may lock the file before it is logged."""

_LOCKS = Path("/proc/locks")
_FIELDS_MIN = 6


def is_locked(error: BaseException | None) -> bool:
    """Whether SQLite refused because another process has locked the file."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def log_locked(path: Path, store: str, wait_ms: int) -> None:
    """Log that the file is locked, by which process if known, and how long the store waits."""
    logger.warning(
        "Store '%s' is locked by %s; waiting for up to %d s.",
        store,
        describe_holders(path),
        wait_ms // 1000,
        extra={"event": "store_locked", "store": store},
    )


def describe_holders(path: Path) -> str:
    """Name the processes of this machine that hold a lock on the file or on its log."""
    found = [f"process {pid} ({_read_command(pid)})" for pid in _find_holders(path)]
    return ", ".join(found) or "another process"


def _find_holders(path: Path) -> list[int]:
    inodes = {str(it) for it in _inodes(path)}
    try:
        lines = _LOCKS.read_text("utf-8").splitlines()
    except OSError:
        # Only Linux has this file.
        return []
    held = (line.replace("->", "").split() for line in lines)
    pids = {
        int(fields[4])
        for fields in held
        if len(fields) >= _FIELDS_MIN and fields[5].rpartition(":")[2] in inodes
    }
    return sorted(pid for pid in pids if pid not in (-1, os.getpid()))


def _inodes(path: Path) -> Iterator[int]:
    for suffix in ("", "-wal", "-shm", "-journal"):
        try:
            yield Path(f"{path}{suffix}").stat().st_ino
        except OSError:
            continue


def _read_command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8").strip()
    except OSError:
        return "?"
