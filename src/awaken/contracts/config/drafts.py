"""Drafts: change sets over many records that are edited before they are published."""

from typing import Any

from awaken.contracts.record import Record

DRAFT_LIFE_MS = 30 * 24 * 3_600_000
"""How long after its last edit a draft is kept."""


class PutRecord(Record, frozen=True, kw_only=True, tag_field="type", tag="put"):
    """Write a whole record, in stored form: secrets are references."""

    body: dict[str, Any]
    is_hidden: bool = False


class PatchRecord(Record, frozen=True, kw_only=True, tag_field="type", tag="patch"):
    """Write the patch on a record of the code: a field replaces, `null` clears, absent inherits.

    Without fields it only hides the record, or shows it again.
    """

    body: dict[str, Any]
    is_hidden: bool = False


class DeleteRecord(Record, frozen=True, kw_only=True, tag_field="type", tag="delete"):
    """Remove a record; of a record of the code, its patch."""


Change = PutRecord | PatchRecord | DeleteRecord


class ConfigDraft(Record, frozen=True, kw_only=True):
    """A change set that is not live. `revision` counts its edits, from 1."""

    id: str
    title: str = ""
    base: int | None = None
    """The publication that it was begun on; None before the first one."""
    owner: str = ""
    editors: tuple[str, ...] = ()
    """Everyone who changed it."""
    revision: int = 0
    changes: dict[str, dict[str, Change]] = {}
    """The changes by namespace and id."""
    origin: str | None = None
    """The name of the files that it was made from: they own what it publishes."""
    created_at: int = 0
    updated_at: int = 0
    expires_at: int = 0
