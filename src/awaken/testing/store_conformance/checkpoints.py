"""What waits beside a thread: the turn that is being streamed."""

from typing import Any

from awaken.contracts.errors import LeaseLost
from awaken.contracts.messages.content import Text
from awaken.contracts.storage.store import Store, StreamCheckpoint

from .writing import (
    DONE,
    RUN,
    THREAD,
    Writer,
    build_user_message,
    claim_fields,
    refusal,
    run,
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
    await writer.commit(messages=(build_user_message("m-1"),))
    assert await store.find_checkpoint(RUN) is None
    assert await store.find_checkpoint("run-2") is not None
    await other.commit(run=run("run-2", DONE, thread_id="thread-2"))
    assert await store.find_checkpoint("run-2") is None


async def a_refused_commit_leaves_the_checkpoint(store: Store) -> None:
    """The process that goes on needs it."""
    writer = Writer(store)
    await writer.commit(run=run(), **claim_fields())
    await store.save_checkpoint(_checkpoint(), "token-f")
    await writer.expect_refusal(
        LeaseLost, fencing_token="token-x", messages=(build_user_message("m-1"),)
    )
    assert await store.find_checkpoint(RUN) == _checkpoint()


async def only_the_holder_of_a_thread_saves_checkpoints(store: Store) -> None:
    """A stale token, or none while the thread is claimed: refused."""
    await Writer(store).commit(run=run(), **claim_fields())
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


CHECKS = (
    a_checkpoint_is_kept_until_the_next_one,
    the_next_commit_of_a_run_removes_its_checkpoint,
    a_refused_commit_leaves_the_checkpoint,
    only_the_holder_of_a_thread_saves_checkpoints,
    a_checkpoint_of_a_run_that_is_over_is_not_kept,
    a_checkpoint_goes_with_its_thread,
)
