"""One case of starvation: a file, a ledger, and the processes that work on them."""

import asyncio
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from awaken.buses.memory import MemoryBus
from awaken.contracts.lifecycle import NaturalEnd
from awaken.contracts.messages.message import user
from awaken.contracts.runs.records import RunRequest
from awaken.contracts.storage.dispatch import RunDispatch
from awaken.contracts.storage.queries import DispatchQuery
from awaken.mailbox.mailbox import Mailbox
from awaken.runtime.primitives.system import SystemClock, Uuid7Source
from awaken.stores.sqlite import SqliteStore
from awaken.testing.trial_checks import final_problems

from .chaos_agent import AGENT
from .history import Effect, Ledger
from .starvation_worker import CONFIG, Orders, obey

LIMIT_S = 30
REPEATABLE = {"none", "idempotent"}

FORKS = multiprocessing.get_context("forkserver")


def faketime() -> Path | None:
    """The library that skews a process's clocks, where it is installed."""
    return next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)


class Case:
    """One file, one ledger, and the processes that work on them."""

    def __init__(self, folder: Path) -> None:
        self._path = str(folder / "store.db")
        self.store = SqliteStore(self._path)
        self.ledger = Ledger(folder / "ledger")
        self._pids: list[int] = []
        self._ends: list[Callable[[], Any]] = []
        self._mailbox = Mailbox(self.store, MemoryBus(), SystemClock(), Uuid7Source(), CONFIG)

    async def born(self, **orders: Any) -> int:
        """Start a process, and wait until it works; returns its pid."""
        given = self._orders(orders)
        process = FORKS.Process(target=obey, args=(given,), daemon=True)
        process.start()
        assert process.pid is not None
        self._ends.append(process.join)
        return await self._ready(process.pid)

    async def born_skewed(self, skew_ms: int, **orders: Any) -> int:
        """Start a process whose wall clock is wrong."""
        library = faketime()
        if library is None:
            return await self.born(skew_ms=skew_ms, **orders)
        given = msgspec.json.encode(self._orders(orders)).decode()
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.torture.starvation_worker", given],
            env=os.environ
            | {
                # Not by its program, which would stand between us and the process.
                "LD_PRELOAD": str(library),
                "FAKETIME": f"{skew_ms // 1000:+d}s",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._ends.append(process.wait)
        return await self._ready(process.pid)

    async def submit(self, text: str) -> None:
        request = RunRequest(agent_id=AGENT, thread_id="t", messages=(user(text),))
        await self._mailbox.submit(request)

    async def started(self) -> None:
        """Wait until a tool has started."""
        await _until(lambda: bool(self.starts), "no tool starts")

    async def begun(self) -> None:
        """Wait until a run has begun."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                checkout = await self.store.checkout("t")
                if checkout is not None and checkout.open_run is not None:
                    return
                await asyncio.sleep(0.01)

    async def ended(self) -> list[RunDispatch]:
        """Wait until every run and every delivery is over; returns the deliveries."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                found = (await self.store.list_dispatches(DispatchQuery())).items
                checkout = await self.store.checkout("t")
                is_open = checkout is None or checkout.open_run is not None
                if not is_open and all(it.status.is_terminal for it in found):
                    return list(found)
                await asyncio.sleep(0.02)

    async def problems(self, tool: str) -> list[str]:
        """What every case must leave behind."""
        found = await final_problems(self.store)
        checkout = await self.store.checkout("t")
        run = None if checkout is None else checkout.latest_run
        if run is None or not isinstance(run.termination, NaturalEnd):
            found.append(f"the run ended as {run and run.termination}")
        if len(self.starts) > 1 and tool not in REPEATABLE:
            found.append(f"a 'once' tool was executed {len(self.starts)} times")
        return found

    @property
    def starts(self) -> list[Effect]:
        return [it for it in self.ledger.read() if it.at == "start"]

    async def stop(self, pid: int) -> None:
        """Stop a process, but not while it has the file's lock: that would stop everybody."""
        while True:
            os.kill(pid, signal.SIGSTOP)
            await asyncio.sleep(0.02)
            if self._is_free():
                return
            os.kill(pid, signal.SIGCONT)
            await asyncio.sleep(0.01)

    def _is_free(self) -> bool:
        connection = sqlite3.connect(self._path, timeout=0.05, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        except sqlite3.OperationalError:
            return False
        finally:
            connection.close()
        return True

    async def version(self) -> int:
        thread = await self.store.load_thread("t")
        return 0 if thread is None else thread.version

    def end(self) -> None:
        for pid in self._pids:
            for what in (signal.SIGCONT, signal.SIGKILL):
                with suppress(ProcessLookupError):
                    os.kill(pid, what)
        for wait in self._ends:
            wait()

    async def _ready(self, pid: int) -> int:
        self._pids.append(pid)
        count = len(self._pids)

        def is_ready() -> bool:
            return sum(it.at == "ready" for it in self.ledger.read()) >= count

        await _until(is_ready, f"process {pid} does not work")
        return pid

    def _orders(self, orders: dict[str, Any]) -> Orders:
        return Orders(path=self._path, ledger=str(self.ledger.path), **orders)


async def _until(is_true: Callable[[], bool], problem: str) -> None:
    until = time.perf_counter() + LIMIT_S
    while not is_true():
        if time.perf_counter() > until:
            raise TimeoutError(problem)
        await asyncio.sleep(0.01)
