"""The statements of listings by keys, one for each index and direction.

An index gives the rows in the listing's order; other filters are applied to the rows it names. A
page looks at no more than `LOOKED_AT_MAX` rows: if few of them fit, it is short and the next one
goes on behind them, so that the time of a page does not depend on the size of the table.
"""

from collections.abc import Mapping

LOOKED_AT_MAX = 1000
"""How many rows of an index one page looks at."""

_RUN_FILTERS: Mapping[str, str] = {
    "status": "(CAST({0} AS TEXT) IS NULL OR status = {0})",
    "kinds": "(CAST({0} AS TEXT) IS NULL OR {0} LIKE '%|' || COALESCE(kind, 'chat') || '|%')",
    "ended": "(CAST({0} AS TEXT) IS NULL OR"
    " (status = 'done' AND COALESCE(ended, 'natural_end') = {0}))",
    "agent_id": "(CAST({0} AS TEXT) IS NULL OR agent_id = {0})",
    "publication": "(CAST({0} AS BIGINT) IS NULL OR publication = {0})",
    "tenant_id": "(CAST({0} AS TEXT) IS NULL OR tenant_id = {0})",
    "q": "(CAST({0} AS TEXT) IS NULL OR (run_id >= {0} AND run_id < {1}) OR EXISTS (SELECT 1"
    " FROM threads WHERE no = runs.thread_no AND id >= {0} AND id < {1}))",
}
RUN_FILTERS = tuple(_RUN_FILTERS)
"""The filters in the order of their arguments; `q` has two: where the prefix begins and ends."""
RUN_INDEXES: Mapping[str, str] = {
    "recent": "",
    "thread": "place BETWEEN $5 AND $6",
    "named": "place IN (SELECT place FROM runs WHERE run_id >= $5 AND run_id < $6 UNION"
    " SELECT r.place FROM threads JOIN runs AS r"
    " ON r.place BETWEEN threads.no * 4294967296 AND threads.no * 4294967296 + 4294967295"
    " WHERE threads.id >= $5 AND threads.id < $6)",
    "open": "status = $5 AND status <> 'done'",
    "ended": "ended = $5",
    "kind": "kind = $5",
    "tenant": "tenant_id = $5",
    "publication": "publication = $5",
    "agent": "agent_id = $5",
}
"""How a listing finds its rows, and the condition that lets it use the index of that name."""
_TICKET_FILTERS: Mapping[str, str] = {
    "status": "(CAST({0} AS TEXT) IS NULL OR status = {0})",
    "run_id": "(CAST({0} AS TEXT) IS NULL OR run_id = {0})",
    "tenant_id": "(CAST({0} AS TEXT) IS NULL OR EXISTS (SELECT 1 FROM threads"
    " WHERE no = tickets.thread_no AND tenant_id = {0}))",
}
TICKET_FILTERS = tuple(_TICKET_FILTERS)
TICKET_INDEXES: Mapping[str, str] = {
    "open": "status = 'open'",
    "decided": "status = 'decided'",
    "created": "",
    "thread": "thread_no = (SELECT no FROM threads WHERE id = $5)",
}


_OWN_KEY = ("runs_thread", "runs_named")
"""Listings that find their rows by the key of the table, and sort them: a thread has few."""


def make_statements(*, has_hints: bool) -> dict[str, str]:
    """Return the statements by their names, such as `list_runs_agent_desc`.

    With hints they name the index, without which SQLite would refuse them.
    """
    made: dict[str, str] = {}
    for table, row_id, indexes, filters in (
        ("runs", "run_id", RUN_INDEXES, _RUN_FILTERS),
        ("tickets", "ticket_id", TICKET_INDEXES, _TICKET_FILTERS),
    ):
        for index, condition in indexes.items():
            name = f"{table}_{index}"
            hint = "NOT INDEXED" if name in _OWN_KEY else f"INDEXED BY {name}"
            source = f"{table} {hint}" if has_hints else table
            made |= _make_listing(name, (source, row_id), condition, filters)
    return made


def _make_listing(
    name: str, names: tuple[str, str], condition: str, filters: Mapping[str, str]
) -> dict[str, str]:
    source, row_id = names
    given = next((n for n in (6, 5) if f"${n}" in condition), 4)
    bounds = f"(created_at, {row_id}) > ($1, $2) AND (created_at, {row_id}) < ($3, $4)"
    where = f"{condition} AND {bounds}" if condition else bounds
    texts: list[str] = []
    for text in filters.values():
        count = 2 if "{1}" in text else 1
        texts.append(text.format(*(f"${given + n}" for n in range(1, count + 1))))
        given += count
    fits = " AND ".join((where, *texts))
    made = {f"count_{name}": f"SELECT COUNT(*) FROM {source} WHERE {fits}"}
    for order in ("asc", "desc"):
        by = f"ORDER BY created_at {order}, {row_id} {order}"
        made[f"list_{name}_{order}"] = (
            f"SELECT record, created_at, {row_id} FROM {source} WHERE {fits} {by}"
            f" LIMIT ${given + 1} OFFSET ${given + 2}"
        )
        # The row behind those that a page looks at.
        made[f"mark_{name}_{order}"] = (
            f"SELECT created_at, {row_id} FROM {source} WHERE {where} {by}"
            f" LIMIT 1 OFFSET {LOOKED_AT_MAX}"
        )
    return made
