"""The `awaken` command."""

import os
from contextlib import suppress
from typing import Annotated

import typer

from awaken import __version__

from .command_line import CommandLine

_WITHOUT_FILE = frozenset({"init", "completion"})
"""Commands that use no variable of `.env`; they work beside a file that another tool wrote."""

app = typer.Typer(
    cls=CommandLine,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Run AI agents.",
    epilog="Begin with `awaken init`, or with `awaken chat`, which needs no key.",
)


def _print_version(is_wanted: bool) -> None:  # noqa: FBT001 - typer passes it so
    if is_wanted:
        typer.echo(f"awaken {__version__}")
        raise typer.Exit


@app.callback()
def main(
    context: typer.Context,
    *,
    is_version_wanted: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Run AI agents."""
    # Help and the version need neither the file nor the errors.
    command = context.invoked_subcommand
    if context.resilient_parsing or command in _WITHOUT_FILE or not _may_have_environment_file():
        return
    from awaken.contracts.errors import InvalidInput  # noqa: PLC0415

    from .environment_file import load_environment_file  # noqa: PLC0415
    from .reports import report_errors  # noqa: PLC0415

    # `doctor` says itself what is wrong with the file.
    with suppress(InvalidInput) if command == "doctor" else report_errors(is_json=False):
        load_environment_file()


def _may_have_environment_file() -> bool:
    return "AWAKEN_ENV_FILE" in os.environ or os.path.isfile(".env")
