"""Damaged files: one flipped bit, or an end that is missing.

Damage is either found, with an error that says so, or it changes nothing that anybody can read.
"""

import os
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from awaken.contracts.errors import StorageError
from awaken.contracts.storage.queries import RunQuery, ThreadQuery
from awaken.stores.sqlite.connection import connect, prepare
from awaken.stores.sqlite.writer import run_without_suspending

from .lanes import scratch
from .playing import play
from .store_file import StoreFile
from .views import Rows, ThreadView, view_of

PLAYED = ("turns", "approval", "queue", "dying", "sending")


def sample_store(path: Path) -> bytes:
    """A store's file with a bit of everything in it."""
    sink = os.open(os.devnull, os.O_WRONLY)
    for name in PLAYED:
        play(name, path, sink)
    os.close(sink)
    assert not path.with_name(path.name + "-wal").exists()
    return path.read_bytes()


class Reading:
    """Everything that can be read of a store by the names of its things."""

    def __init__(self, path: Path) -> None:
        file = _opened(path)
        threads = run_without_suspending(file.store.list_threads(ThreadQuery(limit=100))).items
        runs = run_without_suspending(file.store.list_runs(RunQuery(limit=100))).items
        self._threads = [thread.id for thread in threads]
        self._runs = [run.run_id for run in runs]
        self._tickets = [f"approval-ticket-{call}" for call in ("c1", "c2")]
        self._orders = [it.entry_id for it in run_without_suspending(file.store.list_outbox())]
        self.expected = self._read(file)
        file.shut()

    def verdict(self, path: Path) -> str:
        """`found`, `harmless`, or what is different without anybody being told."""
        try:
            file = _opened(path)
        except StorageError:
            return "found"
        try:
            seen = self._read(file)
        except StorageError:
            return "found"
        finally:
            file.shut()
        if seen == self.expected:
            return "harmless"
        changed = [name for name, value in self.expected.items() if seen[name] != value]
        return f"silent: {changed}"

    def _read(self, file: StoreFile) -> dict[str, object]:
        store = file.store
        seen: dict[str, object] = {}
        for name in self._threads:
            view = run_without_suspending(view_of(file, name))
            seen[f"thread {name}"] = view and _seen(view)
            found = run_without_suspending(store.checkout(name))
            seen[f"checkout {name}"] = found and (found.state, found.run_state, found.messages)
        for name in self._runs:
            seen[f"run {name}"] = run_without_suspending(store.load_run(name))
            seen[f"journal {name}"] = run_without_suspending(store.list_tool_records(name))
        for name in self._tickets:
            seen[f"ticket {name}"] = run_without_suspending(store.find_ticket(name))
        for name in self._orders:
            # A list leaves a damaged one out, and the log names it.
            seen[f"order {name}"] = run_without_suspending(store.find_outbox(name))
        seen["outbox"] = run_without_suspending(store.list_outbox())
        return seen


def _seen(view: ThreadView) -> ThreadView:
    """The thread without its rows; dispatches in an order that depends on themselves alone."""
    ordered = sorted(view.dispatches, key=lambda it: it.dispatch_id)
    return msgspec.structs.replace(view, rows=Rows(), dispatches=tuple(ordered))


def flipped(content: bytes, bit: int) -> bytes:
    """The bytes with one bit turned over."""
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << (bit % 8)
    return bytes(changed)


def samples(content: bytes, count: int, seed: int) -> Sequence[int]:
    """Bits to flip, all over the file."""
    return random.Random(seed).sample(range(len(content) * 8), count)


def damaged(changes: Iterable[bytes]) -> Iterator[Path]:
    """A file for each change."""
    with scratch() as folder:
        path = folder / "store.db"
        for change in changes:
            for old in folder.iterdir():
                old.unlink()
            path.write_bytes(change)
            yield path


def _opened(path: Path) -> StoreFile:
    """Open a file as a store does: as a writer that looks at the schema, then as a reader."""
    name = f"sqlite:///{path}"
    writer = connect(path, name, is_writer=True)
    try:
        prepare(writer, name)
    finally:
        writer.close()
    return StoreFile(path)
