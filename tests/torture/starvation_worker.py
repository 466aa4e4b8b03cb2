"""A worker process that starves: its tools block the loop, it is stopped, or its clock is wrong.

`python -m tests.torture.starvation_worker JSON` is for those that need a clock of their own.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from awaken import AgentRuntime
from awaken.buses.memory import MemoryBus
from awaken.contracts.errors import LeaseLost
from awaken.contracts.messages.message import user
from awaken.contracts.record import Record
from awaken.contracts.runs.records import RunRequest
from awaken.contracts.storage.store import Store
from awaken.contracts.tools.context import ToolContext
from awaken.mailbox.config import MailboxConfig
from awaken.mailbox.mailbox import Mailbox
from awaken.runtime.primitives.system import SystemClock, Uuid7Source
from awaken.stores.sqlite import SqliteStore

from .chaos_agent import AGENT, Pause, obeying_agent
from .history import Ledger

LEASE_MS = 1000
LIFE_S = 60
"""Nobody outlives the stage by much, even if it is killed."""
CONFIG = MailboxConfig(
    lease_ms=LEASE_MS,
    renew_ms=200,
    sweep_ms=150,
    poll_ms=30,
    retention_ms=None,
    drain_ms=0,
    retry_base_ms=20,
    retry_cap_ms=100,
)


class Orders(Record, frozen=True, kw_only=True):
    """What a worker is to do."""

    path: str
    ledger: str
    work: str = "none"
    """How its tools spend `work_ms`: `block`, `spin` or `sleep`."""
    work_ms: int = 0
    think_ms: int = 0
    """How long its model takes for half an answer."""
    text: str = ""
    """A message that it runs by itself, in the foreground."""
    submits: str = ""
    """A message that it submits, to be executed by others."""
    has_worker: bool = True
    skew_ms: int = 0
    """By how much its wall clock is wrong, unless the machine can do that for it."""


def obey(orders: Orders) -> None:
    """Work until killed."""
    if orders.skew_ms:
        _skew(orders.skew_ms)
    asyncio.run(_obey(orders))


async def _obey(orders: Orders) -> None:
    ledger = Ledger(Path(orders.ledger))

    def note(context: ToolContext, what: str) -> None:
        ledger.note(context.run.run_id, context.call_id, 1, what)

    agent = obeying_agent(note, _pause(orders.think_ms), _work(orders))
    runtime = AgentRuntime(
        [agent],
        store=SqliteStore(orders.path),
        mailbox=CONFIG,
        has_worker=orders.has_worker,
    )
    async with runtime:
        if orders.submits:
            await _submit(runtime.store, orders.submits)
        ledger.note("", "ready", 1, "ready")
        if orders.text:
            # A process that was stopped for too long is told so, and goes on.
            with suppress(LeaseLost):
                await runtime.run(AGENT, orders.text, thread_id="t")
        await asyncio.sleep(LIFE_S)


async def _submit(store: Store, text: str) -> None:
    mailbox = Mailbox(store, MemoryBus(), SystemClock(), Uuid7Source(), CONFIG)
    request = RunRequest(agent_id=AGENT, thread_id="t", messages=(user(text),))
    await mailbox.submit(request)


def _pause(ms: int) -> Pause:
    async def pause() -> None:
        await asyncio.sleep(ms / 1000)

    return pause


def _work(orders: Orders) -> Pause:
    seconds = orders.work_ms / 1000

    async def work() -> None:
        match orders.work:
            case "block":
                time.sleep(seconds)
            case "spin":
                until = time.perf_counter() + seconds
                while time.perf_counter() < until:
                    pass
            case _:
                await asyncio.sleep(seconds)

    return work


def _skew(skew_ms: int) -> None:
    real: Callable[[], int] = time.time_ns
    time.time_ns = lambda: real() + skew_ms * 1_000_000


if __name__ == "__main__":
    obey(msgspec.json.decode(sys.argv[1], type=Orders))
