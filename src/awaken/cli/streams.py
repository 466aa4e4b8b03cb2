"""The three streams of the process, made fit for every command: closed ones, encodings, full disks.

A stream that the caller closed is opened again, in a way that cannot be used: otherwise the next
file, such as a store, would get its number, and what is printed would end up in it.
"""

import contextlib
import errno
import io
import os
import sys
from typing import Any

_OUTPUT_ERRORS = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.EPIPE, errno.ENXIO}
)


def prepare_streams() -> None:
    """Open what is closed, and make every text printable and readable in any encoding."""
    sys.stdin = sys.stdin or _reopen(0, os.O_WRONLY, "r")
    sys.stdout = sys.stdout or _reopen(1, os.O_RDONLY, "w")
    # What cannot be told is no reason to fail.
    sys.stderr = sys.stderr or _reopen(2, os.O_WRONLY, "w")
    for stream, errors in (
        (sys.stdin, "replace"),
        (sys.stdout, "backslashreplace"),
        (sys.stderr, "backslashreplace"),
    ):
        # A program that calls a command may have read or closed its stdin before.
        with contextlib.suppress(io.UnsupportedOperation, ValueError):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors=errors)


def flush_stdout() -> None:
    """Write what is buffered.

    Raises:
        OSError: It cannot be written.
    """
    # A program in this process may have closed it.
    if sys.stdout is not None and not sys.stdout.closed:
        sys.stdout.flush()


def find_output_error(error: BaseException) -> OSError | None:
    """The failed write behind an error that no command expected; None if it is something else.

    A write to a stream names no file.
    """
    if isinstance(error, BaseExceptionGroup):
        found = [find_output_error(it) for it in error.exceptions]
        return None if None in found else found[0]
    if not isinstance(error, OSError) or error.filename is not None:
        return None
    return error if error.errno in _OUTPUT_ERRORS else None


def give_up_stdout(error: OSError) -> None:
    """Say on stderr why stdout cannot be written, unless its reader has gone, and forget it."""
    if error.errno != errno.EPIPE:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(f"awaken: stdout cannot be written: {error.strerror}\n")
            sys.stderr.flush()
    # What is still buffered goes nowhere: the interpreter would fail on it when it exits.
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _reopen(number: int, flags: int, mode: str) -> Any:
    opened = os.open(os.devnull, flags)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)
    # Its number belongs to the process for good.
    return open(number, mode, encoding="utf-8", closefd=False)
