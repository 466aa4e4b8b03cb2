"""Cancelling what executes elsewhere, and dropping what waits."""

import msgspec

from awaken.contracts.errors import AlreadyExists, DedupeConflict, InvalidRecord
from awaken.contracts.lifecycle import Cancelled, Failed, NaturalEnd
from awaken.contracts.messages.message import Sender, SenderKind
from awaken.contracts.runs.records import RunRequest
from awaken.contracts.storage.dispatch import DispatchStatus, InputMode, Release
from awaken.contracts.storage.store import CancelWanted, Store

from .writing import (
    DONE,
    QUEUED,
    SHORT_MS,
    THREAD,
    WAITING,
    Writer,
    build_cancelled_record,
    build_user_message,
    claim,
    claim_fields,
    claim_ids,
    dispatch,
    elapse,
    extend,
    find,
    queue,
    read_everything,
    refusal,
    run,
)


async def a_holder_learns_that_a_cancel_is_wanted(store: Store) -> None:
    """With its cause, at the next extension, and in the record."""
    await queue(store, "d-1")
    await claim(store)
    assert await store.request_cancel(THREAD, "user")
    assert (await extend(store, "token-1"))[0].cancel_cause == "user"
    assert (await find(store, "d-1")).cancel_cause == "user"


async def a_cancel_reaches_a_run_that_took_its_thread(store: Store) -> None:
    """Also without a dispatch, and after a crash the next claimer has it."""
    await Writer(store).commit(run=run(), **claim_fields(lease_ms=SHORT_MS))
    assert await store.request_cancel(THREAD, "user")
    assert (await extend(store, "token-f", lease_ms=1))[0].cancel_cause == "user"
    await elapse(store, SHORT_MS)
    (made,) = await store.reclaim()
    assert made.cancel_cause == "user"
    assert (await claim(store)).cancel_cause == "user"
    assert (await extend(store, "token-1"))[0].cancel_cause == "user"


async def the_first_cause_of_a_cancel_stays(store: Store) -> None:
    """A later request changes nothing."""
    await queue(store, "d-1")
    await claim(store)
    assert await store.request_cancel(THREAD, "first")
    assert await store.request_cancel(THREAD, "second")
    assert (await extend(store, "token-1"))[0].cancel_cause == "first"
    assert (await find(store, "d-1")).cancel_cause == "first"


async def a_wanted_cancel_outlives_its_claim(store: Store) -> None:
    """Requeued or reclaimed: the next claimer of the dispatch sees the request."""
    await queue(store, "d-1")
    await claim(store)
    await store.request_cancel(THREAD, "user")
    assert (await store.requeue("d-1", "token-1")).cancel_cause == "user"
    assert (await claim(store, SHORT_MS)).cancel_cause == "user"
    await elapse(store, SHORT_MS)
    assert (await store.reclaim())[0].cancel_cause == "user"
    assert (await claim(store)).cancel_cause == "user"


async def a_run_that_waits_before_it_hears_of_its_cancel_is_ended(store: Store) -> None:
    """Its commit queues what ends it; one that has ended needs nothing."""
    for status in (WAITING, DONE):
        writer, token = Writer(store, f"thread-{status}"), f"token-{status}"
        run_id, thread_id = f"run-{status}", writer.thread_id
        await writer.commit(run=run(run_id, thread_id=thread_id), **claim_fields(token))
        assert await store.request_cancel(thread_id, "user")
        ended = Cancelled(cause="user") if status is DONE else None
        last = run(run_id, status, thread_id=thread_id, termination=ended)
        await writer.commit(run=last, fencing_token=token, release=Release())
    assert (await claim(store)).cancel_cause == "user"
    assert (await find(store, f"recovered:token-{WAITING}")).run_id == f"run-{WAITING}"
    assert await claim_ids(store) == []


async def where_nothing_is_claimed_nobody_can_be_asked(store: Store) -> None:
    """False, for a free thread and an unknown one; what is queued is not concerned."""
    await queue(store, "d-1")
    assert not await store.request_cancel(THREAD, "user")
    assert not await store.request_cancel("thread-9", "user")
    assert (await claim(store)).cancel_cause is None


async def a_cancel_concerns_one_thread(store: Store) -> None:
    """Claims on other threads go on."""
    await queue(store, "d-1")
    await queue(store, "e-1", thread_id="thread-2")
    await claim(store, token="a")
    await claim(store, token="b")
    await store.request_cancel(THREAD, "user")
    assert [report.cancel_cause for report in await extend(store, "a", "b")] == ["user", None]


async def an_interrupt_drops_what_is_queued(store: Store) -> None:
    """Superseded and returned, in order; other threads keep theirs."""
    await queue(store, "d-1", "d-2")
    await queue(store, "e-1", thread_id="thread-2")
    done = await store.interrupt(THREAD, "user")
    assert [found.dispatch_id for found in done.superseded] == ["d-1", "d-2"]
    assert {found.status for found in done.superseded} == {DispatchStatus.SUPERSEDED}
    assert all(found.completed_at is not None for found in done.superseded)
    assert (done.epoch, done.has_claim) == (1, False)
    assert await find(store, "d-1") == done.superseded[0]
    assert await claim_ids(store, limit=5) == ["e-1"]
    assert await store.count_queued() == 0


async def an_interrupt_leaves_news_alone(store: Store) -> None:
    """A message of a task or of another agent was promised delivery; it is still taken in."""
    update = msgspec.structs.replace(
        build_user_message("m-1"), sender=Sender(kind=SenderKind.TASK, task_id="t")
    )
    request = RunRequest(thread_id=THREAD, messages=(update,))
    await queue(store, "d-1")
    await store.enqueue(dispatch("n-1", mode=InputMode.STEER, request=request, priority=255))
    done = await store.interrupt(THREAD, "user", dispatch("d-2"))
    assert [found.dispatch_id for found in done.superseded] == ["d-1"]
    assert (await claim(store)).dispatch_id == "d-2"
    assert [found.dispatch_id for found in await store.list_inputs(THREAD)] == ["n-1"]
    await store.release("d-2", "token-1")
    assert await claim_ids(store) == ["n-1"]


async def an_interrupt_queues_what_comes_instead(store: Store) -> None:
    """In the new epoch, so that it survives."""
    await queue(store, "d-1")
    done = await store.interrupt(THREAD, "user", dispatch("d-2", mode=InputMode.INTERRUPT))
    assert [found.dispatch_id for found in done.superseded] == ["d-1"]
    fresh = await find(store, "d-2")
    assert (fresh.status, fresh.dispatch_epoch) == (QUEUED, done.epoch)
    assert await claim_ids(store) == ["d-2"]


async def an_interrupt_creates_its_thread(store: Store) -> None:
    """Input to a thread that does not exist begins it, however it comes."""
    await store.interrupt(THREAD, "user", dispatch("d-1"))
    assert await store.load_thread(THREAD) is not None
    assert await claim_ids(store) == ["d-1"]


async def every_interrupt_raises_the_epoch(store: Store) -> None:
    """By one; what is queued afterwards is of the new epoch."""
    for epoch in (1, 2, 3):
        assert (await store.interrupt(THREAD, "user")).epoch == epoch
    (fresh,) = await queue(store, "d-1")
    assert fresh.dispatch_epoch == 3
    assert await claim_ids(store) == ["d-1"]


async def an_interrupt_asks_what_executes_to_cancel(store: Store) -> None:
    """The claim stays with its holder, who learns the cause."""
    await queue(store, "d-1", "d-2")
    await claim(store)
    done = await store.interrupt(THREAD, "user", dispatch("d-3"))
    assert done.has_claim
    assert [found.dispatch_id for found in done.superseded] == ["d-2"]
    assert (await extend(store, "token-1"))[0].cancel_cause == "user"
    assert await claim_ids(store) == []
    await store.release("d-1", "token-1")
    assert await claim_ids(store) == ["d-3"]


async def an_interrupt_drops_input_for_what_executes(store: Store) -> None:
    """The run is ended by its holder, so that nothing has to come back for it."""
    await queue(store, "d-1", run_id="run-1")
    await claim(store)
    await Writer(store).commit(run=run("run-1"), fencing_token="token-1")
    await queue(store, "r-1", run_id="run-1", mode=InputMode.RESUME)
    done = await store.interrupt(THREAD, "user")
    assert [found.dispatch_id for found in done.superseded] == ["r-1"]


async def an_interrupt_sent_again_does_its_work_once(store: Store) -> None:
    """It would drop what it queued the first time."""
    first = await store.interrupt(THREAD, "user", dispatch("d-1"))
    before = await read_everything(store)
    again = await store.interrupt(THREAD, "user", dispatch("d-1"))
    assert (again.epoch, again.superseded) == (first.epoch, ())
    assert await read_everything(store) == before


async def an_interrupt_that_is_refused_drops_nothing(store: Store) -> None:
    """Preconditions come before what cannot be undone."""
    await queue(store, "d-1", dedupe_key="key")
    await queue(store, "e-1", thread_id="thread-2")
    before = await read_everything(store)
    other_key = dispatch("d-2", dedupe_key="key")
    await refusal(DedupeConflict, store.interrupt(THREAD, "user", other_key))
    await refusal(AlreadyExists, store.interrupt(THREAD, "user", dispatch("e-1")))
    elsewhere = dispatch("d-3", "thread-2")
    await refusal(InvalidRecord, store.interrupt(THREAD, "user", elsewhere))
    await refusal(InvalidRecord, store.interrupt(THREAD, "user", dispatch(" ")))
    assert await read_everything(store) == before
    assert (await store.interrupt(THREAD, "user")).epoch == 1


async def what_was_claimed_before_an_interrupt_is_not_executed_again(store: Store) -> None:
    """Given back afterwards it is superseded, as if it had been queued."""
    await queue(store, "d-1")
    await claim(store)
    await store.interrupt(THREAD, "user", dispatch("d-2"))
    await store.requeue("d-1", "token-1")
    assert await claim_ids(store, limit=5) == ["d-2"]
    over = await find(store, "d-1")
    assert (over.status, over.attempt_count) == (DispatchStatus.SUPERSEDED, 1)


async def what_was_interrupted_cannot_be_claimed_by_its_id(store: Store) -> None:
    """It is superseded instead."""
    await queue(store, "d-1")
    await claim(store)
    await store.interrupt(THREAD, "user")
    await store.requeue("d-1", "token-1")
    assert await store.claim_dispatch("d-1", "worker", "token-2", SHORT_MS) is None
    assert (await find(store, "d-1")).status is DispatchStatus.SUPERSEDED


async def input_that_is_interrupted_is_not_taken_in(store: Store) -> None:
    """Given back afterwards, it is no input for the next executor."""
    await queue(store, "s-1", mode=InputMode.STEER)
    await claim(store)
    await store.interrupt(THREAD, "user", dispatch("d-2", priority=0))
    await store.requeue("s-1", "token-1")
    assert (await claim(store)).dispatch_id == "d-2"
    assert await store.list_inputs(THREAD) == ()


async def an_interrupted_run_is_ended_after_a_crash(store: Store) -> None:
    """Its dispatch comes back although it is of an older epoch, or the run would stay open."""
    await queue(store, "d-1", run_id="run-1")
    await claim(store, SHORT_MS)
    writer = Writer(store)
    await writer.commit(run=run("run-1"), fencing_token="token-1")
    await store.interrupt(THREAD, "user", dispatch("d-2"))
    await elapse(store, SHORT_MS)
    await store.reclaim()
    taken = await claim(store)
    assert (taken.dispatch_id, taken.cancel_cause) == ("d-1", "user")
    await writer.commit(run=build_cancelled_record("run-1"), fencing_token="token-1")
    await store.release("d-1", "token-1")
    assert await claim_ids(store) == ["d-2"]


async def an_interrupt_between_two_attempts_ends_the_run(store: Store) -> None:
    """What goes on with an open run is not dropped: it is due at once, to be cancelled."""
    await queue(store, "d-1", run_id="run-1")
    await claim(store)
    await Writer(store).commit(run=run("run-1"), fencing_token="token-1")
    await store.requeue("d-1", "token-1", delay_ms=60_000)
    await queue(store, "d-2")
    done = await store.interrupt(THREAD, "user", dispatch("d-3"))
    assert [found.dispatch_id for found in done.superseded] == ["d-2"]
    taken = await claim(store)
    assert (taken.dispatch_id, taken.cancel_cause) == ("d-1", "user")


async def an_interrupt_leaves_a_waiting_run_to_its_caller(store: Store) -> None:
    """What would resume it is dropped; the run itself is ended by a commit."""
    await Writer(store).commit(run=run("run-1", WAITING))
    await queue(store, "r-1", run_id="run-1", mode=InputMode.RESUME)
    done = await store.interrupt(THREAD, "user", dispatch("d-1"))
    assert [found.dispatch_id for found in done.superseded] == ["r-1"]
    assert not done.has_claim
    seen = await store.checkout(THREAD)
    assert seen is not None
    assert seen.open_run == run("run-1", WAITING)


async def only_the_run_that_is_meant_is_cancelled(store: Store) -> None:
    """One that came to the thread meanwhile goes on."""
    await queue(store, "d-1", run_id="run-1")
    await claim(store)
    assert not await store.request_cancel(THREAD, "user", "run-9")
    assert not (await extend(store, "token-1"))[0].cancel_cause
    assert await store.request_cancel(THREAD, "user", "run-1")
    assert (await extend(store, "token-1"))[0].cancel_cause == "user"
    assert (await find(store, "d-1")).cancel_cause == "user"


async def a_cancel_of_a_run_that_is_recovered_first_is_not_the_next_ones(store: Store) -> None:
    """The claim is that of another dispatch, which goes on when the recovered run has ended."""
    writer = Writer(store)
    await writer.commit(run=run("run-0"))
    await queue(store, "d-1", run_id="run-1")
    await claim(store)
    assert await store.request_cancel(THREAD, "user", "run-0")
    assert (await find(store, "d-1")).cancel_cause is None
    await writer.commit(run=build_cancelled_record("run-0"), fencing_token="token-1")
    assert not (await extend(store, "token-1"))[0].cancel_cause


async def a_run_that_is_to_be_cancelled_ends_so_or_not_at_all(store: Store) -> None:
    """A caller that got the answer "cancelled" can rely on it."""
    writer = Writer(store)
    await writer.commit(run=run(), **claim_fields())
    assert await store.request_cancel(THREAD, "user")
    parts = {"fencing_token": "token-f", "release": Release()}
    for termination in (None, NaturalEnd(), Failed(message="no")):
        natural = run(status=DONE, termination=termination)
        error = await writer.expect_refusal(CancelWanted, run=natural, **parts)
        assert (error.run_id, error.cause) == ("run-1", "user")
    await writer.commit(run=build_cancelled_record(), **parts)
    await writer.commit(run=run("run-2"), **claim_fields("token-2"))
    await writer.commit(run=run("run-2", DONE), fencing_token="token-2", release=Release())


async def a_cancel_of_what_comes_next_is_not_the_recovered_ones(store: Store) -> None:
    """It gets the request when its own turn has come."""
    writer = Writer(store)
    await writer.commit(run=run("run-0"))
    await queue(store, "d-1", run_id="run-1")
    await claim(store)
    assert await store.request_cancel(THREAD, "user", "run-1")
    assert not (await extend(store, "token-1"))[0].cancel_cause
    await writer.commit(run=run("run-0", DONE), fencing_token="token-1")
    assert (await extend(store, "token-1"))[0].cancel_cause == "user"


CHECKS = (
    a_run_that_is_to_be_cancelled_ends_so_or_not_at_all,
    a_cancel_of_what_comes_next_is_not_the_recovered_ones,
    only_the_run_that_is_meant_is_cancelled,
    a_cancel_of_a_run_that_is_recovered_first_is_not_the_next_ones,
    a_holder_learns_that_a_cancel_is_wanted,
    a_cancel_reaches_a_run_that_took_its_thread,
    the_first_cause_of_a_cancel_stays,
    a_wanted_cancel_outlives_its_claim,
    a_run_that_waits_before_it_hears_of_its_cancel_is_ended,
    where_nothing_is_claimed_nobody_can_be_asked,
    a_cancel_concerns_one_thread,
    an_interrupt_drops_what_is_queued,
    an_interrupt_leaves_news_alone,
    an_interrupt_queues_what_comes_instead,
    an_interrupt_creates_its_thread,
    every_interrupt_raises_the_epoch,
    an_interrupt_asks_what_executes_to_cancel,
    an_interrupt_drops_input_for_what_executes,
    an_interrupt_sent_again_does_its_work_once,
    an_interrupt_that_is_refused_drops_nothing,
    what_was_claimed_before_an_interrupt_is_not_executed_again,
    what_was_interrupted_cannot_be_claimed_by_its_id,
    input_that_is_interrupted_is_not_taken_in,
    an_interrupted_run_is_ended_after_a_crash,
    an_interrupt_between_two_attempts_ends_the_run,
    an_interrupt_leaves_a_waiting_run_to_its_caller,
)
