"""`awaken completion`: the script that completes commands and options in a shell."""

import importlib
from enum import StrEnum
from typing import Annotated, Any

import typer

from awaken.contracts.errors import RefusedInput

from .command_line import COMPLETE_VARIABLE, new_app
from .output import print_stdout
from .reports import report_errors

PROGRAM = "awaken"

app = new_app()


class Shell(StrEnum):
    """A shell that can be completed in."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    POWERSHELL = "powershell"


@app.command()
def completion(
    shell: Annotated[
        Shell | None, typer.Argument(help="bash, zsh, fish or powershell; absent: this one.")
    ] = None,
    *,
    is_installed: Annotated[
        bool, typer.Option("--install", help="Add it to the start of the shell, for good.")
    ] = False,
) -> None:
    """Complete commands and options in your shell: prints the script for it.

    With --install it is written to the place that the shell reads when it starts.
    """
    scripts: Any = importlib.import_module("typer.completion")
    with report_errors(is_json=False):
        name = str(shell or _find_shell())
        scripts.completion_init()
        if not is_installed:
            print_stdout(
                scripts.get_completion_script(
                    prog_name=PROGRAM, complete_var=COMPLETE_VARIABLE, shell=name
                )
            )
            return
        if name == Shell.POWERSHELL:
            # Installing it there would permit unsigned scripts of any kind.
            problem = "add the output of `awaken completion powershell` to the file $PROFILE"
            raise RefusedInput(what="--install", problem=f"--install: {problem}.")
        _, path = scripts.install(shell=name, prog_name=PROGRAM, complete_var=COMPLETE_VARIABLE)
    print_stdout(f"Written to {path}; it works in the next {name} that you start.")


def _find_shell() -> Shell:
    shellingham: Any = importlib.import_module("shellingham")
    try:
        found: str = shellingham.detect_shell()[0]
    except shellingham.ShellDetectionFailure:
        found = ""
    known = {**{it.value: it for it in Shell}, "pwsh": Shell.POWERSHELL}
    if found not in known:
        problem = f"'{found or 'this program'}' is none of {', '.join(Shell)}; name one"
        raise RefusedInput(what="shell", problem=problem)
    return known[found]
