"""Dispatches inside commits: they end and begin with the rest of the commit, or not at all."""

from awaken.contracts.errors import (
    AlreadyExists,
    DedupeConflict,
    IllegalTransition,
    InvalidRecord,
    InvalidTranscript,
    LeaseLost,
    ThreadClaimed,
    VersionConflict,
)
from awaken.contracts.storage.dispatch import DispatchStatus, InputMode, Release
from awaken.contracts.storage.mailbox import THREAD_BACKLOG_MAX
from awaken.contracts.storage.store import Store

from .writing import (
    DONE,
    QUEUED,
    RUN,
    THREAD,
    WAITING,
    Writer,
    build_result_message,
    build_user_message,
    claim,
    claim_fields,
    claim_ids,
    dispatch,
    extend,
    find,
    queue,
    read_everything,
    run,
)


async def a_commit_acks_what_it_executed(store: Store) -> None:
    """Outcome and delivery end together; the next dispatch can be claimed."""
    await queue(store, "d-1", "d-2")
    await claim(store)
    writer = Writer(store)
    await writer.commit(run=run(), fencing_token="token-1")
    assert (await find(store, "d-1")).status is DispatchStatus.CLAIMED
    await writer.commit(run=run(status=DONE), fencing_token="token-1", release=Release())
    over = await find(store, "d-1")
    assert (over.status, over.claim_token, over.lease_until) == (DispatchStatus.ACKED, None, None)
    assert over.completed_at is not None
    assert await claim_ids(store) == ["d-2"]


async def a_commit_buries_what_it_executed(store: Store) -> None:
    """The run's forced end and the dead letter, with its error."""
    await queue(store, "d-1")
    await claim(store)
    dead = Release(status=DispatchStatus.DEAD_LETTER, error="five times")
    await Writer(store).commit(run=run(status=DONE), fencing_token="token-1", release=dead)
    over = await find(store, "d-1")
    assert (over.status, over.last_error) == (DispatchStatus.DEAD_LETTER, "five times")


async def a_suspension_holds_nothing(store: Store) -> None:
    """The waiting run has no claim; a decision queues what goes on with it."""
    await queue(store, "d-1")
    await claim(store)
    writer = Writer(store)
    await writer.commit(run=run(status=WAITING), fencing_token="token-1", release=Release())
    resume = dispatch("r-1", run_id=RUN, mode=InputMode.RESUME)
    await writer.commit(enqueued=(resume,))
    assert await claim_ids(store) == ["r-1"]


async def a_release_that_is_no_end_is_refused(store: Store) -> None:
    """The whole commit with it."""
    await queue(store, "d-1")
    await claim(store)
    writer = Writer(store)
    for status in (QUEUED, DispatchStatus.CLAIMED, DispatchStatus.CANCELLED):
        await writer.expect_refusal(
            IllegalTransition,
            messages=(build_user_message("m-1"),),
            fencing_token="token-1",
            release=Release(status=status),
        )
    await writer.commit(fencing_token="token-1", release=Release())


async def a_refused_commit_releases_nothing(store: Store) -> None:
    """A wrong version, a broken transcript, a stale token: claim and dispatches stay."""
    await queue(store, "d-1")
    await claim(store)
    await queue(store, "s-1", mode=InputMode.STEER)
    writer = Writer(store)
    parts = {"release": Release(), "absorbed": ("s-1",), "enqueued": (dispatch("d-2"),)}
    mine = parts | {"fencing_token": "token-1"}
    await writer.expect_refusal(VersionConflict, expected_version=7, **mine)
    await writer.expect_refusal(
        InvalidTranscript, messages=(build_result_message("m-1", "c-1"),), **mine
    )
    await writer.expect_refusal(LeaseLost, fencing_token="token-x", **parts)
    await writer.expect_refusal(ThreadClaimed, **parts)
    assert (await extend(store, "token-1"))[0].is_held
    await writer.commit(**mine)
    statuses = [(await find(store, name)).status for name in ("d-1", "s-1", "d-2")]
    assert statuses == [DispatchStatus.ACKED, DispatchStatus.ACKED, QUEUED]


async def a_retried_commit_delivers_once(store: Store) -> None:
    """The same receipt, although its claim is gone; nothing is queued twice."""
    await queue(store, "d-1")
    await claim(store)
    last = Writer(store).next(
        run=run(status=DONE),
        fencing_token="token-1",
        release=Release(),
        enqueued=(dispatch("d-2"),),
    )
    receipt = await store.commit(last)
    await claim(store, token="token-2")
    before = await read_everything(store)
    assert await store.commit(last) == receipt
    assert await read_everything(store) == before


async def a_retried_claim_is_answered_by_its_receipt(store: Store) -> None:
    """A process that took a thread and is unsure sends the commit again."""
    first = Writer(store).next(run=run(), **claim_fields())
    assert await store.commit(first) == await store.commit(first)
    assert (await extend(store, "token-f"))[0].is_held


async def input_that_was_taken_in_is_acked(store: Store) -> None:
    """By the commit that has it; its sender learns which run took it."""
    await queue(store, "d-1")
    await claim(store)
    await queue(store, "s-1", "s-2", mode=InputMode.STEER)
    writer = Writer(store)
    await writer.commit(
        run=run(), messages=(build_user_message("m-1"),), absorbed=("s-1",), fencing_token="token-1"
    )
    taken = await find(store, "s-1")
    assert (taken.status, taken.taken_by) == (DispatchStatus.ACKED, RUN)
    assert taken.run_id == "run-of-s-1"
    assert taken.completed_at is not None
    assert [found.dispatch_id for found in await store.list_inputs(THREAD)] == ["s-2"]
    found = await store.find_dispatch_of_run("run-of-s-1")
    assert found == taken
    await writer.commit(absorbed=("s-2",), fencing_token="token-1")
    assert (await find(store, "s-2")).taken_by == RUN


async def a_run_without_a_claim_takes_input_in(store: Store) -> None:
    """Where no other process could see a claim, none is held; input is acked all the same."""
    writer = Writer(store)
    await writer.commit(run=run())
    await queue(store, "s-1", mode=InputMode.STEER)
    await writer.commit(messages=(build_user_message("m-1"),), absorbed=("s-1",))
    taken = await find(store, "s-1")
    assert (taken.status, taken.taken_by) == (DispatchStatus.ACKED, RUN)
    assert await claim_ids(store) == []


async def a_message_that_a_waiting_run_takes_in_names_it(store: Store) -> None:
    """So that a caller who waits for the run it was meant for finds the one that goes on."""
    writer = Writer(store)
    await writer.commit(run=run())
    await writer.commit(run=run(status=WAITING))
    await queue(store, "d-1")
    await claim(store)
    await writer.commit(run=run(), fencing_token="token-1")
    assert (await find(store, "d-1")).taken_by == RUN
    await writer.commit(run=run(status=DONE), release=Release(), fencing_token="token-1")
    taken = await find(store, "d-1")
    assert (taken.status, taken.taken_by) == (DispatchStatus.ACKED, RUN)


async def a_message_that_a_waiting_run_takes_in_as_it_ends_names_it(store: Store) -> None:
    """In one commit: it was cancelled in that moment. The message begins no run of its own."""
    writer = Writer(store)
    await writer.commit(run=run())
    await writer.commit(run=run(status=WAITING))
    await queue(store, "d-1")
    await claim(store)
    ended = run(status=DONE, dispatch_id="d-1")
    await writer.commit(run=ended, release=Release(), fencing_token="token-1")
    taken = await find(store, "d-1")
    assert (taken.status, taken.taken_by) == (DispatchStatus.ACKED, RUN)
    await writer.commit(run=run("next"))
    await writer.commit(run=run("next", WAITING))
    await queue(store, "d-2")
    await claim(store, token="token-2")
    # It ends to make room for the run of the message, which is none of its own.
    ended = run("next", DONE, dispatch_id="d-other")
    await writer.commit(run=ended, release=Release(), fencing_token="token-2")
    assert (await find(store, "d-2")).taken_by is None


async def input_that_was_taken_back_meanwhile_stops_no_run(store: Store) -> None:
    """It is in the transcript by then; how it was delivered stays as it is."""
    await queue(store, "d-1")
    await claim(store)
    await queue(store, "s-1", mode=InputMode.STEER)
    await store.cancel_dispatch("s-1")
    writer = Writer(store)
    await writer.commit(run=run(), absorbed=("s-1",), fencing_token="token-1")
    assert (await find(store, "s-1")).status is DispatchStatus.CANCELLED


async def only_queued_input_of_the_thread_is_taken_in(store: Store) -> None:
    """Unknown, claimed, of another thread, or twice: the whole commit is refused."""
    await queue(store, "d-1", "d-2", "d-3")
    await queue(store, "e-1", thread_id="thread-2")
    await claim(store)
    writer = Writer(store)
    for names in (("d-9",), ("d-1",), ("e-1",), ("d-3", "d-9"), ("d-3", "d-3")):
        await writer.expect_refusal(
            InvalidRecord, run=run(), absorbed=names, fencing_token="token-1"
        )
    await writer.commit(run=run(), absorbed=("d-3",), fencing_token="token-1")


async def a_commit_queues_dispatches(store: Store) -> None:
    """For its own thread, in order, stamped as if they had been submitted."""
    await Writer(store).commit(enqueued=(dispatch("d-1"), dispatch("d-2")))
    for name in ("d-1", "d-2"):
        stored = await find(store, name)
        assert stored.status is QUEUED
        assert stored.created_at > 0
    assert await claim_ids(store, limit=5) == ["d-1"]


async def a_commit_queues_nothing_on_another_thread(store: Store) -> None:
    """That is for the outbox: a transaction over two threads could not be divided."""
    await queue(store, "e-0", thread_id="thread-2")
    for other in ("thread-2", "thread-3"):
        await Writer(store).expect_refusal(
            InvalidRecord, enqueued=(dispatch("d-1"), dispatch("e-1", other))
        )
    assert await store.find_dispatch("d-1") is None
    assert await store.load_thread("thread-3") is None


async def what_a_commit_queues_again_is_there_once(store: Store) -> None:
    """The same dispatch, or one with the same dedupe key, before or in the same commit."""
    first = dispatch("d-1", dedupe_key="key", request_hash="h")
    again = dispatch("d-2", dedupe_key="key", request_hash="h")
    writer = Writer(store)
    await store.enqueue(first)
    await writer.commit(enqueued=(first, again))
    other = dispatch("d-3", dedupe_key="other", request_hash="h")
    twin = dispatch("d-4", dedupe_key="other", request_hash="h")
    await writer.commit(enqueued=(other, twin, other))
    assert await store.count_queued() == 2
    assert await store.find_dispatch("d-4") is None


async def a_commit_that_cannot_queue_does_nothing(store: Store) -> None:
    """A used id, a used key, a blank id: all or nothing, for all that it queues."""
    await queue(store, "d-1", dedupe_key="key")
    await queue(store, "e-1", thread_id="thread-2")
    writer = Writer(store)
    fine = dispatch("d-0")
    for error, bad in (
        (AlreadyExists, dispatch("e-1")),
        (DedupeConflict, dispatch("d-2", dedupe_key="key")),
        (InvalidRecord, dispatch(" ")),
        (AlreadyExists, dispatch("d-0", request_hash="other")),
    ):
        await writer.expect_refusal(
            error, messages=(build_user_message("m-1"),), enqueued=(fine, bad)
        )
    twins = (dispatch("d-3", dedupe_key="new"), dispatch("d-4", dedupe_key="new"))
    await writer.expect_refusal(DedupeConflict, enqueued=twins)


async def a_full_thread_still_takes_what_a_commit_owes(store: Store) -> None:
    """A decision on a busy thread must not be refused because others wait there."""
    for number in range(THREAD_BACKLOG_MAX):
        await store.enqueue(dispatch(f"d-{number}"))
    await Writer(store).commit(enqueued=(dispatch("r-1", mode=InputMode.RESUME),))
    assert await store.count_queued() == THREAD_BACKLOG_MAX + 1


CHECKS = (
    a_commit_acks_what_it_executed,
    a_commit_buries_what_it_executed,
    a_suspension_holds_nothing,
    a_release_that_is_no_end_is_refused,
    a_refused_commit_releases_nothing,
    a_retried_commit_delivers_once,
    a_retried_claim_is_answered_by_its_receipt,
    input_that_was_taken_in_is_acked,
    a_run_without_a_claim_takes_input_in,
    a_message_that_a_waiting_run_takes_in_names_it,
    a_message_that_a_waiting_run_takes_in_as_it_ends_names_it,
    input_that_was_taken_back_meanwhile_stops_no_run,
    only_queued_input_of_the_thread_is_taken_in,
    a_commit_queues_dispatches,
    a_commit_queues_nothing_on_another_thread,
    what_a_commit_queues_again_is_there_once,
    a_commit_that_cannot_queue_does_nothing,
    a_full_thread_still_takes_what_a_commit_owes,
)
