"""A thread belongs to the tenant that it was created for, however it was created."""

import asyncio

from awaken.contracts.errors import UnknownThread, VersionConflict
from awaken.contracts.queries import RunQuery, ThreadQuery, at_cursor
from awaken.contracts.runs import RunRequest
from awaken.contracts.storage import Store
from awaken.contracts.threads import Thread, ThreadMetadata

from .writing import (
    DONE,
    THREAD,
    Writer,
    asked,
    dispatch,
    everything,
    refusal,
    run,
    said,
    ticket,
)

RIVALS = 16


def _request(tenant_id: str | None) -> RunRequest:
    return RunRequest(agent_id="agent", messages=(said("m-1"),), tenant_id=tenant_id)


async def _owner(store: Store, thread_id: str = THREAD) -> str | None:
    thread = await store.load_thread(thread_id)
    checkout = await store.checkout(thread_id)
    assert thread is not None
    assert checkout is not None
    assert thread.tenant_id == checkout.thread.tenant_id
    return thread.tenant_id


async def whatever_creates_a_thread_names_its_tenant(store: Store) -> None:
    """A save, a first commit with a run or an edit, a submission, an interrupt; trimmed."""
    saved = await store.save_thread(Thread(id="saved", tenant_id=" ann "))
    assert saved.tenant_id == "ann"
    await Writer(store, "ran").commit(run=run("r-1", thread_id="ran", tenant_id=" ann "))
    await Writer(store, "edited").commit(thread=Thread(id="edited", tenant_id="ann"))
    await store.enqueue(dispatch("d-1", "queued", request=_request(" ann ")))
    then = dispatch("d-2", "interrupted", request=_request("ann"))
    await store.interrupt("interrupted", "user", then=then)
    owed = (dispatch("d-3", "owed", request=_request("ann")),)
    await Writer(store, "operator").commit(enqueued=owed)
    for thread_id in ("saved", "ran", "edited", "queued", "interrupted", "owed"):
        assert await _owner(store, thread_id) == "ann", thread_id
    assert await _owner(store, "operator") is None
    await store.save_thread(Thread(id="blank", tenant_id="  "))
    assert await _owner(store, "blank") is None


async def a_tenant_stays_whatever_is_written(store: Store) -> None:
    """Edits without a tenant, commits of its own runs and of an operator's leave it as it was."""
    writer = Writer(store)
    await writer.commit(run=run(tenant_id="ann"))
    titled = ThreadMetadata(title="new")
    await store.save_thread(Thread(id=THREAD, metadata=titled))
    await store.save_thread(Thread(id=THREAD, tenant_id="ann", metadata=titled))
    await writer.commit(run=run(status=DONE, tenant_id="ann"))
    await writer.commit(thread=Thread(id=THREAD, resource_id="user"), run=run("run-2"))
    await store.enqueue(dispatch("d-1"))
    await store.enqueue(dispatch("d-2", request=_request("ann")))
    await store.interrupt(THREAD, "user")
    assert await _owner(store) == "ann"
    await store.close()
    await store.open()
    assert await _owner(store) == "ann"


async def nothing_of_another_tenant_is_written(store: Store) -> None:
    """Not to a thread of somebody else, and not to one that belongs to nobody."""
    await store.save_thread(Thread(id=THREAD, tenant_id="ann"))
    await store.save_thread(Thread(id="nobodys"))
    for thread_id in (THREAD, "nobodys"):
        writer = Writer(store, thread_id)
        foreign = Thread(id=thread_id, tenant_id="bob", metadata=ThreadMetadata(title="taken"))
        theirs = dispatch("d-1", thread_id, request=_request("bob"))
        error = await writer.expect_refusal(
            UnknownThread, run=run("r-1", thread_id=thread_id, tenant_id="bob")
        )
        assert (error.thread_id, str(error)) == (thread_id, f"thread not found: {thread_id}")
        await writer.expect_refusal(UnknownThread, thread=foreign)
        await writer.expect_refusal(UnknownThread, enqueued=(theirs,))
        await Writer(store, "other").expect_refusal(UnknownThread, enqueued=(theirs,))
        before = await everything(store)
        await refusal(UnknownThread, store.save_thread(foreign))
        await refusal(UnknownThread, store.enqueue(theirs))
        await refusal(UnknownThread, store.interrupt(thread_id, "user", then=theirs))
        assert await everything(store) == before


async def one_commit_cannot_make_a_thread_for_two(store: Store) -> None:
    """Not its own thread, and not one on which it queues something."""
    rivals = tuple(dispatch(f"d-{name}", "new", request=_request(name)) for name in ("ann", "bob"))
    writer = Writer(store)
    await writer.expect_refusal(UnknownThread, enqueued=rivals)
    own = dispatch("d-1", request=_request("bob"))
    await writer.expect_refusal(UnknownThread, run=run(tenant_id="ann"), enqueued=(own,))
    given = Thread(id=THREAD, tenant_id="bob")
    await writer.expect_refusal(UnknownThread, run=run(tenant_id="ann"), thread=given)


async def a_run_that_has_begun_goes_on(store: Store) -> None:
    """Only its first record is judged: what a store held before it knew tenants still ends."""
    writer = Writer(store)
    await writer.commit(run=run())
    await writer.commit(run=run(status=DONE, tenant_id="ann"))
    assert await _owner(store) is None


async def a_thread_is_created_for_one_tenant_only(store: Store) -> None:
    """Of many who begin on one thread id at once, by a run or by a submission, one owns it."""

    async def begin(number: int) -> str | None:
        name = f"tenant-{number}"
        try:
            if number % 2:
                await store.enqueue(dispatch(f"d-{number}", request=_request(name)))
            else:
                await Writer(store).commit(
                    commit_id=name, run=run(f"r-{number}", status=DONE, tenant_id=name)
                )
        except (UnknownThread, VersionConflict):
            return None
        return name

    begun = await asyncio.gather(*map(begin, range(RIVALS)))
    assert [name for name in begun if name is not None] == [await _owner(store)]


async def threads_and_runs_are_listed_by_tenant(store: Store) -> None:
    """With every other filter; runs by the tenant of their thread, whoever began them."""
    for number, (thread_id, tenant) in enumerate((("a", "ann"), ("b", "bob"), ("c", "ann"))):
        writer = Writer(store, thread_id)
        named = Thread(id=thread_id, tenant_id=tenant, resource_id=f"user-{number}")
        for run_id, owner in ((f"{thread_id}-1", tenant), (f"{thread_id}-2", None)):
            record = run(run_id, DONE, thread_id=thread_id, tenant_id=owner, created_at=number)
            await writer.commit(committed_at=1000 - number, thread=named, run=record)
    await Writer(store, "d").commit(committed_at=1, run=run("d-1", thread_id="d", created_at=9))
    threads: tuple[tuple[ThreadQuery, list[str]], ...] = (
        (ThreadQuery(tenant_id=" ann "), ["a", "c"]),
        (ThreadQuery(tenant_id="ann", resource_id="user-2"), ["c"]),
        (ThreadQuery(tenant_id="ann", parent_id="a"), []),
        (ThreadQuery(tenant_id="ann", roots_only=True), ["a", "c"]),
        (ThreadQuery(tenant_id="nobody"), []),
        (ThreadQuery(tenant_id=" "), ["a", "b", "c", "d"]),
    )
    for query, expected in threads:
        page = await store.list_threads(query)
        assert ([it.id for it in page.items], page.total) == (expected, len(expected)), query
    runs: tuple[tuple[RunQuery, list[str]], ...] = (
        (RunQuery(tenant_id=" ann "), ["a-1", "a-2", "c-1", "c-2"]),
        (RunQuery(tenant_id="bob", status=DONE), ["b-1", "b-2"]),
        (RunQuery(tenant_id="ann", thread_id="c"), ["c-1", "c-2"]),
        (RunQuery(tenant_id="ann", thread_id="b"), []),
        (RunQuery(tenant_id="ann", status=run().status), []),
        (RunQuery(tenant_id="nobody"), []),
        (RunQuery(tenant_id=" "), ["a-1", "a-2", "b-1", "b-2", "c-1", "c-2", "d-1"]),
    )
    for wanted, expected in runs:
        found = await store.list_runs(wanted)
        assert ([it.run_id for it in found.items], found.total) == (expected, len(expected)), wanted


async def open_tickets_are_listed_by_tenant(store: Store) -> None:
    """By the tenant of their thread, oldest first, whoever else waits."""
    owners = (("a", "ann"), ("b", "bob"), ("c", "ann"), ("d", None))
    for number, (thread_id, tenant) in enumerate(owners):
        record = run(f"r-{thread_id}", thread_id=thread_id, tenant_id=tenant)
        waiting = ticket(
            f"k-{thread_id}",
            "c-1",
            thread_id=thread_id,
            run_id=record.run_id,
            created_at=9 - number,
        )
        writer = Writer(store, thread_id)
        await writer.commit(messages=(asked("m-1", "c-1"),), run=record, tickets=(waiting,))
    listings: tuple[tuple[str | None, str | None, list[str]], ...] = (
        (None, "ann", ["k-c", "k-a"]),
        (None, "bob", ["k-b"]),
        (None, "nobody", []),
        (None, None, ["k-d", "k-c", "k-b", "k-a"]),
        ("a", "ann", ["k-a"]),
        ("a", "bob", []),
        ("d", "ann", []),
        ("d", None, ["k-d"]),
    )
    for thread, owner, expected in listings:
        found = await store.list_tickets(thread, tenant_id=owner)
        assert [it.ticket_id for it in found] == expected, (thread, owner)


async def a_cursor_keeps_the_tenant(store: Store) -> None:
    """The next page is of the same tenant."""
    for number in range(6):
        thread_id, tenant = f"t-{number}", ("ann", "bob")[number % 2]
        record = run(f"r-{number}", DONE, thread_id=thread_id, tenant_id=tenant, created_at=number)
        await Writer(store, thread_id).commit(committed_at=1000 - number, run=record)
    threads = ThreadQuery(tenant_id="ann", limit=2)
    cursor = (await store.list_threads(threads)).next_cursor
    assert cursor is not None
    page = await store.list_threads(at_cursor(threads, cursor))
    assert ([it.id for it in page.items], page.next_cursor) == (["t-4"], None)
    runs = RunQuery(tenant_id="ann", limit=2)
    cursor = (await store.list_runs(runs)).next_cursor
    assert cursor is not None
    found = await store.list_runs(at_cursor(runs, cursor))
    assert ([it.run_id for it in found.items], found.next_cursor) == (["r-4"], None)


CHECKS = (
    whatever_creates_a_thread_names_its_tenant,
    a_tenant_stays_whatever_is_written,
    nothing_of_another_tenant_is_written,
    one_commit_cannot_make_a_thread_for_two,
    a_run_that_has_begun_goes_on,
    a_thread_is_created_for_one_tenant_only,
    threads_and_runs_are_listed_by_tenant,
    open_tickets_are_listed_by_tenant,
    a_cursor_keeps_the_tenant,
)
