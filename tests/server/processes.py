"""`awaken serve` as a process, in a folder of its own."""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.forked_python import ForkedPython

WAIT_S = 30

APP = """
import asyncio
from pathlib import Path

from awaken import Agent, tool
from awaken.testing import ScriptedModel, ToolCalls

HERE = Path(__file__).parent


@tool(effect="idempotent")
async def slow() -> str:
    with (HERE / "begun").open("a") as begun:
        begun.write("x")
    while not (HERE / "go").exists():
        await asyncio.sleep(0.01)
    return "at last"


def first(request):
    is_answered = any(message.role == "tool" for message in request.messages)
    return "Done." if is_answered else ToolCalls([("slow", {})])


worker = Agent("slow", model=ScriptedModel([first], cycle=True), tools=[slow])
"""

_OWN = ("AWAKEN_", "AGENT_", "OPENAI_")


class Served:
    """A process that serves, from its ready line on."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.ready = self.said()
        self.url: str = self.ready["url"]

    def said(self) -> Any:
        """The next line of stdout."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.stderr and self.process.stderr.read()
        return json.loads(line)

    def ask(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def ended(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Ask it to stop; returns its exit code and what it complained of."""
        self.ask(number)
        return self.rest()

    def rest(self) -> tuple[int, str]:
        _, complaints = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, complaints


class Shop:
    """A folder with an app and a store, and the processes that serve them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[str]] = []
        self.write("app.py", APP)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def serve(self, *arguments: str, env: Mapping[str, str] | None = None) -> Served:
        """Serve at a free port."""
        command = ["-m", "awaken", "serve", *arguments, "--json"]
        if "--port" not in arguments:
            command += ["--port", "0"]
        process = ForkedPython(
            *command,
            cwd=self.folder,
            env={**clean_environment(), **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return Served(process)

    def has_begun(self) -> bool:
        begun = self.folder / "begun"
        return begun.exists() and bool(begun.read_text())

    def close(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()


def clean_environment() -> dict[str, str]:
    """The environment without what would change the demo."""
    return {name: it for name, it in os.environ.items() if not name.startswith(_OWN)}


def eventually(look: Callable[[], Any]) -> Any:
    """Look until there is something to see."""
    for _ in range(WAIT_S * 50):
        if seen := look():
            return seen
        threading.Event().wait(0.02)
    raise AssertionError("it never happened")
