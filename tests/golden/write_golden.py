"""Writes the golden store of this version: `python tests/golden/write_golden.py`.

A golden store holds what a released version left behind: a finished run, one that waits, one
that is queued, and one whose process died in the middle of its tools. It is written once for a
release, kept for ever, and resumed by the tests of every later version.
"""

import asyncio
import importlib.util
import sqlite3
import sys
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

from awaken import AgentRuntime, RunRequest, __version__
from awaken.buses.memory import MemoryBus
from awaken.contracts.messages.message import user
from awaken.contracts.storage.store import Store, ToolRecordStatus
from awaken.mailbox.config import MailboxConfig
from awaken.mailbox.mailbox import Mailbox
from awaken.stores.sql.session import Moment
from awaken.stores.sqlite.store import SqliteStore
from awaken.testing import FakeClock, SequentialIds
from awaken.testing.fakes import DEFAULT_START_MS

GOLDEN = Path(__file__).parent
CONFIG = MailboxConfig()
MOMENT = Moment(wall_ms=DEFAULT_START_MS, lease_ms=DEFAULT_START_MS)
PATIENCE_S = 20.0


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else GOLDEN / __version__ / "store.db"
    app = load_app(GOLDEN / __version__ / "app.py")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        for patched in of_no_machine():
            stack.enter_context(patched)
        asyncio.run(write(app, Path(folder) / "store.db", target))
    print(f"{target}: {target.stat().st_size} bytes")


def load_app(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"golden_{path.parent.name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def of_no_machine() -> list[Any]:
    """What tells where the store was written, made the same everywhere."""
    return [
        patch("awaken.stores.sqlite.connection.boot_id", return_value="golden"),
        patch("awaken.bootstrap.node.socket.gethostname", return_value="golden"),
        patch("awaken.bootstrap.node.os.getpid", return_value=1),
        patch("awaken.bootstrap.node.os.urandom", return_value=b"old"),
    ]


async def write(app: ModuleType, source: Path, target: Path) -> None:
    ids = SequentialIds("golden")
    runtime = AgentRuntime(
        [app.agent],
        store=SqliteStore(source, lambda: MOMENT),
        clock=FakeClock(),
        ids=ids,
        mailbox=CONFIG,
        has_worker=False,
    )
    async with runtime:
        await runtime.run("traveller", "visit", thread_id="finished", run_id_hint="run-finished")
        await runtime.run("traveller", "hello", thread_id="finished", run_id_hint="run-again")
        await runtime.run("traveller", "ask", thread_id="waiting", run_id_hint="run-waiting")
        await queue(runtime.store)
        await leave_open(app, runtime)
        copy(source, target)
        await runtime.cancel("run-open")


async def queue(store: Store) -> None:
    mailbox = Mailbox(store, MemoryBus(), FakeClock(), SequentialIds("queued"), CONFIG)
    request = RunRequest(
        thread_id="queued",
        agent_id="traveller",
        messages=(user("hello"),),
        run_id_hint="run-queued",
    )
    await mailbox.submit(request, dedupe_key="once")


async def leave_open(app: ModuleType, runtime: AgentRuntime) -> None:
    """Run into the tool that never returns, until the one beside it is durable."""
    app.Hold.is_wanted = True
    await runtime.start("traveller", "pay", thread_id="open", run_id_hint="run-open")
    async with asyncio.timeout(PATIENCE_S):
        await app.Hold.entered.wait()
        while True:
            records = await runtime.store.list_tool_records("run-open")
            if {it.status for it in records} == set(ToolRecordStatus):
                return
            await asyncio.sleep(0.01)


def copy(source: Path, target: Path) -> None:
    """Copy what is durable at this moment into one file, as a crash would leave it."""
    target.unlink(missing_ok=True)
    with closing(sqlite3.connect(source)) as live, closing(sqlite3.connect(target)) as kept:
        live.backup(kept)
        kept.execute("PRAGMA journal_mode = DELETE")
        kept.execute("VACUUM")


if __name__ == "__main__":
    main()
