"""Cut the power at any write or sync of a store, and see what its file holds afterwards.

`python -m tests.torture.powerloss --trials 3000`. The store's own writer, schema and pragmas run
over APSW, whose files forget what was not synced (`power_vfs.py`).
"""

import argparse
import asyncio
import os
import random
import sqlite3
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import apsw

from awaken.contracts.record import Record
from awaken.contracts.storage.mailbox import LeaseKeeper
from awaken.stores.sql.session import Work
from awaken.stores.sql.store import SqlStore
from awaken.stores.sqlite import connection
from awaken.stores.sqlite.writer import SqliteWriter

from .clients import Client
from .history import History, Log, parsed
from .lanes import scratch, spread
from .power_vfs import NAME, Disk, PowerVFS
from .random_work import Orders, Player
from .report import finish
from .store_file import problems_of

T = TypeVar("T")

CUTS = 40
"""Power cuts per run of the store: the store goes on, its images are checked one by one."""
EVENTS_MAX = 1500


class Lane(Record, frozen=True, kw_only=True):
    """What one lane did."""

    cuts: int
    acknowledged: int
    failures: tuple[str, ...]


def main() -> None:
    """Cut, and exit with 1 when something acknowledged was lost or a file was damaged."""
    parser = argparse.ArgumentParser(prog="powerloss")
    parser.add_argument("--trials", type=int, default=3000)
    parser.add_argument("--lanes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    runs = range(-(-args.trials // CUTS))
    found = spread(partial(_lane, args.seed), runs, args.lanes)
    cuts = sum(it.cuts for it in found)
    failures = [failure for it in found for failure in it.failures]
    if not any(it.acknowledged for it in found):
        failures.append("nothing was ever acknowledged")
    counts = {
        "power cuts": cuts,
        "acknowledged operations looked for": sum(it.acknowledged for it in found),
        "SQLite": apsw.sqlite_lib_version(),
    }
    finish("powerloss", args.seed, counts, cuts - len(failures), failures)


def _lane(seed: int, runs: Sequence[int]) -> Lane:
    cuts = acknowledged = 0
    failures: list[str] = []
    for run in runs:
        with scratch() as folder:
            for number, (image, history) in enumerate(
                _images(folder, random.Random(f"{seed}-{run}"))
            ):
                cuts += 1
                acknowledged += history.counts["ok"]
                problems = _problems(folder / "image", image, history)
                failures += [f"run {run}, cut {number}: {problem}" for problem in problems[:1]]
    return Lane(cuts=cuts, acknowledged=acknowledged, failures=tuple(failures))


def _images(folder: Path, dice: random.Random) -> Iterable[tuple[dict[str, bytes], History]]:
    """Run the store once; return what each power cut would have left, and the log until then."""
    disk = Disk()
    vfs = PowerVFS(disk)
    logged = folder / "log"
    fd = os.open(logged, os.O_WRONLY | os.O_CREAT)
    wanted = set(dice.sample(range(1, EVENTS_MAX), CUTS))
    cuts: list[tuple[dict[str, bytes], bytes]] = []

    def cut() -> None:
        if disk.events in wanted:
            # The log first: what is acknowledged after the cut is not looked for.
            log = logged.read_bytes()
            cuts.append((disk.image(dice), log))

    disk.on_event = cut
    try:
        asyncio.run(_work(folder / "store.db", disk, fd, str(dice.random())))
    finally:
        os.close(fd)
        vfs.unregister()
    return [(image, parsed(log)) for image, log in cuts]


async def _work(path: Path, disk: Disk, fd: int, seed: str) -> None:
    database = PowerDatabase(path)
    store = SqlStore(database)
    dice = random.Random(seed)
    connection.CHECKPOINT_PAGES = dice.choice((24, 200, 8192))
    orders = Orders(name="w", seed=seed, window=0)
    log = Log(fd)
    await store.open()
    players = [Player(Client(store, log, f"w-{n}"), orders, f"w-{n}") for n in range(3)]
    tasks = [asyncio.create_task(player.play()) for player in players]
    while disk.events < EVENTS_MAX:
        await asyncio.sleep(0.001)
        for task in tasks:
            if task.done():
                task.result()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await store.close()


def _problems(folder: Path, image: dict[str, bytes], history: History) -> list[str]:
    """Open what the power cut left, with SQLite as everybody has it."""
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for name, content in image.items():
        (folder / name).write_bytes(content)
    if not history.operations:
        return []
    return problems_of(folder / "store.db", history)


class PowerDatabase:
    """A `Database` with the store's own writer thread over one APSW connection."""

    def __init__(self, path: Path) -> None:
        self.name = f"power:///{path}"
        self._path = path
        self._writer: SqliteWriter | None = None

    async def open(self) -> None:
        """Open the file; its schema is made by the writer."""
        connection.sqlite3 = SimpleNamespace(  # type: ignore[attr-defined]
            **(vars(sqlite3) | {"connect": _Adapted})
        )
        self._writer = SqliteWriter(self._path, self.name)

    async def close(self) -> None:
        """End the writer."""
        assert self._writer is not None
        self._writer.stop()
        await asyncio.to_thread(self._writer.close)
        connection.sqlite3 = sqlite3  # type: ignore[attr-defined]

    async def read(self, work: Work[T]) -> T:
        """Reads go through the writer: with one connection no memory has to be shared."""
        return await self.write(work)

    async def write(self, work: Work[T]) -> T:
        """Run work and make it durable before returning."""
        assert self._writer is not None
        return await self._writer.submit(work)

    async def write_thread(self, work: Work[T], thread_id: str, *, is_adding: bool = False) -> T:
        """Run work on one thread, as `write` does."""
        return await self.write(work)

    read_row = read
    write_row = write_claims = write

    def find_shown(self, thread_id: str) -> Any:
        """Ask the writer."""
        assert self._writer is not None
        return self._writer.find_shown(thread_id)

    def lease_keeper(self) -> LeaseKeeper:
        """There is none: it would need a second connection."""
        raise NotImplementedError


class _Adapted:
    """The few methods of `sqlite3.Connection` that the store uses, over APSW."""

    def __init__(self, path: Path, **_options: object) -> None:
        self._connection = apsw.Connection(str(path), vfs=NAME)
        self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")

    def execute(self, sql: str, args: Sequence[Any] = ()) -> "_Rows":
        # The store numbers its arguments (?1), which both take in the same way.
        before = self._connection.total_changes()
        found = list(self._connection.execute(sql, tuple(args)))
        return _Rows(found, self._connection.total_changes() - before)

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        self._connection.executemany(sql, [tuple(row) for row in rows])

    @property
    def total_changes(self) -> int:
        return int(self._connection.total_changes())

    @property
    def in_transaction(self) -> bool:
        return bool(self._connection.in_transaction)

    def close(self) -> None:
        self._connection.close()


class _Rows:
    def __init__(self, found: list[Any], rowcount: int) -> None:
        self._found = found
        self.rowcount = rowcount

    def fetchall(self) -> list[Any]:
        return self._found

    def fetchone(self) -> Any:
        return self._found[0] if self._found else None


if __name__ == "__main__":
    main()
