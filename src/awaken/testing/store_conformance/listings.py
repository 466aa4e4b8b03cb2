"""Listings: filters, order, pages and cursors are the same in every store."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from awaken.contracts.errors import CursorInvalid
from awaken.contracts.messages.message import MessageMetadata, Visibility
from awaken.contracts.runs.threads import Thread, ThreadMetadata
from awaken.contracts.storage.queries import (
    LIMIT_MAX,
    PAGE_BYTES,
    MessageQuery,
    Order,
    Page,
    RunQuery,
    ThreadQuery,
    VisibilityFilter,
    at_cursor,
)
from awaken.contracts.storage.store import Store

from .writing import (
    CREATED,
    DONE,
    RUNNING,
    THREAD,
    WAITING,
    Writer,
    build_user_message,
    refusal,
    run,
)

T = TypeVar("T")
Q = TypeVar("Q", MessageQuery, ThreadQuery, RunQuery)


async def recent_threads_come_first(store: Store) -> None:
    """By update time, else creation time, else last; ties by id.

    A commit within a minute of the one before may leave a thread where it is.
    """
    times: tuple[tuple[str, int | None, int | None], ...] = (
        ("d", 5, 100),
        ("c", 300, None),
        ("b", None, None),
        ("a", None, None),
        ("f", 1, 200),
        ("e", 2, 200),
    )
    for thread_id, created_at, updated_at in times:
        metadata = ThreadMetadata(created_at=created_at, updated_at=updated_at)
        await store.save_thread(Thread(id=thread_id, metadata=metadata))
    assert await _thread_ids(store) == ["c", "e", "f", "d", "a", "b"]
    await Writer(store, "a").commit(committed_at=100_000)
    assert await _thread_ids(store) == ["a", "c", "e", "f", "d", "b"]


async def threads_are_filtered_by_owner_and_parent(store: Store) -> None:
    """Filter values are trimmed, blank ones filter nothing."""
    family: tuple[tuple[str, str | None, str | None], ...] = (
        ("a", "ann", None),
        ("b", "ann", "a"),
        ("c", "bob", "a"),
        ("d", "bob", "b"),
        ("e", None, None),
    )
    for thread_id, resource_id, parent in family:
        await store.save_thread(
            Thread(id=thread_id, resource_id=resource_id, parent_thread_id=parent)
        )
    table: tuple[tuple[dict[str, Any], list[str]], ...] = (
        ({}, ["a", "b", "c", "d", "e"]),
        ({"resource_id": "ann"}, ["a", "b"]),
        ({"resource_id": " bob "}, ["c", "d"]),
        ({"resource_id": "  "}, ["a", "b", "c", "d", "e"]),
        ({"resource_id": "missing"}, []),
        ({"parent_id": "a"}, ["b", "c"]),
        ({"parent_id": " a ", "resource_id": "bob"}, ["c"]),
        ({"parent_id": ""}, ["a", "b", "c", "d", "e"]),
        ({"roots_only": True}, ["a", "e"]),
        ({"roots_only": True, "resource_id": "ann"}, ["a"]),
    )
    for filters, expected in table:
        page = await store.list_threads(ThreadQuery(**filters))
        assert [thread.id for thread in page.items] == expected, filters
        assert page.total == len(expected), filters


async def a_listed_thread_is_the_loaded_one(store: Store) -> None:
    """Listing and loading show the same thread."""
    await Writer(store).commit(messages=(build_user_message("m-1"),), run=run(updated_at=4))
    page = await store.list_threads(ThreadQuery())
    seen = await store.checkout(THREAD)
    assert seen is not None
    assert page.items == (await store.load_thread(THREAD),) == (seen.thread,)


async def children_are_listed_with_their_runs(store: Store) -> None:
    """Which run of a child is open and which one is its latest; of a tenant, only its own."""
    await store.save_thread(Thread(id="parent"))
    for name, status in (("over", DONE), ("busy", RUNNING), ("held", WAITING)):
        of = {"thread_id": f"@ann:{name}", "parent_thread_id": "parent", "tenant_id": "ann"}
        await Writer(store, f"@ann:{name}").commit(run=run(f"@ann:run-{name}", status, **of))
    await Writer(store, "grandchild").commit(
        run=run("run-far", thread_id="grandchild", parent_thread_id="@ann:busy")
    )
    for tenant_id in (None, "ann"):
        page = await store.list_threads(ThreadQuery(parent_id="parent", tenant_id=tenant_id))
        assert {it.id: (it.open_run_id, it.latest_run_id) for it in page.items} == {
            "@ann:over": (None, "@ann:run-over"),
            "@ann:busy": ("@ann:run-busy", "@ann:run-busy"),
            "@ann:held": ("@ann:run-held", "@ann:run-held"),
        }
    foreign = ThreadQuery(parent_id="parent", tenant_id="bob")
    assert (await store.list_threads(foreign)).items == ()


async def messages_are_numbered_from_one(store: Store) -> None:
    """Places are contiguous over commits; times are those of the commits."""
    writer = Writer(store)
    await writer.commit(messages=(build_user_message("m-1"), build_user_message("m-2")))
    await writer.commit()
    await writer.commit(messages=(build_user_message("m-3"),))
    page = await store.list_messages(THREAD, MessageQuery())
    assert [record.seq for record in page.items] == [1, 2, 3]
    assert [record.message_id for record in page.items] == ["m-1", "m-2", "m-3"]
    assert [record.created_at for record in page.items] == [1000, 1000, 3000]
    assert {record.thread_id for record in page.items} == {THREAD}
    assert page.items[2].message == build_user_message("m-3")


async def messages_are_filtered_and_ordered(store: Store) -> None:
    """By place, visibility and producer, in both directions."""
    hidden: dict[str, Any] = {"visibility": Visibility.INTERNAL}
    by_run = {"metadata": MessageMetadata(run_id="run-1")}
    parts: tuple[dict[str, Any], ...] = ({}, hidden, by_run, hidden | by_run, {})
    messages = tuple(
        build_user_message(f"m-{at}", **part) for at, part in enumerate(parts, start=1)
    )
    await Writer(store).commit(messages=messages)
    table: tuple[tuple[dict[str, Any], list[int]], ...] = (
        ({}, [1, 2, 3, 4, 5]),
        ({"order": Order.DESC}, [5, 4, 3, 2, 1]),
        ({"after": 2}, [3, 4, 5]),
        ({"before": 3}, [1, 2]),
        ({"after": 1, "before": 4}, [2, 3]),
        ({"after": 1, "before": 4, "order": Order.DESC}, [3, 2]),
        ({"after": 5}, []),
        ({"after": -3, "before": 99}, [1, 2, 3, 4, 5]),
        ({"before": -1}, []),
        ({"before": 0}, []),
        ({"visibility": VisibilityFilter.EXTERNAL}, [1, 3, 5]),
        ({"visibility": VisibilityFilter.INTERNAL}, [2, 4]),
        ({"run_id": "run-1"}, [3, 4]),
        ({"run_id": "run-2"}, []),
        ({"run_id": "run-1", "visibility": VisibilityFilter.EXTERNAL}, [3]),
        ({"visibility": VisibilityFilter.EXTERNAL, "after": 1, "limit": 1}, [3]),
        ({"visibility": VisibilityFilter.EXTERNAL, "offset": 1, "order": Order.DESC}, [3, 1]),
    )
    for filters, expected in table:
        page = await store.list_messages(THREAD, MessageQuery(**filters))
        assert [record.seq for record in page.items] == expected, filters


async def runs_are_filtered_and_ordered(store: Store) -> None:
    """By thread and status, oldest first, ties by id."""
    for thread_id, run_id, status, created_at in (
        ("a", "run-4", DONE, 40),
        ("a", "run-1", DONE, 10),
        ("a", "run-3", RUNNING, 20),
        ("b", "run-2", DONE, 20),
        ("b", "run-5", WAITING, 5),
    ):
        known = await store.load_thread(thread_id)
        writer = Writer(store, thread_id)
        writer.version = known.version if known is not None else 0
        await writer.commit(run=run(run_id, status, thread_id=thread_id, created_at=created_at))
    table: tuple[tuple[dict[str, Any], list[str]], ...] = (
        ({}, ["run-5", "run-1", "run-2", "run-3", "run-4"]),
        ({"thread_id": "a"}, ["run-1", "run-3", "run-4"]),
        ({"status": DONE}, ["run-1", "run-2", "run-4"]),
        ({"thread_id": "a", "status": DONE}, ["run-1", "run-4"]),
        ({"status": CREATED}, []),
        ({"thread_id": "missing"}, []),
        ({"status": DONE, "offset": 1, "limit": 1}, ["run-2"]),
    )
    for filters, expected in table:
        page = await store.list_runs(RunQuery(**filters))
        assert [found.run_id for found in page.items] == expected, filters


async def totals_count_what_fits_not_what_is_shown(store: Store) -> None:
    """A page knows how many there are beyond it, also past the end."""
    writer = Writer(store)
    await writer.commit(messages=tuple(build_user_message(f"m-{n}") for n in range(5)))
    table = (
        (0, 2, 2, True),
        (4, 2, 1, False),
        (5, 2, 0, False),
        (9, 2, 0, False),
        (0, 5, 5, False),
    )
    for offset, limit, shown, has_more in table:
        page = await store.list_messages(THREAD, MessageQuery(offset=offset, limit=limit))
        assert (len(page.items), page.total, page.has_more) == (shown, 5, has_more)
        assert (page.prev_cursor is not None) is (offset > 0)
    page = await store.list_messages(THREAD, MessageQuery(after=2, limit=1))
    assert (len(page.items), page.total) == (1, 3)


async def limits_are_clamped(store: Store) -> None:
    """At least one item, at most the maximum, whatever is asked."""
    await Writer(store).commit(
        messages=tuple(build_user_message(f"m-{n}") for n in range(LIMIT_MAX + 5))
    )
    for limit, shown in ((0, 1), (-5, 1), (LIMIT_MAX + 5, LIMIT_MAX)):
        page = await store.list_messages(THREAD, MessageQuery(limit=limit, offset=-1))
        assert (len(page.items), page.items[0].seq) == (shown, 1)


async def cursors_walk_every_listing(store: Store) -> None:
    """Page by page forwards, each item once; and back again."""
    writer = Writer(store)
    for number in range(7):
        await writer.commit(
            messages=(build_user_message(f"m-{number}"),),
            run=run(f"run-{number}", DONE, created_at=number),
        )
        await store.save_thread(Thread(id=f"thread-{number}", resource_id="ann"))

    async def messages(query: MessageQuery) -> Page[Any]:
        return await store.list_messages(THREAD, query)

    newest = MessageQuery(limit=2, order=Order.DESC)
    assert [record.seq for record in await _walk(messages, newest)] == [7, 6, 5, 4, 3, 2, 1]
    threads = await _walk(store.list_threads, ThreadQuery(limit=3, resource_id="ann"))
    whole = await store.list_threads(ThreadQuery(resource_id="ann"))
    assert tuple(threads) == whole.items
    runs = await _walk(store.list_runs, RunQuery(limit=3, thread_id=THREAD))
    assert [found.run_id for found in runs] == [f"run-{number}" for number in range(7)]


async def a_cursor_fits_its_own_query_only(store: Store) -> None:
    """Other filters, another listing or a made-up cursor are refused."""
    await Writer(store).commit(messages=tuple(build_user_message(f"m-{n}") for n in range(4)))
    page = await store.list_messages(THREAD, MessageQuery(limit=2))
    cursor = page.next_cursor
    assert cursor is not None
    for query in (MessageQuery(limit=3), MessageQuery(limit=2, order=Order.DESC)):
        await refusal(CursorInvalid, _at(query, cursor))
    await refusal(CursorInvalid, _at(ThreadQuery(limit=2), cursor))
    for made_up in ("", "nonsense", "ümlaut", cursor[:-3]):
        await refusal(CursorInvalid, _at(MessageQuery(limit=2), made_up))
    await store.close()
    await store.open()
    following = await store.list_messages(THREAD, at_cursor(MessageQuery(limit=2), cursor))
    assert [record.seq for record in following.items] == [3, 4]


async def _at(query: Q, cursor: str) -> Q:
    return at_cursor(query, cursor)


async def a_page_of_messages_is_bounded_by_bytes(store: Store) -> None:
    """Messages that are large together come on several pages, each once; one is always there."""
    sizes = (PAGE_BYTES // 3, 5, PAGE_BYTES // 2, PAGE_BYTES // 3, 2 * PAGE_BYTES, 5)
    messages = tuple(build_user_message(f"m-{n}", "x" * size) for n, size in enumerate(sizes, 1))
    await Writer(store).commit(messages=messages, run=run(status=DONE))
    shown = VisibilityFilter.EXTERNAL
    for filtered in (MessageQuery(), MessageQuery(visibility=shown)):
        forwards = await _pages(store, filtered)
        assert forwards == [[1, 2, 3], [4], [5], [6]]
        backwards = await _pages(store, msgspec.structs.replace(filtered, order=Order.DESC))
        assert backwards == [[6], [5], [4, 3, 2], [1]]
        page = await store.list_messages(THREAD, filtered)
        assert (page.total, page.has_more) == (6, True)
        rest = msgspec.structs.replace(filtered, after=4, limit=1)
        assert [it.seq for it in (await store.list_messages(THREAD, rest)).items] == [5]


async def _pages(store: Store, query: MessageQuery) -> list[list[int]]:
    found: list[list[int]] = []
    while True:
        page = await store.list_messages(THREAD, query)
        found.append([it.seq for it in page.items])
        if page.next_cursor is None:
            return found
        query = at_cursor(query, page.next_cursor)


async def _walk(read: Callable[[Q], Awaitable[Page[T]]], query: Q) -> list[T]:
    """Read all pages forwards, and see that the way back shows the same pages."""
    pages = [await read(query)]
    while (cursor := pages[-1].next_cursor) is not None:
        pages.append(await read(at_cursor(query, cursor)))
    for earlier, page in zip(pages[-2::-1], pages[:0:-1], strict=True):
        assert page.prev_cursor is not None
        assert await read(at_cursor(query, page.prev_cursor)) == earlier
    assert pages[0].prev_cursor is None
    return [item for page in pages for item in page.items]


async def _thread_ids(store: Store) -> list[str]:
    return [thread.id for thread in (await store.list_threads(ThreadQuery())).items]


CHECKS = (
    recent_threads_come_first,
    threads_are_filtered_by_owner_and_parent,
    a_listed_thread_is_the_loaded_one,
    children_are_listed_with_their_runs,
    messages_are_numbered_from_one,
    messages_are_filtered_and_ordered,
    a_page_of_messages_is_bounded_by_bytes,
    runs_are_filtered_and_ordered,
    totals_count_what_fits_not_what_is_shown,
    limits_are_clamped,
    cursors_walk_every_listing,
    a_cursor_fits_its_own_query_only,
)
