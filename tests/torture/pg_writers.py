"""Writers on a Postgres that comes and goes: each commit is acknowledged, refused or asked for."""

import asyncio
import os
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from awaken.contracts.errors import StoreUnavailable, VersionConflict
from awaken.contracts.storage.store import Commit
from awaken.stores.postgres import PostgresStore

from . import building as make
from .history import FAILED, OK, Asked, History, Log, Told, digest, parsed, wish_of

T = TypeVar("T")

PAUSE_S = 0.02


class Journalled:
    """What all writers asked for and were told, on a pipe that nobody has to empty meanwhile."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.log = Log(self._fd)
        self.unknown = self.had_committed = 0

    def read(self) -> History:
        """Everything so far."""
        with open(self._path, "rb") as file:
            return parsed(file.read())

    def close(self) -> None:
        os.close(self._fd)


class Writer:
    """Appends to shared threads until it is told to stop."""

    def __init__(
        self, name: str, store: PostgresStore, journal: Journalled, threads: list[str]
    ) -> None:
        self._name = name
        self._store = store
        self._journal = journal
        self._threads = threads
        self._chance = random.Random(name)
        self._count = 0

    async def write(self, stop: asyncio.Event) -> None:
        """Commit, and learn of every commit what became of it."""
        while not stop.is_set():
            thread_id = self._chance.choice(self._threads)
            thread = await patient(partial(self._store.load_thread, thread_id))
            self._count += 1
            name = f"{self._name}-{self._count}"
            commit = make.commit(
                thread_id,
                0 if thread is None else thread.version,
                commit_id=name,
                messages=(make.said(name),),
                state={f"of {self._name}": make.value(str(self._count))},
            )
            await self._commit(commit)

    async def _commit(self, commit: Commit) -> None:
        wish, op = wish_of(commit), f"{self._name}.{self._count}"
        log = self._journal.log
        log.write(Asked(op=op, kind="commit", digest=digest(wish), wish=wish))
        try:
            receipt = await self._store.commit(commit)
        except VersionConflict as error:
            log.write(Told(op=op, outcome=FAILED, error=error.code))
            return
        except StoreUnavailable:
            self._journal.unknown += 1
            found = await patient(
                lambda: self._store.find_commit(commit.commit_id, commit.thread_id)
            )
            if found is None:
                # Now it is known: it was not applied, and it never will be.
                log.write(Told(op=op, outcome=FAILED))
                return
            self._journal.had_committed += 1
            receipt = found
        log.write(Told(op=op, outcome=OK, receipt=receipt))


async def patient(work: Callable[[], Awaitable[T]]) -> T:
    """Ask until the store answers."""
    while True:
        try:
            return await work()
        except StoreUnavailable:
            await asyncio.sleep(PAUSE_S)
