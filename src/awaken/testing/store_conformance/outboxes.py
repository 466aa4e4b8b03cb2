"""What commits ask for outside of their threads: tried when it is due, given up, tried again."""

import asyncio
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from awaken.contracts.errors import VersionConflict
from awaken.contracts.lifecycle import Failed, NaturalEnd
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.dispatch import Purged
from awaken.contracts.storage.outbox import (
    THREAD_DELETED,
    ReportToParent,
    ThreadMessage,
    decode_command,
    deletion_report_id,
)
from awaken.contracts.storage.store import DeleteStrategy, OutboxEntry, Store
from awaken.contracts.tasks import TaskInfo

from .writing import (
    DONE,
    LONG_MS,
    SHORT_MS,
    THREAD,
    WAITING,
    Writer,
    build_user_message,
    elapse,
    run,
)

_PARENT = {"parent_thread_id": "parent", "parent_run_id": "run-p"}

RIVALS = 16
FAR_MS = 9_999_999_999_999


async def the_outbox_follows_the_commits(store: Store) -> None:
    """In the order they were committed, over all threads, at most so many."""
    assert await store.list_outbox() == ()
    first, second = Writer(store), Writer(store, "thread-2")
    await first.commit(outbox=(_mail("b"), _mail("a")))
    await second.commit(outbox=(_mail("d"),))
    await first.commit(outbox=(_mail("c"),))
    assert await _due(store) == ["b", "a", "d", "c"]
    assert await _due(store, limit=2) == ["b", "a"]
    assert await _due(store, limit=0) == await _due(store, limit=-1) == []
    assert (await store.list_outbox())[0] == _mail("b")


async def a_refused_commit_sends_nothing(store: Store) -> None:
    """Sent because the commit succeeded, or not at all."""
    writer = Writer(store)
    await writer.expect_refusal(VersionConflict, expected_version=3, outbox=(_mail("a"),))
    assert await store.list_outbox() == ()


async def what_was_sent_leaves_the_outbox(store: Store) -> None:
    """Unknown entries are ignored, so that a retry is harmless."""
    await Writer(store).commit(outbox=(_mail("a"), _mail("b"), _mail("c")))
    for _ in range(2):
        await store.delete_outbox(("b", "a", "unknown"))
        assert await store.list_outbox() == (_mail("c"),)
    await store.delete_outbox(())


async def a_retried_commit_sends_once(store: Store) -> None:
    """Also when the entry was sent in between."""
    commit = Writer(store).next(outbox=(_mail("a"),))
    await store.commit(commit)
    await store.delete_outbox(("a",))
    await store.commit(commit)
    assert await store.list_outbox() == ()


async def an_entry_that_is_there_is_left_as_it_is(store: Store) -> None:
    """Asked for again by its commit, its thread or another: its place, thread and trials stay."""
    first, second = Writer(store), Writer(store, "thread-2")
    await first.commit(outbox=(_mail("a"), _mail("b"), _mail("a", kind="late")))
    tried = _mail("a", attempts=2, error="no answer")
    assert await store.save_outbox(tried)
    for writer in (first, second):
        await writer.commit(
            messages=(build_user_message("m-1"),), outbox=(_mail("a", kind="late"), _mail("c"))
        )
    assert await store.list_outbox() == (tried, _mail("b"), _mail("c"))
    await store.delete_thread("thread-2")
    assert await _due(store) == ["a", "b", "c"]


async def an_entry_that_was_given_up_stays_so_when_it_is_asked_for_again(store: Store) -> None:
    """Only a save brings it back."""
    writer = Writer(store)
    await writer.commit(outbox=(_mail("a"),))
    await store.save_outbox(_mail("a", is_dead=True))
    await writer.commit(outbox=(_mail("a"),))
    assert await store.list_outbox() == ()
    assert await store.list_dead_outbox() == (_mail("a", is_dead=True),)


async def rivals_that_ask_for_the_same_send_once(store: Store) -> None:
    """However many threads do so at once; every one of the commits is applied."""
    writers = [Writer(store, f"thread-{number}") for number in range(RIVALS)]
    orders = (_mail("a"), _mail("b"))
    await asyncio.gather(
        *(writer.commit(outbox=orders[:: 1 if at % 2 else -1]) for at, writer in enumerate(writers))
    )
    assert sorted(await _due(store)) == ["a", "b"]


async def an_entry_waits_until_it_is_due(store: Store) -> None:
    """By the store's clock, and then it comes in the order of the commits, not of the times."""
    now = await store.now_ms()
    # Nothing here comes due by itself while the store is asked, however long that takes.
    await Writer(store).commit(
        outbox=(
            _mail("later", due_at=now + LONG_MS),
            _mail("far", due_at=now + LONG_MS),
            _mail("now", due_at=now),
            _mail("at once"),
        )
    )
    assert await _due(store) == ["now", "at once"]
    assert await _due(store, limit=1) == ["now"]
    assert await store.save_outbox(_mail("later", due_at=await store.now_ms() + SHORT_MS))
    await elapse(store, SHORT_MS)
    assert await _due(store) == ["later", "now", "at once"]


async def a_failed_attempt_is_kept_and_delays_the_next(store: Store) -> None:
    """Others are not held up by it; all that was said about it comes back."""
    await Writer(store).commit(outbox=(_mail("a"), _mail("b")))
    due_at = await store.now_ms() + LONG_MS
    tried = _mail("a", attempts=1, due_at=due_at, error="the receiver is away: ü")
    assert await store.save_outbox(tried)
    assert await _due(store) == ["b"]
    tried = replace(tried, due_at=await store.now_ms() + SHORT_MS)
    assert await store.save_outbox(tried)
    await elapse(store, SHORT_MS)
    assert await store.list_outbox() == (tried, _mail("b"))
    assert await store.list_dead_outbox() == ()
    soon = replace(tried, attempts=2, due_at=0, error=None)
    assert await store.save_outbox(soon)
    assert (await store.list_outbox())[0] == soon


async def what_was_given_up_is_listed_apart(store: Store) -> None:
    """Of one thread or of all, in the order of the commits, at most so many; it is never due."""
    first, second = Writer(store), Writer(store, "thread-2")
    await first.commit(outbox=(_mail("c"), _mail("live")))
    await second.commit(outbox=(_mail("b"),))
    await first.commit(outbox=(_mail("a"), _mail("born dead", is_dead=True)))
    for entry_id in ("a", "b", "c"):
        assert await store.save_outbox(_mail(entry_id, attempts=5, error="gone", is_dead=True))
    assert await store.list_outbox(limit=1) == (_mail("live"),)
    assert await _due(store) == ["live"]
    assert _ids(await store.list_dead_outbox()) == ["c", "b", "a", "born dead"]
    assert _ids(await store.list_dead_outbox(limit=2)) == ["c", "b"]
    assert _ids(await store.list_dead_outbox(THREAD)) == ["c", "a", "born dead"]
    assert _ids(await store.list_dead_outbox("thread-2", limit=1)) == ["b"]
    assert await store.list_dead_outbox("missing") == ()
    assert await store.list_dead_outbox(limit=0) == await store.list_dead_outbox(limit=-1) == ()
    (dead,) = await store.list_dead_outbox("thread-2")
    assert dead == _mail("b", attempts=5, error="gone", is_dead=True)


async def what_was_given_up_may_be_tried_again(store: Store) -> None:
    """Saved as alive, it is back at its old place."""
    await Writer(store).commit(outbox=(_mail("a"), _mail("b")))
    dead = _mail("a", attempts=5, error="gone", is_dead=True)
    await store.save_outbox(dead)
    assert await store.save_outbox(replace(dead, attempts=0, is_dead=False))
    assert await store.list_outbox() == (_mail("a", error="gone"), _mail("b"))
    assert await store.list_dead_outbox() == ()
    await store.save_outbox(dead)
    await store.delete_outbox(("a",))
    assert await store.list_dead_outbox() == ()


async def what_was_sent_does_not_come_back(store: Store) -> None:
    """A sender that lost the race learns it, and leaves nothing behind."""
    await Writer(store).commit(outbox=(_mail("a"),))
    await store.delete_outbox(("a",))
    for entry_id in ("a", "unknown"):
        for is_dead in (False, True):
            assert await store.save_outbox(_mail(entry_id, is_dead=is_dead)) is False
    assert await store.list_outbox() == await store.list_dead_outbox() == ()


async def a_deleted_thread_keeps_what_it_promised(store: Store) -> None:
    """What is due and what waits is still sent; what was given up goes with the thread."""
    late = {"due_at": FAR_MS}
    await Writer(store).commit(outbox=(_mail("a"), _mail("late", **late), _mail("dead")))
    await Writer(store, "thread-2").commit(outbox=(_mail("b"), _mail("dead 2")))
    for entry_id in ("dead", "dead 2"):
        await store.save_outbox(_mail(entry_id, is_dead=True))
    await store.delete_thread(THREAD)
    assert await _due(store) == ["a", "b"]
    assert _ids(await store.list_dead_outbox()) == ["dead 2"]
    assert await store.list_dead_outbox(THREAD) == ()
    assert await store.save_outbox(_mail("late", attempts=1)), "it waits for its time, and is sent"
    assert await store.save_outbox(_mail("a", is_dead=True))
    assert _ids(await store.list_dead_outbox()) == ["a", "dead 2"]
    await store.delete_outbox(["a", "b", "late"])
    assert await store.list_outbox() == ()


async def a_deleted_child_answers_its_parent(store: Store) -> None:
    """The transaction that deletes a thread tells the parent of its open run that it has ended."""
    await store.save_thread(Thread(id="parent"))
    for thread_id, task in ((THREAD, None), ("thread-2", TaskInfo(name="task"))):
        waiting = run(f"run of {thread_id}", WAITING, thread_id=thread_id, task=task, **_PARENT)
        await Writer(store, thread_id).commit(run=waiting)
        await store.delete_thread(thread_id)
    report, message = [decode_command(it.payload) for it in await store.list_outbox()]
    assert isinstance(report, ReportToParent)
    assert report.child is not None
    assert report.child.status is DONE
    assert isinstance(report.child.termination, Failed)
    assert report.child.termination.code == THREAD_DELETED
    assert isinstance(message, ThreadMessage)
    assert message.thread_id == _PARENT["parent_thread_id"]
    assert message.payload["status"] == "failed"


async def a_deleted_delegate_that_had_ended_is_reported_while_its_parent_is_open(
    store: Store,
) -> None:
    """The parent may be executed again and ask for it: it gets what the run answered."""
    above = Writer(store, "parent")
    await above.commit(run=run("run-p", thread_id="parent"))
    for child_id, task in (("a", None), ("b", TaskInfo(name="task")), ("c", None)):
        ended = run(child_id, DONE, thread_id=child_id, final_output="42", task=task, **_PARENT)
        await Writer(store, child_id).commit(run=replace(ended, termination=NaturalEnd()))
    for child_id in ("a", "b"):
        await store.delete_thread(child_id)
    (entry,) = await store.list_outbox()
    assert entry.entry_id == deletion_report_id("a")
    report = decode_command(entry.payload)
    assert isinstance(report, ReportToParent)
    assert (report.parent_thread_id, report.parent_run_id) == ("parent", "run-p")
    assert report.child is not None
    assert (report.child.final_output, report.child.termination) == ("42", NaturalEnd())
    await above.commit(run=run("run-p", DONE, thread_id="parent", termination=NaturalEnd()))
    await store.delete_thread("c")
    assert await store.list_outbox() == (entry,), "a run that has ended asks for nothing"


async def the_report_of_a_deleted_child_is_deleted_with_its_parent(store: Store) -> None:
    """What is put off as well as what is due; what others are told stays."""
    await Writer(store, "parent").commit(run=run("run-p", thread_id="parent"), outbox=(_mail("m"),))
    for child_id in ("a", "b"):
        child = run(child_id, WAITING, thread_id=child_id, **_PARENT)
        await Writer(store, child_id).commit(run=child)
        await store.delete_thread(child_id)
    kept = await store.find_outbox(deletion_report_id("a"))
    assert kept is not None
    assert await store.save_outbox(replace(kept, delays=1, due_at=FAR_MS))
    await store.delete_thread("parent")
    assert await store.list_outbox(pause_max_ms=0) == (_mail("m"),)


async def an_entry_is_found_by_its_id(store: Store) -> None:
    """Whether it is due, put off or given up; not once it was sent."""
    entries = (_mail("due"), _mail("late", due_at=FAR_MS, delays=3), _mail("dead", is_dead=True))
    await Writer(store).commit(outbox=entries)
    for entry in entries:
        assert await store.find_outbox(entry.entry_id) == entry
    await store.delete_outbox(("due",))
    assert await store.find_outbox("due") is None
    assert await store.find_outbox("unknown") is None


async def threads_that_are_deleted_together_tell_each_other_nothing(store: Store) -> None:
    """Nothing is sent to a parent that is deleted with its child, nor by a run without a parent."""
    await Writer(store, "parent").commit(run=run("run-p", WAITING, thread_id="parent"))
    await Writer(store).commit(run=run("run-c", WAITING, **_PARENT))
    await store.delete_thread("parent", DeleteStrategy.CASCADE)
    assert await store.load_thread(THREAD) is None
    assert await store.list_outbox() == ()


async def a_purge_leaves_what_was_not_sent(store: Store) -> None:
    """Its commit and its run may be gone; the command stays, also one that failed and waits."""
    writer = Writer(store)
    orders = (_mail("a"), _mail("late", attempts=4, error="gone", due_at=50))
    await writer.commit(run=run("run-0", DONE, finished_at=1), outbox=orders)
    await writer.commit(run=run("run-1", DONE, finished_at=2, updated_at=2))
    purged = await store.purge(FAR_MS)
    assert (purged.runs, purged.orders) == (1, 0)
    assert await _due(store) == ["a", "late"]


async def a_purge_removes_what_was_given_up_before(store: Store) -> None:
    """Of all threads, oldest commits first, at most so many; what was brought back stays."""
    first, second = Writer(store), Writer(store, "thread-2")
    await first.commit(outbox=tuple(map(_mail, ("a", "b", "c", "back"))))
    await second.commit(outbox=(_mail("d"), _mail("e")))
    for entry_id, at in (("a", 50), ("b", 51), ("c", 49), ("d", 49), ("e", 50), ("back", 49)):
        await store.save_outbox(_mail(entry_id, attempts=5, due_at=at, is_dead=True))
    await store.save_outbox(_mail("back", due_at=49))
    assert (await store.purge(49)).is_empty
    assert await store.purge(51, limit=3) == Purged(orders=3)
    assert _ids(await store.list_dead_outbox()) == ["b", "e"]
    assert await store.purge(51, limit=3) == Purged(orders=1)
    assert (await store.purge(51)).is_empty
    assert _ids(await store.list_dead_outbox()) == ["b"]
    assert await _due(store) == ["back"]
    assert await store.save_outbox(_mail("a", is_dead=True)) is False


async def _due(store: Store, **options: Any) -> list[str]:
    return _ids(await store.list_outbox(**options))


def _ids(entries: Iterable[OutboxEntry]) -> list[str]:
    return [entry.entry_id for entry in entries]


def _mail(entry_id: str, **fields: Any) -> OutboxEntry:
    known: dict[str, Any] = {"kind": "mail", "payload": {"to": [1, None, "ü"]}}
    return OutboxEntry(entry_id=entry_id, **(known | fields))


CHECKS = (
    the_outbox_follows_the_commits,
    a_refused_commit_sends_nothing,
    what_was_sent_leaves_the_outbox,
    a_retried_commit_sends_once,
    an_entry_that_is_there_is_left_as_it_is,
    an_entry_that_was_given_up_stays_so_when_it_is_asked_for_again,
    rivals_that_ask_for_the_same_send_once,
    an_entry_waits_until_it_is_due,
    a_failed_attempt_is_kept_and_delays_the_next,
    what_was_given_up_is_listed_apart,
    what_was_given_up_may_be_tried_again,
    what_was_sent_does_not_come_back,
    a_deleted_thread_keeps_what_it_promised,
    a_deleted_child_answers_its_parent,
    a_deleted_delegate_that_had_ended_is_reported_while_its_parent_is_open,
    the_report_of_a_deleted_child_is_deleted_with_its_parent,
    an_entry_is_found_by_its_id,
    threads_that_are_deleted_together_tell_each_other_nothing,
    a_purge_leaves_what_was_not_sent,
    a_purge_removes_what_was_given_up_before,
)
