"""One process of the control stages: a runtime behind a socket that does what a driver asks.

The driver sends one request a line and gets one reply a line. A reply is what the process
acknowledges: `ok` with a value, or `refused` with an error's code. No reply, or `failed`, leaves
open whether it happened; `broken` is an error that has no name.
"""

import asyncio
import logging
import os
import signal
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from tests.lying_bus import LyingBus

from awaken import AgentRuntime
from awaken.buses.nats import NatsBus
from awaken.buses.postgres import PostgresBus
from awaken.contracts.clock import SystemClock
from awaken.contracts.errors import AwakenError, StorageError, UsageError
from awaken.contracts.events import (
    ErrorEvent,
    LoggedEvent,
    RunFinish,
    StreamReset,
    unwrap_event,
)
from awaken.contracts.messages.deltas import TextDelta
from awaken.contracts.messages.message import Role
from awaken.contracts.record import Record
from awaken.contracts.storage.bus import Bus
from awaken.contracts.storage.store import DeleteStrategy
from awaken.mailbox.config import MailboxConfig
from awaken.stores.postgres import PostgresStore
from awaken.stores.sql.session import Moment
from awaken.stores.sqlite import SqliteStore
from awaken.stores.sqlite.clock import moment

from .control_app import AGENT, LEDGER, build_asking_agent

logger = logging.getLogger(__name__)

LEASE_MS = 1_000
CONFIG = MailboxConfig(
    lease_ms=LEASE_MS,
    renew_ms=250,
    sweep_ms=200,
    poll_ms=20,
    retry_base_ms=5,
    retry_cap_ms=50,
    relay_ms=50,
    relay_base_ms=10,
    relay_cap_ms=100,
    relay_attempts=1_000,
    retention_ms=None,
    max_attempts=1_000,
    drain_ms=500,
)
STATUS_MS = 200
FOLLOW_S = 4.0
"""How long a reader stays at one process; it goes on elsewhere."""
CUT = "cut"
"""A stream that ended without a reason: a client could not tell it from the end of its run."""
OK, REFUSED, FAILED, BROKEN = "ok", "refused", "failed", "broken"


class Request(Record, frozen=True, kw_only=True):
    """What a driver asks of a process."""

    number: int
    kind: str
    """`submit`, `start`, `decide`, `cancel`, `steer`, `delete`; or `status`, `results`, `tickets`,
    `follow`."""
    thread_id: str = ""
    run_id: str = ""
    ticket_id: str = ""
    decision_id: str = ""
    action: str = "resume"
    text: str = ""
    key: str = ""
    mode: str = "queue"
    after: int = 0
    """The cursor of a reader."""


class Reply(Record, frozen=True, kw_only=True):
    """What a process says to it."""

    number: int
    outcome: str
    value: Any = None


class Place(Record, frozen=True, kw_only=True):
    """Where a process works: its store, its ledger, its clock and its socket."""

    store: str
    """A file, or the address of a Postgres server."""
    ledger: str
    socket: str
    schema: str = ""
    skew_ms: int = 0
    """How far its wall clock is ahead."""
    bus: str = ""
    """What carries signals on Postgres, as a URL; blank: Postgres itself."""
    is_lying: bool = False
    """Whether its bus loses, doubles and damages what it sends."""
    has_worker: bool = True


class SkewedClock(SystemClock):
    """The machine's clock, ahead or behind by some time."""

    __slots__ = ("_skew_ms",)

    def __init__(self, skew_ms: int) -> None:
        self._skew_ms = skew_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._skew_ms

    def moment(self) -> Moment:
        """The clocks of a SQLite store: that of leases is the machine's own."""
        now = moment()
        return Moment(wall_ms=now.wall_ms + self._skew_ms, lease_ms=now.lease_ms)


def open_runtime(place: Place, *, has_worker: bool = True) -> AgentRuntime:
    """A runtime as a process of its own would have it."""
    os.environ[LEDGER] = place.ledger
    clock = SkewedClock(place.skew_ms)
    if not place.schema:
        store = SqliteStore(Path(place.store), clock.moment)
        return AgentRuntime(
            [build_asking_agent()], store=store, clock=clock, mailbox=CONFIG, has_worker=has_worker
        )
    bus: Bus | str = place.bus or PostgresBus(place.store, channel=place.schema)
    if place.is_lying:
        bus = LyingBus(NatsBus(place.bus), os.getpid())
    return AgentRuntime(
        [build_asking_agent()],
        store=PostgresStore(
            place.store, schema=place.schema, connect_timeout_ms=5_000, command_timeout_ms=10_000
        ),
        bus=bus,
        clock=clock,
        mailbox=CONFIG,
        has_worker=has_worker,
    )


async def perform(runtime: AgentRuntime, asked: Request) -> Reply:
    """Do what a driver asks; a usage error is a refusal, a failing store leaves it open."""
    try:
        return Reply(number=asked.number, outcome=OK, value=await _ACTS[asked.kind](runtime, asked))
    except StorageError as error:
        return Reply(number=asked.number, outcome=FAILED, value=repr(error))
    except UsageError as error:
        return Reply(number=asked.number, outcome=REFUSED, value=error.code)
    except AwakenError as error:
        return Reply(number=asked.number, outcome=FAILED, value=repr(error))
    except Exception:
        # No client should ever see this: the judge does.
        logger.exception("%s broke.", asked.kind)
        return Reply(number=asked.number, outcome=BROKEN, value=traceback.format_exc())


async def _submit(runtime: AgentRuntime, asked: Request) -> Any:
    receipt = await runtime.submit(
        AGENT, asked.text, thread_id=asked.thread_id, mode=asked.mode, dedupe_key=asked.key
    )
    return receipt.run_id


async def _start(runtime: AgentRuntime, asked: Request) -> Any:
    """Begin a run in this very process, whether it has a worker or not."""
    return (await runtime.start(AGENT, asked.text, thread_id=asked.thread_id)).run_id


async def _follow(runtime: AgentRuntime, asked: Request) -> Any:
    """Stream a run for a while; returns what came, each with its id or 0.

    A connection that ends by itself says why with its last event; else `CUT` is added.
    """
    stream = await runtime._parts.streams.stream_run(asked.run_id, asked.after or None)
    items: list[tuple[int, str, str]] = []
    with suppress(TimeoutError):
        async with asyncio.timeout(FOLLOW_S):
            async for batch in stream.batches():
                for item in batch:
                    items.append((item.seq if type(item) is LoggedEvent else 0, *show_event(item)))
            if not items or items[-1][1] not in (RunFinish.__name__, ErrorEvent.__name__):
                items.append((0, CUT, ""))
    return items


def show_event(item: Any) -> tuple[str, str]:
    """What a reader compares of an event: its kind, and its text or the scope of a reset."""
    event = unwrap_event(item)
    match event:
        case TextDelta(delta=text) | StreamReset(scope=text):
            return type(event).__name__, text
    return type(event).__name__, ""


async def _decide(runtime: AgentRuntime, asked: Request) -> Any:
    receipt = await runtime.decide(
        asked.ticket_id, action=asked.action, decision_id=asked.decision_id
    )
    return receipt.run_id


async def _cancel(runtime: AgentRuntime, asked: Request) -> Any:
    return await runtime.cancel(asked.run_id)


async def _steer(runtime: AgentRuntime, asked: Request) -> Any:
    return (await runtime.steer(asked.run_id, asked.text)).is_accepted


async def _delete(runtime: AgentRuntime, asked: Request) -> Any:
    await runtime.store.delete_thread(asked.thread_id, DeleteStrategy.REJECT)
    return True


async def _status(runtime: AgentRuntime, asked: Request) -> Any:
    with suppress(TimeoutError):
        return (await runtime.wait(asked.run_id, timeout_ms=STATUS_MS)).status
    return "busy"


async def _results(runtime: AgentRuntime, asked: Request) -> Any:
    """What tools have told one run: it may have been cancelled before it called any."""
    records = await runtime.messages(asked.thread_id)
    found = [it.message for it in records if it.message.role is Role.TOOL]
    return [it.text for it in found if it.metadata and it.metadata.run_id == asked.run_id]


async def _tickets(runtime: AgentRuntime, asked: Request) -> Any:
    tickets = await runtime.tickets(asked.thread_id)
    return [(it.ticket_id, it.run_id, it.tool_name) for it in tickets]


_ACTS = {
    "submit": _submit,
    "start": _start,
    "follow": _follow,
    "decide": _decide,
    "cancel": _cancel,
    "steer": _steer,
    "delete": _delete,
    "status": _status,
    "results": _results,
    "tickets": _tickets,
}


def run_node(place: Place) -> None:
    """Serve until the process is killed."""
    logging.disable(logging.CRITICAL)
    asyncio.run(_serve(place))


async def _serve(place: Place) -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with open_runtime(place, has_worker=place.has_worker) as runtime:

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            async def reply(line: bytes) -> None:
                asked = msgspec.json.decode(line, type=Request)
                told = await perform(runtime, asked)
                writer.write(msgspec.json.encode(told) + b"\n")

            async with asyncio.TaskGroup() as group:
                while line := await reader.readline():
                    group.create_task(reply(line))

        with suppress(FileNotFoundError):
            Path(place.socket).unlink()
        async with await asyncio.start_unix_server(accept, place.socket):
            await stopped.wait()
