"""The texts of statements: with the schema before every table, and those that only Postgres has.

A statement that names its tables in full needs no search path, so it needs no transaction that sets
one: a single statement is a single round trip, also through a pooler.
"""

import re
from functools import cache

from awaken.stores.sql.migrations import migrations
from awaken.stores.sql.statements import statements

NOW = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
"""The server's clock in milliseconds: all processes that share the database use it."""

THREAD = (
    "t.no, t.version, t.message_count, t.event_seq, t.purged_seq, t.updated_at, t.resource_id,"
    " t.parent_id, t.head, t.claim_token, t.claimed_by, t.claim_dispatch, t.cancel_cause, t.epoch,"
    " t.queued, t.served_at, t.id, t.latest_run_id, t.tenant_id"
)
"""The columns of a thread's row, in the order of `lock_thread`."""
_RUN = "r.record, t.xmin, r.thread_no, r.first_version"
_JOIN = "LEFT JOIN runs r ON r.run_id = t.latest_run_id"
_STATE = (
    "LEFT JOIN LATERAL (SELECT array_agg(scope) AS scopes, array_agg(name) AS names,"
    " array_agg(version) AS versions, array_agg(data) AS data"
    " FROM state WHERE thread_no = t.no) s ON true"
)
_NEW_NO = "nextval(pg_get_serial_sequence('{schema}.{table}', 'no'))"
_STATUS = "COALESCE(ended, status)"
"""The status of a dispatch; the column of that name keeps the one that it was executed with."""
_LISTED = (
    "FROM dispatches"
    " WHERE ($1::text IS NULL OR thread_no = (SELECT no FROM threads WHERE id = $1))"
    f" AND ($2::text IS NULL OR {_STATUS} = $2)"
)
_OWN = {
    "read_clock": f"SELECT {NOW}",
    # By the index of queued dispatches: the time depends on the queue, not on all threads.
    "count_queued": "SELECT count(*) FROM dispatches WHERE status = 'queued'",
    "count_queued_by_tenant": (
        "SELECT t.tenant_id, count(*) FROM dispatches d JOIN threads t ON t.no = d.thread_no"
        " WHERE d.status = 'queued' AND t.tenant_id IS NOT NULL GROUP BY t.tenant_id"
    ),
    # `composing.py` says what both columns take of it.
    "save_dispatch": (
        "UPDATE dispatches SET run_id = $2, status = $3, ended = $3, available_at = $4,"
        " updated_at = $5, record = $6 WHERE dispatch_id = $1"
    ),
    "list_dispatches": (
        f"SELECT record, dispatch_id {_LISTED} ORDER BY created_at, dispatch_id LIMIT $3 OFFSET $4"
    ),
    "count_dispatches": f"SELECT count(*) {_LISTED}",
    "list_old_dispatches": (
        "SELECT dispatch_id FROM dispatches WHERE created_at < $1 AND updated_at < $1"
        f" AND {_STATUS} NOT IN ('queued', 'claimed') ORDER BY created_at LIMIT $2"
    ),
    # The columns of `find_thread_and_run`, and what proves later that the row is still the same.
    "find_thread_and_run": (
        f"SELECT {THREAD}, {_RUN}, {NOW}, s.scopes, s.names, s.versions, s.data"
        f" FROM threads t {_JOIN} {_STATE} WHERE t.id = $1"
    ),
    "guess_thread": f"SELECT {THREAD}, {_RUN}, {NOW} FROM threads t {_JOIN} WHERE t.id = $1",
    # One row, also for a thread that does not exist; with numbers for what is added.
    "guess_queue": (
        f"SELECT {THREAD}, {_RUN}, {NOW}, {_NEW_NO.format(schema='{schema}', table='dispatches')},"
        f" CASE WHEN t.no IS NULL THEN {_NEW_NO.format(schema='{schema}', table='threads')} END"
        f" FROM (SELECT $1::text AS id) AS asked LEFT JOIN threads t ON t.id = asked.id {_JOIN}"
    ),
    "add_messages": (
        "INSERT INTO messages (place, id_key, created_at, body)"
        " SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[])"
    ),
    # In the order of the entries, which their numbers keep.
    "add_outboxes": (
        "INSERT INTO outbox (entry_id, thread_no, due_at, is_dead, record)"
        " SELECT entry_id, thread_no, due_at, is_dead, record"
        " FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[])"
        " WITH ORDINALITY AS added (entry_id, thread_no, due_at, is_dead, record, place)"
        " ORDER BY place ON CONFLICT (entry_id) DO NOTHING"
    ),
}
MANY = {"add_message": "add_messages", "add_outbox": "add_outboxes"}
"""Statements that are run once per row, and those that take all rows at once, as columns."""
STATEMENTS = (
    statements(
        for_update="FOR UPDATE", for_share="FOR KEY SHARE", skip_locked="FOR UPDATE SKIP LOCKED"
    )
    | _OWN
)
_TABLE = re.compile(r"\b(FROM|JOIN|INTO|UPDATE)(\s+)(\w+)\b")
_CREATED = re.compile(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+)")


@cache
def list_tables() -> frozenset[str]:
    """Return the names of all tables that the migrations create."""
    scripts = migrations("awaken.stores.postgres")
    return frozenset(name for script in scripts for name in _CREATED.findall(script))


def add_schema(text: str, schema: str) -> str:
    """Return a statement with the schema before every table."""
    tables = list_tables()

    def qualify(found: re.Match[str]) -> str:
        word, space, name = found.groups()
        return f"{word}{space}{schema}.{name}" if name in tables else found[0]

    return _TABLE.sub(qualify, text).replace("{schema}", schema)


class Texts:
    """The statements of one schema by their names; each is made when it is first asked for."""

    def __init__(self, schema: str | None = None) -> None:
        self.schema = schema
        """None for a session that has the schema in its search path."""
        self._made: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        text = self._made.get(name)
        if text is None:
            text = STATEMENTS[name]
            if self.schema is not None:
                text = add_schema(text, self.schema)
            self._made[name] = text
        return text
