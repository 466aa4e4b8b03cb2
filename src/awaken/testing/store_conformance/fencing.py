"""Only the holder of a claimed thread writes to it."""

from awaken.contracts.errors import (
    InvalidRecord,
    LeaseLost,
    ThreadClaimed,
)
from awaken.contracts.storage.dispatch import Claim, Release
from awaken.contracts.storage.store import Store

from .writing import (
    DONE,
    LONG_MS,
    THREAD,
    Writer,
    build_user_message,
    claim,
    claim_fields,
    extend,
    queue,
    run,
)


async def a_commit_takes_its_thread(store: Store) -> None:
    """From now on a write needs the token; the refusal names the holder."""
    writer = Writer(store)
    await writer.commit(run=run(), **claim_fields())
    assert (await extend(store, "token-f"))[0].is_held
    error = await writer.expect_refusal(ThreadClaimed, messages=(build_user_message("m-1"),))
    assert (error.thread_id, error.worker_id, error.retryable) == (THREAD, "process", True)
    await writer.expect_refusal(LeaseLost, fencing_token="token-x")
    await writer.commit(messages=(build_user_message("m-1"),), fencing_token="token-f")


async def a_thread_is_taken_only_when_nobody_has_it(store: Store) -> None:
    """A second process, a worker's thread, or the holder again: refused."""
    first, second = Writer(store), Writer(store, "thread-2")
    await first.commit(**claim_fields())
    await first.expect_refusal(ThreadClaimed, **claim_fields("token-g"))
    await first.expect_refusal(ThreadClaimed, **claim_fields())
    await queue(store, "d-1", thread_id="thread-2")
    await claim(store)
    error = await second.expect_refusal(ThreadClaimed, **claim_fields("token-g"))
    assert error.worker_id == "worker"


async def a_claim_needs_a_token(store: Store) -> None:
    """On a free thread and on a claimed one."""
    writer = Writer(store)
    mine = Claim(worker_id="process", lease_ms=LONG_MS)
    await writer.expect_refusal(InvalidRecord, claim=mine)
    await writer.commit(**claim_fields())
    await writer.expect_refusal(InvalidRecord, claim=mine)


async def a_token_is_nothing_without_a_claim(store: Store) -> None:
    """On a thread without a holder, a token belongs to a claim that was lost."""
    writer = Writer(store)
    await writer.expect_refusal(LeaseLost, fencing_token="token-x")
    await writer.commit()
    await writer.expect_refusal(LeaseLost, fencing_token="token-x")


async def a_worker_writes_with_the_token_of_its_claim(store: Store) -> None:
    """Everybody else is refused until it is released."""
    writer = Writer(store)
    await queue(store, "d-1")
    await claim(store)
    await writer.expect_refusal(ThreadClaimed, run=run())
    await writer.commit(run=run(), fencing_token="token-1")
    await store.release("d-1", "token-1")
    await writer.expect_refusal(LeaseLost, fencing_token="token-1")
    await writer.commit()


async def a_commit_releases_its_thread(store: Store) -> None:
    """With the outcome of the run; then everybody can write again."""
    writer = Writer(store)
    await writer.commit(run=run(), **claim_fields())
    await writer.commit(run=run(status=DONE), fencing_token="token-f", release=Release())
    assert not (await extend(store, "token-f"))[0].is_held
    await writer.expect_refusal(LeaseLost, fencing_token="token-f")
    await writer.commit(run=run("run-2"))


async def a_commit_can_take_and_release(store: Store) -> None:
    """A run of one commit holds nothing afterwards."""
    writer = Writer(store)
    await writer.commit(run=run(status=DONE), release=Release(), **claim_fields())
    assert not (await extend(store, "token-f"))[0].is_held
    await writer.commit()


CHECKS = (
    a_commit_takes_its_thread,
    a_thread_is_taken_only_when_nobody_has_it,
    a_claim_needs_a_token,
    a_token_is_nothing_without_a_claim,
    a_worker_writes_with_the_token_of_its_claim,
    a_commit_releases_its_thread,
    a_commit_can_take_and_release,
)
