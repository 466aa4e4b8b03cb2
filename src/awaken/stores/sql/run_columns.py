"""The columns of runs that lists filter by, for runs that an earlier version wrote.

A commit writes the columns of its run. The records of older runs are sealed, so that no migration
can read them; the sweeper fills their columns a few at a time. Until then a filter by agent does
not find them.
"""

import logging

from awaken.contracts.errors import CorruptRecord
from awaken.contracts.lifecycle import NATURAL_END
from awaken.contracts.runs.records import RunKind, RunRecord

from . import rows
from .session import Row, SqlSession

logger = logging.getLogger(__name__)


def end_of(run: RunRecord) -> str | None:
    """Return the column `ended`: None before the end of a run, and for a natural end."""
    ended = run.ended
    return None if ended == NATURAL_END else ended


async def fill_columns(session: SqlSession, limit: int) -> int:
    """Fill the columns of some older runs; returns how many, 0 if none is left."""
    found = await session.all("list_unfilled_runs", limit)
    for row in found:
        await session.run("fill_run", row[0], *_read_columns(row))
    return len(found)


def _read_columns(row: Row) -> tuple[int | str | None, ...]:
    try:
        run = rows.unpack(row[1], rows.RUN, f"Run '{row[0]}'")
    except CorruptRecord:
        logger.exception("Run '%s' is damaged; no filter finds it.", row[0])
        return ("", None, None, None, None, None)
    kind = None if run.kind is RunKind.CHAT else run.kind.value
    spent = (run.usage.total_tokens, run.usage.cost_nanos)
    return (run.agent_id, kind, run.publication, end_of(run), *spent)
