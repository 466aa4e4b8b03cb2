"""A terminal for tests: starts a program on it, types, and waits for what it shows."""

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.forked_python import ForkedPython

from awaken.contracts.clock import SystemClock

WAIT_S = 60.0
SAMPLES_ASLEEP = 5
# Its own session with the terminal as the controlling one: Ctrl-C becomes a signal.
_LAUNCH = (
    "import fcntl, os, sys, termios;"
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)
CTRL_C, CTRL_D = "\x03", "\x04"
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1b[=>78]")


def without_control(text: str) -> str:
    """What a person reads: the text without colours and movements."""
    return _CONTROL.sub("", text)


class PseudoTerminal:
    """A program on a terminal of 80 columns.

    Args:
        *arguments: Of the command `awaken`.
        folder: Where it runs.
        environment: Variables besides those of the tests.
        fresh: Whether an interpreter starts for it, which reads its own options and the locale.
    """

    def __init__(
        self,
        *arguments: str,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        fresh: bool = False,
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
        base = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
        command = ("-m", "awaken", *arguments)
        options: dict[str, Any] = {
            **dict.fromkeys(("stdin", "stdout", "stderr"), slave),
            "cwd": folder,
            "env": {**base, "TERM": "xterm-256color", **(environment or {})},
        }
        self.process: subprocess.Popen[Any]
        if fresh:
            launched = [sys.executable, "-c", _LAUNCH, *command]
            self.process = subprocess.Popen(launched, start_new_session=True, **options)
        else:
            self.process = ForkedPython(*command, terminal=True, **options)
        self._slave = slave
        self._clock = SystemClock()
        self.shown = ""
        """Everything so far, as the terminal got it."""

    def __enter__(self) -> "PseudoTerminal":
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._slave)
        os.close(self._master)

    @property
    def text(self) -> str:
        """Everything so far, as a person reads it."""
        return without_control(self.shown)

    def type(self, keys: str) -> None:
        """Press keys; control keys once the program waits, as a person does."""
        if keys in (CTRL_C, CTRL_D):
            self._wait_until_asleep()
        os.write(self._master, keys.encode())

    def wait_for(self, words: str, *, times: int = 1) -> None:
        """Wait until a text is shown, so often."""
        until = self._clock.monotonic_ms() + WAIT_S * 1000
        while self.text.count(words) < times:
            assert self._clock.monotonic_ms() < until, f"{words!r} is not in:\n{self.text}"
            self._read(0.2)
            if self.process.poll() is not None:
                self._read(0)
                assert self.text.count(words) >= times, f"{words!r} is not in:\n{self.text}"

    def _wait_until_asleep(self) -> None:
        """Wait until the program sleeps, at its prompt or for a tool.

        Python's readline keeps a Ctrl-C that comes between the prompt and the wait for a key until
        the next key, and a Ctrl-D of that moment is lost with the mode of the terminal. No person
        is that fast; a test is.
        """
        place = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/stat")
        asleep = 0
        while asleep < SAMPLES_ASLEEP and self.process.poll() is None:
            self._read(0.02)
            state = place.read_text().rpartition(")")[2].split()[0]
            asleep = asleep + 1 if state == "S" else 0

    def end(self) -> int:
        """Wait for the end of the program; returns its exit code."""
        until = self._clock.monotonic_ms() + WAIT_S * 1000
        while self.process.poll() is None:
            assert self._clock.monotonic_ms() < until, self.text
            self._read(0.1)
        while self._read(0):
            pass
        return self.process.returncode

    def is_showing_keys(self) -> bool:
        """Whether the terminal shows what is typed."""
        return bool(termios.tcgetattr(self._slave)[3] & termios.ECHO)

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return False
        with contextlib.suppress(OSError):
            self.shown += os.read(self._master, 65_536).decode(errors="replace")
            return True
        return False
