"""Executes commands whose stdin, stdout and stderr are ill, in a fork of this process.

Reads a list of command lines as JSON from a file, and writes what became of each. A command that
ends the fork itself is one result, and the next one gets a new fork.
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
from typing import Any, NoReturn, TextIO

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


def open_stream(number: int) -> None:
    stream = open(number, "w" if number else "r", closefd=False)  # noqa: SIM115
    setattr(sys, NAMES[number], stream)


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
    if kind in ("full", "unread", "binary"):
        # Opened again: a text stream remembers whether it can seek.
        open_stream(number)


def run_all(illness: str, todo: list[list[str]], results: Path) -> None:
    """Run commands one after the other in a fork; what ends the fork itself is a result, too."""
    ended: list[dict[str, Any]] = []
    while len(ended) < len(todo):
        with tempfile.NamedTemporaryFile(mode="r") as said, tempfile.TemporaryFile("w+") as lines:
            child = os.fork()
            if child == 0:
                run_some(illness, todo[len(ended) :], said.name, lines)
            _, status = os.waitpid(child, 0)
            lines.seek(0)
            ended += map(json.loads, lines)
            if len(ended) < len(todo):
                code = os.waitstatus_to_exitcode(status)
                ended.append(make_result(todo[len(ended)], code, said.name))
    results.write_text(json.dumps(ended))


def run_some(illness: str, todo: list[list[str]], said: str, lines: TextIO) -> NoReturn:
    """The fork: never returns into the parent's code."""
    environment, path = dict(os.environ), list(sys.path)
    # What waits for a stream to be flushed must not be flushed into that of another command.
    kept: list[Any] = []
    for words in todo:
        Path(said).write_text("")
        code = execute(illness, words, said)
        kept += (sys.stdin, sys.stdout, sys.stderr)
        os.environ.clear()
        os.environ.update(environment)
        sys.path[:] = path
        print(json.dumps(make_result(words, code, said)), file=lines, flush=True)
    os._exit(0)


def make_result(words: list[str], code: int, said: str) -> dict[str, Any]:
    return {"words": words, "code": code, "error": Path(said).read_text(errors="replace")}


def execute(illness: str, words: list[str], said: str) -> int:
    """Run one command to its end, as a process of its own would; what it says is in a file."""
    signal.alarm(WAIT_S)
    for number, target in enumerate((os.devnull, os.devnull, said)):
        opened = os.open(target, os.O_RDWR | os.O_APPEND)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)
    for number in range(3):
        open_stream(number)
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
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError as error:
            Path(said).write_text(f"Traceback: the interpreter cannot exit: {error}")
    return code


def main() -> None:
    illness, commands, results = sys.argv[1:]
    for module in (*(f"awaken.cli.{it}" for it in set(MODULES.values())), *PRELOADED):
        importlib.import_module(module)
    run_all(illness, json.loads(Path(commands).read_text()), Path(results))


if __name__ == "__main__":
    main()
