"""What waits beside a thread: the turn that is being streamed, and messages to others."""

from typing import Any

from awaken.contracts.content import Text
from awaken.contracts.errors import LeaseLost
from awaken.contracts.storage import OutboxEntry, Store, StreamCheckpoint

from .writing import (
    DONE,
    RUN,
    THREAD,
    Writer,
    refusal,
    run,
    said,
    taking,
)


async def a_checkpoint_is_kept_until_the_next_one(store: Store) -> None:
    """What was streamed so far, as it was."""
    assert await store.find_checkpoint(RUN) is None
    await Writer(store).commit(run=run())
    for text in ("he", "hello"):
        await store.save_checkpoint(_checkpoint(text))
        assert await store.find_checkpoint(RUN) == _checkpoint(text)


async def the_next_commit_of_a_run_removes_its_checkpoint(store: Store) -> None:
    """The turn is in the thread then; other runs keep theirs."""
    writer, other = Writer(store), Writer(store, "thread-2")
    await writer.commit(run=run())
    await other.commit(run=run("run-2", thread_id="thread-2"))
    await store.save_checkpoint(_checkpoint())
    await store.save_checkpoint(_checkpoint(run_id="run-2", thread_id="thread-2"))
    await writer.commit(messages=(said("m-1"),))
    assert await store.find_checkpoint(RUN) is None
    assert await store.find_checkpoint("run-2") is not None
    await other.commit(run=run("run-2", DONE, thread_id="thread-2"))
    assert await store.find_checkpoint("run-2") is None


async def a_refused_commit_leaves_the_checkpoint(store: Store) -> None:
    """It is needed by whoever goes on."""
    writer = Writer(store)
    await writer.commit(run=run(), **taking())
    await store.save_checkpoint(_checkpoint(), "token-f")
    await writer.expect_refusal(LeaseLost, fencing_token="token-x", messages=(said("m-1"),))
    assert await store.find_checkpoint(RUN) == _checkpoint()


async def only_the_holder_of_a_thread_saves_checkpoints(store: Store) -> None:
    """A stale token, or none while somebody has the thread: refused."""
    await Writer(store).commit(run=run(), **taking())
    await store.save_checkpoint(_checkpoint(), "token-f")
    for token in ("token-x", None):
        await refusal(LeaseLost, store.save_checkpoint(_checkpoint("late"), token))
    assert await store.find_checkpoint(RUN) == _checkpoint()
    await store.give_up_claim(THREAD, "token-f")
    await refusal(LeaseLost, store.save_checkpoint(_checkpoint("late"), "token-f"))
    assert await store.find_checkpoint(RUN) == _checkpoint()


async def a_checkpoint_of_a_run_that_is_over_is_not_kept(store: Store) -> None:
    """No commit would ever remove it."""
    await Writer(store).commit(run=run(status=DONE))
    await store.save_checkpoint(_checkpoint())
    assert await store.find_checkpoint(RUN) is None
    await store.save_checkpoint(_checkpoint(thread_id="thread-9"))
    assert await store.find_checkpoint(RUN) is None
    assert await store.load_thread("thread-9") is None


async def a_checkpoint_goes_with_its_thread(store: Store) -> None:
    """Deleted is deleted."""
    await Writer(store).commit(run=run())
    await store.save_checkpoint(_checkpoint())
    await store.delete_thread(THREAD)
    assert await store.find_checkpoint(RUN) is None


async def the_outbox_follows_the_commits(store: Store) -> None:
    """In the order they were committed, over all threads, at most so many."""
    assert await store.list_outbox() == ()
    first, second = Writer(store), Writer(store, "thread-2")
    await first.commit(outbox=(_mail("b"), _mail("a")))
    await second.commit(outbox=(_mail("d"),))
    await first.commit(outbox=(_mail("c"),))
    assert [entry.entry_id for entry in await store.list_outbox()] == ["b", "a", "d", "c"]
    assert [entry.entry_id for entry in await store.list_outbox(limit=2)] == ["b", "a"]
    assert (await store.list_outbox())[0] == _mail("b")


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


async def the_outbox_of_a_deleted_thread_is_empty(store: Store) -> None:
    """Others keep theirs."""
    await Writer(store).commit(outbox=(_mail("a"),))
    await Writer(store, "thread-2").commit(outbox=(_mail("b"),))
    await store.delete_thread(THREAD)
    assert await store.list_outbox() == (_mail("b"),)


def _checkpoint(text: str = "hello", **fields: Any) -> StreamCheckpoint:
    known: dict[str, Any] = {
        "run_id": RUN,
        "thread_id": THREAD,
        "step": 1,
        "message_id": "m-9",
        "model": "model",
        "content": (Text(text=text),),
        "updated_at": 7,
    }
    return StreamCheckpoint(**(known | fields))


def _mail(entry_id: str) -> OutboxEntry:
    return OutboxEntry(entry_id=entry_id, kind="mail", payload={"to": [1, None, "ü"]})


CHECKS = (
    a_checkpoint_is_kept_until_the_next_one,
    the_next_commit_of_a_run_removes_its_checkpoint,
    a_refused_commit_leaves_the_checkpoint,
    only_the_holder_of_a_thread_saves_checkpoints,
    a_checkpoint_of_a_run_that_is_over_is_not_kept,
    a_checkpoint_goes_with_its_thread,
    the_outbox_follows_the_commits,
    what_was_sent_leaves_the_outbox,
    a_retried_commit_sends_once,
    the_outbox_of_a_deleted_thread_is_empty,
)
