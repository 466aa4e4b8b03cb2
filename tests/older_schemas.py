"""Stores as an earlier schema left them: what later migrations added is taken away again."""

LATER_TABLES = (
    "config_state", "config_heads", "config_objects", "config_publications", "config_drafts",
    "config_secrets", "config_requests", "config_audit",
)  # fmt: skip
"""Tables that came after schema 5."""


def list_removals(schema: str | None = None) -> list[str]:
    """Return the statements that take later tables away, from a schema of a database or a file."""
    prefix = "" if schema is None else f"{schema}."
    return [f"DROP TABLE {prefix}{table}" for table in LATER_TABLES]
