"""The program behind `tests.forked_python`: it has imported awaken, and forks for each request.

A request comes on the socket that is its argument: JSON, and the streams of the new process. The
new process runs a module or a file as `python` does, and ends as an interpreter ends.
"""

import array
import fcntl
import gc
import importlib
import io
import json
import os
import runpy
import signal
import socket
import sys
import termios
import warnings
from typing import Any

from awaken.cli.command_line import MODULES

REQUEST_BYTES = 1 << 20
PRELOADED = (
    *(f"awaken.cli.{it}" for it in sorted(set(MODULES.values()))),
    "acp",
    "awaken.protocols.acp.stdio",
    "awaken.protocols.mcp.agents",
    "awaken.server",
    "awaken.stores.sqlite",
    "awaken.testing",
    "jsonschema_rs",
    "pydantic",
)
"""What commands and applications import when they need it: once here, not in every process."""


def serve(requests: socket.socket) -> dict[str, Any] | None:
    """Fork for each request; returns the request in a new process, and None at the end here."""
    while True:
        data, streams, _, _ = socket.recv_fds(requests, REQUEST_BYTES, 3)
        if not data:
            return None
        reading, writing = os.pipe()
        between = os.fork()
        if between == 0:
            # The process between ends at once, so that the new one is its grandparent's child.
            child = os.fork()
            if child == 0:
                os.close(reading)
                os.close(writing)
                requests.close()
                return {**json.loads(data), "streams": streams}
            os.write(writing, array.array("q", [child]).tobytes())
            os._exit(0)
        os.close(writing)
        os.waitpid(between, 0)
        requests.sendall(os.read(reading, 8))
        os.close(reading)
        for number in streams:
            os.close(number)


def become(request: dict[str, Any]) -> None:
    """Be a new process: its session, its streams, its folder and its environment."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if request["session"]:
        os.setsid()
    for number, stream in enumerate(request["streams"]):
        os.dup2(stream, number)
        os.close(stream)
    if request["terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.stdin = sys.__stdin__ = _open_stream(0, "r", "strict")
    sys.stdout = sys.__stdout__ = _open_stream(1, "w", "strict")
    sys.stderr = sys.__stderr__ = _open_stream(2, "w", "backslashreplace")


def _open_stream(number: int, mode: str, errors: str) -> io.TextIOWrapper:
    stream = open(number, mode, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115
    assert isinstance(stream, io.TextIOWrapper)
    stream.reconfigure(line_buffering=number == 2 or os.isatty(number))
    return stream


def run(arguments: list[str]) -> None:
    """Run what `python` would run with these arguments."""
    if arguments[0] == "-W":
        warnings.simplefilter(arguments[1])  # type: ignore[arg-type]
        arguments = arguments[2:]
    if arguments[0] == "-m":
        sys.path[0] = os.getcwd()
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif arguments[0] == "-c":
        sys.path[0] = ""
        sys.argv = ["-c", *arguments[2:]]
        exec(arguments[1], {"__name__": "__main__"})
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")


def main() -> None:
    for module in PRELOADED:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    requests = socket.socket(fileno=int(sys.argv[1]))
    # A Ctrl-C at the terminal of the tests is theirs.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    request = serve(requests)
    if request is not None:
        become(request)
        run(request["arguments"])


if __name__ == "__main__":
    main()
