"""Differences between versions of a record: by field, with hunks for texts. Pure."""

from collections.abc import Mapping
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Any

from awaken.contracts.record import Record

_ABSENT: Any = object()
TEXT_MIN = 80
"""Texts that are longer, or have several lines, are also compared line by line."""
LINES_MAX = 5_000


class MergeState(StrEnum):
    """How a record of a draft stands between its base and what is live."""

    SAME = "same"
    CHANGED = "changed"
    CONFLICT = "conflict"
    THEIRS = "theirs"
    ADDED = "added"
    DELETED = "deleted"


class FieldDifference(Record, frozen=True, kw_only=True):
    """One field that differs between some of the versions; absent values are left out."""

    path: str
    base: Any = None
    live: Any = None
    mine: Any = None
    is_conflict: bool = False
    hunks: tuple[tuple[int, int, tuple[str, ...], tuple[str, ...]], ...] = ()
    """Of texts, live to mine: first line and last line, removed lines, added lines."""


Body = Mapping[str, Any] | None
"""The body of a record; None if there is none."""


def compare_versions(base: Body, live: Body, mine: Body) -> MergeState:
    """Tell how a record stands: what the draft has, what is live, and what both came from."""
    if live == mine:
        return MergeState.SAME
    if base == mine:
        return MergeState.THEIRS
    if base != live:
        return MergeState.CONFLICT
    if live is None:
        return MergeState.ADDED
    return MergeState.DELETED if mine is None else MergeState.CHANGED


def list_differences(base: Body, live: Body, mine: Body) -> tuple[FieldDifference, ...]:
    """Return every field in which what is live differs from what the draft has."""
    found: list[FieldDifference] = []
    _compare("", _or_absent(base), _or_absent(live), _or_absent(mine), found)
    return tuple(found)


class Preference(StrEnum):
    """Whose value a field takes that both sides changed differently."""

    MINE = "mine"
    LIVE = "live"


def merge_fields(
    base: Body,
    live: Body,
    mine: Body,
    prefer: Preference | None = None,
    chosen: Mapping[str, Preference] | None = None,
) -> tuple[dict[str, Any] | None, list[str]]:
    """Merge field by field where only one side changed it; returns the fields in conflict too.

    A field with a preference of its own in `chosen`, or any field if there is a general one, is not
    in conflict. The name of a conflict about the whole record is blank.
    """
    chosen = chosen or {}
    clashes: list[str] = []
    if base is None or live is None or mine is None:
        # Created or deleted on one side: there are no fields to merge.
        state = compare_versions(base, live, mine)
        side = chosen.get("", prefer)
        if state is MergeState.CONFLICT and side is None:
            clashes.append("")
        is_preferred = state is MergeState.CONFLICT and side is Preference.LIVE
        kept = live if is_preferred or state is MergeState.THEIRS else mine
        return (None if kept is None else dict(kept)), clashes
    merged: dict[str, Any] = {}
    for name in sorted({*base, *live, *mine}):
        old, theirs, ours = (it.get(name, _ABSENT) for it in (base, live, mine))
        value = ours if theirs in (old, ours) else theirs
        if theirs not in (old, ours) and ours != old:
            side = chosen.get(name, prefer)
            value = theirs if side is Preference.LIVE else ours
            if side is None:
                clashes.append(name)
        if value is not _ABSENT:
            merged[name] = value
    return merged, clashes


def _or_absent(body: Body) -> Any:
    return _ABSENT if body is None else body


def _compare(path: str, base: Any, live: Any, mine: Any, found: list[FieldDifference]) -> None:
    if live == mine:
        return
    both = [it for it in (live, mine) if it is not _ABSENT]
    # An object that is empty on one side and absent on the other has no field that tells it.
    if any(both) and all(isinstance(it, Mapping) for it in both):
        for name in sorted({name for it in both for name in it}):
            old, theirs, ours = (_get(it, name) for it in (base, live, mine))
            _compare(f"{path}/{name}" if path else str(name), old, theirs, ours, found)
        return
    shown = {
        name: value
        for name, value in (("base", base), ("live", live), ("mine", mine))
        if value is not _ABSENT
    }
    is_conflict = base not in (live, mine)
    hunks = _list_hunks(live, mine) if isinstance(live, str) and isinstance(mine, str) else ()
    found.append(FieldDifference(path=path, is_conflict=is_conflict, hunks=hunks, **shown))


def _get(value: Any, name: str) -> Any:
    return value.get(name, _ABSENT) if isinstance(value, Mapping) else _ABSENT


def _list_hunks(
    before: str, after: str
) -> tuple[tuple[int, int, tuple[str, ...], tuple[str, ...]], ...]:
    if "\n" not in before + after and max(len(before), len(after)) < TEXT_MIN:
        return ()
    old, new = before.splitlines(), after.splitlines()
    if len(old) + len(new) > LINES_MAX:
        return ()
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    return tuple(
        (i + 1, j, tuple(f"- {it}" for it in old[i:j]), tuple(f"+ {it}" for it in new[k:m]))
        for tag, i, j, k, m in matcher.get_opcodes()
        if tag != "equal"
    )
