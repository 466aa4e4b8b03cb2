"""At every committed prefix each call has one result, or its run works or waits on it."""

import msgspec

from awaken.contracts.errors import InvalidRecord, InvalidTranscript
from awaken.contracts.lifecycle import TicketStatus
from awaken.contracts.messages.content import Image, Text, Thinking, UrlSource
from awaken.contracts.messages.message import (
    Message,
    MessageMetadata,
    Role,
    Sender,
    SenderKind,
    ToolCall,
    Visibility,
)
from awaken.contracts.storage.store import Store
from awaken.contracts.suspension.tickets import Ticket

from .writing import (
    CREATED,
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


async def _leave_at_work(store: Store, *call_ids: str) -> Writer:
    """Leave a run at work on open calls."""
    writer = Writer(store)
    await writer.commit(
        messages=(build_user_message("m-1"), build_call_message("m-2", *call_ids)), run=run()
    )
    return writer


async def results_come_together_or_one_by_one(store: Store) -> None:
    """Any order, any grouping; the run ends when all are there."""
    writer = await _leave_at_work(store, "c-1", "c-2", "c-3")
    await writer.commit(messages=(build_result_message("m-3", "c-3"),))
    await writer.commit(
        messages=(
            build_result_message("m-4", "c-1"),
            build_result_message("m-5", "c-2"),
            build_user_message("m-6"),
        )
    )
    await writer.commit(run=run(status=DONE))
    seen = await store.checkout(THREAD)
    assert seen is not None
    assert [m.tool_call_id for m in seen.messages[2:5]] == ["c-3", "c-1", "c-2"]


async def a_whole_turn_may_share_a_commit(store: Store) -> None:
    """Calls may be asked for and answered in one commit, several turns in a row."""
    turn_one = (
        build_call_message("m-2", "c-1", "c-2"),
        build_result_message("m-3", "c-2"),
        build_result_message("m-4", "c-1"),
    )
    turn_two = (build_call_message("m-5", "c-3"), build_result_message("m-6", "c-3"))
    messages = (build_user_message("m-1"), *turn_one, *turn_two, build_user_message("m-7"))
    await Writer(store).commit(messages=messages, run=run(status=DONE))
    seen = await store.checkout(THREAD)
    assert seen is not None
    assert seen.messages == messages


async def a_result_without_a_call_is_refused(store: Store) -> None:
    """No call asked for it: before any call, for another id, without an id."""
    for call_id in ("c-1", "", None):
        await Writer(store).expect_refusal(
            InvalidTranscript, messages=(build_result_message("m", call_id),)
        )
    writer = await _leave_at_work(store, "c-1")
    for call_id in ("c-2", "", None):
        error = await writer.expect_refusal(
            InvalidTranscript, messages=(build_result_message("m", call_id),)
        )
        assert error.thread_id == THREAD


async def a_second_result_is_refused(store: Store) -> None:
    """In the same commit or a later one."""
    writer = await _leave_at_work(store, "c-1", "c-2")
    twice = (build_result_message("m-3", "c-1"), build_result_message("m-4", "c-1"))
    await writer.expect_refusal(InvalidTranscript, messages=twice)
    await writer.commit(messages=(build_result_message("m-3", "c-1"),))
    await writer.expect_refusal(InvalidTranscript, messages=(build_result_message("m-4", "c-1"),))
    turn = (
        build_result_message("m-4", "c-2"),
        build_call_message("m-5", "c-3"),
        build_result_message("m-6", "c-3"),
    )
    again = (*turn, build_result_message("m-7", "c-3"))
    await writer.expect_refusal(InvalidTranscript, messages=again)
    await writer.commit(messages=turn)


async def only_results_follow_open_calls(store: Store) -> None:
    """For every role, whether the call was opened in this commit or before."""
    writer = await _leave_at_work(store, "c-1", "c-2")
    early = [
        Message(role=Role.USER, id="m-9"),
        Message(role=Role.SYSTEM, id="m-9"),
        Message(role=Role.ASSISTANT, id="m-9"),
        build_call_message("m-9", "c-9"),
    ]
    for message in early:
        await writer.expect_refusal(InvalidTranscript, messages=(message,))
        partly = (build_result_message("m-3", "c-1"), message)
        await writer.expect_refusal(InvalidTranscript, messages=partly)
        fresh = (
            build_result_message("m-3", "c-1"),
            build_result_message("m-4", "c-2"),
            build_call_message("m-5", "c-3"),
            message,
        )
        await writer.expect_refusal(InvalidTranscript, messages=fresh)


async def call_ids_are_unique_in_their_message(store: Store) -> None:
    """Two calls of one message cannot share an id, and each has one."""
    writer = Writer(store)
    await writer.expect_refusal(
        InvalidTranscript, messages=(build_call_message("m-1", "c", "c"),), run=run()
    )
    await writer.expect_refusal(
        InvalidTranscript, messages=(build_call_message("m-1", ""),), run=run()
    )


async def a_call_id_may_come_again_later(store: Store) -> None:
    """Some models count their calls from one in every turn."""
    writer = await _leave_at_work(store, "c-1")
    await writer.commit(
        messages=(build_result_message("m-3", "c-1"), build_call_message("m-4", "c-1"))
    )
    await writer.expect_refusal(InvalidTranscript, run=run(status=DONE))
    await writer.commit(messages=(build_result_message("m-5", "c-1"),), run=run(status=DONE))


async def only_assistants_ask(store: Store) -> None:
    """A call in anybody else's message is refused."""
    for role in (Role.USER, Role.SYSTEM):
        message = build_call_message("m-1", "c-1", role=role)
        await Writer(store).expect_refusal(InvalidTranscript, messages=(message,), run=run())
    writer = await _leave_at_work(store, "c-1")
    calls = (ToolCall(id="c-2", name="search"),)
    result = Message(role=Role.TOOL, id="m-3", tool_call_id="c-1", tool_calls=calls)
    await writer.expect_refusal(InvalidTranscript, messages=(result,))


async def a_run_does_not_end_on_an_open_call(store: Store) -> None:
    """Whether the call is old or new; its result may come with the end."""
    new = (build_user_message("m-1"), build_call_message("m-2", "c-1"))
    await Writer(store).expect_refusal(InvalidTranscript, messages=new, run=run(status=DONE))
    writer = await _leave_at_work(store, "c-1", "c-2")
    await writer.expect_refusal(InvalidTranscript, run=run(status=DONE))
    one = (build_result_message("m-3", "c-1"),)
    await writer.expect_refusal(InvalidTranscript, messages=one, run=run(status=DONE))
    await writer.commit(messages=(*one, build_result_message("m-4", "c-2")), run=run(status=DONE))


async def open_calls_need_a_run_at_work(store: Store) -> None:
    """No run, a run that has not begun, or one that has ended cannot leave a call open."""
    writer = Writer(store)
    await writer.expect_refusal(InvalidTranscript, messages=(build_call_message("m-1", "c-1"),))
    created = run(status=CREATED)
    await writer.expect_refusal(
        InvalidTranscript, messages=(build_call_message("m-1", "c-1"),), run=created
    )
    await writer.commit(run=run(status=DONE))
    await writer.expect_refusal(InvalidTranscript, messages=(build_call_message("m-1", "c-1"),))
    await writer.commit(
        messages=(build_call_message("m-1", "c-1"), build_result_message("m-2", "c-1"))
    )


async def an_old_run_may_be_touched_while_another_works(store: Store) -> None:
    """An edit of an ended run says nothing about the open calls of the open run."""
    writer = Writer(store)
    await writer.commit(run=run("run-0", DONE))
    await writer.commit(messages=(build_call_message("m-1", "c-1"),), run=run())
    await writer.commit(run=run("run-0", DONE, final_output="late"))
    await writer.commit(messages=(build_result_message("m-2", "c-1"),), run=run(status=DONE))


async def a_run_waits_on_calls_that_have_tickets(store: Store) -> None:
    """In the commit that suspends, or with tickets written before."""
    writer = Writer(store)
    tickets = (ticket("t-1", "c-1"), ticket("t-2", "c-2"))
    messages = (build_user_message("m-1"), build_call_message("m-2", "c-1", "c-2"))
    await writer.commit(messages=messages, run=run())
    await writer.commit(tickets=tickets[:1])
    await writer.commit(run=run(status=WAITING), tickets=tickets[1:])
    decided = ticket("t-1", "c-1", TicketStatus.DECIDED)
    await writer.commit(tickets=(decided,))
    await writer.commit(messages=(build_result_message("m-3", "c-2"),))
    seen = await store.checkout(THREAD)
    assert seen is not None
    assert seen.thread.active_run_id is None
    assert seen.tickets == (decided, tickets[1])


async def a_run_does_not_wait_on_a_call_without_a_ticket(store: Store) -> None:
    """Each open call needs its own ticket, not a closed one, not another call's."""
    writer = await _leave_at_work(store, "c-1", "c-2")
    waiting = run(status=WAITING)
    insufficient = (
        (),
        (ticket("t-1", "c-1"),),
        (ticket("t-1", "c-1"), ticket("t-2", "c-3")),
        (ticket("t-1", "c-1"), ticket("t-2", "c-2", TicketStatus.CLOSED)),
    )
    for tickets in insufficient:
        await writer.expect_refusal(InvalidTranscript, run=waiting, tickets=tickets)
    await writer.commit(
        messages=(build_result_message("m-3", "c-2"),), run=waiting, tickets=insufficient[1]
    )


async def a_waiting_call_keeps_its_ticket_until_it_is_answered(store: Store) -> None:
    """Closing a ticket and leaving its call open is refused; with the result it is fine."""
    writer = await suspend_run(store, "c-1")
    closed = ticket("ticket-c-1", "c-1", TicketStatus.CLOSED, closed_because="cancelled")
    await writer.expect_refusal(InvalidTranscript, tickets=(closed,))
    await writer.commit(tickets=(closed,), messages=(build_result_message("m-3", "c-1"),))


async def a_new_ticket_may_replace_a_closed_one(store: Store) -> None:
    """Of several tickets for one call one must be left, whichever."""
    first, second, third = (ticket(name, "c-1") for name in ("ticket-c-1", "t-2", "t-3"))
    writer = await suspend_run(store, "c-1")
    await writer.commit(tickets=(second,))
    await writer.commit(tickets=(_close_ticket(second), third))
    await writer.commit(tickets=(_close_ticket(third),))
    await writer.expect_refusal(InvalidTranscript, tickets=(_close_ticket(first),))


def _close_ticket(old: Ticket) -> Ticket:
    return msgspec.structs.replace(old, status=TicketStatus.CLOSED)


async def an_old_ticket_does_not_cover_a_new_call(store: Store) -> None:
    """The same call id in a later turn needs a ticket of its own."""
    writer = await suspend_run(store, "c-1")
    decided = ticket("ticket-c-1", "c-1", TicketStatus.DECIDED)
    await writer.commit(tickets=(decided,), run=run())
    await writer.commit(
        messages=(build_result_message("m-3", "c-1"), build_call_message("m-4", "c-1"))
    )
    await writer.expect_refusal(InvalidTranscript, run=run(status=WAITING))
    await writer.commit(run=run(status=WAITING), tickets=(ticket("t-2", "c-1"),))


async def a_message_needs_an_id_of_its_own(store: Store) -> None:
    """Absent, blank or used twice is refused; another thread may use it."""
    writer = Writer(store)
    await writer.commit(messages=(build_user_message("m-1"), build_user_message("m-2")))
    for messages in (
        (build_user_message(None),),
        (build_user_message(""),),
        (build_user_message("m-1"),),
        (build_user_message("m-3"), build_user_message("m-2")),
        (build_user_message("m-3"), build_user_message("m-3")),
        (build_user_message("m-3"), build_user_message(None)),
    ):
        await writer.expect_refusal(InvalidRecord, messages=messages)
    await Writer(store, "thread-2").commit(messages=(build_user_message("m-1"),))


async def messages_come_back_as_they_were(store: Store) -> None:
    """Every field and block, nothing added."""
    sender = Sender(kind=SenderKind.TASK, thread_id="t-1", task_id="run-9", is_end=True)
    arguments = {"q": "näme", "deep": [1, {"a": None}], "flag": True, "x": 1.5}
    messages = (
        build_user_message("m-1", "", visibility=Visibility.INTERNAL, sender=sender),
        Message(
            role=Role.ASSISTANT,
            id="m-2",
            content=(Thinking(thinking="hm", signature="s"), Text(text="\n🦜")),
            tool_calls=(ToolCall(id="c-1", name="search", arguments=arguments),),
            metadata=MessageMetadata(run_id="run-1", step_index=3),
        ),
        build_result_message("m-3", "c-1"),
        Message(role=Role.SYSTEM, id="m-4", content=(Image(source=UrlSource(url="http://x")),)),
    )
    await Writer(store).commit(messages=messages)
    seen = await store.checkout(THREAD)
    assert seen is not None
    assert seen.messages == messages


async def every_prefix_of_a_long_run_is_valid(store: Store) -> None:
    """After each commit the open calls are exactly those that the run works or waits on."""
    writer = Writer(store)
    await writer.commit(messages=(build_user_message("start"),), run=run())
    for turn in range(12):
        calls = [f"c-{turn}-{number}" for number in range(turn % 4)]
        await writer.commit(messages=(build_call_message(f"ask-{turn}", *calls),))
        assert await _open_calls(store) == set(calls)
        for number, call in enumerate(reversed(calls)):
            await writer.commit(messages=(build_result_message(f"answer-{turn}-{number}", call),))
            assert await _open_calls(store) == set(calls[: len(calls) - number - 1])
    await writer.commit(run=run(status=DONE))


async def _open_calls(store: Store) -> set[str]:
    """Read the transcript from the start, as the model would."""
    seen = await store.checkout(THREAD)
    assert seen is not None
    unanswered: set[str] = set()
    for message in seen.messages:
        if message.role is Role.TOOL:
            assert message.tool_call_id in unanswered
            unanswered.remove(message.tool_call_id)
        else:
            assert not unanswered
            unanswered.update(call.id for call in message.tool_calls or ())
    return unanswered


CHECKS = (
    results_come_together_or_one_by_one,
    a_whole_turn_may_share_a_commit,
    a_result_without_a_call_is_refused,
    a_second_result_is_refused,
    only_results_follow_open_calls,
    call_ids_are_unique_in_their_message,
    a_call_id_may_come_again_later,
    only_assistants_ask,
    a_run_does_not_end_on_an_open_call,
    open_calls_need_a_run_at_work,
    an_old_run_may_be_touched_while_another_works,
    a_run_waits_on_calls_that_have_tickets,
    a_run_does_not_wait_on_a_call_without_a_ticket,
    a_waiting_call_keeps_its_ticket_until_it_is_answered,
    a_new_ticket_may_replace_a_closed_one,
    an_old_ticket_does_not_cover_a_new_call,
    a_message_needs_an_id_of_its_own,
    messages_come_back_as_they_were,
    every_prefix_of_a_long_run_is_valid,
)
