"""The mailbox of a SQL store: one method for each method of the port."""

from collections.abc import Callable, Collection, Mapping
from functools import partial

from awaken.contracts.record import EMPTY
from awaken.contracts.storage.dispatch import Interruption, Purged, Release, RunDispatch
from awaken.contracts.storage.mailbox import THREAD_BACKLOG_MAX, LeaseKeeper, TenantLimits
from awaken.contracts.storage.queries import DispatchQuery, Page
from awaken.contracts.suspension.tickets import Ticket

from . import claims, mailbox, queries, queues, retention
from .session import Database, SqlSession


class SqlTenantQueues:
    """The queues of tenants."""

    _database: Database

    async def count_queued_by_tenant(self) -> Mapping[str, int]:
        """Count the queued dispatches of each tenant that has some."""

        async def work(session: SqlSession) -> dict[str, int]:
            return {row[0]: int(row[1]) for row in await session.all("count_queued_by_tenant")}

        return await self._database.read_row(work)


class SqlMailbox(SqlTenantQueues):
    """The part of the store that queues and hands out dispatches."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def now_ms(self) -> int:
        """The database's clock, in milliseconds since the epoch."""

        async def work(session: SqlSession) -> int:
            return (await session.now()).wall_ms

        return await self._database.read_row(work)

    async def enqueue(
        self, dispatch: RunDispatch, *, backlog_max: int = THREAD_BACKLOG_MAX
    ) -> RunDispatch:
        """Queue a dispatch; it is durable before this returns."""
        return await self._database.write_thread(
            partial(mailbox.submit, dispatch=dispatch, backlog_max=backlog_max),
            dispatch.thread_id,
            is_adding=True,
        )

    async def claim(
        self,
        worker_id: str,
        claim_token: str,
        lease_ms: int,
        *,
        limit: int = 1,
        agents: Collection[str] | None = None,
        tenants: Mapping[str, TenantLimits] = EMPTY,
    ) -> tuple[RunDispatch, ...]:
        """Claim dispatches that are due, at most one for each unclaimed thread."""
        # Most claims find nothing: a read costs no transaction that other writers wait for.
        if not await self._database.read_row(partial(claims.has_due, agents=agents)):
            return ()
        return await self._database.write_claims(
            partial(
                claims.claim,
                worker_id=worker_id,
                claim_token=claim_token,
                lease_ms=lease_ms,
                limit=limit,
                agents=agents,
                list_due=self._share_due(tenants) if tenants else claims.list_due,
            )
        )

    def _share_due(self, tenants: Mapping[str, TenantLimits]) -> claims.ListDue:
        """Return how threads are found within the limits of tenants; few programs have some."""
        from .shares import list_shared_due  # noqa: PLC0415

        return partial(list_shared_due, tenants=tenants)

    async def claim_dispatch(
        self, dispatch_id: str, worker_id: str, claim_token: str, lease_ms: int
    ) -> RunDispatch | None:
        """Claim one dispatch now, even if it is not due or not the first of its thread."""
        return await self._database.write(
            partial(
                claims.claim_dispatch,
                dispatch_id=dispatch_id,
                worker_id=worker_id,
                claim_token=claim_token,
                lease_ms=lease_ms,
            )
        )

    async def release(
        self, dispatch_id: str, claim_token: str, release: Release | None = None
    ) -> RunDispatch:
        """End a claim outside of a commit, because nothing has to be written."""
        return await self._database.write(
            partial(
                claims.release,
                dispatch_id=dispatch_id,
                claim_token=claim_token,
                how=release or Release(),
            )
        )

    async def requeue(
        self,
        dispatch_id: str,
        claim_token: str,
        *,
        delay_ms: int = 0,
        error: str | None = None,
        is_charged: bool = True,
    ) -> RunDispatch:
        """Give a claimed dispatch back; it is due again after the delay."""
        return await self._database.write(
            partial(
                claims.requeue,
                dispatch_id=dispatch_id,
                claim_token=claim_token,
                delay_ms=delay_ms,
                error=error,
                is_charged=is_charged,
            )
        )

    async def give_up_claim(self, thread_id: str, claim_token: str) -> RunDispatch | None:
        """Give back a claim that a commit took; the rest is queued, and no attempt is charged."""
        return await self._database.write(
            partial(claims.give_up_claim, thread_id=thread_id, claim_token=claim_token)
        )

    async def cancel_dispatch(self, dispatch_id: str) -> RunDispatch | None:
        """Cancel a queued dispatch; returns None if it is no longer queued."""
        return await self._database.write(partial(mailbox.cancel_dispatch, dispatch_id=dispatch_id))

    async def request_cancel(
        self, thread_id: str, cause: str, run_id: str | None = None
    ) -> str | None:
        """Ask the worker that executes a run of the thread to cancel it, now or after a crash."""
        return await self._database.write(
            partial(mailbox.request_cancel, thread_id=thread_id, cause=cause, run_id=run_id)
        )

    async def interrupt(
        self, thread_id: str, cause: str, then: RunDispatch | None = None
    ) -> Interruption:
        """Raise the thread's epoch, drop its queue, request a cancel, and queue `then`."""
        return await self._database.write(
            partial(mailbox.interrupt, thread_id=thread_id, cause=cause, then=then)
        )

    async def reclaim(
        self, limit: int = 100, is_gone: Callable[[str], bool] | None = None
    ) -> tuple[RunDispatch, ...]:
        """Take back claims whose lease has run out or whose worker is gone."""
        return await self._database.write(partial(claims.reclaim, limit=limit, is_gone=is_gone))

    async def find_dispatch(self, dispatch_id: str) -> RunDispatch | None:
        """Return a dispatch, or None."""
        return await self._database.read_row(partial(queues.find, dispatch_id=dispatch_id))

    async def find_dispatch_of_run(self, run_id: str) -> RunDispatch | None:
        """Return the newest dispatch that names a run, or None."""
        return await self._database.read_row(partial(queues.find_of_run, run_id=run_id))

    async def list_dispatches(self, query: DispatchQuery) -> Page[RunDispatch]:
        """List dispatches, oldest first, ties by id."""
        return await self._database.read(partial(queries.list_dispatches, query=query))

    async def list_inputs(self, thread_id: str) -> tuple[RunDispatch, ...]:
        """Return queued input that an executing run may take in, in order."""
        return await self._database.read(partial(queues.list_inputs, thread_id=thread_id))

    async def count_queued(self) -> int:
        """Count the queued dispatches of all threads."""

        async def work(session: SqlSession) -> int:
            row = await session.one("count_queued")
            assert row is not None
            return int(row[0])

        return await self._database.read_row(work)

    async def revive(self, dispatch_id: str, new_id: str) -> RunDispatch:
        """Queue a dead letter again as a new dispatch with all its attempts."""
        return await self._database.write(
            partial(mailbox.revive, dispatch_id=dispatch_id, new_id=new_id)
        )

    async def list_expired_tickets(self, limit: int = 100) -> tuple[Ticket, ...]:
        """Return open tickets whose deadline has passed, oldest deadline first."""

        async def work(session: SqlSession) -> tuple[Ticket, ...]:
            now, wanted = await session.now(), limit
            while True:
                found = await session.all("list_expired_tickets", now.wall_ms, wanted)
                tickets = queries.select_readable(found)
                if len(tickets) >= limit or len(found) < wanted:
                    return tickets[:limit]
                # Damaged tickets stay open, and must not hide those behind them.
                wanted *= 2

        return await self._database.read_row(work)

    async def purge(
        self, before_ms: int, limit: int = 1000, kept: Mapping[str, str] | None = None
    ) -> Purged:
        """Remove records that ended before a time: dispatches, runs with their journal, events."""
        return await self._database.write(
            partial(retention.purge, before_ms=before_ms, limit=limit, kept=kept or {})
        )

    def lease_keeper(self) -> LeaseKeeper:
        """Return a new lease keeper with its own connection; use and close it in one thread."""
        return self._database.lease_keeper()
