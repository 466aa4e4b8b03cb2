"""Forked children that are killed: what they logged, and how they ended."""

import os
import signal
import traceback
from collections.abc import Callable

from awaken.contracts.record import Record

from .history import History, parsed


class Ended(Record, frozen=True, kw_only=True):
    """A child that is gone: its log, and its wait status."""

    history: History
    status: int

    @property
    def is_killed(self) -> bool:
        """Whether SIGKILL ended it."""
        return os.WIFSIGNALED(self.status) and os.WTERMSIG(self.status) == signal.SIGKILL

    @property
    def is_done(self) -> bool:
        """Whether it came to its end."""
        return self.status == 0


class Child:
    """A forked process that logs to a pipe."""

    def __init__(self, work: Callable[[int], None]) -> None:
        out, into = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(out)
            _run(work, into)
        os.close(into)
        self._out = out

    def kill(self) -> None:
        """Kill it as nobody can prevent."""
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> Ended:
        """Read its log to the end and reap it."""
        data = bytearray()
        while chunk := os.read(self._out, 1 << 16):
            data += chunk
        os.close(self._out)
        _, status = os.waitpid(self.pid, 0)
        return Ended(history=parsed(bytes(data)), status=status)


def _run(work: Callable[[int], None], fd: int) -> None:
    code = 1
    try:
        work(fd)
        code = 0
    except BaseException:  # noqa: BLE001 - a forked child must never return
        traceback.print_exc()
    finally:
        os._exit(code)
