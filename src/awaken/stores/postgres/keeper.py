"""Keeps leases alive from a separate operating-system thread with its own event loop."""

import asyncio
from collections.abc import Sequence

import asyncpg

from awaken.contracts.storage.dispatch import LeaseReport
from awaken.stores.sql.session import Moment

from .connection import Connection, close, connect_direct
from .errors import DRIVER_ERRORS, is_broken, translate_error
from .server import PostgresServer
from .session import PostgresSession

LOCK_MS = 500
"""How long to wait for a thread whose row another transaction has locked."""


class PostgresLeaseKeeper:
    """A `LeaseKeeper` with its own connection, opened on first use."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._runner: asyncio.Runner | None = None
        self._connection: Connection | None = None

    def extend(self, claim_tokens: Sequence[str], lease_ms: int) -> tuple[LeaseReport, ...]:
        """Extend the leases that are still held, and report to each holder what has changed.

        Takes hardly longer than a lease lasts: a later answer is useless.
        """
        if self._runner is None:
            self._runner = asyncio.Runner()
        try:
            return self._runner.run(self._extend(claim_tokens, lease_ms))
        except DRIVER_ERRORS as error:
            raise translate_error(error, self._server.name) from error

    def close(self) -> None:
        """Release the connection."""
        runner, self._runner = self._runner, None
        connection, self._connection = self._connection, None
        if runner is None:
            return
        if connection is not None:
            runner.run(close(connection))
        runner.close()

    async def _extend(self, tokens: Sequence[str], lease_ms: int) -> tuple[LeaseReport, ...]:
        server = self._server
        limit_ms = min(server.command_timeout_ms, max(lease_ms, server.connect_timeout_ms))
        async with asyncio.timeout(limit_ms / 1000):
            try:
                return await self._extend_connected(tokens, lease_ms)
            except DRIVER_ERRORS as error:
                if not is_broken(error):
                    raise
                # It may have died since the last call; extending a lease twice is harmless.
                return await self._extend_connected(tokens, lease_ms)

    async def _extend_connected(
        self, tokens: Sequence[str], lease_ms: int
    ) -> tuple[LeaseReport, ...]:
        if self._connection is None:
            self._connection = await connect_direct(self._server, lock_timeout=LOCK_MS)
        try:
            return await _extend_each(self._connection, tokens, lease_ms)
        except BaseException:
            self._connection.terminate()
            self._connection = None
            raise


async def _extend_each(
    connection: Connection, tokens: Sequence[str], lease_ms: int
) -> tuple[LeaseReport, ...]:
    """Extend leases one by one, so that one locked thread does not cost the others theirs."""
    session = PostgresSession(connection)
    now = await session.now()
    reports = []
    for token in tokens:
        try:
            await session.run("extend_lease", token, now.lease_ms + lease_ms)
        except asyncpg.LockNotAvailableError:
            # Unknown: left out of the answer, and tried again with the next heartbeat.
            continue
        # Read afterwards: a lease that is still held now was extended.
        reports.append(await _read_lease(session, token, now))
    return tuple(reports)


async def _read_lease(session: PostgresSession, token: str, now: Moment) -> LeaseReport:
    row = await session.one("find_lease", token, now.wall_ms)
    if row is None:
        return LeaseReport(claim_token=token, is_held=False)
    return LeaseReport(claim_token=token, cancel_cause=row[0], has_input=row[1])
