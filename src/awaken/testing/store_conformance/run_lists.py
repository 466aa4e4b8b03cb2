"""Lists of runs and tickets by keys: filters, both directions, and rows that come meanwhile."""

from collections.abc import Awaitable, Callable
from itertools import combinations, product
from typing import Any, TypeVar

import msgspec

from awaken.contracts.lifecycle import Cancelled, Failed, NaturalEnd, TicketStatus
from awaken.contracts.runs.records import RunKind, RunRecord
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.queries import (
    Order,
    Page,
    RunQuery,
    TicketQuery,
    at_cursor,
)
from awaken.contracts.storage.store import Store
from awaken.contracts.suspension.tickets import SUPERSEDED, Ticket, ToolCallResume

from .writing import DONE, RUNNING, WAITING, Writer, run, ticket

T = TypeVar("T")
K = TypeVar("K", RunQuery, TicketQuery)

_ENDS = (NaturalEnd(), Failed(message="no"), Cancelled(), None)
_KINDS = (RunKind.CHAT, RunKind.EVAL, RunKind.CHAT, RunKind.PREVIEW, RunKind.CHAT)
_FILTERS: tuple[dict[str, Any], ...] = (
    {"status": DONE},
    {"status": WAITING},
    {"agent_id": "b"},
    {"since": 103},
    {"until": 108},
    {"kinds": (RunKind.CHAT, RunKind.TASK)},
    {"kinds": (RunKind.EVAL,)},
    {"ended": "error"},
    {"ended": "natural_end"},
    {"publication": 2},
    {"tenant_id": "ann"},
    {"thread_id": "@ann:t-2"},
    {"q": "@ann:"},
    {"q": "run-1"},
)


async def filters_of_runs_combine(store: Store) -> None:
    """Each filter, and each two of them, in both directions: the runs that fit, in order."""
    runs = await _write_runs(store)
    for given in (*((it,) for it in _FILTERS), *combinations(_FILTERS, 2)):
        filters = {name: value for part in given for name, value in part.items()}
        expected = [it.run_id for it in runs if _fits(it, filters)]
        for order in Order:
            query = RunQuery(limit=4, order=order, with_total=True, **filters)
            found = await _walk(store.list_runs, query, len(expected))
            wanted = expected if order is Order.ASC else expected[::-1]
            assert [it.run_id for it in found] == wanted, (filters, order)


async def runs_that_begin_meanwhile_neither_repeat_nor_hide_others(store: Store) -> None:
    """Newest first, each page shows what follows the last run of the one before."""
    runs = await _write_runs(store)
    writer = Writer(store, "late")
    query = RunQuery(limit=5, order=Order.DESC)
    page = await store.list_runs(query)
    seen = [it.run_id for it in page.items]
    while page.next_cursor is not None:
        late = run(f"late-{len(seen)}", DONE, thread_id="late", created_at=500 + len(seen))
        await writer.commit(run=late)
        page = await store.list_runs(at_cursor(query, page.next_cursor))
        seen += [it.run_id for it in page.items]
    assert seen == [it.run_id for it in reversed(runs)]
    upwards = RunQuery(limit=5)
    first = await store.list_runs(upwards)
    assert first.next_cursor is not None
    await store.delete_thread(first.items[-1].thread_id)
    left = [it.run_id for it in (await store.list_runs(RunQuery(limit=200))).items]
    second = await store.list_runs(at_cursor(upwards, first.next_cursor))
    behind = (first.items[-1].created_at, first.items[-1].run_id)
    known = {it.run_id: (it.created_at, it.run_id) for it in runs}
    following = [name for name in left if known.get(name, (999, "")) > behind]
    assert [it.run_id for it in second.items] == following[:5], "the cursor's own run is gone"


async def a_total_is_counted_when_it_is_asked_for(store: Store) -> None:
    """Otherwise it is absent; it is that of all pages, on every page."""
    runs = await _write_runs(store)
    query = RunQuery(limit=2, agent_id="b")
    assert (await store.list_runs(query)).total is None
    wanted = msgspec.structs.replace(query, with_total=True)
    first = await store.list_runs(wanted)
    assert first.next_cursor is not None
    expected = sum(it.agent_id == "b" for it in runs)
    second = await store.list_runs(at_cursor(wanted, first.next_cursor))
    assert (first.total, second.total) == (expected, expected)
    uncounted = await store.list_runs(at_cursor(query, first.next_cursor))
    assert (uncounted.items, uncounted.total) == (second.items, None)


async def an_offset_skips_runs(store: Store) -> None:
    """It counts the runs that fit; the next page is by keys."""
    runs = await _write_runs(store)
    fits = [it.run_id for it in runs if it.agent_id == "b"]
    query = RunQuery(limit=2, offset=3, agent_id="b")
    page = await store.list_runs(query)
    assert [it.run_id for it in page.items] == fits[3:5]
    assert page.next_cursor is not None
    assert page.prev_cursor is not None
    following = await store.list_runs(at_cursor(RunQuery(limit=2, agent_id="b"), page.next_cursor))
    assert [it.run_id for it in following.items] == fits[5:7]


async def unfinished_runs_are_counted_and_keep_their_publications(store: Store) -> None:
    """By status, chats and tasks only; a publication is pinned until its last run ends."""
    runs = await _write_runs(store)
    waiting = [it for it in runs if it.status is WAITING]
    pinned = {it.publication for it in waiting if it.publication is not None}
    assert pinned
    assert await store.list_pinned_publications() == pinned
    shown = [it for it in waiting if it.kind in (RunKind.CHAT, RunKind.TASK)]
    assert await store.count_open_runs() == {"waiting": len(shown)}
    ann = sum(it.thread_id.startswith("@ann:") for it in shown)
    assert (await store.count_open_runs("ann")).get("waiting", 0) == ann
    assert await store.count_open_runs("nobody") == {}


async def a_run_is_listed_by_the_publication_that_it_has_now(store: Store) -> None:
    """A run that takes another publication while it waits is found by that one."""
    writer = Writer(store)
    await writer.commit(run=run("run-1", publication=1, created_at=5))
    await writer.commit(run=run("run-1", WAITING, publication=1, created_at=5))
    await writer.commit(run=run("run-1", WAITING, publication=2, created_at=5))
    assert await store.list_pinned_publications() == {2}
    assert (await store.list_runs(RunQuery(publication=1))).items == ()
    (found,) = (await store.list_runs(RunQuery(publication=2))).items
    assert found.run_id == "run-1"
    await writer.commit(run=run("run-1", RUNNING, publication=2, created_at=5))
    await writer.commit(run=run("run-1", DONE, publication=2, created_at=5))
    assert await store.list_pinned_publications() == frozenset()


async def open_tickets_come_in_pages(store: Store) -> None:
    """By creation time in both directions, of all threads, of one, of a run and of a tenant."""
    tickets: list[Ticket] = []
    for place, thread_id in enumerate(("a", "@ann:b", "@ann:c")):
        tenant = "ann" if thread_id.startswith("@") else None
        await store.save_thread(Thread(id=thread_id, tenant_id=tenant))
        known = await store.load_thread(thread_id)
        assert known is not None
        writer, run_id = Writer(store, thread_id), f"{thread_id}-run"
        writer.version = known.version
        made = tuple(
            ticket(
                f"ticket-{place}-{n}",
                f"c-{n}",
                thread_id=thread_id,
                run_id=run_id,
                created_at=10 * n + place % 2,
            )
            for n in range(5)
        )
        await writer.commit(run=run(run_id, WAITING, thread_id=thread_id), tickets=made)
        tickets += made
    tickets.sort(key=lambda it: (it.created_at, it.ticket_id))
    wanted_filters: tuple[dict[str, Any], ...] = (
        {},
        {"thread_id": "@ann:b"},
        {"thread_id": "a", "run_id": "a-run"},
        {"thread_id": "a", "run_id": "other"},
        {"tenant_id": "ann"},
        {"thread_id": "a", "tenant_id": "ann"},
        {"thread_id": "missing"},
    )
    for filters in wanted_filters:
        expected = [it.ticket_id for it in tickets if _fits_ticket(it, filters)]
        for order in Order:
            query = TicketQuery(limit=2, order=order, with_total=True, **filters)
            found = await _walk(store.list_ticket_page, query, len(expected))
            wanted = expected if order is Order.ASC else expected[::-1]
            assert [it.ticket_id for it in found] == wanted, (filters, order)


async def tickets_are_listed_after_their_decisions(store: Store) -> None:
    """By status: open, decided, closed or any, with what was decided."""
    await store.save_thread(Thread(id="@ann:t", tenant_id="ann"))
    known = await store.load_thread("@ann:t")
    assert known is not None
    writer = Writer(store, "@ann:t")
    writer.version = known.version
    made = tuple(
        ticket(f"ticket-{n}", f"c-{n}", thread_id="@ann:t", run_id="@ann:r", created_at=n // 2)
        for n in range(6)
    )
    await writer.commit(run=run("@ann:r", WAITING, thread_id="@ann:t"), tickets=made)
    taken = [(it.ticket_id, _decision(it.ticket_id)) for it in made[:3]]
    await store.decide("@ann:t", "@ann:r", taken)
    closed = msgspec.structs.replace(made[3], status=TicketStatus.CLOSED, closed_because=SUPERSEDED)
    await writer.commit(tickets=(closed,))
    expected = {
        TicketStatus.DECIDED: ["ticket-0", "ticket-1", "ticket-2"],
        TicketStatus.CLOSED: ["ticket-3"],
        TicketStatus.OPEN: ["ticket-4", "ticket-5"],
        None: [it.ticket_id for it in made],
    }
    places: tuple[dict[str, Any], ...] = (
        {},
        {"thread_id": "@ann:t"},
        {"thread_id": "@ann:t", "run_id": "@ann:r"},
        {"run_id": "@ann:r"},
        {"tenant_id": "ann"},
    )
    for (status, ids), place in product(expected.items(), places):
        for order in Order:
            query = TicketQuery(limit=2, order=order, with_total=True, status=status, **place)
            found = await _walk(store.list_ticket_page, query, len(ids))
            wanted = ids if order is Order.ASC else ids[::-1]
            assert [it.ticket_id for it in found] == wanted, (status, place, order)
        for name in ("tenant_id", "thread_id", "run_id"):
            other: dict[str, Any] = {name: "other"}
            page = await store.list_ticket_page(TicketQuery(status=status, **other))
            assert page.items == (), (status, other)
    (first, *_) = (await store.list_ticket_page(TicketQuery(status=TicketStatus.DECIDED))).items
    assert first.decision == _decision("ticket-0")


def _decision(ticket_id: str) -> ToolCallResume:
    return ToolCallResume(
        decision_id=f"d-{ticket_id}",
        arguments={"edited": True},
        reason="fine",
        decided_by="ann",
        updated_at=50,
    )


async def _write_runs(store: Store) -> list[RunRecord]:
    """Write runs that differ in everything that a filter asks about; returns them in order."""
    writers: dict[str, Writer] = {}
    runs: list[RunRecord] = []
    for n in range(24):
        is_open = n % 6 == 5
        thread_id = f"open-{n}" if is_open else ("@ann:t-2", "t-1", "t-3")[n % 3]
        if is_open and n % 4 == 3:
            thread_id = f"@ann:open-{n}"
        is_anns = thread_id.startswith("@ann:")
        record = run(
            f"{'@ann:' if is_anns else ''}run-{n}",
            WAITING if is_open else DONE,
            thread_id=thread_id,
            agent_id="ab"[n % 2],
            # Ties, and not in the order in which they are written.
            created_at=100 + (n * 7 % 24) // 2,
            publication=(None, 1, 2)[n % 3 if n % 5 else 2],
            purpose=_KINDS[n % 5],
            termination=None if is_open else _ENDS[n % 4],
        )
        if thread_id not in writers:
            tenant = "ann" if is_anns else None
            await store.save_thread(Thread(id=thread_id, tenant_id=tenant))
            writers[thread_id] = Writer(store, thread_id)
            known = await store.load_thread(thread_id)
            writers[thread_id].version = 0 if known is None else known.version
        await writers[thread_id].commit(run=record)
        runs.append(record)
    return sorted(runs, key=lambda it: (it.created_at, it.run_id))


def _fits(record: RunRecord, filters: dict[str, Any]) -> bool:
    """The meaning of each filter, in the plainest words."""
    tests: dict[str, Callable[[Any], bool]] = {
        "status": lambda it: record.status is it,
        "agent_id": lambda it: record.agent_id == it,
        "since": lambda it: record.created_at >= it,
        "until": lambda it: record.created_at < it,
        "kinds": lambda it: record.kind in it,
        "ended": lambda it: record.ended == it,
        "publication": lambda it: record.publication == it,
        "tenant_id": lambda it: record.thread_id.startswith(f"@{it}:"),
        "thread_id": lambda it: record.thread_id == it,
        "q": lambda it: record.run_id.startswith(it) or record.thread_id.startswith(it),
    }
    return all(tests[name](value) for name, value in filters.items())


def _fits_ticket(found: Ticket, filters: dict[str, Any]) -> bool:
    tenant = filters.get("tenant_id")
    return (
        filters.get("thread_id") in (None, found.thread_id)
        and filters.get("run_id") in (None, found.run_id)
        and (tenant is None or found.thread_id.startswith(f"@{tenant}:"))
    )


async def _walk(read: Callable[[K], Awaitable[Page[T]]], query: K, total: int) -> list[T]:
    """Read all pages forwards, and see that the way back shows the same pages."""
    pages = [await read(query)]
    while (cursor := pages[-1].next_cursor) is not None:
        pages.append(await read(at_cursor(query, cursor)))
    for earlier, page in zip(pages[-2::-1], pages[:0:-1], strict=True):
        assert page.prev_cursor is not None
        assert await read(at_cursor(query, page.prev_cursor)) == earlier
    assert pages[0].prev_cursor is None
    assert {page.total for page in pages} == {total}, query
    return [item for page in pages for item in page.items]


CHECKS = (
    filters_of_runs_combine,
    runs_that_begin_meanwhile_neither_repeat_nor_hide_others,
    a_total_is_counted_when_it_is_asked_for,
    an_offset_skips_runs,
    unfinished_runs_are_counted_and_keep_their_publications,
    a_run_is_listed_by_the_publication_that_it_has_now,
    open_tickets_come_in_pages,
    tickets_are_listed_after_their_decisions,
)
