"""The log by days: makes partitions for the days to come, and drops those whose days are over.

One process at a time does it, in a session of its own. What it changes is a transaction each, so
a crash between two of them loses nothing and shows nothing twice. A change of the tables waits
for `LOCK_MS` at most, because everything that comes later waits behind it, and is tried again.
"""

import asyncio
import logging
import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence

import asyncpg

from awaken.contracts.record import Record
from awaken.stores.sql.log_start import DROPPED_LOG, LOG_MARKS
from awaken.stores.sql.rows import PLACES, place
from awaken.stores.sql.session import Row, SqlSession

from .connection import Connection, connect_direct
from .server import PostgresServer
from .texts import NOW, STATEMENTS

logger = logging.getLogger(__name__)

DAY_MS = 86_400_000
SETTLE_MS = 3_600_000
"""How long after its end a day is left alone: transactions that began before it are over then."""
DAYS_MAX = 32
"""How many days have a partition each; with a longer retention a partition has several days."""
LOCK_MS = 250
TRIES = 8
PAUSE_S = 0.25
CLOSE_MS = 10_000
"""How long the default partition may be read, with all others waiting, to give it its range."""
MARKED_AT_ONCE = 5_000

REST = "commits_rest"
"""The default partition: it takes what no partition was made for."""
_RANGE = re.compile(r"FOR VALUES FROM \((?:MINVALUE|(\d+))\) TO \((\d+)\)")
_OLDER = "committed_at < day * 86400000::bigint - 3600000"
_LOCK = "hashtextextended('awaken log of ' || current_schema(), 0)"
_TRY_LOCK = f"SELECT pg_try_advisory_lock({_LOCK})"
_UNLOCK = f"SELECT pg_advisory_unlock({_LOCK})"
_OWN = {
    "list_log_partitions": (
        f"SELECT c.relname, pg_get_expr(c.relpartbound, c.oid), {NOW},"
        f" EXISTS (SELECT 1 FROM {REST})"
        " FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
        " WHERE i.inhparent = 'commits'::regclass"
    ),
    # The commits of the log's days go with their partitions; only the others are looked for.
    "list_old_logs": (
        "SELECT id, no FROM threads WHERE no > $2 AND no IN ("
        f" SELECT place / {PLACES} FROM commits WHERE {_OLDER} AND committed_at < $1)"
        " ORDER BY no LIMIT $3"
    ),
    "try_purge": (
        "SELECT pg_try_advisory_xact_lock("
        "hashtextextended('awaken purge of ' || current_schema(), 0))"
    ),
}
STATEMENTS.update(_OWN)


_MARK = (
    f"WITH gone AS (SELECT place / {PLACES} AS no, max(place % {PLACES}) AS version,"
    " max(event_seq) AS seq FROM {partition} WHERE place BETWEEN $1 AND $2 GROUP BY 1),"
    " behind AS (SELECT t.no FROM threads t JOIN gone USING (no)"
    " WHERE t.purged_version < gone.version),"
    " due AS (SELECT t.no FROM threads t JOIN behind USING (no) FOR UPDATE OF t SKIP LOCKED),"
    " done AS (UPDATE threads SET purged_seq = greatest(purged_seq, gone.seq),"
    " purged_version = gone.version FROM gone JOIN due USING (no) WHERE threads.no = gone.no"
    " RETURNING 1)"
    " SELECT (SELECT count(*) FROM behind) - (SELECT count(*) FROM done)"
)


class _StillNeededError(Exception):
    """A partition has commits that must stay; the transaction that drops it is undone."""


class LogPartition(Record, frozen=True, kw_only=True):
    """A part of the log: the commits of some days."""

    name: str
    first: int
    end: int
    """The first day, counted from the epoch, that it does not have."""


class LogDays(Record, frozen=True, kw_only=True):
    """The partitions of the log, oldest first, and the time of the database."""

    partitions: tuple[LogPartition, ...]
    has_rest: bool
    """Whether commits were written for which no partition was made."""
    now_ms: int

    @property
    def today(self) -> int:
        """The day that a commit of now belongs to."""
        return self.now_ms // DAY_MS

    @property
    def end(self) -> int:
        """The first day that has no partition."""
        return self.partitions[-1].end if self.partitions else self.today

    def is_due(self, before_ms: int) -> bool:
        """Whether a partition has to be made, closed or dropped."""
        return self.has_rest or self.end <= self.today + 1 or self.find_old(before_ms) is not None

    def find_old(self, before_ms: int) -> LogPartition | None:
        """Return the oldest partition if all its days ended before a time, else None."""
        limit_ms = min(before_ms, self.now_ms - SETTLE_MS)
        for oldest in self.partitions[:1]:
            if oldest.end * DAY_MS <= limit_ms:
                return oldest
        return None


async def look_at_days(session: SqlSession) -> LogDays:
    """Return which days the log has; one statement."""
    return _read_days(await session.all("list_log_partitions"))


async def keep_days(server: PostgresServer, before_ms: int, kept: Mapping[str, str]) -> int:
    """Make the partitions of the next days, and drop the oldest if it is older than a time.

    The commits of runs that have not ended, or are kept, go to the present day first, with all
    later ones of their threads. Returns how many partitions were dropped: 0 also if another
    process is at it, or if other work holds the tables.
    """
    connection = await connect_direct(server, lock_timeout=LOCK_MS)
    try:
        if not await connection.fetchval(_TRY_LOCK):
            return 0
        try:
            dropped = await _change_partitions(connection, before_ms, tuple(kept))
        except (asyncpg.LockNotAvailableError, asyncpg.CheckViolationError):
            # Each step can be done again, and the next purge does; also if a day without a
            # partition got its first commit just now.
            dropped = 0
        # The server sees the end of a session when it comes to it; who is next must not find it
        # locked until then.
        await connection.execute(_UNLOCK)
        return dropped
    finally:
        connection.terminate()


async def _change_partitions(connection: Connection, before_ms: int, kept: Sequence[str]) -> int:
    days = await _look_again(connection)
    if days.has_rest and not await _close_rest(connection, days):
        return 0
    days = await _look_again(connection)
    if days.end <= days.today + 1:
        await _make_partition(connection, days, before_ms)
    oldest = days.find_old(before_ms)
    if oldest is None:
        return 0
    return int(await _drop(connection, oldest, days.today, kept))


async def _look_again(connection: Connection) -> LogDays:
    return _read_days(await connection.fetch(STATEMENTS["list_log_partitions"]))


def _read_days(rows: Sequence[Row]) -> LogDays:
    found = [(row[0], _RANGE.fullmatch(row[1])) for row in rows]
    ranges = [
        LogPartition(name=name, first=int(match[1] or 0), end=int(match[2]))
        for name, match in found
        if match
    ]
    return LogDays(
        partitions=tuple(sorted(ranges, key=lambda it: it.end)),
        has_rest=any(row[3] for row in rows),
        now_ms=rows[0][2],
    )


async def _make_partition(connection: Connection, days: LogDays, before_ms: int) -> None:
    """Make the partition that begins where the last one ends; it has tomorrow, at least."""
    retained = math.ceil((days.now_ms - before_ms) / DAY_MS)
    end = max(days.end, days.today + 1) + max(1, math.ceil(retained / DAYS_MAX))
    name = f"commits_{end}"

    async def make() -> None:
        # By itself and then attached: readers and writers of the log need not stop for it.
        await connection.execute(
            f"CREATE TABLE {name} (LIKE commits INCLUDING DEFAULTS INCLUDING STORAGE,"
            " PRIMARY KEY (place));"
            f" CREATE INDEX {name}_older ON {name} (place) WHERE {_OLDER};"
            f" ALTER TABLE commits ATTACH PARTITION {name}"
            f" FOR VALUES FROM ({days.end}) TO ({end})"
        )

    await _change(connection, make)


async def _close_rest(connection: Connection, days: LogDays) -> bool:
    """Give what the default partition has a range, and make an empty one in its place.

    It is read under a lock, because only a constraint could replace that, and one that a crash
    leaves behind would refuse later commits.
    """
    end = max(days.end, days.today) + 1
    name = f"commits_{end}"
    logger.warning(
        "The log had no partition for a day: commits up to day %d get one now. Did no process"
        " with a retention period run?",
        end - 1,
    )
    first = days.partitions[0].first if days.partitions else 0
    last = max(days.end, days.today)
    # Of days that were dropped or are to come: the clock of the server was wrong for a while.
    # With the numbers in its text, a constraint that excludes them saves the search.
    redate = f"UPDATE commits SET day = {last} WHERE day < {first} OR day > {last}"

    async def close() -> None:
        await connection.execute(
            f"SET LOCAL statement_timeout = {CLOSE_MS};"
            f" ALTER TABLE commits DETACH PARTITION {REST};"
            f" ALTER TABLE {REST} RENAME TO {name};"
            f" ALTER INDEX {REST}_older RENAME TO {name}_older;"
            f" ALTER INDEX {REST}_pkey RENAME TO {name}_pkey;"
            f" ALTER TABLE commits ATTACH PARTITION {name}"
            f" FOR VALUES FROM ({days.end}) TO ({end});"
            f" CREATE TABLE {REST} PARTITION OF commits (PRIMARY KEY (place)) DEFAULT;"
            f" CREATE INDEX {REST}_older ON {REST} (place) WHERE {_OLDER}"
        )

    try:
        await connection.execute(redate)
        return await _change(connection, close)
    except (asyncpg.QueryCanceledError, asyncpg.CheckViolationError):
        logger.exception(
            "The default partition '%s' of the log could not be given a range within %d ms, so"
            " nothing of it is purged; docs/adr/0062-the-log-is-kept-by-days.md says how to do it"
            " in a quiet hour.",
            REST,
            CLOSE_MS,
        )
        return False


async def _drop(
    connection: Connection, partition: LogPartition, today: int, kept: Sequence[str]
) -> bool:
    """Drop a partition after what must stay has left it; False if it could not be locked."""
    # Long before: a reader whose view is older than the drop must know that logs may be gone.
    await connection.execute(STATEMENTS["save_fact"], DROPPED_LOG, str(partition.end))
    staying = _list_staying(partition.name)
    for thread_no, first in await connection.fetch(staying, kept):
        # One statement: a reader sees each commit before it or after it, and never twice.
        await connection.execute(
            "UPDATE commits SET day = $1 WHERE place BETWEEN $2 AND $3 AND day < $4",
            *(today, place(thread_no, first), place(thread_no, PLACES - 1), partition.end),
        )
    has_marks = await connection.fetchval(STATEMENTS["find_fact"], LOG_MARKS) is None
    if has_marks and not await _mark_threads(connection, partition):
        return False

    async def drop() -> None:
        await connection.execute(f"ALTER TABLE commits DETACH PARTITION {partition.name}")
        # Nothing can be written now, so what is seen here is true until the end.
        if await connection.fetch(staying, kept):
            raise _StillNeededError
        await connection.execute(f"DROP TABLE {partition.name}")

    try:
        return await _change(connection, drop)
    except _StillNeededError:
        return False


def _list_staying(partition: str) -> str:
    """Return the query for threads whose commits must stay, with the first of these."""
    columns = "SELECT thread_no, first_version FROM runs"
    return (
        f"SELECT r.thread_no, min(r.first_version) FROM ({columns} WHERE status <> 'done'"
        f" UNION ALL {columns} WHERE run_id = ANY($1)) AS r"
        f" WHERE EXISTS (SELECT 1 FROM {partition} c WHERE c.place BETWEEN"
        f" r.thread_no * {PLACES} + r.first_version AND r.thread_no * {PLACES} + {PLACES - 1})"
        " GROUP BY r.thread_no ORDER BY r.thread_no"
    )


async def _mark_threads(connection: Connection, partition: LogPartition) -> bool:
    """Write to each thread how much of its log goes: older code looks there for it.

    False: some threads are locked. They are left for the next time, because to wait for one with
    others locked could be a deadlock.
    """
    after, left = 0, 0
    while True:
        last = await connection.fetchval(
            f"SELECT place / {PLACES} FROM {partition.name} WHERE place >= $1"
            f" ORDER BY place OFFSET {MARKED_AT_ONCE} LIMIT 1",
            after,
        )
        end = (1 << 63) - 1 if last is None else place(last, PLACES - 1)
        left += int(await connection.fetchval(_MARK.format(partition=partition.name), after, end))
        if last is None:
            return left == 0
        after = end + 1


async def _change(connection: Connection, work: Callable[[], Awaitable[None]]) -> bool:
    """Change tables in one transaction; False if others held them all the time."""
    for _ in range(TRIES):
        try:
            async with connection.transaction():
                await work()
        except asyncpg.LockNotAvailableError:
            await asyncio.sleep(PAUSE_S)
        else:
            return True
    return False
