"""Threads: lineage, metadata, and what deletion leaves behind."""

from typing import Any

from awaken.contracts.errors import InvalidRecord, RecordNotFound, VersionConflict
from awaken.contracts.events import StepEnd
from awaken.contracts.runs.threads import Thread, ThreadMetadata
from awaken.contracts.storage.queries import MessageQuery, RunQuery, ThreadQuery
from awaken.contracts.storage.store import DeleteStrategy, Store

from .writing import (
    DONE,
    RUN,
    THREAD,
    WAITING,
    Writer,
    build_call_message,
    build_user_message,
    read_everything,
    refusal,
    run,
    ticket,
    tool_record,
    value,
)


async def a_saved_thread_comes_back(store: Store) -> None:
    """Lineage and metadata are kept, and saving returns what was stored."""
    await store.save_thread(Thread(id="parent"))
    custom = {"tags": ["a", "b"], "deep": {"n": 1.5, "none": None}}
    metadata = ThreadMetadata(created_at=1, updated_at=2, title="Birds 🦜", custom=custom)
    thread = Thread(id=THREAD, resource_id="user", parent_thread_id="parent", metadata=metadata)
    assert await store.save_thread(thread) == thread
    assert await store.load_thread(THREAD) == thread


async def a_save_keeps_pointers_and_version(store: Store) -> None:
    """An edit from a stale copy cannot undo commits."""
    await store.save_thread(
        Thread(id=THREAD, version=7, message_count=9, active_run_id="x", open_run_id="x")
    )
    fresh = await store.load_thread(THREAD)
    assert fresh == Thread(id=THREAD)
    writer = Writer(store)
    await writer.commit(messages=(build_user_message("m-1"),), run=run(updated_at=5))
    metadata = ThreadMetadata(title="new", updated_at=9000)
    saved = await store.save_thread(Thread(id=THREAD, metadata=metadata))
    assert saved == await store.load_thread(THREAD)
    assert (saved.version, saved.message_count, saved.metadata.title) == (1, 1, "new")
    assert (saved.active_run_id, saved.open_run_id, saved.latest_run_id) == (RUN, RUN, RUN)
    assert (saved.metadata.created_at, saved.metadata.updated_at) == (1000, 9000)
    await writer.commit(messages=(build_user_message("m-2"),))


async def a_saved_thread_takes_its_first_commit(store: Store) -> None:
    """Saving is not a commit: the first one still expects version 0."""
    await store.save_thread(Thread(id=THREAD, metadata=ThreadMetadata(title="t", created_at=5)))
    await Writer(store).commit(messages=(build_user_message("m-1"),))
    thread = await store.load_thread(THREAD)
    assert thread is not None
    assert (thread.version, thread.metadata.title) == (1, "t")
    assert (thread.metadata.created_at, thread.metadata.updated_at) == (5, 1000)


async def commits_touch_their_thread(store: Store) -> None:
    """The creation time is set once, the update time always."""
    writer = Writer(store)
    for committed_at in (100, 300, 200):
        await writer.commit(committed_at=committed_at)
        thread = await store.load_thread(THREAD)
        assert thread is not None
        assert thread.metadata.created_at == 100
        assert thread.metadata.updated_at == committed_at


async def a_commit_may_edit_its_thread(store: Store) -> None:
    """Lineage and metadata are replaced, creation time and pointers stay."""
    await store.save_thread(Thread(id="parent"))
    writer = Writer(store)
    await writer.commit(thread=Thread(id=THREAD, resource_id=" user "), run=run())
    metadata = ThreadMetadata(title="new", custom={"a": 1}, created_at=77, updated_at=88)
    edit = Thread(id=THREAD, parent_thread_id="parent", metadata=metadata)
    await writer.commit(thread=edit)
    thread = await store.load_thread(THREAD)
    assert thread is not None
    assert (thread.resource_id, thread.parent_thread_id) == (None, "parent")
    assert (thread.metadata.title, thread.metadata.custom) == ("new", {"a": 1})
    assert (thread.metadata.created_at, thread.metadata.updated_at) == (1000, 2000)
    assert (thread.open_run_id, thread.version) == (RUN, 2)
    await writer.commit()
    thread = await store.load_thread(THREAD)
    assert thread is not None
    assert (thread.metadata.title, thread.parent_thread_id) == ("new", "parent")


async def lineage_is_trimmed(store: Store) -> None:
    """Blank means absent, by save or by commit."""
    await store.save_thread(Thread(id="parent"))
    padded = Thread(id=THREAD, resource_id=" user ", parent_thread_id=" parent ")
    blank = Thread(id=THREAD, resource_id="  ", parent_thread_id="")
    writer = Writer(store)
    for given, expected in ((padded, ("user", "parent")), (blank, (None, None))) * 2:
        saved = await store.save_thread(given)
        assert (saved.resource_id, saved.parent_thread_id) == expected
        await store.save_thread(Thread(id=THREAD))
        await writer.commit(thread=given)
        thread = await store.load_thread(THREAD)
        assert thread is not None
        assert (thread.resource_id, thread.parent_thread_id) == expected


async def a_missing_parent_is_refused(store: Store) -> None:
    """By save or by commit, for a new thread or an old one."""
    orphan = Thread(id=THREAD, parent_thread_id="missing")
    writer = Writer(store)
    for _ in range(2):
        await writer.expect_refusal(InvalidRecord, thread=orphan)
        before = await read_everything(store)
        await refusal(InvalidRecord, store.save_thread(orphan))
        assert await read_everything(store) == before
        await store.save_thread(Thread(id=THREAD))


async def a_cycle_of_parents_is_refused(store: Store) -> None:
    """Of length one, two or three."""
    await store.save_thread(Thread(id="a"))
    await store.save_thread(Thread(id="b", parent_thread_id="a"))
    await store.save_thread(Thread(id="c", parent_thread_id="b"))
    before = await read_everything(store)
    for parent in ("a", "b", "c"):
        edit = Thread(id="a", parent_thread_id=parent)
        await refusal(InvalidRecord, store.save_thread(edit))
        await Writer(store, "a").expect_refusal(InvalidRecord, thread=edit)
    assert await read_everything(store) == before
    await store.save_thread(Thread(id="c", parent_thread_id="a"))


async def _family(store: Store) -> None:
    """Write a, its children b and c, and b's child d, each with a commit and a run."""
    for thread_id, parent in (("a", None), ("b", "a"), ("c", "a"), ("d", "b")):
        await Writer(store, thread_id).commit(
            thread=Thread(id=thread_id, parent_thread_id=parent),
            messages=(build_user_message("m-1"),),
            run=run(f"run-{thread_id}", DONE, thread_id=thread_id),
        )


async def _parents(store: Store) -> dict[str, str | None]:
    page = await store.list_threads(ThreadQuery())
    return {thread.id: thread.parent_thread_id for thread in page.items}


async def a_delete_may_be_rejected_for_children(store: Store) -> None:
    """`reject` keeps the whole tree, and deletes a thread without children."""
    await _family(store)
    before = await read_everything(store)
    await refusal(InvalidRecord, store.delete_thread("a", DeleteStrategy.REJECT))
    assert await read_everything(store) == before
    await store.delete_thread("c", DeleteStrategy.REJECT)
    assert await _parents(store) == {"a": None, "b": "a", "d": "b"}


async def a_delete_detaches_children(store: Store) -> None:
    """The default: direct children lose their parent, farther ones stay."""
    await _family(store)
    await store.delete_thread("a")
    assert await _parents(store) == {"b": None, "c": None, "d": "b"}
    seen = await store.checkout("b")
    assert seen is not None
    assert (seen.thread.version, len(seen.messages)) == (1, 1)


async def a_delete_may_cascade(store: Store) -> None:
    """All descendants go, with their runs; the rest stays."""
    await _family(store)
    await store.save_thread(Thread(id="other"))
    await store.delete_thread("a", DeleteStrategy.CASCADE)
    assert await _parents(store) == {"other": None}
    assert (await store.list_runs(RunQuery(with_total=True))).total == 0


async def a_delete_of_an_unknown_thread_is_an_error(store: Store) -> None:
    """Nothing deleted is never a success, not even the second time."""
    await store.save_thread(Thread(id=THREAD))
    for strategy in DeleteStrategy:
        error = await refusal(RecordNotFound, store.delete_thread("missing", strategy))
        assert error.record_id == "missing"
    await store.delete_thread(THREAD)
    await refusal(RecordNotFound, store.delete_thread(THREAD))


async def a_deleted_thread_leaves_nothing(store: Store) -> None:
    """Runs, tickets, events, journal and commits go with it, and only with it."""
    for thread_id, number in ((THREAD, 1), ("thread-2", 2)):
        of: dict[str, Any] = {"thread_id": thread_id, "run_id": f"run-{number}"}
        await Writer(store, thread_id).commit(
            commit_id="commit",
            messages=(build_call_message("m-1", "c-1"),),
            run=run(of["run_id"], WAITING, thread_id=thread_id),
            tickets=(ticket(f"ticket-{number}", "c-1", **of),),
            tool_records=(tool_record("c-1", run_id=of["run_id"]),),
            events=(StepEnd(),),
            state={"key": value("1")},
        )
    await store.delete_thread(THREAD)
    assert await store.checkout(THREAD) is None
    assert await store.load_thread(THREAD) is None
    assert await store.load_run("run-1") is None
    assert await store.find_ticket("ticket-1") is None
    assert await store.find_commit("commit", THREAD) is None
    assert await store.list_events(THREAD) == ()
    assert await store.list_tool_records("run-1") == ()
    assert (await store.list_messages(THREAD, MessageQuery())).total == 0
    assert (await store.list_runs(RunQuery(thread_id=THREAD))).items == ()
    assert [found.run_id for found in (await store.list_runs(RunQuery())).items] == ["run-2"]
    assert [found.ticket_id for found in await store.list_tickets()] == ["ticket-2"]
    assert len(await store.list_tool_records("run-2")) == 1


async def a_late_commit_does_not_bring_a_thread_back(store: Store) -> None:
    """The old holder gets a conflict with version 0, also for a commit it sent before."""
    writer = Writer(store)
    await writer.commit(messages=(build_user_message("m-1"),), run=run())
    second = writer.next(messages=(build_user_message("m-2"),))
    await store.commit(second)
    await store.delete_thread(THREAD)
    for late in (second, writer.next(), writer.next(expected_version=2)):
        error = await refusal(VersionConflict, store.commit(late))
        assert error.actual == 0
    assert await store.load_thread(THREAD) is None
    assert (await store.list_threads(ThreadQuery())).total == 0


async def a_deleted_id_may_be_used_again(store: Store) -> None:
    """The new thread starts empty; ids of the old one are free."""
    for text in ("old", "new"):
        writer = Writer(store)
        await writer.commit(
            messages=(build_user_message("m-1", text), build_call_message("m-2", "c-1")),
            run=run(status=WAITING, final_output=text),
            tickets=(ticket("ticket-1", "c-1"),),
            events=(StepEnd(),),
        )
        seen = await store.checkout(THREAD)
        assert seen is not None
        assert (seen.thread.version, seen.messages[0].text) == (1, text)
        assert (await store.list_events(THREAD))[0].seq == 1
        if text == "old":
            await store.delete_thread(THREAD)
    await writer.expect_refusal(VersionConflict, expected_version=0, commit_id="again")


async def a_run_outlives_its_parent_thread(store: Store) -> None:
    """Deleting the parent neither stops the child's run nor comes back through it."""
    await store.save_thread(Thread(id="parent"))
    writer = Writer(store)
    await writer.commit(run=run(parent_thread_id="parent"))
    await store.delete_thread("parent")
    await writer.commit(run=run(parent_thread_id="parent", steps=1))
    await writer.commit(run=run(status=WAITING, parent_thread_id="parent"))
    await writer.commit(run=run(status=DONE, parent_thread_id="parent"))
    thread = await store.load_thread(THREAD)
    assert thread is not None
    assert thread.parent_thread_id is None


CHECKS = (
    a_saved_thread_comes_back,
    a_save_keeps_pointers_and_version,
    a_saved_thread_takes_its_first_commit,
    commits_touch_their_thread,
    a_commit_may_edit_its_thread,
    lineage_is_trimmed,
    a_missing_parent_is_refused,
    a_cycle_of_parents_is_refused,
    a_delete_may_be_rejected_for_children,
    a_delete_detaches_children,
    a_delete_may_cascade,
    a_delete_of_an_unknown_thread_is_an_error,
    a_deleted_thread_leaves_nothing,
    a_late_commit_does_not_bring_a_thread_back,
    a_deleted_id_may_be_used_again,
    a_run_outlives_its_parent_thread,
)
