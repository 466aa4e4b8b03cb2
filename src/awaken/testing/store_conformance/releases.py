"""How a delivery ends: acked, given back, cancelled, buried or revived."""

from awaken.contracts.errors import (
    AlreadyExists,
    IllegalTransition,
    LeaseLost,
    RecordNotFound,
)
from awaken.contracts.storage.dispatch import DispatchStatus, Release, RunDispatch
from awaken.contracts.storage.store import Store

from .writing import (
    LONG_MS,
    QUEUED,
    THREAD,
    claim,
    claim_ids,
    elapse,
    find,
    queue,
    read_everything,
    refusal,
)

DEAD = Release(status=DispatchStatus.DEAD_LETTER, error="it broke")


async def a_release_ends_the_delivery(store: Store) -> None:
    """Acked, with its time; token, worker and lease are gone."""
    await queue(store, "d-1")
    await claim(store)
    over = await store.release("d-1", "token-1")
    assert over.status is DispatchStatus.ACKED
    assert (over.claim_token, over.claimed_by, over.lease_until) == (None, None, None)
    assert over.completed_at is not None
    assert over.completed_at >= over.created_at
    assert await find(store, "d-1") == over


async def a_release_can_bury_a_dispatch(store: Store) -> None:
    """A dead letter keeps its error and is never claimed again."""
    await queue(store, "d-1")
    await claim(store)
    over = await store.release("d-1", "token-1", DEAD)
    assert (over.status, over.last_error) == (DispatchStatus.DEAD_LETTER, "it broke")
    assert await claim_ids(store) == []


async def a_release_can_supersede_a_dispatch(store: Store) -> None:
    """The claimer found that it is not wanted any more."""
    await queue(store, "d-1")
    await claim(store)
    over = await store.release("d-1", "token-1", Release(status=DispatchStatus.SUPERSEDED))
    assert over.status is DispatchStatus.SUPERSEDED


async def a_release_can_name_the_run_that_had_the_input(store: Store) -> None:
    """The same input came twice: a caller that waits for the second gets the run of the first."""
    await queue(store, "d-1")
    await claim(store)
    over = await store.release("d-1", "token-1", Release(taken_by="another-run"))
    assert (over.status, over.taken_by) == (DispatchStatus.ACKED, "another-run")
    assert await find(store, "d-1") == over


async def a_release_must_be_an_end(store: Store) -> None:
    """Queued, claimed or cancelled is no end of an execution; the claim stays."""
    await queue(store, "d-1")
    await claim(store)
    before = await read_everything(store)
    for status in (QUEUED, DispatchStatus.CLAIMED, DispatchStatus.CANCELLED):
        await refusal(IllegalTransition, store.release("d-1", "token-1", Release(status=status)))
    assert await read_everything(store) == before
    await store.release("d-1", "token-1")


async def a_stale_token_releases_nothing(store: Store) -> None:
    """Another token, or one that was used up: refused, and nothing is changed."""
    await queue(store, "d-1", "d-2")
    await claim(store)
    before = await read_everything(store)
    for name, token in (("d-1", "token-x"), ("d-2", "token-1"), ("d-1", "")):
        await refusal(LeaseLost, store.release(name, token))
        await refusal(LeaseLost, store.requeue(name, token))
    assert await read_everything(store) == before
    await store.release("d-1", "token-1")
    await refusal(LeaseLost, store.release("d-1", "token-1"))


async def what_does_not_exist_cannot_be_released(store: Store) -> None:
    """Named in the error."""
    for work in (store.release("d-9", "t"), store.requeue("d-9", "t"), store.revive("d-9", "e")):
        error = await refusal(RecordNotFound, work)
        assert error.record_id == "d-9"


async def a_requeued_dispatch_keeps_its_place(store: Store) -> None:
    """It comes before its successors, and after what is more urgent."""
    await queue(store, "d-1", "d-2")
    await claim(store)
    await queue(store, "d-0", priority=0)
    back = await store.requeue("d-1", "token-1")
    assert (back.status, back.claim_token, back.lease_until) == (QUEUED, None, None)
    for expected in ("d-0", "d-1", "d-2"):
        taken = await claim(store)
        assert taken.dispatch_id == expected
        await store.release(expected, "token-1")


async def a_requeued_dispatch_is_due_after_its_delay(store: Store) -> None:
    """Until then it holds back its successors."""
    await queue(store, "d-1", "d-2")
    await claim(store)
    before = await store.now_ms()
    back = await store.requeue("d-1", "token-1", delay_ms=400, error="busy")
    assert back.available_at >= before + 400
    assert back.last_error == "busy"
    assert await claim_ids(store, limit=5) == []
    await elapse(store, 401)
    assert await claim_ids(store) == ["d-1"]


async def an_attempt_counts_unless_it_is_not_charged(store: Store) -> None:
    """Claims are counted before the execution; a drained worker gives its attempt back."""
    await queue(store, "d-1")
    await claim(store)
    assert (await store.requeue("d-1", "token-1")).attempt_count == 1
    assert (await claim(store)).attempt_count == 2
    assert (await store.requeue("d-1", "token-1", is_charged=False)).attempt_count == 1
    assert (await claim(store)).attempt_count == 2


async def a_spent_dispatch_is_claimed_once_more(store: Store) -> None:
    """To be buried by its claimer, who sees that no attempt is left."""
    await queue(store, "d-1", max_attempts=2)
    for attempt in (1, 2):
        taken = await claim(store)
        assert (taken.attempt_count, taken.is_exhausted) == (attempt, False)
        await store.requeue("d-1", "token-1", error="it broke")
    taken = await claim(store)
    assert taken.is_exhausted
    assert taken.last_error == "it broke"


async def an_error_is_kept_until_another_comes(store: Store) -> None:
    """The last thing that went wrong, also after a success."""
    await queue(store, "d-1")
    await claim(store)
    await store.requeue("d-1", "token-1", error="first")
    await claim(store)
    assert (await store.requeue("d-1", "token-1")).last_error == "first"
    await claim(store)
    assert (await store.release("d-1", "token-1", DEAD)).last_error == "it broke"


async def a_queued_dispatch_can_be_cancelled(store: Store) -> None:
    """It ends, and its successor is next."""
    await queue(store, "d-1", "d-2")
    over = await store.cancel_dispatch("d-1")
    assert over is not None
    assert over.status is DispatchStatus.CANCELLED
    assert over.completed_at is not None
    assert await find(store, "d-1") == over
    assert await claim_ids(store, limit=5) == ["d-2"]


async def what_is_not_queued_cannot_be_cancelled(store: Store) -> None:
    """Unknown, claimed, acked or cancelled: None, and nothing is changed."""
    await queue(store, "d-1", "d-2")
    await claim(store)
    await store.cancel_dispatch("d-2")
    before = await read_everything(store)
    for name in ("d-9", "d-1", "d-2"):
        assert await store.cancel_dispatch(name) is None
    assert await read_everything(store) == before
    await store.release("d-1", "token-1")
    assert await store.cancel_dispatch("d-1") is None


async def a_dead_letter_is_revived_as_a_new_dispatch(store: Store) -> None:
    """With all its attempts, due now; the old one says what became of it."""
    dead = await _dead_letter(store)
    fresh = await store.revive("d-1", "d-2")
    assert (fresh.dispatch_id, fresh.status, fresh.attempt_count) == ("d-2", QUEUED, 0)
    assert (fresh.last_error, fresh.completed_at, fresh.cancel_cause) == (None, None, None)
    assert (fresh.request, fresh.run_id, fresh.mode) == (dead.request, dead.run_id, dead.mode)
    old = await find(store, "d-1")
    assert old.status is DispatchStatus.DEAD_LETTER
    assert "d-2" in (old.last_error or "")
    assert fresh.dedupe_key is None
    assert await claim_ids(store) == ["d-2"]


async def a_dead_letter_is_revived_once(store: Store) -> None:
    """Again, or from another end: refused, and nothing is queued."""
    await _dead_letter(store)
    await refusal(AlreadyExists, store.revive("d-1", "d-1"))
    assert (await find(store, "d-1")).last_error == "it broke"
    await store.revive("d-1", "d-2")
    await refusal(IllegalTransition, store.revive("d-1", "d-3"))
    await refusal(IllegalTransition, store.revive("d-2", "d-3"))
    assert await store.find_dispatch("d-3") is None
    assert await store.count_queued() == 1


async def a_deleted_thread_takes_its_dispatches_along(store: Store) -> None:
    """Queued, claimed and ended ones; ids and dedupe keys are free again."""
    await queue(store, "d-1", dedupe_key="key", request_hash="h")
    await queue(store, "d-2", "d-3")
    await claim(store)
    await store.delete_thread(THREAD)
    for name in ("d-1", "d-2", "d-3"):
        assert await store.find_dispatch(name) is None
    assert await store.find_dispatch_of_run("run-of-d-1") is None
    assert await claim_ids(store, limit=5) == []
    await refusal(RecordNotFound, store.release("d-1", "token-1"))
    (again,) = await queue(store, "d-1", dedupe_key="key", request_hash="other")
    assert again.status is QUEUED
    assert await store.claim_dispatch("d-1", "worker", "token-9", LONG_MS) is not None


async def _dead_letter(store: Store) -> RunDispatch:
    await queue(store, "d-1", max_attempts=1, dedupe_key="key")
    await claim(store)
    return await store.release("d-1", "token-1", DEAD)


CHECKS = (
    a_release_ends_the_delivery,
    a_release_can_bury_a_dispatch,
    a_release_can_supersede_a_dispatch,
    a_release_can_name_the_run_that_had_the_input,
    a_release_must_be_an_end,
    a_stale_token_releases_nothing,
    what_does_not_exist_cannot_be_released,
    a_requeued_dispatch_keeps_its_place,
    a_requeued_dispatch_is_due_after_its_delay,
    an_attempt_counts_unless_it_is_not_charged,
    a_spent_dispatch_is_claimed_once_more,
    an_error_is_kept_until_another_comes,
    a_queued_dispatch_can_be_cancelled,
    what_is_not_queued_cannot_be_cancelled,
    a_dead_letter_is_revived_as_a_new_dispatch,
    a_dead_letter_is_revived_once,
    a_deleted_thread_takes_its_dispatches_along,
)
