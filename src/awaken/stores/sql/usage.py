"""Usage by day: the port, the cursor and the sums.

The cursor is a fact: the end time and the id of the last run that is counted. The runs behind it
are read and summed first. Then one transaction compares the cursor, moves it and adds the sums, so
that no run is counted twice, however many processes count and wherever one of them stops.
"""

from functools import partial

import msgspec

from awaken.contracts.events import AgentEvent
from awaken.contracts.record import Record
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.usage import SETTLE_MS, UsageDay, UsageKey, UsageSums
from awaken.stores.rules.usage import add_run

from . import rows
from .run_columns import fill_columns
from .session import Database, Row, SqlSession

CURSOR = "usage_cursor"
"""The fact that says which runs are counted."""
SUMS = msgspec.json.Decoder(UsageSums)
_START = (-1, "")


class _Counted(Record, frozen=True, kw_only=True):
    """Runs that are summed but not yet stored."""

    before: str | None
    """The cursor as it was; None if it did not exist."""
    after: str
    runs: int
    totals: dict[UsageKey, UsageSums]


class SqlUsage:
    """The part of the store that sums usage and keeps the columns of runs."""

    _database: Database

    async def fill_run_columns(self, limit: int = 200) -> int:
        """Fill the columns of runs that an earlier version wrote; returns how many."""
        # Most calls find nothing: a read costs no transaction that other writers wait for.
        if not await self._database.read_row(_has_unfilled):
            return 0
        return await self._database.write(partial(fill_columns, limit=limit))

    async def list_pinned_publications(self) -> frozenset[int]:
        """Return the publications of runs that have not ended."""

        async def work(session: SqlSession) -> frozenset[int]:
            return frozenset(row[0] for row in await session.all("list_pinned_publications"))

        return await self._database.read_row(work)

    async def count_open_runs(self, tenant_id: str | None = None) -> dict[str, int]:
        """Count the chats and tasks that have not ended, by status."""

        async def work(session: SqlSession) -> dict[str, int]:
            return {row[0]: row[1] for row in await session.all("count_open_runs", tenant_id)}

        return await self._database.read_row(work)

    async def count_usage(self, limit: int = 200) -> int:
        """Add ended runs to the usage of their days; returns how many were looked at."""
        counted = await self._database.read(partial(_sum_finished, limit=limit))
        if not counted.runs:
            return 0
        return await self._database.write(partial(_store_sums, counted=counted))

    async def list_usage(
        self, first_day: int, last_day: int, tenant_id: str | None = None
    ) -> tuple[UsageDay, ...]:
        """Return the usage of the days between two, both included, by day, agent and model."""

        async def work(session: SqlSession) -> tuple[UsageDay, ...]:
            found = await session.all("list_usage", first_day, last_day, tenant_id)
            return tuple(map(_decode_day, found))

        return await self._database.read_row(work)


async def _has_unfilled(session: SqlSession) -> bool:
    return bool(await session.all("list_unfilled_runs", 1))


async def _sum_finished(session: SqlSession, limit: int) -> _Counted:
    """Sum the runs behind the cursor that ended long enough ago."""
    row = await session.one("find_fact", CURSOR)
    before = None if row is None else row[0]
    at, run_id = _START if before is None else _decode_cursor(before)
    until = (await session.now()).wall_ms - SETTLE_MS
    totals: dict[UsageKey, UsageSums] = {}
    found = await session.all("list_finished_runs", at, run_id, until, limit)
    for finished in found:
        run = rows.unpack(finished[2], rows.RUN, f"Run '{finished[1]}'")
        events = await _read_events(session, run, finished)
        add_run(totals, run, finished[0], events, finished[3])
    after = before or ""
    if found:
        after = f"{found[-1][0]} {found[-1][1]}"
    return _Counted(before=before, after=after, runs=len(found), totals=totals)


async def _read_events(session: SqlSession, run: RunRecord, finished: Row) -> list[AgentEvent]:
    first, (_, last) = rows.place(finished[4], finished[5]), rows.all_places(finished[4])
    found: list[AgentEvent] = []
    for seq, run_id, at, blob in await session.all("list_run_events", first, last, run.run_id):
        what = f"Events of run '{run.run_id}'"
        events = rows.unpack(blob, rows.EVENTS, what, seq, run_id, at)
        found.extend(events)
    return found


async def _store_sums(session: SqlSession, counted: _Counted) -> int:
    """Move the cursor and add the sums; does nothing if another process has moved it."""
    if counted.before is None:
        is_moved = await session.run("add_fact", CURSOR, counted.after)
    else:
        is_moved = await session.run("replace_fact", CURSOR, counted.before, counted.after)
    if not is_moved:
        return 0
    for key, sums in counted.totals.items():
        columns = (key.day, key.agent_id, key.model, key.tenant_id or "")
        row = await session.one("find_usage", *columns)
        known = UsageSums() if row is None else _decode_sums(row[0], columns)
        await session.run("save_usage", *columns, rows.pack(known.plus(sums), *columns))
    return counted.runs


def _decode_day(row: Row) -> UsageDay:
    columns = (row[0], row[1], row[2], row[3])
    key = UsageKey(day=row[0], agent_id=row[1], model=row[2], tenant_id=row[3] or None)
    return UsageDay(key=key, sums=_decode_sums(row[4], columns))


def _decode_sums(blob: bytes, columns: tuple[int, str, str, str]) -> UsageSums:
    return rows.unpack(blob, SUMS, f"Usage of day {columns[0]} of '{columns[1]}'", *columns)


def _decode_cursor(text: str) -> tuple[int, str]:
    at, _, run_id = text.partition(" ")
    return int(at), run_id
