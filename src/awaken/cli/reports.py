"""How a command reports an error: one line on stderr, or a document, and an exit code."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from awaken.contracts.errors import AwakenError, InvalidInput

from .output import ERROR, as_json, plain, print_stderr, style

REFUSED, MISUSED = 1, 2

IsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


@contextmanager
def report_errors(*, is_json: bool) -> Iterator[None]:
    """Print an error on one line of stderr, and exit with the code for it."""
    try:
        yield
    except AwakenError as error:
        print_error(error, is_json=is_json)
        raise typer.Exit(MISUSED if isinstance(error, InvalidInput) else REFUSED) from error


def print_error(error: AwakenError, *, is_json: bool = False) -> None:
    """Print an error on stderr, with the traceback of the user's code if that raised it."""
    trace = getattr(error, "trace", "")
    if is_json:
        report = {"code": error.code, "message": str(error)}
        print_stderr(as_json({**report, "trace": trace} if trace else report, indent=None))
        return
    if trace:
        print_stderr(trace)
    print_stderr(f"{style('awaken:', ERROR, is_error=True)} {plain(error)}")
