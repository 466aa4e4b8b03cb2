"""Restarts the process when its app's files change, and keeps its port open."""

import importlib
import os
import socket
import sys
from pathlib import Path
from typing import Any, NoReturn

from awaken.contracts.errors import InvalidInput

from .environment_file import forget_loaded

_SOCKET = "AWAKEN_SERVE_FD"
_LOOK_MS = 500
"""How often the app's own file is also checked, for changes before it was watched."""


def take_inherited_socket() -> socket.socket | None:
    """Take the listening socket from before a restart, if there was one."""
    number = os.environ.pop(_SOCKET, None)
    return None if number is None else socket.socket(fileno=int(number))


def restart_process(listener: socket.socket | None) -> NoReturn:
    """Restart with the same arguments and a fresh `.env`; clients that connect meanwhile wait."""
    if listener is not None:
        listener.set_inheritable(True)
        os.environ[_SOCKET] = str(listener.fileno())
    forget_loaded()
    os.execv(sys.executable, [sys.executable, "-m", "awaken", *sys.argv[1:]])


def load_watcher() -> Any:
    """Import the library that watches files.

    Raises:
        InvalidInput: It is not installed.
    """
    try:
        return importlib.import_module("watchfiles")
    except ModuleNotFoundError as error:
        problem = "it needs watchfiles, which `pip install 'awaken[reload]'` brings"
        raise InvalidInput(what="--reload", problem=problem) from error


class WatchedApp:
    """Watches an app's file, and every Python file beside and below it."""

    def __init__(self, file: Path) -> None:
        load_watcher()
        self._file = file.resolve()
        self._written = self._last_written()

    async def wait_for_change(self) -> None:
        """Wait until a file changes; a change of the app's own file before the call counts."""
        watcher = load_watcher()
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
