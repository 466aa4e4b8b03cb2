"""Processes that run `python …` without paying for its imports: forks of one that has them.

For tests of what a process does, not of how it starts: what it imports, its locale and its
interpreter's own options are those of a process that has imported awaken. Only Linux makes such a
process a child of the test; elsewhere it is a plain one.
"""

import array
import atexit
import ctypes
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

SERVER = Path(__file__).with_name("fork_server.py")
WAIT_S = 100
_PR_SET_CHILD_SUBREAPER = 36
_one_request = threading.Lock()


class ForkedPython(subprocess.Popen[Any]):
    """A process that runs what `python` would run with these arguments.

    Args:
        *arguments: `-W error` if wanted; `-m` and a module, `-c` and a program, or a file; then the
            arguments of the program.
        terminal: Whether stdin becomes the controlling terminal of a new session.
        **options: Those of `subprocess.Popen`.
    """

    def __init__(self, *arguments: str, terminal: bool = False, **options: Any) -> None:
        self._terminal = terminal
        super().__init__(arguments, start_new_session=terminal, **options)

    def _execute_child(self, arguments: Any, *given: Any) -> None:
        if sys.platform != "linux":
            command = [sys.executable, *arguments]
            super()._execute_child(command, *given)  # type: ignore[misc]
            return
        folder, environment = given[4], given[5]
        pipes, is_session = given[9:15], given[20]
        # The ends of the new process; -1 is a stream that it shares with this one.
        ends = (pipes[0], pipes[3], pipes[5])
        streams = [number if it == -1 else it for number, it in enumerate(ends)]
        request = {
            "arguments": list(arguments),
            "folder": os.fspath(folder or os.getcwd()),
            "environment": dict(os.environ if environment is None else environment),
            "session": is_session,
            "terminal": self._terminal,
        }
        with _adopting():
            server = _start_server()
            socket.send_fds(server, [json.dumps(request).encode()], streams)
            (self.pid,) = array.array("q", server.recv(8))
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def run_python(*arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run a process to its end, and return what it printed; `input` is its stdin."""
    typed = options.pop("input", "")
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with ForkedPython(*arguments, **streams, text=True, **options) as process:
        try:
            out, error = process.communicate(typed, timeout=WAIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return subprocess.CompletedProcess(arguments, process.returncode, out, error)


@contextmanager
def _adopting() -> Iterator[None]:
    """Be the parent of the processes that lose theirs; not for longer than one request needs."""
    prctl = ctypes.CDLL(None).prctl
    with _one_request:
        prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            yield
        finally:
            prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@cache
def _start_server() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    number = theirs.fileno()
    with theirs:
        server = subprocess.Popen(
            [sys.executable, str(SERVER), str(number)], pass_fds=(number,), stdin=subprocess.DEVNULL
        )

    def stop() -> None:
        ours.close()
        server.wait(WAIT_S)

    atexit.register(stop)
    return ours
