"""Stores as an earlier schema left them: what later migrations added is taken away again."""

LATER_TABLES = (
    "config_state", "config_heads", "config_objects", "config_publications", "config_drafts",
    "config_secrets", "config_requests", "config_audit", "usage_days", "schedules",
    "schedule_firings", "triggers", "trigger_deliveries",
    "memory_partitions", "memory_items", "memory_vectors", "memory_marks",
    "eval_objects", "eval_sources", "eval_datasets", "eval_runs", "eval_items", "scores",
)  # fmt: skip
"""Tables that came after schema 5."""
LATER_INDEXES = (
    "runs_recent", "runs_agent", "runs_open", "runs_finished", "runs_ended", "runs_kind",
    "runs_publication", "runs_tenant", "tickets_decided", "tickets_created",
)  # fmt: skip
LATER_COLUMNS = (
    "agent_id", "kind", "publication", "tenant_id", "ended", "tokens", "cost_nanos",
)  # fmt: skip
"""Columns of runs that came after schema 5."""
POSTGRES_INDEXES = {"runs_created": "created_at, run_id", "runs_ended": "finished_at"}
"""Indexes of Postgres that schema 7 replaced."""


def list_removals(schema: str | None = None) -> list[str]:
    """Return the statements that take later parts away, from a schema of a database or a file."""
    prefix = "" if schema is None else f"{schema}."
    removals = [] if schema is None else _join_days(f"{schema}.commits")
    removals += [f"DROP TABLE {prefix}{table}" for table in LATER_TABLES]
    removals += [f"DROP INDEX IF EXISTS {prefix}{index}" for index in LATER_INDEXES]
    removals += [f"ALTER TABLE {prefix}runs DROP COLUMN {column}" for column in LATER_COLUMNS]
    removals.append(f"ALTER TABLE {prefix}commits DROP COLUMN state")
    if schema is not None:
        # In a file this table is made when the first fact is kept.
        removals.append(f"DROP TABLE {prefix}memory_terms")
        removals += [
            f"CREATE INDEX {name} ON {prefix}runs ({columns})"
            for name, columns in POSTGRES_INDEXES.items()
        ]
    return removals


def _join_days(table: str) -> list[str]:
    """Return the statements that make one table of the log's partitions again."""
    return [
        f"CREATE TABLE {table}_joined (LIKE {table} INCLUDING DEFAULTS)",
        f"INSERT INTO {table}_joined SELECT * FROM {table}",
        f"DROP TABLE {table}",
        f"ALTER TABLE {table}_joined RENAME TO commits",
        f"ALTER TABLE {table} ADD CONSTRAINT commits_pkey PRIMARY KEY (place)",
        f"ALTER TABLE {table} DROP COLUMN day",
    ]
