"""A process that does random things to a store until it is killed."""

import asyncio
import random
import time
from pathlib import Path

from awaken.contracts.record import Record
from awaken.contracts.storage.dispatch import Release, RunDispatch
from awaken.contracts.storage.store import Commit
from awaken.stores.sql.session import Moment
from awaken.stores.sqlite import SqliteStore, connection
from awaken.stores.sqlite.clock import moment

from . import building as make
from .clients import Client
from .history import Log

SHARED, KEYS, TASKS = 3, 4, 3
NOW_MS = 1_700_000_000_000
SHORT_MS = 3
DAY_MS = 86_400_000


class Orders(Record, frozen=True, kw_only=True):
    """Who does random things to which threads."""

    name: str
    seed: str
    window: int
    """Threads are used for a few generations only, so that checking them stays quick."""

    @property
    def own(self) -> str:
        """A thread that nobody else uses."""
        return f"own-{self.name}"

    def shared(self, number: int) -> str:
        """A thread that others use as well."""
        return f"shared-{self.window}-{number}"


def work(path: Path, orders: Orders, fd: int) -> None:
    """Do random things; never returns by itself."""
    # Often enough that a kill also hits the moving of pages from the log into the file.
    connection.CHECKPOINT_PAGES = random.Random(orders.seed).choice((24, 200, 8192))
    asyncio.run(_work(path, orders, fd))


def finish_all(path: Path, fd: int) -> None:
    """Take back every claim, a day later, and end every dispatch."""
    asyncio.run(_finish_all(path, fd))


async def _finish_all(path: Path, fd: int) -> None:
    store = SqliteStore(path, _tomorrow)
    await store.open()
    client = Client(store, Log(fd), f"finisher{fd}-{path.name}-{path.stat().st_mtime_ns}")
    await client.reclaim()
    while found := await client.claim(f"{time.perf_counter_ns()}", make.LONG_MS, limit=100):
        for dispatch in found:
            await client.release(dispatch.dispatch_id, dispatch.claim_token or "")
    await store.close()


def _tomorrow() -> Moment:
    now = moment()
    return Moment(wall_ms=now.wall_ms + DAY_MS, lease_ms=now.lease_ms + DAY_MS)


async def _work(path: Path, orders: Orders, fd: int) -> None:
    store = SqliteStore(path)
    await store.open()
    log = Log(fd)
    async with asyncio.TaskGroup() as group:
        for task in range(TASKS):
            name = f"{orders.name}-{task}"
            player = Player(Client(store, log, name), orders, name)
            group.create_task(player.play())


class Player:
    """One client of the store."""

    def __init__(self, client: Client, orders: Orders, name: str) -> None:
        self._client = client
        self._orders = orders
        self._name = name
        self._random = random.Random(f"{orders.seed}-{name}")
        self._count = 0

    async def play(self) -> None:
        moves = (
            (self._append, 6),
            (self._enqueue, 4),
            (self._execute, 5),
            (self._foreground, 3),
            (self._intrude, 1),
            (self._reclaim, 2),
            (self._delete, 1),
            (self._interrupt, 1),
        )
        chosen, weights = zip(*moves, strict=True)
        while True:
            await self._random.choices(chosen, weights)[0]()

    async def _append(self) -> None:
        """Append as an unclaimed writer; now and then send the same again."""
        thread_id = self._thread()
        commit = await self._next(thread_id)
        if await self._client.commit(commit) is not None and self._random.random() < 0.3:
            await self._client.commit(commit)

    async def _enqueue(self) -> None:
        """Ask for one of a few things, which others ask for as well."""
        thread_id, key = self._thread(), self._random.randrange(KEYS)
        await self._client.enqueue(
            make.dispatch(
                self._fresh("d"), thread_id, dedupe_key=f"key{key}", request_hash=f"key{key}"
            )
        )

    async def _execute(self) -> None:
        """Claim what is due and end it in one of the ways there are, or not at all."""
        lease_ms = self._random.choice((SHORT_MS, make.LONG_MS))
        found = await self._client.claim(self._fresh("t"), lease_ms, limit=2)
        for dispatch in found or ():
            await self._end(dispatch)

    async def _end(self, dispatch: RunDispatch) -> None:
        token = dispatch.claim_token or ""
        match self._random.randrange(6):
            case 0:
                await self._client.requeue(dispatch.dispatch_id, token)
            case 1:
                await self._client.release(dispatch.dispatch_id, token)
            case 2:
                pass
            case _:
                commit = await self._next(dispatch.thread_id, fencing_token=token)
                await self._client.commit(commit)
                commit = await self._next(
                    dispatch.thread_id, fencing_token=token, release=Release()
                )
                await self._client.commit(commit)

    async def _foreground(self) -> None:
        """Take a thread with a commit, work, and give it back with another."""
        thread_id, token = self._thread(), self._fresh("f")
        taken = await self._next(thread_id, **make.taking(token, SHORT_MS))
        if await self._client.commit(taken) is None:
            return
        for parts in ({}, {"release": Release()}):
            await self._client.commit(await self._next(thread_id, fencing_token=token, **parts))

    async def _intrude(self) -> None:
        """Write under a token that nobody was ever given."""
        commit = await self._next(self._thread(), fencing_token=self._fresh("false"))
        await self._client.commit(commit, must_fail=True)

    async def _reclaim(self) -> None:
        await self._client.reclaim()

    async def _delete(self) -> None:
        """Make a thread, and delete it, perhaps while somebody else works on it."""
        thread_id = self._fresh("gone")
        await self._client.commit(await self._next(thread_id))
        await self._client.enqueue(make.dispatch(self._fresh("d"), thread_id))
        await self._client.delete(thread_id)

    async def _interrupt(self) -> None:
        thread_id = self._thread()
        await self._client.interrupt(thread_id, make.dispatch(self._fresh("i"), thread_id))

    async def _next(self, thread_id: str, **parts: object) -> Commit:
        """The next commit of a thread, as far as this client knows."""
        thread = await self._client.store.load_thread(thread_id)
        name = self._fresh("c")
        size = self._random.choice((10, 300, 3000))
        messages = tuple(
            make.said(f"{name}-m{n}", name * (size // len(name) + 1))
            for n in range(self._random.randrange(1, 3))
        )
        events = tuple(make.spoken(f"{name}-e{n}") for n in range(self._random.randrange(3)))
        version = 0 if thread is None else thread.version
        known = {"commit_id": name, "messages": messages, "events": events}
        known |= {"committed_at": NOW_MS, "state": {name: make.value(f'"{name}"')}}
        return make.commit(thread_id, version, **(known | parts))

    def _thread(self) -> str:
        number = self._random.randrange(SHARED + 1)
        return self._orders.own if number == SHARED else self._orders.shared(number)

    def _fresh(self, kind: str) -> str:
        self._count += 1
        return f"{kind}-{self._name}-{self._count}"
