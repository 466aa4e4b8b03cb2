"""Modes of a terminal: whether it shows what is typed, and what was typed too early."""

import contextlib
import importlib
import importlib.util
from collections.abc import Iterator
from typing import Any, TextIO

termios: Any = None
if importlib.util.find_spec("termios"):  # Windows has no such modes.
    termios = importlib.import_module("termios")


@contextlib.contextmanager
def hide_typing(stream: TextIO) -> Iterator[None]:
    """Keep a terminal from showing keys, which would mix with what the program draws."""
    if termios is None or not stream.isatty():
        yield
        return
    number = stream.fileno()
    before = termios.tcgetattr(number)
    quiet = [*before]
    quiet[3] = before[3] & ~termios.ECHO
    termios.tcsetattr(number, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(number, termios.TCSANOW, before)


def drop_typed(stream: TextIO) -> None:
    """Throw away what was typed and not read yet."""
    if termios is not None and stream.isatty():
        termios.tcflush(stream.fileno(), termios.TCIFLUSH)
