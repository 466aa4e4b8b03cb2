"""A suspended call is found by its ticket from anywhere, and is decided once."""

from typing import Any

from awaken.contracts.errors import AlreadyDecided, IllegalTransition, InvalidRecord
from awaken.contracts.lifecycle import TICKET_TRANSITIONS, TicketStatus
from awaken.contracts.storage.store import Store
from awaken.contracts.suspension.tickets import (
    DecisionAction,
    ResumeMode,
    Suspension,
    ToolCallResume,
)

from .writing import (
    DONE,
    THREAD,
    WAITING,
    Writer,
    build_call_message,
    build_result_message,
    build_user_message,
    run,
    suspend_run,
    ticket,
)

OPEN, DECIDED, CLOSED = TicketStatus.OPEN, TicketStatus.DECIDED, TicketStatus.CLOSED


async def a_ticket_comes_back_as_it_was(store: Store) -> None:
    """Every field, from any process that knows the id."""
    fields: dict[str, Any] = {
        "arguments": {"path": "/tmp", "deep": [1, None]},
        "resume_mode": ResumeMode.PASS_DECISION_TO_TOOL,
        "suspension": Suspension(id="s-1", action="approve", response_schema={"type": "object"}),
        "expires_at": 99,
        "deciders": ("ann", "bob"),
        "created_at": 5,
        "updated_at": 6,
    }
    await Writer(store).commit(
        messages=(build_call_message("m-1", "c-1"),),
        run=run(status=WAITING),
        tickets=(ticket("t-1", "c-1", **fields),),
    )
    assert await store.find_ticket("t-1") == ticket("t-1", "c-1", **fields)


async def open_tickets_are_listed_oldest_first(store: Store) -> None:
    """Over all threads or for one; ties by id; only open ones."""
    for thread_id, run_id, times in (("a", "run-a", (30, 10)), ("b", "run-b", (20, 10))):
        writer = Writer(store, thread_id)
        await writer.commit(
            messages=(build_call_message("m-1", "c-0", "c-1"),),
            run=run(run_id, thread_id=thread_id),
        )
        tickets = [
            ticket(
                f"{thread_id}-{number}",
                f"c-{number}",
                thread_id=thread_id,
                run_id=run_id,
                created_at=created_at,
            )
            for number, created_at in enumerate(times)
        ]
        await writer.commit(tickets=tuple(tickets))
    everywhere = [found.ticket_id for found in await store.list_tickets()]
    assert everywhere == ["a-1", "b-1", "b-0", "a-0"]
    assert [found.ticket_id for found in await store.list_tickets("a")] == ["a-1", "a-0"]
    assert await store.list_tickets("c") == ()


async def a_decided_ticket_is_found_but_not_listed(store: Store) -> None:
    """No question is asked twice; the decision can still be read."""
    writer = await suspend_run(store, "c-1", "c-2")
    decision = ToolCallResume(
        decision_id="d-1", action=DecisionAction.CANCEL, reason="no", arguments={"q": 2}
    )
    decided = ticket("ticket-c-1", "c-1", DECIDED, decision=decision)
    await writer.commit(tickets=(decided,))
    assert await store.find_ticket("ticket-c-1") == decided
    assert await store.list_tickets() == (ticket("ticket-c-2", "c-2"),)
    closed = ticket("ticket-c-2", "c-2", CLOSED, closed_because="expired")
    await writer.commit(tickets=(closed,), messages=(build_result_message("m-3", "c-2"),))
    assert await store.find_ticket("ticket-c-2") == closed
    assert await store.list_tickets() == ()
    assert await store.list_run_tickets(THREAD, decided.run_id) == (decided, closed)
    assert await store.list_run_tickets(THREAD, "another run") == ()
    assert await store.list_run_tickets("another thread", decided.run_id) == ()


async def a_ticket_makes_only_legal_moves(store: Store) -> None:
    """Every pair of statuses, by the table; a decided ticket is never closed, it stays decided."""
    writer = Writer(store)
    await writer.commit(
        messages=(build_user_message("m-1"), build_call_message("m-2", "c-1")), run=run()
    )
    for old in TicketStatus:
        for new in TicketStatus:
            ticket_id = f"{old}-{new}"
            await writer.commit(tickets=(ticket(ticket_id, "c-1", old),))
            moved = ticket(ticket_id, "c-1", new)
            if (old, new) == (DECIDED, CLOSED):
                await writer.commit(tickets=(moved,))
                assert await store.find_ticket(ticket_id) == ticket(ticket_id, "c-1", DECIDED)
            elif new in TICKET_TRANSITIONS[old]:
                await writer.commit(tickets=(moved,))
                assert await store.find_ticket(ticket_id) == moved
            else:
                await writer.expect_refusal(IllegalTransition, tickets=(moved,))


async def a_decision_is_taken_once(store: Store) -> None:
    """The same decision again is harmless, another one is refused."""
    writer = await suspend_run(store, "c-1")
    first = ticket("ticket-c-1", "c-1", DECIDED, decision=ToolCallResume(decision_id="d-1"))
    await writer.commit(tickets=(first,))
    await writer.commit(tickets=(first,))
    for decision in (
        ToolCallResume(decision_id="d-2"),
        ToolCallResume(decision_id="d-1", action=DecisionAction.CANCEL),
    ):
        other = ticket("ticket-c-1", "c-1", DECIDED, decision=decision)
        error = await writer.expect_refusal(AlreadyDecided, tickets=(other,))
        assert error.ticket_id == "ticket-c-1"


async def a_ticket_has_a_decision_exactly_when_it_is_decided(store: Store) -> None:
    """Open with a decision, or decided without one, is refused."""
    writer = await suspend_run(store, "c-1")
    decision = ToolCallResume(decision_id="d-1")
    for wrong in (
        ticket("ticket-c-1", "c-1", OPEN, decision=decision),
        ticket("ticket-c-1", "c-1", DECIDED, decision=None),
    ):
        await writer.expect_refusal(InvalidRecord, tickets=(wrong,))


async def a_ticket_belongs_to_one_call(store: Store) -> None:
    """It cannot move to another thread, run or call, come twice, or have no id."""
    await Writer(store, "thread-2").commit(run=run("run-2", thread_id="thread-2"))
    writer = await suspend_run(store, "c-1", "c-2")
    wrong = (
        (ticket("ticket-c-1", "c-2"),),
        (ticket("ticket-c-1", "c-1", thread_id="thread-2"),),
        (ticket("t-3", "c-1", run_id="run-2"),),
        (ticket("t-3", "c-1", thread_id="thread-2", run_id="run-2"),),
        (ticket("t-3", "c-1", run_id="missing"),),
        (ticket("t-3", "c-1"), ticket("t-3", "c-1", DECIDED)),
        (ticket("", "c-1"),),
    )
    for tickets in wrong:
        await writer.expect_refusal(InvalidRecord, tickets=tickets)
    other = Writer(store, "thread-2")
    other.version = 1
    stolen = ticket("ticket-c-1", "c-1", thread_id="thread-2", run_id="run-2")
    await other.expect_refusal(InvalidRecord, tickets=(stolen,))


async def an_ended_run_leaves_no_open_ticket(store: Store) -> None:
    """Cancelling a waiting run closes its tickets in the same commit."""
    writer = await suspend_run(store, "c-1", "c-2")
    results = (build_result_message("m-3", "c-1"), build_result_message("m-4", "c-2"))
    end = run(status=DONE)
    closed = (ticket("ticket-c-1", "c-1", CLOSED), ticket("ticket-c-2", "c-2", CLOSED))
    await writer.expect_refusal(InvalidRecord, messages=results, run=end)
    await writer.expect_refusal(InvalidRecord, messages=results, run=end, tickets=closed[:1])
    await writer.commit(messages=results, run=end, tickets=closed)
    assert await store.list_tickets() == ()
    late = (ticket("t-3", "c-1"),)
    await writer.expect_refusal(InvalidRecord, tickets=late)
    await writer.commit(messages=(build_user_message("m-5"),), run=run("run-2"))


async def a_checkout_has_the_tickets_of_the_open_run(store: Store) -> None:
    """Open and decided ones, not closed ones, and none of an earlier run."""
    writer = await suspend_run(store, "c-1", "c-2", "c-3")
    decided = ticket("ticket-c-1", "c-1", DECIDED)
    closed = ticket("ticket-c-2", "c-2", CLOSED)
    await writer.commit(tickets=(decided, closed), messages=(build_result_message("m-3", "c-2"),))
    seen = await store.checkout(THREAD)
    assert seen is not None
    assert {found.ticket_id for found in seen.tickets} == {"ticket-c-1", "ticket-c-3"}
    await writer.commit(
        messages=(build_result_message("m-4", "c-1"), build_result_message("m-5", "c-3")),
        run=run(status=DONE),
        tickets=(ticket("ticket-c-3", "c-3", CLOSED),),
    )
    await writer.commit(run=run("run-2"))
    seen = await store.checkout(THREAD)
    assert seen is not None
    assert seen.tickets == ()


CHECKS = (
    a_ticket_comes_back_as_it_was,
    open_tickets_are_listed_oldest_first,
    a_decided_ticket_is_found_but_not_listed,
    a_ticket_makes_only_legal_moves,
    a_decision_is_taken_once,
    a_ticket_has_a_decision_exactly_when_it_is_decided,
    a_ticket_belongs_to_one_call,
    an_ended_run_leaves_no_open_ticket,
    a_checkout_has_the_tickets_of_the_open_run,
)
