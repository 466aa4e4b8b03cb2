"""The surroundings of one process of a runtime scenario: its store, its runtimes, its clock.

Each generation of a scenario lives a minute after the one before, so that whatever that one had
leased has run out. What a client was told is written down at once, in a file that outlives it.
"""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from awaken import AgentRuntime
from awaken.contracts.clock import SystemClock
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.storage.dispatch import DispatchStatus
from awaken.contracts.storage.queries import DispatchQuery, RunQuery
from awaken.contracts.storage.store import Store
from awaken.mailbox.config import MailboxConfig
from awaken.stores.sql.session import Moment
from awaken.stores.sqlite import SqliteStore
from awaken.stores.sqlite.clock import moment

from .agents import LEDGER, Door, made
from .delegation_agents import delegating
from .doomed import DoomedStore
from .history import Log

STORE, ACKS, POINTS, EFFECTS = "store.db", "acks", "points", "effects"
GENERATION_MS = 60_000
SHUT = "shut"
"""Told to clients who may be sure that whatever is behind the door is stopped."""
QUIET_S = 20

CONFIG: dict[str, Any] = {
    "lease_ms": 20_000,
    "renew_ms": 15,
    "sweep_ms": 15,
    "poll_ms": 5,
    "retry_base_ms": 1,
    "retry_cap_ms": 4,
    "retention_ms": None,
    "max_attempts": 6,
    "unknown_agent_ms": 0,
    "relay_ms": 15,
    "relay_base_ms": 1,
    "relay_cap_ms": 4,
}


class World:
    """One process: generation 0 plays a scenario first, later ones go on after its death.

    Several processes of one generation have names.
    """

    def __init__(self, folder: Path, fd: int, generation: int, name: str = "") -> None:
        self.generation = generation
        self._name = name
        self._folder = folder
        self._log = Log(fd)
        self._clock = _LaterClock(generation * GENERATION_MS)
        self._runtimes = 0
        self.acks = folder / ACKS
        os.environ[LEDGER] = str(folder / EFFECTS)
        Door.is_open, Door.visitors = not self.has(SHUT), 0

    def runtime(
        self,
        *,
        is_able: bool = True,
        faults: Sequence[Exception] = (),
        **config: Any,
    ) -> AgentRuntime:
        """A runtime like a process of its own; one that is not able has no agents to execute."""
        self._runtimes += 1
        store = SqliteStore(self._folder / STORE, self._clock.moment)
        name = f"g{self.generation}{self._name}n{self._runtimes}"
        return AgentRuntime(
            [*made(), *delegating()] if is_able else (),
            store=DoomedStore(store, self._log, name, faults),  # type: ignore[arg-type]
            clock=self._clock,
            has_worker=is_able,
            mailbox=MailboxConfig(**(CONFIG | config)),
        )

    def ack(self, *words: str) -> None:
        """Write down what a client was told."""
        with self.acks.open("a", encoding="utf-8") as file:
            file.write(" ".join(words) + "\n")

    def has(self, *words: str) -> bool:
        """Whether a client was told so, in this or an earlier life."""
        return self.acks.exists() and " ".join(words) in self.acks.read_text("utf-8").split("\n")


async def quiet(store: Store) -> None:
    """Wait until nothing is queued, claimed, running or yet to be carried out.

    A message may be left that a run holds which waits for somebody.
    """
    async with asyncio.timeout(QUIET_S):
        # Twice: what a run asked for when it ended was not there when it was looked for.
        while not (await _is_quiet(store) and await _is_quiet(store)):
            await asyncio.sleep(0.003)


async def _is_quiet(store: Store) -> bool:
    """Whether nothing is found in any place; in the order in which work moves from one on."""
    if await store.list_outbox(limit=1) or await _has_work(store):
        return False
    claimed = await store.list_dispatches(DispatchQuery(status=DispatchStatus.CLAIMED, limit=1))
    running = await store.list_runs(RunQuery(status=RunStatus.RUNNING, limit=1))
    return not claimed.items and not running.items


async def _has_work(store: Store) -> bool:
    """Whether something is queued that a worker could claim."""
    if not await store.count_queued():
        return False
    queued = await store.list_dispatches(DispatchQuery(status=DispatchStatus.QUEUED))
    for dispatch in queued.items:
        thread = await store.load_thread(dispatch.thread_id)
        run_id = None if thread is None else thread.open_run_id
        run = None if run_id is None else await store.load_run(run_id)
        if not dispatch.is_held_by(run):
            return True
    return False


class _LaterClock(SystemClock):
    """The machine's clock, ahead by some time."""

    __slots__ = ("_ahead_ms",)

    def __init__(self, ahead_ms: int) -> None:
        self._ahead_ms = ahead_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._ahead_ms

    def moment(self) -> Moment:
        now = moment()
        return Moment(wall_ms=now.wall_ms + self._ahead_ms, lease_ms=now.lease_ms + self._ahead_ms)
