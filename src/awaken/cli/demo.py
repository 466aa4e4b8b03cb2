"""`awaken demo`: demonstrates the runtime's guarantees on this machine."""

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from awaken.demo.crash import CrashStory, run_crash_demo

from .output import as_json, print_stderr, print_stdout
from .reports import REFUSED, IsJson, report_errors

app = typer.Typer(help="Demonstrate the guarantees.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def demo() -> None:
    """Demonstrate the guarantees."""


@app.command()
def crash(
    *,
    is_kept: Annotated[
        bool, typer.Option("--keep", help="Keep the folder with the store and the effect file.")
    ] = False,
    is_json: IsJson = False,
) -> None:
    """Kill a worker inside a tool, and let another one finish its run; takes some seconds.

    The tool writes one line to a file, as if it charged a card. The worker is killed right after
    that. No work is lost, and the card is charged once.
    """
    folder = Path(tempfile.mkdtemp(prefix="awaken-demo-"))
    say = print_stderr if is_json else print_stdout
    try:
        with report_errors(is_json=is_json):
            story = asyncio.run(run_crash_demo(folder, say))
    finally:
        if not is_kept:
            shutil.rmtree(folder, ignore_errors=True)
    print_stdout(
        as_json({**_document(story), "is_good": story.is_good}) if is_json else _verdict(story)
    )
    if is_kept and not is_json:
        print_stdout(f"Everything is kept in {folder}.")
    if not story.is_good:
        raise typer.Exit(REFUSED)


def _document(story: CrashStory) -> dict[str, object]:
    return {name: getattr(story, name) for name in story.__struct_fields__}


def _verdict(story: CrashStory) -> str:
    if story.is_good:
        return "\nThe run survived its worker, and the order was charged once."
    return "\nThis went wrong: the run should be done, with exactly one line in the file."
