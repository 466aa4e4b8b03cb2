"""What is kept how long: tickets with a deadline, and what a purge leaves."""

from awaken.contracts.errors import CursorExpired
from awaken.contracts.events import StepEnd, StepStart
from awaken.contracts.lifecycle import TicketStatus
from awaken.contracts.storage.dispatch import Purged
from awaken.contracts.storage.queries import MessageQuery, RunQuery
from awaken.contracts.storage.store import Store

from .writing import (
    DONE,
    THREAD,
    WAITING,
    Writer,
    build_call_message,
    build_result_message,
    build_user_message,
    claim,
    dispatch,
    elapse,
    queue,
    read_everything,
    refusal,
    run,
    ticket,
    tool_record,
    value,
)

NOTHING = Purged()


async def a_ticket_expires_at_its_deadline(store: Store) -> None:
    """Open ones, oldest deadline first; not before, and not without a deadline."""
    now = await store.now_ms()
    deadlines = {"t-1": now + 600, "t-2": now - 5, "t-3": None, "t-4": now - 9}
    await _suspend_run(store, deadlines)
    assert await _list_expired(store) == ["t-4", "t-2"]
    assert await _list_expired(store, limit=1) == ["t-4"]
    await elapse(store, 601)
    assert await _list_expired(store) == ["t-4", "t-2", "t-1"]


async def a_decided_ticket_does_not_expire(store: Store) -> None:
    """Nor one that was closed."""
    now = await store.now_ms()
    writer = await _suspend_run(store, {"t-1": now, "t-2": now, "t-3": now})
    await writer.commit(
        tickets=(
            ticket("t-1", "c-t-1", TicketStatus.DECIDED, expires_at=now),
            ticket("t-2", "c-t-2", TicketStatus.CLOSED, expires_at=now),
            ticket("u-2", "c-t-2"),
        )
    )
    await elapse(store, 2)
    assert await _list_expired(store) == ["t-3"]


async def a_purge_removes_ended_dispatches(store: Store) -> None:
    """Older than the time, whatever their end; their ids and keys are free again."""
    await queue(store, "d-1", dedupe_key="key", request_hash="h")
    await queue(store, "d-2", "d-3", "d-4")
    await claim(store)
    await store.release("d-1", "token-1")
    await store.cancel_dispatch("d-2")
    await claim(store)
    assert (await store.purge(await store.now_ms() - 60_000)) == NOTHING
    later = await store.now_ms() + 60_000
    assert (await store.purge(later)).dispatches == 2
    assert await store.purge(later) == NOTHING
    assert [await store.find_dispatch(name) for name in ("d-1", "d-2")] == [None, None]
    assert await store.find_dispatch_of_run("run-of-d-1") is None
    assert (await store.enqueue(dispatch("d-5", dedupe_key="key"))).dispatch_id == "d-5"
    assert await store.count_queued() == 2


async def a_purge_removes_old_runs_with_their_journal(store: Store) -> None:
    """But never the latest run of a thread, nor messages, state or receipts."""
    writer = Writer(store)
    for name in ("run-1", "run-2"):
        message, record = build_user_message(f"m-{name}"), tool_record("c-1", run_id=name)
        await writer.commit(run=run(name), messages=(message,), tool_records=(record,))
        await writer.commit(run=run(name, DONE, finished_at=50), state={"k": value("1")})
    before = await store.checkout(THREAD)
    assert (await store.purge(50)) == NOTHING
    assert (await store.purge(51)).runs == 1
    assert await store.load_run("run-1") is None
    assert await store.list_tool_records("run-1") == ()
    assert await store.load_run("run-2") is not None
    assert await store.list_tool_records("run-2") != ()
    assert await store.checkout(THREAD) == before
    assert await store.find_commit(f"{THREAD}-commit-1", THREAD) is not None
    assert await store.purge(51) == NOTHING


async def a_purge_leaves_what_has_not_ended(store: Store) -> None:
    """Open runs with all their events, open tickets, queued and claimed dispatches."""
    now = await store.now_ms()
    await _suspend_run(store, {"t-1": now})
    await Writer(store, "thread-2").commit(
        run=run("run-2", thread_id="thread-2"), events=(StepStart(),)
    )
    await queue(store, "d-1", thread_id="thread-3")
    await claim(store)
    await queue(store, "d-2", thread_id="thread-3")
    before = await read_everything(store)
    assert await store.purge(now + 60_000) == NOTHING
    assert await read_everything(store) == before


async def a_purge_removes_old_events(store: Store) -> None:
    """From the oldest on; what is left keeps its numbers, and new ones go on."""
    writer = Writer(store)
    for _ in range(4):
        await writer.commit(events=(StepStart(), StepEnd()))
    assert (await store.purge(2000)).events == 2
    assert (await store.purge(2001)).events == 2
    assert [logged.seq for logged in await store.list_events(THREAD)] == [5, 6, 7, 8]
    assert [logged.created_at for logged in await store.list_events(THREAD)] == [
        *(3000, 3000),
        *(4000, 4000),
    ]
    assert (await writer.commit(events=(StepEnd(),))).event_seq == 9
    logged = await store.list_events(THREAD, after=7)
    assert [(entry.seq, entry.event) for entry in logged] == [(8, StepEnd()), (9, StepEnd())]


async def a_cursor_into_purged_events_has_expired(store: Store) -> None:
    """A reader gets an error instead of a gap; 0 begins with the oldest kept."""
    writer = Writer(store)
    for _ in range(3):
        await writer.commit(events=(StepStart(), StepEnd()))
    await store.purge(2001)
    for after in (1, 2, 3):
        error = await refusal(CursorExpired, store.list_events(THREAD, after=after))
        assert (error.thread_id, error.purged_seq) == (THREAD, 4)
    for after, expected in ((0, [5, 6]), (4, [5, 6]), (5, [6]), (6, []), (-1, [5, 6])):
        logged = await store.list_events(THREAD, after=after)
        assert [entry.seq for entry in logged] == expected, after
    assert [entry.seq for entry in await store.list_events(THREAD, limit=1)] == [5]


async def a_purge_keeps_the_events_of_an_open_run(store: Store) -> None:
    """However old they are, and everything after them."""
    writer = Writer(store)
    await writer.commit(run=run("run-0"), events=(StepStart(),))
    await writer.commit(run=run("run-0", DONE), events=(StepEnd(),))
    await writer.commit(run=run(), events=(StepStart(),))
    await writer.commit(events=(StepEnd(),))
    assert (await store.purge(99_000)).events == 2
    assert [entry.seq for entry in await store.list_events(THREAD)] == [3, 4]
    await writer.commit(run=run(status=DONE))
    assert (await store.purge(99_000)).events == 2
    assert await store.list_events(THREAD) == ()


async def a_purge_leaves_runs_that_are_kept(store: Store) -> None:
    """With their journal and events; older ones go, however many are kept."""
    writer = Writer(store)
    for name in ("run-0", "run-1", "run-2", "run-3"):
        record = tool_record("c-1", run_id=name)
        await writer.commit(run=run(name), events=(StepStart(),), tool_records=(record,))
        await writer.commit(run=run(name, DONE, finished_at=50), events=(StepEnd(),))
    kept = {"run-1": THREAD, "gone": THREAD, "elsewhere": "thread-9"}
    purged = await store.purge(99_000, 1, kept)
    assert (purged.runs, purged.events) == (1, 1)
    assert (await store.purge(99_000, 1, kept)).events == 1
    while not (await store.purge(99_000, 1, kept)).is_empty:
        pass
    assert [it.run_id for it in (await store.list_runs(RunQuery())).items] == ["run-1", "run-3"]
    assert await store.list_tool_records("run-1") != ()
    assert [entry.seq for entry in await store.list_events(THREAD)] == [3, 4, 5, 6, 7, 8]
    assert (await store.purge(99_000)).events == 6


async def a_purge_removes_at_most_its_limit(store: Store) -> None:
    """Of each kind; it is called until nothing is removed."""
    for number in range(3):
        thread_id = f"thread-{number}"
        writer = Writer(store, thread_id)
        for at in range(2):
            done = run(f"{thread_id}-{at}", DONE, thread_id=thread_id, finished_at=1)
            await writer.commit(run=done, events=(StepStart(), StepEnd()))
        await queue(store, f"d-{number}", thread_id=thread_id)
        await store.cancel_dispatch(f"d-{number}")
    later = await store.now_ms() + 60_000
    removed = []
    while (purged := await store.purge(later, limit=2)) != NOTHING:
        assert max(purged.dispatches, purged.runs, purged.events) <= 2
        removed.append(purged)
    assert sum(purged.dispatches for purged in removed) == 3
    assert sum(purged.runs for purged in removed) == 3
    assert sum(purged.events for purged in removed) == 12
    assert len(removed) == 6


async def a_purged_run_takes_its_tickets_along(store: Store) -> None:
    """They belong to its journal."""
    writer = await _suspend_run(store, {"t-1": None})
    closed = ticket("t-1", "c-t-1", TicketStatus.CLOSED)
    answers = (build_result_message("m-3", "c-t-1"),)
    await writer.commit(run=run(status=DONE, finished_at=5), tickets=(closed,), messages=answers)
    assert (await store.purge(6)).runs == 0
    await writer.commit(run=run("run-2"))
    assert (await store.purge(6)).runs == 1
    assert await store.find_ticket("t-1") is None


async def a_purged_run_is_in_no_listing(store: Store) -> None:
    """Its messages stay, and so do its thread and the later runs."""
    writer = Writer(store)
    for number in (1, 2):
        name, message = f"run-{number}", build_user_message(f"m-{number}")
        await writer.commit(run=run(name, created_at=number), messages=(message,))
        await writer.commit(run=run(name, DONE, created_at=number, finished_at=50))
    assert (await store.purge(51)).runs == 1
    for query in (RunQuery(), RunQuery(thread_id=THREAD), RunQuery(status=DONE)):
        assert [it.run_id for it in (await store.list_runs(query)).items] == ["run-2"]
    found = await store.list_messages(THREAD, MessageQuery())
    assert [it.message.id for it in found.items] == ["m-1", "m-2"]


async def _suspend_run(store: Store, deadlines: dict[str, int | None]) -> Writer:
    """A run that waits on one ticket per deadline."""
    writer = Writer(store)
    calls = [f"c-{name}" for name in deadlines]
    await writer.commit(
        run=run(), messages=(build_user_message("m-1"), build_call_message("m-2", *calls))
    )
    tickets = tuple(ticket(name, f"c-{name}", expires_at=at) for name, at in deadlines.items())
    await writer.commit(run=run(status=WAITING), tickets=tickets, events=(StepEnd(),))
    return writer


async def _list_expired(store: Store, limit: int = 100) -> list[str]:
    found = [found.ticket_id for found in await store.list_expired_tickets(limit)]
    left = await store.find_next_deadline()
    # What has passed is the next deadline.
    assert not found or (left is not None and left < 0)
    return found


CHECKS = (
    a_ticket_expires_at_its_deadline,
    a_decided_ticket_does_not_expire,
    a_purge_removes_ended_dispatches,
    a_purge_removes_old_runs_with_their_journal,
    a_purge_leaves_what_has_not_ended,
    a_purge_removes_old_events,
    a_cursor_into_purged_events_has_expired,
    a_purge_keeps_the_events_of_an_open_run,
    a_purge_leaves_runs_that_are_kept,
    a_purge_removes_at_most_its_limit,
    a_purged_run_takes_its_tickets_along,
    a_purged_run_is_in_no_listing,
)
