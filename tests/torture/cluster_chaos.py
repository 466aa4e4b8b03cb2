"""Servers and workers on one Postgres, with every carrier, while everything around them fails.

`python -m tests.torture.cluster_chaos --faults 5000`: two processes that only serve and execute
what they are asked for, two that also execute queued work. Clients start, submit, decide, steer,
cancel and delete at any of them, and read runs at others, with their cursor from one to the next.
The carrier is none, Postgres, three NATS servers, or NATS behind a bus that lies. `--pooled` puts a
PgBouncer in transaction mode with ten sessions before Postgres. In the end
acknowledged means that it happened once, and every reader has exactly what the log has.
"""

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from tests.nats_servers.cluster import NatsCluster, nats_cluster
from tests.nats_servers.proxy import LinkProxy
from tests.nats_servers.proxy import proxied as linked
from tests.postgres.pooler import Pooler, pooling
from tests.postgres.proxy import Proxy
from tests.postgres.server import server

from awaken.contracts.events import RunFinish, StateSnapshot, StepStart, StreamReset

from .control_app import TELL
from .control_chaos import Chaos
from .control_driver import Client, Numbers, ProcessNode
from .control_model import Told
from .control_node import CUT, LEASE_MS, OK, Place, Request, show_event
from .lanes import scratch
from .pg_evidence import PgEvidence
from .report import finish
from .views import view_of

CARRIERS = ("none", "postgres", "nats", "lying")
PROCESSES, SERVERS = 4, 2
SKEWS_MS = (0, -60_000, 600_000, 0)
MUTE_S = 3.0
"""Longer than a bus needs to notice that nobody answers."""
BATCH = 100
FAULTS = (
    *("kill", "kill", "freeze", "stop", "cut", "lose reply", "restart"),
    *("end the bus", "end the leases"),
)
POOLED_FAULTS = (
    *("kill", "kill", "freeze", "stop", "restart"),
    *("end sessions", "end the leases"),
)
"""Behind a pooler; what the proxy does to connections of processes concerns nobody there."""
POOLED_SESSIONS = 10
NATS_FAULTS = ("kill one NATS", "kill all NATS", "cut a link", "mute a link", "drip on a link")
_BUSES, _LEASES = "(pg_notify|LISTEN|synchronous_commit)", "(lease|claim_token)"
_ALL = "."


@dataclass(slots=True)
class Followed:
    """What a careful reader of one run has kept."""

    thread_id: str
    run_id: str
    ids: list[int] = field(default_factory=list)
    events: list[tuple[str, str]] = field(default_factory=list)
    """Kinds and texts, as they came."""
    kept: int = 0
    """How many of them came up to the latest id: what is left after a reset or elsewhere."""
    is_over: bool = False
    cuts: int = 0
    """How many connections ended without saying why."""

    def take(self, items: list[tuple[int, str, str]]) -> None:
        """Take what came over one connection."""
        for number, kind, text in items:
            if kind == StreamReset.__name__:
                self._reset(text)
            elif kind == CUT:
                self.cuts += 1
            elif kind != StateSnapshot.__name__:
                # Which is shown and never logged.
                self.events.append((kind, text))
            if number:
                self.ids.append(number)
                self.kept = len(self.events)
        # A stream may end before its run does: its process stops, or has no store at the moment.
        self.leave()
        self.is_over = bool(self.events) and self.events[-1][0] == RunFinish.__name__

    def _reset(self, scope: str) -> None:
        """Drop the unfinished step; or only its answer, which begins anew in it."""
        steps = [n for n, it in enumerate(self.events) if it[0] == StepStart.__name__]
        begun = steps[-1] + 1 if scope == "turn" and steps else 0
        del self.events[max(self.kept, begun) :]

    def leave(self) -> None:
        """Forget what is in no log yet: it comes again."""
        del self.events[self.kept :]


class ReadingClient(Client):
    """A client that also reads runs, each time at any process."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.followed: list[Followed] = []

    @property
    def acts(self) -> tuple[Any, ...]:
        """What it does; half of it is reading."""
        reading = (self.read_submitted, self.read_started, self.read_cancelled)
        return (*super().acts, *reading, *reading, *reading)

    async def read_submitted(self, thread_id: str) -> None:
        """Read what a worker executes."""
        run_id = await self._submit(thread_id, f"{TELL}{next(self._numbers)}")
        await self._read(thread_id, run_id)

    async def read_started(self, thread_id: str) -> None:
        """Read what the asked process executes itself, with two readers."""
        if run_id := await self._start(f"{thread_id}-started-{self._made}"):
            thread_id = f"{thread_id}-started-{self._made}"
            await asyncio.gather(*(self._read(thread_id, run_id) for _ in range(2)))

    async def read_cancelled(self, thread_id: str) -> None:
        """Read to the end that a cancel from anywhere makes."""
        name = f"{thread_id}-stopped-{self._made}"
        if run_id := await self._start(name):
            delay_s = self._dice.uniform(0, 0.3)
            await asyncio.gather(self._read(name, run_id), self._cancel_after(run_id, delay_s))

    async def _start(self, thread_id: str) -> str | None:
        """Start a run on a thread of its own; None if that was not acknowledged."""
        text = f"{TELL}{next(self._numbers)}"
        asked = Request(number=0, kind="start", thread_id=thread_id, text=text)
        told = await self._ask(asked, False)
        if told is None or told.outcome != OK:
            return None
        # From here on it is promised as any submission.
        asked = msgspec.structs.replace(asked, kind="submit", key=f"key-{next(self._numbers)}")
        self._record.requests.append(Told(asked=asked, reply=told))
        return str(told.value)

    async def _read(self, thread_id: str, run_id: str) -> None:
        reader = Followed(thread_id, run_id)
        self.followed.append(reader)
        while not reader.is_over:
            after = reader.ids[-1] if reader.ids else 0
            told = await self._ask(
                Request(number=0, kind="follow", run_id=run_id, after=after), False
            )
            if told is None or told.outcome != OK:
                await asyncio.sleep(0.02)
                continue
            reader.take(told.value)


class ClusterChaos(Chaos):
    """One schema, servers and workers, one carrier, and what happens to them."""

    processes = PROCESSES

    def __init__(
        self,
        folder: Path,
        seed: str,
        carrier: str,
        nats: NatsCluster | None,
        pooler: Pooler | None = None,
    ) -> None:
        super().__init__(folder, f"{seed}-{carrier}")
        self._pooler = pooler
        self._carrier = carrier
        self._nats = nats
        self._link: LinkProxy | None = None
        self._readers: list[ReadingClient] = []

    async def play_over(self, faults: int) -> list[str]:
        """Play with a proxy on the link to the first NATS server."""
        async with AsyncExitStack() as ends:
            if self._nats is not None:
                self._link = await ends.enter_async_context(linked(self._nats.servers[0].port))
            return [f"{self._carrier}: {it}" for it in await self.play(faults)]

    def place_node(self, proxy: Proxy, number: int) -> Place:
        """Say where one of the processes works, and what carries its signals."""
        place = super().place_node(proxy, 0)
        bus = "none" if self._carrier == "none" else ""
        if self._nats is not None and self._link is not None:
            ports = [self._link.port, *(it.port for it in self._nats.servers[1:])]
            named = ",".join(f"127.0.0.1:{port}" for port in ports)
            bus = f"nats://{named}?namespace={self._schema}"
        return msgspec.structs.replace(
            place,
            store=place.store if self._pooler is None else self._pooler.store_url,
            socket=str(self._folder / f"node{number}"),
            skew_ms=SKEWS_MS[number],
            bus=bus,
            is_lying=self._carrier == "lying",
            has_worker=number >= SERVERS,
        )

    def make_client(self, number: int, nodes: list[ProcessNode], numbers: Numbers) -> Client:
        """Make one of the clients; each reads too."""
        name, seed = f"c{number}", f"{self._seed}-{number}"
        client = ReadingClient(name, nodes, self.record, seed, numbers)
        self._readers.append(client)
        return client

    def list_faults(self, count: int) -> list[str]:
        """Choose what happens: each kind as often as the others, in any order."""
        plain = FAULTS if self._pooler is None else POOLED_FAULTS
        kinds = [*plain, *(NATS_FAULTS if self._nats is not None else ())]
        found: list[str] = []
        while len(found) < count:
            found += self._dice.sample(kinds, len(kinds))
        return found[:count]

    async def harm(self, fault: str, nodes: list[ProcessNode], proxy: Proxy) -> None:
        """Do one thing to a process, to Postgres or to what carries the signals."""
        victim = self._dice.choice(nodes)
        match fault:
            case "stop":
                await victim.stop()
                await victim.start()
            case "freeze":
                await victim.freeze(LEASE_MS * 2 / 1000)
            case "end the bus":
                await _end_sessions(_BUSES)
            case "end the leases":
                await _end_sessions(_LEASES)
            case "end sessions":
                await _end_sessions(_ALL)
            case str() if fault in NATS_FAULTS:
                await self._harm_carrier(fault)
            case _:
                await super().harm(fault, nodes, proxy)

    async def _harm_carrier(self, fault: str) -> None:
        assert self._nats is not None
        assert self._link is not None
        match fault:
            case "kill one NATS":
                await asyncio.to_thread(_restart, [self._dice.choice(self._nats.servers)])
            case "kill all NATS":
                await asyncio.to_thread(_restart, self._nats.servers)
            case "cut a link":
                self._link.abort_all()
            case "mute a link":
                self._link.is_mute = True
                await asyncio.sleep(MUTE_S)
                self._link.is_mute = False
                self._link.abort_all()
            case "drip on a link":
                self._link.piece = 1
                await asyncio.sleep(self._dice.uniform(0.2, 1))
                self._link.piece = 65_536

    async def judge(self, evidence: PgEvidence) -> list[str]:
        """Say what is wrong with the store, and with what readers have kept of it."""
        followed = [it for client in self._readers for it in client.followed]
        self.done["streams read"] += sum(it.is_over for it in followed)
        problems = [] if any(it.is_over for it in followed) else ["nothing was read"]
        for reader in followed:
            problems += await _find_stream_problems(evidence, reader)
        return problems + await super().judge(evidence)


def _restart(servers: list[Any]) -> None:
    for it in servers:
        it.kill()
    for it in servers:
        it.start()


async def _end_sessions(pattern: str) -> None:
    """End the connections whose latest statement says what they are for."""
    await server().sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND query ~ $1",
        pattern,
    )


async def _find_stream_problems(evidence: PgEvidence, reader: Followed) -> list[str]:
    """Compare what a reader has with the log: no gap, nothing twice, the same text."""
    view = await view_of(evidence, reader.thread_id)
    if reader.cuts:
        return [f"{reader.cuts} streams of run {reader.run_id} ended without saying why"]
    if view is None or not reader.is_over:
        return [f"the reader of run {reader.run_id} never came to an end"]
    logged = join_texts(show_event(it) for it in view.events if it.run_id == reader.run_id)
    found = join_texts(reader.events)
    if found != logged:
        return [f"a reader of run {reader.run_id} has {found}, the log {logged}"]
    if reader.ids != sorted({*reader.ids}):
        return [f"a reader of run {reader.run_id} was given the ids {reader.ids}"]
    return []


def join_texts(events: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Join texts that follow each other: the log has as one what came in pieces."""
    joined: list[tuple[str, str]] = []
    for kind, text in events:
        if text and joined and joined[-1][0] == kind:
            joined[-1] = (kind, joined[-1][1] + text)
        else:
            joined.append((kind, text))
    return joined


@asynccontextmanager
async def _carried(carrier: str) -> AsyncIterator[NatsCluster | None]:
    if carrier not in ("nats", "lying"):
        yield None
        return
    with nats_cluster(3) as cluster:
        yield cluster


async def _play(
    folder: Path, seed: str, carrier: str, faults: int, *, is_pooled: bool
) -> tuple[list[str], Counter[str]]:
    pooled = pooling(POOLED_SESSIONS, idle_s=1) if is_pooled else nullcontext()
    async with _carried(carrier) as cluster:
        with pooled as pooler:
            if pooler is not None:
                await pooler.until_ready()
            chaos = ClusterChaos(folder, seed, carrier, cluster, pooler)
            failures = await chaos.play_over(faults)
    return failures, Counter(chaos.record.counts) + chaos.done


def main() -> None:
    """Do harm, and exit with 1 when a promise was broken."""
    parser = argparse.ArgumentParser(prog="cluster_chaos")
    parser.add_argument("--faults", type=int, default=60, help="over all carriers together")
    parser.add_argument("--carriers", default=",".join(CARRIERS))
    parser.add_argument("--pooled", action="store_true", help="behind a PgBouncer, 10 sessions")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    # It takes its time to begin, and no connection should time out over that.
    server()
    began = time.perf_counter()
    counts: Counter[str] = Counter()
    failures: list[str] = []
    carriers = args.carriers.split(",")
    for number, carrier in enumerate(carriers):
        share = args.faults // len(carriers) + (number < args.faults % len(carriers))
        for first in range(0, share, BATCH):
            with scratch() as folder:
                seed, faults = f"{args.seed}-{first}", min(BATCH, share - first)
                played = _play(folder, seed, carrier, faults, is_pooled=args.pooled)
                found, done = asyncio.run(played)
            failures += found
            counts.update(done)
    counts["seconds"] = round(time.perf_counter() - began)
    finish("cluster_chaos", args.seed, dict(sorted(counts.items())), args.faults, failures)


if __name__ == "__main__":
    main()
