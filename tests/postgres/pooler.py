"""A real PgBouncer before the test server, in transaction mode."""

import asyncio
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import asyncpg
import pytest

from .server import server

PORT = 6543
"""It names the socket in a folder of its own; nothing listens on the network."""
_CONFIG = """
[databases]
postgres = host={server} dbname=postgres user=postgres

[pgbouncer]
unix_socket_dir = {folder}
listen_port = {port}
auth_type = any
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 500
query_wait_timeout = 60
server_idle_timeout = {idle_s}
server_login_retry = 1
logfile = {folder}/log
pidfile = {folder}/pid
"""


class Pooler:
    """A PgBouncer that gives a session of the server to one transaction at a time."""

    def __init__(self, folder: Path) -> None:
        self.url = f"postgresql://postgres@/postgres?host={folder}&port={PORT}"

    @property
    def store_url(self) -> str:
        """The URL of a store: transactions through the pooler, sessions with the server."""
        return f"{self.url}&direct={quote(server().url, safe='')}"

    async def until_ready(self) -> None:
        async with asyncio.timeout(60):
            while True:
                try:
                    connection = await asyncpg.connect(self.url, statement_cache_size=0)
                except (OSError, asyncpg.PostgresError):
                    await asyncio.sleep(0.05)
                else:
                    await connection.close()
                    return


@contextmanager
def pooling(size: int, idle_s: int = 600) -> Iterator[Pooler]:
    """A pooler with at most `size` sessions of the server; skips where PgBouncer is missing.

    It ends a session that nobody has used for `idle_s` seconds.
    """
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("PgBouncer is not installed (the package pgbouncer)")
    folder = Path(tempfile.mkdtemp(prefix="pool-"))
    config = folder / "pgbouncer.ini"
    config.write_text(
        _CONFIG.format(server=server().folder, folder=folder, port=PORT, size=size, idle_s=idle_s),
        "utf-8",
    )
    # PgBouncer refuses to run as root.
    user = server().user
    if user is not None:
        owner = pwd.getpwnam(user)
        for path in (folder, config):
            os.chown(path, owner.pw_uid, owner.pw_gid)
    process = subprocess.Popen(
        [program, str(config)], user=user, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield Pooler(folder)
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)
