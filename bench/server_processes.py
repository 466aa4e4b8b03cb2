"""Measured servers as processes: start, wait until one answers, what it uses, end."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from frameworks import LOGS, SCRATCH
from server_clients import Exchange, exchange, posted
from server_rows import Row

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGESIZE")
START_TIMEOUT = 60.0


class NotReady(Exception):
    """A server that cannot be measured, and why."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process and all below it have used."""

    cpu: float  # seconds
    rss: int  # bytes


class Server:
    """One server at a free port, in a folder of its own."""

    def __init__(self, row: Row, script: str) -> None:
        self.row = row
        self.port = free_port()
        self.folder = SCRATCH / f"server-{os.getpid()}-{self.port}"
        self.folder.mkdir(parents=True)
        LOGS.mkdir(parents=True, exist_ok=True)
        self.log_path = LOGS / f"server_{row.name.replace(' ', '_')}.log"
        arguments = [part.format(port=self.port) for part in row.command]
        with self.log_path.open("w") as log:
            self.process = subprocess.Popen(
                [row.framework.python, *arguments],
                cwd=self.folder,
                env={**row.framework.environment(), "BENCH_SCRIPT": script},
                stdout=log,
                stderr=log,
                start_new_session=True,  # so that it can be ended with all below it
            )

    def request(self) -> bytes:
        """A request for one streamed run."""
        return posted(self.port, *self.row.ask(self.port))

    async def ready(self) -> Exchange:
        """The first run that gets as far as its first word; it is still open.

        Raises:
            NotReady: None does in time, or the server has exited.
        """
        began = time.monotonic()
        while True:
            problem = "no run gave a word"
            try:
                found = await exchange(self.port, self.request())
                async with asyncio.timeout(15):
                    if await found.reached:
                        return found
                problem = found.head()
            except (OSError, TimeoutError, ValueError) as error:
                problem = repr(error)
            if self.process.poll() is not None:
                raise NotReady(self.last_words())
            if time.monotonic() - began > START_TIMEOUT:
                raise NotReady(problem)
            await asyncio.sleep(0.2)

    def last_words(self) -> str:
        """Why a dead server died, as far as its log tells."""
        lines = self.log_path.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"it exited with {self.process.returncode}"

    def usage(self) -> Usage:
        """CPU and resident memory up to now."""
        cpu, rss = 0.0, 0
        for fields in _tree(self.process.pid):
            cpu += (int(fields[11]) + int(fields[12])) / TICK
            rss += int(fields[21]) * PAGE
        return Usage(cpu, rss)

    def end(self) -> None:
        """Kill it with all below it; nothing that it keeps is needed."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


@asynccontextmanager
async def serving(row: Row, script: str) -> AsyncIterator[Server]:
    """A server that has answered once.

    Raises:
        NotReady: It does not start.
    """
    server = Server(row, script)
    try:
        (await server.ready()).close()
        yield server
    finally:
        server.end()


def free_port() -> int:
    """A port without a listener now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def _tree(root: int) -> list[list[str]]:
    """The `stat` fields after the name of a process and of all below it."""
    stats = dict(_stats())
    children: dict[int, list[int]] = {}
    for pid, fields in stats.items():
        children.setdefault(int(fields[1]), []).append(pid)
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        if pid in stats:
            found.append(stats[pid])
        todo += children.get(pid, [])
    return found


def _stats() -> list[tuple[int, list[str]]]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                text = (folder / "stat").read_text()
                found.append((int(folder.name), text.rpartition(")")[2].split()))
    return found
