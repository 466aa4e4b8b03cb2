"""Reads stdin for commands; a stdin that is closed or cannot be read is refused by name."""

import io
import os
import stat
import sys
from collections.abc import Callable
from contextlib import suppress

import typer

from awaken.contracts.errors import RefusedInput


def read_input_line() -> str | None:
    """Read a line of stdin; None at its end.

    Raises:
        RefusedInput: It cannot be read.
    """
    return _read(sys.stdin.readline) or None


def read_input(characters_max: int = -1) -> str:
    """Read stdin to its end, or so many characters of it.

    Raises:
        RefusedInput: It cannot be read.
    """
    return _read(lambda: sys.stdin.read(characters_max))


def confirm(question: str) -> None:
    """Ask on stderr whether to go on.

    Raises:
        RefusedInput: Stdin cannot be read, or has no answer.
        Abort: The answer is no.
    """
    check_input()
    try:
        is_sure = typer.confirm(question, err=True)
    except typer.Abort as error:
        if sys.stdin.isatty():
            raise
        problem = "stdin has no answer, and nothing was changed; pass --yes to go on unasked."
        raise RefusedInput(what="stdin", problem=problem) from error
    if not is_sure:
        raise typer.Abort


def check_input() -> None:
    """Refuse a stdin that is closed.

    Raises:
        RefusedInput: It cannot be read.
    """
    # One that a program put in its place has no number, and can be read.
    with suppress(io.UnsupportedOperation):
        number = sys.stdin.fileno()
        _read(lambda: os.read(number, 0).decode())


def check_pipes(*streams: int) -> None:
    """Refuse streams that no event loop can wait for, such as files and `/dev/null`.

    Raises:
        RefusedInput: One is no pipe, socket or terminal.
    """
    for number in streams:
        mode = os.fstat(number).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(number)):
            problem = "stdin and stdout must be pipes to the editor that starts this command."
            raise RefusedInput(what="stdin", problem=problem)


def _read(read: Callable[[], str]) -> str:
    try:
        return read()
    except OSError as error:
        problem = f"stdin cannot be read: {error.strerror or error}."
        raise RefusedInput(what="stdin", problem=problem) from error
