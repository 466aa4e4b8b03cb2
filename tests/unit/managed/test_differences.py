"""Differences between versions of a record, and merges: laws that hold for every body."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampling import choose_size, sampled

from awaken.managed.differences import (
    MergeState,
    Preference,
    compare_versions,
    list_differences,
    merge_fields,
)

names = st.sampled_from(["a", "b", "c", "d"])
values = st.recursive(
    st.none() | st.integers(2, 4) | st.sampled_from(["x", "y\nz", "long " * 30]),
    lambda below: st.lists(below, max_size=2) | st.dictionaries(names, below, max_size=2),
    max_leaves=4,
)
bodies = st.dictionaries(names, values, max_size=4)
versions = st.none() | bodies
EXAMPLES = settings(max_examples=choose_size(100, 5_000), deadline=None)


@sampled
@EXAMPLES
@given(base=versions, changed=versions)
def test_where_only_one_side_changed_its_version_is_the_merge(base: Any, changed: Any) -> None:
    assert merge_fields(base, changed, base) == (changed, [])
    assert merge_fields(base, base, changed) == (changed, [])


@sampled
@EXAMPLES
@given(base=bodies, live=bodies, mine=bodies)
def test_a_merge_does_not_depend_on_the_sides_unless_they_conflict(
    base: Any, live: Any, mine: Any
) -> None:
    merged, clashes = merge_fields(base, live, mine)
    turned, turned_clashes = merge_fields(base, mine, live)
    assert clashes == turned_clashes
    if not clashes:
        assert merged == turned


@sampled
@EXAMPLES
@given(base=bodies, live=bodies, mine=bodies)
def test_every_field_of_a_merge_is_of_one_side_and_no_change_is_lost(
    base: Any, live: Any, mine: Any
) -> None:
    merged, clashes = merge_fields(base, live, mine)
    assert merged is not None
    absent = object()
    for name in {*base, *live, *mine}:
        old, theirs, ours, left = (it.get(name, absent) for it in (base, live, mine, merged))
        changed = [it for it in (theirs, ours) if it != old]
        if name in clashes:
            assert len(changed) == 2
            assert changed[0] != changed[1]
        else:
            assert left == (changed[0] if changed else old)


@sampled
@EXAMPLES
@given(base=versions, live=versions, mine=versions)
def test_a_preference_leaves_no_conflict_and_takes_its_side(
    base: Any, live: Any, mine: Any
) -> None:
    _, clashes = merge_fields(base, live, mine)
    for prefer, side in ((Preference.LIVE, live), (Preference.MINE, mine)):
        merged, left = merge_fields(base, live, mine, prefer)
        assert left == []
        for name in clashes:
            if not name:
                assert merged == side
            else:
                assert (merged or {}).get(name) == (side or {}).get(name)


@sampled
@EXAMPLES
@given(base=versions, live=versions, mine=versions)
def test_a_state_says_which_sides_differ(base: Any, live: Any, mine: Any) -> None:
    state = compare_versions(base, live, mine)
    assert (state is MergeState.SAME) == (live == mine)
    assert (list_differences(base, live, mine) == ()) == (live == mine)
    if state is MergeState.CONFLICT:
        assert base != live != mine != base
    if state in (MergeState.CHANGED, MergeState.ADDED, MergeState.DELETED):
        assert base == live != mine


@sampled
@EXAMPLES
@given(live=bodies, mine=bodies)
def test_the_listed_differences_lead_from_one_version_to_the_other(live: Any, mine: Any) -> None:
    """Only paths are looked at: a value that is absent is left out of a difference."""
    for found in list_differences(live, live, mine):
        assert not found.is_conflict
        assert _look(live, found.path) != _look(mine, found.path)


def _look(body: Any, path: str) -> Any:
    for name in path.split("/"):
        if not isinstance(body, dict) or name not in body:
            return "absent"
        body = body[name]
    return body
