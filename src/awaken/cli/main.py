"""The `awaken` command."""

from typing import Annotated

import typer

from awaken import __version__

from .command_line import CommandLine

app = typer.Typer(
    cls=CommandLine,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Run AI agents.",
)


def _print_version(is_wanted: bool) -> None:  # noqa: FBT001 - typer passes it so
    if is_wanted:
        typer.echo(f"awaken {__version__}")
        raise typer.Exit


@app.callback()
def main(
    *,
    is_version_wanted: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Run AI agents."""
