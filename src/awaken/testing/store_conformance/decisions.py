"""A ticket is decided in one place, independent of the holder of its thread and of the asker."""

import asyncio
from typing import Any

from awaken.contracts.errors import AlreadyDecided, UnknownTicket
from awaken.contracts.lifecycle import TicketStatus
from awaken.contracts.runs.records import RunRequest
from awaken.contracts.storage.dispatch import InputMode, Release, RunDispatch
from awaken.contracts.storage.store import DecidedMeanwhile, Store
from awaken.contracts.suspension.tickets import SUPERSEDED, DecisionAction, ToolCallResume

from .writing import (
    DONE,
    RUN,
    SHORT_MS,
    THREAD,
    WAITING,
    Writer,
    build_call_message,
    build_cancelled_record,
    build_result_message,
    build_user_message,
    claim,
    claim_fields,
    claim_ids,
    dispatch,
    elapse,
    queue,
    read_everything,
    refusal,
    run,
    suspend_run,
    ticket,
)

DECIDED, CLOSED = TicketStatus.DECIDED, TicketStatus.CLOSED
NO = DecisionAction.CANCEL


def yes(decision_id: str = "yes", **fields: Any) -> ToolCallResume:
    """A decision that was stamped."""
    return ToolCallResume(decision_id=decision_id, updated_at=7, **fields)


def then(dispatch_id: str = "r-1", run_id: str = RUN) -> RunDispatch:
    """What lets the run go on."""
    request = RunRequest(thread_id=THREAD, continue_run_id=run_id)
    return dispatch(dispatch_id, run_id=run_id, mode=InputMode.RESUME, request=request)


async def start_elsewhere(store: Store, *call_ids: str, lease_ms: int = 600_000) -> Writer:
    """Leave a run that has tickets in the hands of another process."""
    writer = Writer(store)
    tickets = tuple(ticket(f"ticket-{call_id}", call_id) for call_id in call_ids)
    asks = (build_user_message("m-1"), build_call_message("m-2", *call_ids))
    await writer.commit(
        messages=asks, run=run(), tickets=tickets, **claim_fields(lease_ms=lease_ms)
    )
    return writer


async def a_decision_and_what_it_lets_go_on_are_one_step(store: Store) -> None:
    """The ticket is decided and the dispatch is queued; the thread's version stays."""
    writer = await suspend_run(store, "c-1", "c-2")
    made = await store.decide(THREAD, RUN, [("ticket-c-1", yes())], then())
    assert made is not None
    assert (made.dispatch_id, made.created_at > 0) == ("r-1", True)
    decided = ticket("ticket-c-1", "c-1", DECIDED, decision=yes(), updated_at=7)
    assert await store.find_ticket("ticket-c-1") == decided
    assert [it.ticket_id for it in await store.list_tickets()] == ["ticket-c-2"]
    seen = await store.checkout(THREAD)
    assert seen is not None
    assert decided in seen.tickets
    assert seen.thread.version == writer.version
    assert await claim_ids(store) == ["r-1"]


async def a_ticket_is_decided_although_another_process_has_its_thread(store: Store) -> None:
    """Its holder goes on writing, and finds the decision queued and at the ticket."""
    writer = await start_elsewhere(store, "c-1")
    await store.decide(THREAD, RUN, [("ticket-c-1", yes())], then())
    assert [it.dispatch_id for it in await store.list_inputs(THREAD)] == ["r-1"]
    await writer.commit(run=run(), fencing_token="token-f")
    (known,) = await store.list_run_tickets(THREAD, RUN)
    assert known.decision == yes()
    await writer.commit(absorbed=("r-1",), run=run(), fencing_token="token-f")
    assert await store.count_queued() == 0


async def one_ticket_gets_one_decision(store: Store) -> None:
    """Of many at once one is taken; the same again changes nothing, another one is refused."""
    await start_elsewhere(store, "c-1")
    outcomes = await asyncio.gather(
        *(
            store.decide(THREAD, RUN, [("ticket-c-1", yes(str(number)))], then(f"r-{number}"))
            for number in range(20)
        ),
        return_exceptions=True,
    )
    (taken,) = [it for it in outcomes if isinstance(it, RunDispatch)]
    assert sum(isinstance(it, AlreadyDecided) for it in outcomes) == 19
    before = await read_everything(store)
    known = (await store.list_run_tickets(THREAD, RUN))[0].decision
    assert known is not None
    assert taken.dispatch_id == f"r-{known.decision_id}"
    again = [("ticket-c-1", yes(known.decision_id))]
    assert await store.decide(THREAD, RUN, again, then("again")) is None
    other = [("ticket-c-1", yes(known.decision_id, action=NO))]
    await refusal(AlreadyDecided, store.decide(THREAD, RUN, other, then("other")))
    assert await read_everything(store) == before


async def decisions_are_taken_all_or_none(store: Store) -> None:
    """One that is refused takes the others along, and queues nothing."""
    writer = await suspend_run(store, "c-1", "c-2")
    await Writer(store, "thread-2").commit(run=run("run-2", thread_id="thread-2"))
    before = await read_everything(store)
    first = ("ticket-c-1", yes())
    for wrong, place in (("missing", (THREAD, RUN)), ("ticket-c-2", ("thread-2", "run-2"))):
        work = store.decide(*place, [first, (wrong, yes())], then())
        await refusal(UnknownTicket, work)
    await refusal(UnknownTicket, store.decide("thread-9", RUN, [first], then()))
    await refusal(UnknownTicket, store.decide(THREAD, "run-9", [first], then()))
    assert await read_everything(store) == before
    closed = ticket("ticket-c-2", "c-2", CLOSED, closed_because="error")
    await writer.commit(tickets=(closed,), messages=(build_result_message("m-3", "c-2"),))
    both = [first, ("ticket-c-2", yes())]
    await refusal(AlreadyDecided, store.decide(THREAD, RUN, both, then()))
    assert [it.ticket_id for it in await store.list_tickets()] == ["ticket-c-1"]
    assert await store.count_queued() == 0


async def the_holder_of_a_thread_cannot_decide_otherwise(store: Store) -> None:
    """Its commit is refused; what was decided stays, also when it writes the same again."""
    writer = await start_elsewhere(store, "c-1")
    await store.decide(THREAD, RUN, [("ticket-c-1", yes())], then())
    late = ticket("ticket-c-1", "c-1", DECIDED, decision=yes("no", action=NO))
    await writer.expect_refusal(AlreadyDecided, tickets=(late,), fencing_token="token-f")
    same = ticket("ticket-c-1", "c-1", DECIDED, decision=yes(), updated_at=99)
    await writer.commit(tickets=(same,), fencing_token="token-f")
    found = await store.find_ticket("ticket-c-1")
    assert found is not None
    assert (found.decision, found.updated_at) == (yes(), 7)


async def a_message_does_not_take_the_place_of_a_decision(store: Store) -> None:
    """A writer that had not seen the decision reads again; a run that ends leaves it as it is."""
    writer = await start_elsewhere(store, "c-1")
    await store.decide(THREAD, RUN, [("ticket-c-1", yes())], then())
    answers = (build_result_message("m-3", "c-1"),)
    instead = ticket("ticket-c-1", "c-1", CLOSED, closed_because=SUPERSEDED)
    parts: dict[str, Any] = {"messages": answers, "fencing_token": "token-f"}
    await writer.expect_refusal(DecidedMeanwhile, tickets=(instead,), run=run(), **parts)
    closed = ticket("ticket-c-1", "c-1", CLOSED, closed_because="cancelled")
    await writer.commit(tickets=(closed,), run=run(status=DONE), release=Release(), **parts)
    found = await store.find_ticket("ticket-c-1")
    assert found is not None
    assert (found.status, found.decision) == (DECIDED, yes())
    again = [("ticket-c-1", yes())]
    assert await store.decide(THREAD, RUN, again, then("again")) is None


async def a_run_that_is_to_be_cancelled_takes_no_decisions(store: Store) -> None:
    """The decider gets an error, because the run will never act on it."""
    await start_elsewhere(store, "c-1")
    assert await store.request_cancel(THREAD, "user", RUN)
    work = store.decide(THREAD, RUN, [("ticket-c-1", yes())], then())
    assert (await refusal(AlreadyDecided, work)).status == "closed"
    assert await store.count_queued() == 0


async def decisions_that_were_only_queued_count_as_taken(store: Store) -> None:
    """As earlier versions have left them: queued, or claimed, with their ticket open."""
    await suspend_run(store, "c-1")
    request = RunRequest(thread_id=THREAD, decisions=(("ticket-c-1", yes()),))
    await queue(store, "old", run_id=RUN, mode=InputMode.RESUME, request=request)
    for _ in range(2):
        other = [("ticket-c-1", yes("other"))]
        await refusal(AlreadyDecided, store.decide(THREAD, RUN, other, then()))
        assert await store.decide(THREAD, RUN, [("ticket-c-1", yes())], then()) is None
        await claim_ids(store)


async def a_wanted_cancel_stays_with_a_run_that_waits(store: Store) -> None:
    """However the claim of another dispatch ends, the next claimer gets it, until the run ends."""
    for number, how in enumerate(("reclaim", "requeue", "release", "give up")):
        thread_id, run_id = f"thread-{how}", f"run-{how}"
        writer = Writer(store, thread_id)
        await writer.commit(run=run(run_id, WAITING, thread_id=thread_id))
        await queue(store, f"d-{number}", thread_id=thread_id)
        await claim(store, SHORT_MS)
        assert await store.request_cancel(thread_id, "user", run_id)
        if how == "reclaim":
            await elapse(store, SHORT_MS)
            await store.reclaim()
        elif how == "requeue":
            await store.requeue(f"d-{number}", "token-1", delay_ms=60_000)
        elif how == "release":
            await store.release(f"d-{number}", "token-1")
        else:
            await store.give_up_claim(thread_id, "token-1")
        seen = await store.checkout(thread_id)
        assert seen is not None
        assert seen.cancel_cause == "user"
        ended = await claim(store)
        assert (ended.dispatch_id, ended.cancel_cause) == ("recovered:token-1", "user")
        parts = {"fencing_token": "token-1", "release": Release()}
        await writer.commit(run=build_cancelled_record(run_id, thread_id=thread_id), **parts)
        seen = await store.checkout(thread_id)
        assert seen is not None
        assert seen.cancel_cause is None
        await store.interrupt(thread_id, "over")
        await store.purge(await store.now_ms() + 1)


CHECKS = (
    a_decision_and_what_it_lets_go_on_are_one_step,
    a_ticket_is_decided_although_another_process_has_its_thread,
    one_ticket_gets_one_decision,
    decisions_are_taken_all_or_none,
    the_holder_of_a_thread_cannot_decide_otherwise,
    a_message_does_not_take_the_place_of_a_decision,
    a_run_that_is_to_be_cancelled_takes_no_decisions,
    decisions_that_were_only_queued_count_as_taken,
    a_wanted_cancel_stays_with_a_run_that_waits,
)
