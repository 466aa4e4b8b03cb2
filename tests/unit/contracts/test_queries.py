"""Listing: limits, filters and cursors that belong to one query only."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.contracts.errors import CursorInvalid
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.storage.queries import (
    AnyQuery,
    MessageQuery,
    Order,
    Page,
    RunQuery,
    ThreadQuery,
    VisibilityFilter,
    at_cursor,
    page_of,
)

names = st.none() | st.sampled_from(["a", "b"])
queries = st.one_of(
    st.builds(
        RunQuery, limit=st.integers(1, 3), thread_id=names, status=st.sampled_from(RunStatus)
    ),
    st.builds(ThreadQuery, limit=st.integers(1, 3), parent_id=names, roots_only=st.booleans()),
    st.builds(
        MessageQuery,
        limit=st.integers(1, 3),
        run_id=names,
        order=st.sampled_from(Order),
        visibility=st.sampled_from(VisibilityFilter),
    ),
)


@pytest.mark.parametrize("query", [MessageQuery, ThreadQuery, RunQuery])
def test_limits_are_clamped_and_have_a_default(query: type[AnyQuery]) -> None:
    assert (query().limit, query().offset) == (50, 0)
    assert [query(limit=limit).limit for limit in (-1, 0, 1, 200, 201)] == [1, 1, 1, 200, 200]
    assert query(offset=-5).offset == 0


def test_blank_filters_are_no_filters() -> None:
    query = ThreadQuery(resource_id="  ", parent_id=" p ")
    assert (query.resource_id, query.parent_id) == (None, "p")
    assert MessageQuery().visibility is VisibilityFilter.ANY


@given(queries, st.integers(0, 7))
def test_cursors_lead_through_everything_once_and_back(query: AnyQuery, total: int) -> None:
    everything = tuple(range(total))
    found: list[int] = []
    page: Page[int] | None = None
    here = query
    while page is None or page.has_more:
        if page is not None and page.next_cursor is not None:
            here = at_cursor(query, page.next_cursor)
        page = page_of(everything[here.offset : here.offset + here.limit], total, here)
        assert (page.prev_cursor is None) is (here.offset == 0)
        found += page.items
    assert tuple(found) == everything
    while page.prev_cursor is not None:
        here = at_cursor(query, page.prev_cursor)
        page = page_of(everything[here.offset : here.offset + here.limit], total, here)
    assert here.offset == 0
    assert msgspec.json.decode(msgspec.json.encode(page), type=Page[int]) == page


@given(queries, queries)
def test_a_cursor_of_another_query_is_refused(made_for: AnyQuery, asked: AnyQuery) -> None:
    cursor = page_of((1,), 9, made_for).next_cursor
    assert cursor is not None
    if made_for == asked:
        assert at_cursor(asked, cursor).offset == 1
    else:
        with pytest.raises(CursorInvalid):
            at_cursor(asked, cursor)


@given(st.text(max_size=12))
def test_a_malformed_cursor_is_refused(text: str) -> None:
    with pytest.raises(CursorInvalid):
        at_cursor(RunQuery(), text)
