"""A thread belongs to the tenant that its id names, and two tenants never have the same id."""

import asyncio
from typing import Any

import msgspec

from awaken.contracts.errors import InvalidRecord, UnknownThread, VersionConflict
from awaken.contracts.runs.records import RunRequest
from awaken.contracts.runs.threads import Thread, ThreadMetadata
from awaken.contracts.storage.dispatch import RunDispatch
from awaken.contracts.storage.queries import (
    DispatchQuery,
    MessageQuery,
    RunQuery,
    ThreadQuery,
    at_cursor,
)
from awaken.contracts.storage.store import Store
from awaken.contracts.tenancy import namespace_in, namespace_of

from .writing import (
    DONE,
    THREAD,
    Writer,
    build_call_message,
    build_user_message,
    dispatch,
    read_everything,
    refusal,
    run,
    ticket,
)

RIVALS = 16
MINE = f"@ann:{THREAD}"


def _request(tenant_id: str | None) -> RunRequest:
    return RunRequest(agent_id="agent", messages=(build_user_message("m-1"),), tenant_id=tenant_id)


def _build_dispatch(
    dispatch_id: str, thread_id: str, tenant_id: str | None, **fields: Any
) -> RunDispatch:
    run_id = f"{namespace_in(thread_id)}{dispatch_id}-run"
    given = {"run_id": run_id, "request": _request(tenant_id), **fields}
    return dispatch(dispatch_id, thread_id, **given)


async def _owner(store: Store, thread_id: str = THREAD) -> str | None:
    thread = await store.load_thread(thread_id)
    checkout = await store.checkout(thread_id)
    assert thread is not None
    assert checkout is not None
    assert thread.tenant_id == checkout.thread.tenant_id
    return thread.tenant_id


async def whatever_creates_a_thread_names_its_tenant(store: Store) -> None:
    """A save, a first commit with a run or an edit, a submission, an interrupt; trimmed."""
    saved = await store.save_thread(Thread(id="@ann:saved", tenant_id=" ann "))
    assert saved.tenant_id == "ann"
    ran = run("@ann:r-1", thread_id="@ann:ran", tenant_id=" ann ")
    await Writer(store, "@ann:ran").commit(run=ran)
    await Writer(store, "@ann:edited").commit(thread=Thread(id="@ann:edited", tenant_id="ann"))
    await store.enqueue(_build_dispatch("d-1", "@ann:queued", " ann "))
    then = _build_dispatch("d-2", "@ann:interrupted", "ann")
    await store.interrupt("@ann:interrupted", "user", then=then)
    owed = _build_dispatch("d-3", "@ann:owed", "ann")
    await Writer(store, "@ann:owed").commit(enqueued=(owed,))
    await store.save_thread(Thread(id="operator"))
    # A caller that names no tenant makes it for the one that the id names.
    await store.save_thread(Thread(id="@ann:made"))
    for name in ("saved", "ran", "edited", "queued", "interrupted", "owed", "made"):
        assert await _owner(store, f"@ann:{name}") == "ann", name
    assert await _owner(store, "operator") is None
    await store.save_thread(Thread(id="blank", tenant_id="  "))
    assert await _owner(store, "blank") is None
    for odd in ("@", "@:", "@ann", "@:x"):
        await store.save_thread(Thread(id=odd))
        assert await _owner(store, odd) is None, odd


async def names_of_tenants_are_never_confused(store: Store) -> None:
    """Not even when one looks like the beginning of another's ids."""
    names = ("a", "a:b", "a%3Ab", "@a:", "%", ":", "a ", "A", "ä")
    stored = {namespace_of(name) + "b:c" for name in names}
    assert len(stored) == len({name.strip() for name in names})
    for name in names:
        thread = Thread(id=namespace_of(name) + "b:c", tenant_id=name)
        await store.save_thread(thread)
        assert await _owner(store, thread.id) == name.strip()


async def tenants_choose_the_same_ids(store: Store) -> None:
    """Threads, runs, messages, dedupe keys: each has its own, and ends with it."""
    for name in ("ann", "bob", None):
        space = namespace_of(name)
        writer = Writer(store, f"{space}t")
        record = run(f"{space}r", DONE, thread_id=f"{space}t", tenant_id=name)
        await writer.commit(
            commit_id="c", messages=(build_user_message("m", f"of {name}"),), run=record
        )
        sent = _build_dispatch(f"d-{name}", f"{space}t", name, dedupe_key="key")
        await store.enqueue(sent)
        assert (await store.enqueue(sent)).dispatch_id == f"d-{name}"
    for name in ("ann", "bob", None):
        space = namespace_of(name)
        (message,) = (await store.list_messages(f"{space}t", MessageQuery())).items
        assert message.message.text == f"of {name}"
        found = await store.load_run(f"{space}r")
        assert found is not None
        assert (found.thread_id, found.tenant_id) == (f"{space}t", name)
        (queued,) = (await store.list_dispatches(DispatchQuery(thread_id=f"{space}t"))).items
        assert queued.dispatch_id == f"d-{name}"
    await store.delete_thread("@bob:t")
    assert await store.load_run("@bob:r") is None
    assert await store.load_run("@ann:r") is not None
    assert await store.load_thread("t") is not None


async def a_run_has_an_id_of_its_threads_tenant(store: Store) -> None:
    """For every writer, and also before it has begun."""
    for thread_id, run_id in (("@ann:t", "r"), ("@ann:t", "@bob:r"), ("t", "@ann:r")):
        record = run(run_id, thread_id=thread_id)
        await Writer(store, thread_id).expect_refusal(InvalidRecord, run=record)
        sent = dispatch("d", thread_id, run_id=run_id)
        await refusal(InvalidRecord, store.enqueue(sent))
        assert await store.load_thread(thread_id) is None
        assert await store.load_run(run_id) is None


async def a_tenant_stays_whatever_is_written(store: Store) -> None:
    """Edits without a tenant, commits of its own runs and of an operator's leave it as it was."""
    writer = Writer(store, MINE)
    await writer.commit(run=run("@ann:1", thread_id=MINE, tenant_id="ann"))
    titled = ThreadMetadata(title="new")
    await store.save_thread(Thread(id=MINE, metadata=titled))
    await store.save_thread(Thread(id=MINE, tenant_id="ann", metadata=titled))
    await writer.commit(run=run("@ann:1", DONE, thread_id=MINE, tenant_id="ann"))
    edited = Thread(id=MINE, resource_id="user")
    await writer.commit(thread=edited, run=run("@ann:2", thread_id=MINE))
    await store.enqueue(_build_dispatch("d-1", MINE, None))
    await store.enqueue(_build_dispatch("d-2", MINE, "ann"))
    await store.interrupt(MINE, "user")
    assert await _owner(store, MINE) == "ann"
    await store.close()
    await store.open()
    assert await _owner(store, MINE) == "ann"


async def a_tenant_writes_only_its_own(store: Store) -> None:
    """Not to a thread of another tenant, and not to one without a tenant, made or not."""
    await store.save_thread(Thread(id=MINE, tenant_id="ann"))
    await store.save_thread(Thread(id="nobodys"))
    for thread_id in (MINE, "nobodys", "@ann:none", "none"):
        writer = Writer(store, thread_id)
        foreign = Thread(id=thread_id, tenant_id="bob", metadata=ThreadMetadata(title="taken"))
        theirs = _build_dispatch("d-1", thread_id, "bob")
        record = run(theirs.run_id, thread_id=thread_id, tenant_id="bob")
        error = await writer.expect_refusal(UnknownThread, run=record)
        assert (error.thread_id, str(error)) == (thread_id, f"thread not found: {thread_id}")
        await writer.expect_refusal(UnknownThread, thread=foreign)
        await writer.expect_refusal(UnknownThread, enqueued=(theirs,))
        before = await read_everything(store)
        await refusal(UnknownThread, store.save_thread(foreign))
        await refusal(UnknownThread, store.enqueue(theirs))
        await refusal(UnknownThread, store.interrupt(thread_id, "user", then=theirs))
        assert await read_everything(store) == before


async def one_commit_cannot_make_a_thread_for_two(store: Store) -> None:
    """Not by what it queues, and not by its run."""
    rivals = tuple(_build_dispatch(f"d-{name}", MINE, name) for name in ("ann", "bob"))
    writer = Writer(store, MINE)
    await writer.expect_refusal(UnknownThread, enqueued=rivals)
    mine = run("@ann:1", thread_id=MINE, tenant_id="ann")
    await writer.expect_refusal(
        UnknownThread, run=mine, enqueued=(_build_dispatch("d-1", MINE, "bob"),)
    )
    given = Thread(id=MINE, tenant_id="bob")
    await writer.expect_refusal(UnknownThread, run=mine, thread=given)


async def a_run_that_has_begun_goes_on(store: Store) -> None:
    """Only its first record is judged: what a store held before it knew tenants still ends."""
    writer = Writer(store)
    await writer.commit(run=run())
    await writer.commit(run=run(status=DONE, tenant_id="ann"))
    assert await _owner(store) is None


async def a_thread_is_created_for_one_tenant_only(store: Store) -> None:
    """Of many who begin on one thread id at once, by a run or by a submission, its own does."""

    async def begin(number: int) -> str | None:
        name = f"tenant-{number}"
        try:
            if number % 2:
                await store.enqueue(_build_dispatch(f"d-{number}", "@tenant-7:t", name))
            else:
                record = run(f"@tenant-7:{number}", DONE, thread_id="@tenant-7:t", tenant_id=name)
                await Writer(store, "@tenant-7:t").commit(commit_id=name, run=record)
        except (UnknownThread, VersionConflict):
            return None
        return name

    begun = await asyncio.gather(*map(begin, range(RIVALS)))
    assert [name for name in begun if name is not None] == ["tenant-7"]
    assert await _owner(store, "@tenant-7:t") == "tenant-7"


async def threads_and_runs_are_listed_by_tenant(store: Store) -> None:
    """With every other filter; runs by the tenant of their thread, not of their starter."""
    owners = (("a", "ann"), ("b", "bob"), ("c", "ann"))
    for number, (name, tenant) in enumerate(owners):
        space = namespace_of(tenant)
        thread_id = f"{space}{name}"
        writer = Writer(store, thread_id)
        named = Thread(id=thread_id, tenant_id=tenant, resource_id=f"user-{number}")
        for run_id, owner in ((f"{space}{name}-1", tenant), (f"{space}{name}-2", None)):
            record = run(run_id, DONE, thread_id=thread_id, tenant_id=owner, created_at=number)
            await writer.commit(committed_at=1000 - number, thread=named, run=record)
    await Writer(store, "d").commit(committed_at=1, run=run("d-1", thread_id="d", created_at=9))
    a, b, c = ("@ann:a", "@bob:b", "@ann:c")
    threads: tuple[tuple[ThreadQuery, list[str]], ...] = (
        (ThreadQuery(tenant_id=" ann "), [a, c]),
        (ThreadQuery(tenant_id="ann", resource_id="user-2"), [c]),
        (ThreadQuery(tenant_id="ann", parent_id=a), []),
        (ThreadQuery(tenant_id="ann", roots_only=True), [a, c]),
        (ThreadQuery(tenant_id="missing"), []),
        (ThreadQuery(tenant_id=" "), [a, b, c, "d"]),
    )
    for query, expected in threads:
        page = await store.list_threads(query)
        assert ([it.id for it in page.items], page.total) == (expected, len(expected)), query
    runs_of = {it: [f"{it}-1", f"{it}-2"] for it in (a, b, c)}
    runs: tuple[tuple[RunQuery, list[str]], ...] = (
        (RunQuery(tenant_id=" ann "), [*runs_of[a], *runs_of[c]]),
        (RunQuery(tenant_id="bob", status=DONE), runs_of[b]),
        (RunQuery(tenant_id="ann", thread_id=c), runs_of[c]),
        (RunQuery(tenant_id="ann", thread_id=b), []),
        (RunQuery(tenant_id="ann", status=run().status), []),
        (RunQuery(tenant_id="missing"), []),
        (RunQuery(tenant_id=" "), [*runs_of[a], *runs_of[b], *runs_of[c], "d-1"]),
    )
    for wanted, expected in runs:
        found = await store.list_runs(msgspec.structs.replace(wanted, with_total=True))
        assert ([it.run_id for it in found.items], found.total) == (expected, len(expected)), wanted


async def open_tickets_are_listed_by_tenant(store: Store) -> None:
    """By the tenant of their thread, oldest first, whatever else waits."""
    owners = (("a", "ann"), ("b", "bob"), ("c", "ann"), ("d", None))
    for number, (name, tenant) in enumerate(owners):
        thread_id, run_id = (f"{namespace_of(tenant)}{it}" for it in (name, f"r-{name}"))
        record = run(run_id, thread_id=thread_id, tenant_id=tenant)
        waiting = ticket(
            f"k-{name}", "c-1", thread_id=thread_id, run_id=run_id, created_at=9 - number
        )
        writer = Writer(store, thread_id)
        await writer.commit(
            messages=(build_call_message("m-1", "c-1"),), run=record, tickets=(waiting,)
        )
    listings: tuple[tuple[str | None, str | None, list[str]], ...] = (
        (None, "ann", ["k-c", "k-a"]),
        (None, "bob", ["k-b"]),
        (None, "missing", []),
        (None, None, ["k-d", "k-c", "k-b", "k-a"]),
        ("@ann:a", "ann", ["k-a"]),
        ("@ann:a", "bob", []),
        ("d", "ann", []),
        ("d", None, ["k-d"]),
    )
    for thread, owner, expected in listings:
        found = await store.list_tickets(thread, tenant_id=owner)
        assert [it.ticket_id for it in found] == expected, (thread, owner)


async def a_cursor_keeps_the_tenant(store: Store) -> None:
    """The next page is of the same tenant."""
    for number in range(6):
        tenant = ("ann", "bob")[number % 2]
        thread_id, run_id = (f"@{tenant}:{it}-{number}" for it in ("t", "r"))
        record = run(run_id, DONE, thread_id=thread_id, tenant_id=tenant, created_at=number)
        await Writer(store, thread_id).commit(committed_at=1000 - number, run=record)
    threads = ThreadQuery(tenant_id="ann", limit=2)
    cursor = (await store.list_threads(threads)).next_cursor
    assert cursor is not None
    page = await store.list_threads(at_cursor(threads, cursor))
    assert ([it.id for it in page.items], page.next_cursor) == (["@ann:t-4"], None)
    runs = RunQuery(tenant_id="ann", limit=2)
    cursor = (await store.list_runs(runs)).next_cursor
    assert cursor is not None
    found = await store.list_runs(at_cursor(runs, cursor))
    assert ([it.run_id for it in found.items], found.next_cursor) == (["@ann:r-4"], None)


CHECKS = (
    whatever_creates_a_thread_names_its_tenant,
    names_of_tenants_are_never_confused,
    tenants_choose_the_same_ids,
    a_run_has_an_id_of_its_threads_tenant,
    a_tenant_stays_whatever_is_written,
    a_tenant_writes_only_its_own,
    one_commit_cannot_make_a_thread_for_two,
    a_run_that_has_begun_goes_on,
    a_thread_is_created_for_one_tenant_only,
    threads_and_runs_are_listed_by_tenant,
    open_tickets_are_listed_by_tenant,
    a_cursor_keeps_the_tenant,
)
