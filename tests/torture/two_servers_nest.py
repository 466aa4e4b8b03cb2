"""`awaken serve` again and again: each a process of its own, forked when all is imported.

A start takes a moment instead of seconds. One line of JSON on stdin, the arguments, asks for a
server; what it says on stdout is its own ready line. The last one ends with whoever asked for it.
"""

import json
import os
import signal
import sys
import traceback
from contextlib import suppress
from typing import NoReturn

import aiohttp  # noqa: F401 - imported once, for every server
import uvicorn.lifespan.off
import uvicorn.loops.auto  # noqa: F401

from awaken.cli.main import app
from awaken.cli.serve import serve  # noqa: F401
from awaken.extensions.background import BackgroundTasksPlugin  # noqa: F401
from awaken.testing import ScriptedModel  # noqa: F401


def main() -> None:
    """Fork a server for every line, until there are no more."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    pid = 0
    for line in iter(sys.stdin.readline, ""):
        pid = os.fork()
        if pid == 0:
            _serve(json.loads(line))
    if pid:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _serve(arguments: list[str]) -> NoReturn:
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        sys.stdin.close()
        app(["serve", *arguments], standalone_mode=False)
        code = 0
    except BaseException:  # noqa: BLE001 - a forked child must never return
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
