"""Keeps leases alive from a separate operating-system thread with its own event loop."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import asyncpg

from awaken.contracts.storage.dispatch import LeaseReport
from awaken.contracts.storage.nodes import NodeBeat, NodeReport
from awaken.stores.sql.session import Moment

from . import nodes
from .connection import Connection, close, connect_direct
from .errors import DRIVER_ERRORS, is_broken, translate_error
from .known_threads import PostgresContext
from .server import PostgresServer
from .session import PostgresSession

T = TypeVar("T")

LOOK_MS = 1_000
"""How long a look at one claim may take."""
LOCK_MS = 500
"""How long to wait for a thread whose row another transaction has locked."""


class PostgresLeaseKeeper:
    """A `LeaseKeeper` and `NodeKeeper` with its own connection, opened on first use.

    A call takes hardly longer than a lease lasts: a later answer is useless.
    """

    def __init__(self, server: PostgresServer, shared: PostgresContext) -> None:
        self._server = server
        self._shared = shared
        self._runner: asyncio.Runner | None = None
        self._connection: Connection | None = None

    def extend(self, claim_tokens: Sequence[str], lease_ms: int) -> tuple[LeaseReport, ...]:
        """Extend the leases that are still held, and report to each holder what has changed."""
        return self._call(lambda it: _extend_each(it, claim_tokens, lease_ms), lease_ms)

    def begin_anew(self, node: NodeReport, lease_ms: int, before: str) -> None:
        """Write the row of a node that goes on under a new id."""
        self._call(lambda it: nodes.begin_anew(it, node, lease_ms, before), lease_ms)

    def beat(
        self,
        node: NodeReport,
        lease_ms: int,
        confirmed: Sequence[str] | None = None,
        *,
        limit_ms: int | None = None,
    ) -> NodeBeat:
        """Renew the lease of a node, and report on all its claims."""
        return self._call(
            lambda it: nodes.beat(it, node, lease_ms, confirmed), lease_ms, most_ms=limit_ms
        )

    def free(self, node_id: str, claim_tokens: Sequence[str]) -> None:
        """Let claims of a node run out now."""
        self._call(lambda it: nodes.free(it, node_id, claim_tokens), LOOK_MS)

    def look(self, claim_tokens: Sequence[str]) -> tuple[LeaseReport, ...]:
        """Report on some claims; extends nothing."""
        return self._call(lambda it: nodes.look(it, claim_tokens), LOOK_MS)

    def close(self) -> None:
        """Release the connection."""
        runner, self._runner = self._runner, None
        connection, self._connection = self._connection, None
        if runner is None:
            return
        if connection is not None:
            runner.run(close(connection))
        runner.close()

    def _call(
        self,
        work: Callable[[Connection], Coroutine[Any, Any, T]],
        limit_ms: int,
        *,
        most_ms: int | None = None,
    ) -> T:
        if self._runner is None:
            self._runner = asyncio.Runner()
        try:
            # A slow connection gets its time, unless it would be too late by then.
            limit_ms = max(limit_ms, self._server.connect_timeout_ms)
            limit_ms = limit_ms if most_ms is None else min(limit_ms, most_ms)
            return self._runner.run(self._call_bounded(work, limit_ms))
        except DRIVER_ERRORS as error:
            raise translate_error(error, self._server.name) from error

    async def _call_bounded(
        self, work: Callable[[Connection], Coroutine[Any, Any, T]], limit_ms: int
    ) -> T:
        limit_ms = min(limit_ms, self._server.command_timeout_ms)
        async with asyncio.timeout(limit_ms / 1000):
            try:
                return await self._call_connected(work)
            except DRIVER_ERRORS as error:
                if not is_broken(error):
                    raise
                # It may have died since the last call; renewing a lease twice is harmless.
                return await self._call_connected(work)

    async def _call_connected(self, work: Callable[[Connection], Coroutine[Any, Any, T]]) -> T:
        if self._connection is None:
            self._connection = await connect_direct(self._server, lock_timeout=LOCK_MS)
        try:
            if self._shared.watchers:
                return await work(CountedConnection(self._connection, self._shared))
            return await work(self._connection)
        except BaseException:
            self._connection.terminate()
            self._connection = None
            raise


class CountedConnection:
    """A connection of a keeper whose round trips are told to watchers."""

    def __init__(self, connection: Connection, shared: PostgresContext) -> None:
        self._connection = connection
        self._shared = shared

    async def execute(self, text: str, *args: Any) -> str:
        """Run a statement and return its status."""
        self._shared.count("lease")
        status: str = await self._connection.execute(text, *args)
        return status

    async def fetch(self, text: str, *args: Any) -> Sequence[Any]:
        """Run a query and return every row."""
        self._shared.count("lease")
        rows: Sequence[Any] = await self._connection.fetch(text, *args)
        return rows

    async def fetchrow(self, text: str, *args: Any) -> Any:
        """Run a query and return its first row, or None."""
        self._shared.count("lease")
        return await self._connection.fetchrow(text, *args)


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
