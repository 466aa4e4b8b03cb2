"""`awaken worker` as a process: it works, drains on a signal, and gives back what does not end."""

import asyncio
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.forked_python import ForkedPython, run_python
from tests.server.processes import APP

from awaken import NaturalEnd, RunStatus
from awaken.stores import DispatchStatus, RunDispatch, RunRecord, SqliteStore

WAIT_S = 40


class Shop:
    """A folder with a store, an app, and the processes that work there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.db = folder / "awaken.db"
        self.processes: list[subprocess.Popen[str]] = []
        (folder / "app.py").write_text(APP, encoding="utf-8")

    def awaken(self, *arguments: str) -> Any:
        done = run_python("-m", "awaken", *arguments, "--json", cwd=self.folder)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def worker(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a worker and wait for its first line, which says that it is ready."""
        process = ForkedPython(
            *("-m", "awaken", "worker", *arguments, "--json", "--verbose"),
            cwd=self.folder,
            env={**os.environ, "AWAKEN_STORE": "sqlite:///awaken.db"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        ready = json.loads(said(process))
        assert (ready["event"], ready["pid"]) == ("ready", process.pid)
        return process

    def run(self, run_id: str) -> RunRecord | None:
        return asyncio.run(self._ask(lambda store: store.load_run(run_id)))

    def dispatch(self, dispatch_id: str) -> RunDispatch:
        found = asyncio.run(self._ask(lambda store: store.find_dispatch(dispatch_id)))
        assert found is not None
        return found

    def wait_until_done(self, run_id: str) -> RunRecord:
        def done() -> RunRecord | None:
            run = self.run(run_id)
            return run if run is not None and run.status is RunStatus.DONE else None

        return eventually(done)

    async def _ask(self, question: Callable[[SqliteStore], Any]) -> Any:
        store = SqliteStore(self.db)
        await store.open()
        try:
            return await question(store)
        finally:
            await store.close()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path)
    yield shop
    for process in shop.processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


def eventually(look: Callable[[], Any]) -> Any:
    """Look until there is something to see."""
    for _ in range(WAIT_S * 50):
        if seen := look():
            return seen
        threading.Event().wait(0.02)
    raise AssertionError("it never happened")


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.stderr and process.stderr.read()
    return line


def ended(process: subprocess.Popen[str], signal_: signal.Signals) -> int:
    process.send_signal(signal_)
    return process.wait(WAIT_S)


@pytest.mark.parametrize("signal_", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_executes_what_is_submitted_and_ends_cleanly(
    shop: Shop, signal_: signal.Signals
) -> None:
    process = shop.worker()
    receipt = shop.awaken("submit", "default", "hello", "--thread", "t")
    run = shop.wait_until_done(receipt["run_id"])
    assert run.termination == NaturalEnd()
    told = json.loads(said(process))
    assert (told["event"], told["run"]["run_id"]) == ("run", receipt["run_id"])
    assert ended(process, signal_) == 0
    shown = shop.awaken("threads", "show", "t")
    assert [record["message"]["role"] for record in shown["messages"]] == ["user", "assistant"]


def test_what_does_not_end_in_time_is_given_back_and_another_worker_ends_it(shop: Shop) -> None:
    first = shop.worker("app.py", "--drain-ms", "0")
    receipt = shop.awaken("submit", "slow", "work", "--thread", "t")
    begun = shop.folder / "begun"
    eventually(lambda: begun.exists() and begun.read_text())
    assert ended(first, signal.SIGTERM) == 0
    left = shop.dispatch(receipt["dispatch_id"])
    assert (left.status, left.attempt_count) == (DispatchStatus.QUEUED, 0)
    (shop.folder / "go").touch()
    shop.worker("app.py:worker")
    run = shop.wait_until_done(receipt["run_id"])
    assert (run.termination, run.final_output) == (NaturalEnd(), "Done.")
    assert begun.read_text() == "xx"


def test_a_run_that_ends_while_the_worker_drains_is_kept(shop: Shop) -> None:
    process = shop.worker("app.py", "--drain-ms", "30000")
    receipt = shop.awaken("submit", "slow", "work", "--thread", "t")
    begun = shop.folder / "begun"
    eventually(lambda: begun.exists() and begun.read_text())
    process.send_signal(signal.SIGTERM)
    assert json.loads(said(process)) == {"event": "draining"}
    later = shop.awaken("submit", "slow", "more", "--thread", "t2")
    (shop.folder / "go").touch()
    assert process.wait(WAIT_S) == 0
    run = shop.run(receipt["run_id"])
    assert run is not None
    assert (run.status, run.final_output) == (RunStatus.DONE, "Done.")
    assert begun.read_text() == "x"
    assert shop.dispatch(later["dispatch_id"]).status is DispatchStatus.QUEUED


def test_the_second_signal_does_not_wait(shop: Shop) -> None:
    process = shop.worker("app.py", "--drain-ms", "600000", "--lease-ms", "300")
    receipt = shop.awaken("submit", "slow", "work", "--thread", "t")
    begun = shop.folder / "begun"
    eventually(lambda: begun.exists() and begun.read_text())
    process.send_signal(signal.SIGTERM)

    def asked_again() -> bool:
        # Two signals that come together are one: so it is asked until it has heard both.
        process.send_signal(signal.SIGTERM)
        return process.poll() is not None

    eventually(asked_again)
    assert process.returncode == 128 + signal.SIGTERM
    (shop.folder / "go").touch()
    shop.worker("app.py", "--lease-ms", "300")
    assert shop.wait_until_done(receipt["run_id"]).final_output == "Done."


def test_a_worker_whose_store_is_damaged_says_so_and_ends(shop: Shop) -> None:
    shop.db.write_text("no database " * 100, encoding="utf-8")
    done = run_python("-m", "awaken", "worker", "--json", cwd=shop.folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert json.loads(done.stderr)["code"] == "store_corrupt"
