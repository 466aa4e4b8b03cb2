"""The options of every listing."""

from typing import Annotated

import typer

from awaken.contracts.errors import RecordNotFound
from awaken.contracts.storage.queries import DEFAULT_LIMIT, LIMIT_MAX, Q, at_cursor

Limit = Annotated[int, typer.Option("--limit", min=1, max=LIMIT_MAX, help="How many at most.")]
Cursor = Annotated[
    str | None,
    typer.Option("--cursor", help="Continue a listing with the same filters."),
]
OfThread = Annotated[str | None, typer.Option("--thread", help="Only those of this thread.")]
OfTenant = Annotated[str | None, typer.Option("--tenant", help="Only those of this tenant.")]

__all__ = [
    "DEFAULT_LIMIT",
    "Cursor",
    "Limit",
    "OfTenant",
    "OfThread",
    "apply_cursor",
    "not_found_error",
]


def apply_cursor(query: Q, cursor: str | None) -> Q:
    """Move the query to the page of a cursor, or to the first page.

    Raises:
        CursorInvalid: The cursor is malformed or was made for other filters.
    """
    return query if cursor is None else at_cursor(query, cursor)


class UnlistedRecord(RecordNotFound):
    """The store has no such record; a command lists those that exist."""

    template = "{kind} '{record_id}' does not exist; `awaken {command}` shows what is there."
    command: str


def not_found_error(kind: str, record_id: str, command: str) -> RecordNotFound:
    """The error for an unknown id, with the command that lists the existing ones."""
    return UnlistedRecord(kind=kind, record_id=record_id, command=command)
