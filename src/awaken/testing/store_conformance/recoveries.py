"""A claim whose holder died or gave up: the rest is queued, and a late holder is refused."""

from awaken.contracts.errors import LeaseLost
from awaken.contracts.storage.dispatch import Claim
from awaken.contracts.storage.store import Store

from .writing import (
    LONG_MS,
    QUEUED,
    RUN,
    SHORT_MS,
    THREAD,
    WAITING,
    Writer,
    build_user_message,
    claim,
    claim_fields,
    claim_ids,
    elapse,
    extend,
    find,
    queue,
    read_everything,
    refusal,
    run,
)


async def a_dispatch_whose_lease_ran_out_is_queued_again(store: Store) -> None:
    """Charged, due now, before its successors, with an error that says why."""
    await queue(store, "d-1", "d-2")
    await claim(store, SHORT_MS)
    await elapse(store, SHORT_MS)
    (back,) = await store.reclaim()
    assert (back.dispatch_id, back.status, back.attempt_count) == ("d-1", QUEUED, 1)
    assert (back.claim_token, back.claimed_by, back.lease_until) == (None, None, None)
    assert back.last_error
    assert await find(store, "d-1") == back
    assert await store.reclaim() == ()
    assert (await claim(store, token="token-2")).attempt_count == 2


async def a_lease_that_lasts_is_left_alone(store: Store) -> None:
    """Only what has run out is taken back."""
    await queue(store, "d-1")
    await queue(store, "e-1", thread_id="thread-2")
    await claim(store, SHORT_MS, token="a")
    await claim(store, token="b")
    await elapse(store, SHORT_MS)
    assert [back.dispatch_id for back in await store.reclaim()] == ["d-1"]
    assert (await find(store, "e-1")).claim_token == "b"


async def a_worker_that_is_gone_has_its_claims_taken_back_at_once(store: Store) -> None:
    """Claims with and without a dispatch; those of others last as long as their leases."""
    for number in range(3):
        await queue(store, f"d-{number}", thread_id=f"thread-{number}")
    await store.claim("gone", "a", LONG_MS, limit=2)
    await store.claim("alive", "b", LONG_MS)
    gone = Claim(worker_id="gone", lease_ms=LONG_MS)
    await Writer(store, "own").commit(run=run(thread_id="own"), fencing_token="c", claim=gone)
    assert await store.reclaim() == ()
    assert await store.reclaim(is_gone=lambda _: False) == ()
    asked: list[str] = []

    def is_gone(worker_id: str) -> bool:
        asked.append(worker_id)
        return worker_id == "gone"

    back = [*await store.reclaim(2, is_gone), *await store.reclaim(2, is_gone)]
    assert sorted(it.run_id for it in back) == sorted([RUN, "run-of-d-0", "run-of-d-1"])
    assert {it.attempt_count for it in back} == {1}
    assert set(asked) == {"alive", "gone"}
    assert (await find(store, "d-2")).claimed_by == "alive"
    (report,) = await extend(store, "a")
    assert not report.is_held, "a process that comes back has lost it"


async def a_reclaim_queues_at_most_its_limit(store: Store) -> None:
    """Fewer than the limit means that none is left, also where a claim leaves nothing to do."""
    for number in range(5):
        await queue(store, f"d-{number}", thread_id=f"thread-{number}")
        await Writer(store, f"idle-{number}").commit(
            **claim_fields(f"idle-token-{number}", lease_ms=SHORT_MS)
        )
    await store.claim("worker", "token", SHORT_MS, limit=5)
    await elapse(store, SHORT_MS)
    sizes = [len(await store.reclaim(limit=2)) for _ in range(3)]
    assert sizes == [2, 2, 1]
    assert await store.count_queued() == 5
    for number in range(5):
        await Writer(store, f"idle-{number}").expect_refusal(
            LeaseLost,
            commit_id="late",
            expected_version=1,
            fencing_token=f"idle-token-{number}",
        )


async def an_open_run_whose_process_died_is_queued(store: Store) -> None:
    """The dispatch goes on with the run under its own id; the first attempt is counted."""
    await Writer(store).commit(run=run(session_id="s"), **claim_fields(lease_ms=SHORT_MS))
    await elapse(store, SHORT_MS)
    (made,) = await store.reclaim()
    assert (made.dispatch_id, made.status) == ("recovered:token-f", QUEUED)
    assert (made.thread_id, made.run_id, made.attempt_count) == (THREAD, RUN, 1)
    assert made.request.continue_run_id == RUN
    assert made.request.session_id == "s"
    assert await find(store, "recovered:token-f") == made
    taken = await claim(store)
    assert (taken.dispatch_id, taken.attempt_count) == ("recovered:token-f", 2)


async def a_claim_without_an_executing_run_leaves_nothing(store: Store) -> None:
    """No run, or one that waits: the thread is free, and nothing is queued."""
    first, second = Writer(store), Writer(store, "thread-2")
    await first.commit(**claim_fields("a", lease_ms=SHORT_MS))
    waiting = run("run-2", WAITING, thread_id="thread-2")
    await second.commit(run=waiting, **claim_fields("b", lease_ms=SHORT_MS))
    await elapse(store, SHORT_MS)
    assert await store.reclaim() == ()
    assert await store.count_queued() == 0
    await first.commit()
    await second.commit()


async def a_lease_that_ran_out_is_valid_until_it_is_taken(store: Store) -> None:
    """Fencing decides, not time: a slow holder goes on, a replaced one cannot."""
    writer = Writer(store)
    await writer.commit(run=run(), **claim_fields(lease_ms=SHORT_MS))
    await elapse(store, SHORT_MS)
    await writer.commit(messages=(build_user_message("m-1"),), fencing_token="token-f")
    await store.reclaim()
    await writer.expect_refusal(
        LeaseLost, messages=(build_user_message("m-2"),), fencing_token="token-f"
    )


async def a_replaced_worker_changes_nothing(store: Store) -> None:
    """Its commits, its release, its requeue: all refused while the next one works."""
    writer = Writer(store)
    await writer.commit()
    await queue(store, "d-1")
    await claim(store, SHORT_MS)
    await elapse(store, SHORT_MS)
    await store.reclaim()
    await claim(store, token="token-2")
    before = await read_everything(store)
    await refusal(LeaseLost, store.release("d-1", "token-1"))
    await refusal(LeaseLost, store.requeue("d-1", "token-1"))
    await refusal(LeaseLost, store.give_up_claim(THREAD, "token-1"))
    assert await read_everything(store) == before
    await writer.expect_refusal(LeaseLost, fencing_token="token-1")
    await writer.commit(fencing_token="token-2")


async def a_claim_that_is_given_up_is_queued_without_a_charge(store: Store) -> None:
    """A process that goes down in order leaves its open run to the next one."""
    await Writer(store).commit(run=run(), **claim_fields())
    made = await store.give_up_claim(THREAD, "token-f")
    assert made is not None
    assert (made.dispatch_id, made.run_id, made.attempt_count) == ("recovered:token-f", RUN, 0)
    assert made.request.continue_run_id == RUN
    assert await claim_ids(store) == ["recovered:token-f"]


async def a_dispatch_whose_claim_is_given_up_is_not_charged(store: Store) -> None:
    """It is queued again at its place."""
    await queue(store, "d-1", "d-2")
    await claim(store)
    back = await store.give_up_claim(THREAD, "token-1")
    assert back is not None
    assert (back.dispatch_id, back.status, back.attempt_count) == ("d-1", QUEUED, 0)
    assert await claim_ids(store) == ["d-1"]


async def a_claim_with_nothing_to_do_is_given_up_for_good(store: Store) -> None:
    """None is queued, and everybody can write again."""
    writer = Writer(store)
    await writer.commit(run=run(status=WAITING), **claim_fields())
    assert await store.give_up_claim(THREAD, "token-f") is None
    assert await store.count_queued() == 0
    await writer.commit(run=run())


async def only_its_holder_gives_up_a_claim(store: Store) -> None:
    """Stale, missing, or of an unknown thread: refused, and nothing is changed."""
    await Writer(store).commit(run=run(), **claim_fields())
    before = await read_everything(store)
    await refusal(LeaseLost, store.give_up_claim(THREAD, "token-x"))
    await refusal(LeaseLost, store.give_up_claim("thread-9", "token-f"))
    assert await read_everything(store) == before
    await store.give_up_claim(THREAD, "token-f")
    await refusal(LeaseLost, store.give_up_claim(THREAD, "token-f"))


async def a_deleted_thread_ends_its_claim(store: Store) -> None:
    """Its holder loses the lease and cannot bring the thread back."""
    writer = Writer(store)
    await writer.commit(run=run(), **claim_fields(lease_ms=SHORT_MS))
    await store.delete_thread(THREAD)
    assert not (await extend(store, "token-f"))[0].is_held
    for version in (0, 1):
        await writer.expect_refusal(
            LeaseLost, expected_version=version, fencing_token="token-f", commit_id="late"
        )
    assert await store.load_thread(THREAD) is None
    await elapse(store, SHORT_MS)
    assert await store.reclaim() == ()


CHECKS = (
    a_dispatch_whose_lease_ran_out_is_queued_again,
    a_lease_that_lasts_is_left_alone,
    a_worker_that_is_gone_has_its_claims_taken_back_at_once,
    a_reclaim_queues_at_most_its_limit,
    an_open_run_whose_process_died_is_queued,
    a_claim_without_an_executing_run_leaves_nothing,
    a_lease_that_ran_out_is_valid_until_it_is_taken,
    a_replaced_worker_changes_nothing,
    a_claim_that_is_given_up_is_queued_without_a_charge,
    a_dispatch_whose_claim_is_given_up_is_not_charged,
    a_claim_with_nothing_to_do_is_given_up_for_good,
    only_its_holder_gives_up_a_claim,
    a_deleted_thread_ends_its_claim,
)
