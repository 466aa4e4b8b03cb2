"""Executes commands whose stdin, stdout and stderr are ill, each in a fork of this process.

Reads a list of command lines as JSON from a file, and writes what became of each.
"""

import contextlib
import importlib
import io
import json
import os
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from awaken.cli.command_line import MODULES
from awaken.cli.main import app

WAIT_S = 20
PRELOADED = (
    "pydantic",
    "acp",
    "jsonschema_rs",
    "awaken.protocols.mcp.agents",
    "awaken.stores.sqlite",
)
"""What commands import when they need it: once here, instead of in every fork."""
NAMES = ("stdin", "stdout", "stderr")


def make_ill(illness: str) -> None:
    """Change the streams of this process."""
    name, _, kind = illness.partition(" ")
    number = NAMES.index(name)
    if kind == "closed":
        os.close(number)
        setattr(sys, name, None)
    elif kind == "full":
        os.dup2(os.open("/dev/full", os.O_WRONLY), number)
    elif kind == "unread":
        reading, writing = os.pipe()
        os.close(reading)
        os.dup2(writing, number)
    elif kind == "binary":
        reading, writing = os.pipe()
        os.write(writing, b"\xff\xfe\xe9 \x80 hi\n")
        os.close(writing)
        os.dup2(reading, number)
    elif kind == "ascii":
        stream = io.TextIOWrapper(open(number, "wb", closefd=False), encoding="ascii")  # noqa: SIM115
        setattr(sys, name, stream)


def run_in_fork(illness: str, words: list[str]) -> dict[str, Any]:
    """Run a command to its end; what it wrote to stderr is in a file."""
    with tempfile.NamedTemporaryFile(mode="r") as said:
        child = os.fork()
        if child == 0:
            os._exit(execute(illness, words, said.name))
        _, status = os.waitpid(child, 0)
        error = Path(said.name).read_text(errors="replace")
    return {"words": words, "code": os.waitstatus_to_exitcode(status), "error": error}


def execute(illness: str, words: list[str], said: str) -> int:
    """The child: never returns into the parent's code."""
    signal.alarm(WAIT_S)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(said, os.O_WRONLY | os.O_APPEND), 2)
    make_ill(illness)
    sys.argv = ["awaken", *words]
    code = 0
    try:
        app()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - as the interpreter ends
        code = 1
        # Where a closed or full stderr would not show it.
        Path(said).write_text(traceback.format_exc())
    with contextlib.suppress(ValueError):
        try:
            sys.stdout.flush()
        except OSError as error:
            Path(said).write_text(f"Traceback: the interpreter cannot exit: {error}")
    return code


def main() -> None:
    illness, commands, results = sys.argv[1:]
    for module in (*(f"awaken.cli.{it}" for it in set(MODULES.values())), *PRELOADED):
        importlib.import_module(module)
    todo = json.loads(Path(commands).read_text())
    Path(results).write_text(json.dumps([run_in_fork(illness, words) for words in todo]))


if __name__ == "__main__":
    main()
