"""A process that begins anew when its app's files change, without letting go of its port."""

import importlib
import os
import socket
import sys
from pathlib import Path
from typing import Any, NoReturn

from awaken.contracts.errors import InvalidInput

_SOCKET = "AWAKEN_SERVE_FD"
_LOOK_MS = 500
"""How often the app's own file is looked at besides, for what happened before it was watched."""


def inherited_socket() -> socket.socket | None:
    """The socket of the process that this one was before, if it was one."""
    number = os.environ.pop(_SOCKET, None)
    return None if number is None else socket.socket(fileno=int(number))


def begin_anew(listener: socket.socket | None) -> NoReturn:
    """Become a new process with the same arguments; clients that connect meanwhile wait."""
    if listener is not None:
        listener.set_inheritable(True)
        os.environ[_SOCKET] = str(listener.fileno())
    os.execv(sys.executable, [sys.executable, "-m", "awaken", *sys.argv[1:]])


def checked_watcher() -> Any:
    """The library that watches files.

    Raises:
        InvalidInput: It is not installed.
    """
    try:
        return importlib.import_module("watchfiles")
    except ModuleNotFoundError as error:
        problem = "it needs watchfiles, which `pip install 'awaken[reload]'` brings"
        raise InvalidInput(what="--reload", problem=problem) from error


class Watched:
    """An app's file as it is now, and every Python file beside and below it."""

    def __init__(self, file: Path) -> None:
        checked_watcher()
        self._file = file.resolve()
        self._written = self._last_written()

    async def change(self) -> None:
        """Wait until a file changes; the app's own also before anybody waits."""
        watcher = checked_watcher()
        changes = watcher.awatch(
            self._file.parent,
            watch_filter=watcher.PythonFilter(),
            debounce=200,
            rust_timeout=_LOOK_MS,
            yield_on_timeout=True,
        )
        async for found in changes:
            if found or self._last_written() != self._written:
                return

    def _last_written(self) -> int:
        return self._file.stat().st_mtime_ns if self._file.is_file() else 0
