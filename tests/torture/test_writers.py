"""Many writers on one thread, in two processes: nothing is lost, doubled or out of order."""

import asyncio
import os
from functools import partial
from pathlib import Path

from tests.sampling import choose_size, sampled

from awaken.contracts.errors import VersionConflict
from awaken.stores.sqlite import SqliteStore
from awaken.stores.sqlite.writer import run_without_suspending

from . import building as make
from .checker import thread_problems
from .children import Child
from .store_file import StoreFile
from .views import view_of

PROCESSES, WRITERS, MESSAGES = 2, 16, 50
BOUND_S = 45
RACES = choose_size(6, 60)
"""Without waiting for each other, about one race in fifteen fails."""


def test_32_writers_in_two_processes_append_1600_messages_each_in_its_own_order(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store.db"
    children = [Child(partial(_write_all, path, process)) for process in range(PROCESSES)]
    ended = [child.wait() for child in children]
    assert [it.status for it in ended] == [0] * PROCESSES

    file = StoreFile(path)
    view = run_without_suspending(view_of(file, "thread"))
    file.shut()
    assert view is not None
    assert view.thread.message_count == view.thread.version == PROCESSES * WRITERS * MESSAGES
    assert thread_problems(view) == []
    for process in range(PROCESSES):
        for writer in range(WRITERS):
            name = f"p{process}w{writer}-"
            written = [it.message_id for it in view.messages if it.message_id.startswith(name)]
            assert written == [f"{name}{number}" for number in range(MESSAGES)]


def _write_all(path: Path, process: int, fd: int) -> None:
    os.close(fd)

    async def main() -> None:
        store = SqliteStore(path)
        async with asyncio.timeout(BOUND_S):
            await store.open()
            async with asyncio.TaskGroup() as group:
                for writer in range(WRITERS):
                    group.create_task(_write(store, f"p{process}w{writer}"))
            await store.close()

    asyncio.run(main())


async def _write(store: SqliteStore, name: str) -> None:
    """Append messages one by one; after a conflict the writer tries again where the thread is."""
    version = 0
    for number in range(MESSAGES):
        message = make.said(f"{name}-{number}")
        while True:
            commit = make.commit(
                "thread", version, commit_id=f"{name}-{number}", messages=(message,)
            )
            try:
                version = (await store.commit(commit)).version
                break
            except VersionConflict as conflict:
                version = conflict.actual


@sampled
def test_processes_that_make_a_store_together_all_get_it(tmp_path: Path) -> None:
    for number in range(RACES):
        path = tmp_path / f"store{number}.db"
        ready, go = os.pipe()
        children = [Child(partial(_open_at_once, path, ready)) for _ in range(4)]
        os.write(go, b"x" * len(children))
        ended = [child.wait() for child in children]
        os.close(ready)
        os.close(go)
        assert [it.status for it in ended] == [0] * len(children)


def _open_at_once(path: Path, ready: int, _log: int) -> None:
    os.read(ready, 1)

    async def work() -> None:
        store = SqliteStore(path)
        await store.open()
        await store.close()

    asyncio.run(work())
