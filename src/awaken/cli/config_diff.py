"""Compares configurations for `awaken config`: folders, publications, drafts, and what is live."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from awaken.bootstrap.config_files import read_config_files
from awaken.contracts.config.drafts import DeleteRecord, PatchRecord
from awaken.contracts.config.errors import InvalidConfig
from awaken.contracts.errors import InvalidInput
from awaken.managed.differences import FieldDifference, compare_versions, list_differences
from awaken.managed.documents import name_files
from awaken.managed.drafts import RecordDifference
from awaken.managed.files import FileSet

from .config_context import ConfigContext
from .output import as_json, short

LIVE, DRAFT = "live", "draft:"
_VALUE_CHARS = 100

Records = Mapping[tuple[str, str], dict[str, Any]]
"""Bodies by namespace and id; a patch has the namespace `overrides/` and that of its record."""


async def load_side(context: ConfigContext, name: str) -> Records:
    """Load one side of a comparison.

    Raises:
        InvalidInput: It is no folder, no publication, no draft and not `live`.
        InvalidConfig: A folder has problems.
        UnknownPublication: There is no such publication.
        DraftNotFound: There is no such draft.
    """
    if name == LIVE:
        return _flatten(await context.managed.files.export())
    if name.startswith(DRAFT):
        return await _load_draft(context, name.removeprefix(DRAFT))
    if _is_path(name):
        return await _load_folder(context, Path(name))
    if name.isascii() and name.isdecimal() and len(name) < 16:
        return _flatten(await context.managed.files.export(int(name)))
    problem = "name a folder, the number of a publication, draft:ID, or live"
    raise InvalidInput(what=f"'{name}'", problem=problem)


def compare_files(before: Records, after: Records) -> list[RecordDifference]:
    """List the records that differ, sorted by namespace and id."""
    differences = []
    for place in sorted({*before, *after}):
        old, new = before.get(place), after.get(place)
        if old != new:
            state, fields = compare_versions(old, old, new), list_differences(old, old, new)
            ns, record_id = place
            differences.append(RecordDifference(ns=ns, id=record_id, state=state, fields=fields))
    return differences


def format_fields(fields: Iterable[FieldDifference]) -> list[str]:
    """Format the differences of a record; texts of several lines as lines."""
    lines = []
    for it in fields:
        if it.hunks:
            lines.append(f"    {it.path}:")
            lines += [f"      {line}" for hunk in it.hunks for line in (*hunk[2], *hunk[3])]
        elif it.path:
            lines.append(f"    {it.path}: {_show(it.live)} -> {_show(it.mine)}")
    return lines


def _is_path(name: str) -> bool:
    return Path(name).exists()


def _show(value: Any) -> str:
    return short(as_json(value, indent=None), _VALUE_CHARS)


def _flatten(files: FileSet) -> dict[tuple[str, str], dict[str, Any]]:
    found = {
        (namespace, record_id): body
        for namespace, records in files.records.items()
        for record_id, body in records.items()
    }
    for namespace, patches in files.overrides.items():
        for record_id, patch in patches.items():
            found[f"overrides/{namespace}", record_id] = patch
    return found


async def _load_folder(context: ConfigContext, folder: Path) -> Records:
    found = read_config_files(folder, context.managed.parts.kinds)
    files, problems = await context.managed.files.normalize(found.files)
    if refused := (*found.problems, *name_files(problems, found.places)):
        raise InvalidConfig(problems=refused)
    return _flatten(files)


async def _load_draft(context: ConfigContext, draft_id: str) -> Records:
    """What would be live if the draft were published on its base."""
    draft = await context.managed.drafts.get_draft(draft_id)
    if draft.base is None:
        records: dict[tuple[str, str], dict[str, Any]] = {}
    else:
        records = _flatten(await context.managed.files.export(draft.base))
    for namespace, changes in draft.changes.items():
        for record_id, change in changes.items():
            for place in ((namespace, record_id), (f"overrides/{namespace}", record_id)):
                records.pop(place, None)
            if isinstance(change, DeleteRecord):
                continue
            is_patch = isinstance(change, PatchRecord)
            hidden = {"hidden": True} if change.is_hidden else {}
            where = f"overrides/{namespace}" if is_patch else namespace
            records[where, record_id] = {**change.body, **hidden}
    return records
