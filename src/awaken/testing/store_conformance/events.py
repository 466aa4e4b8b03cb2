"""The event log has one contiguous sequence per thread and tells the same story as the records."""

from typing import Any

from awaken.contracts.errors import InvalidTranscript
from awaken.contracts.events import (
    AgentEvent,
    ErrorEvent,
    InferenceComplete,
    LoggedEvent,
    MessagesSnapshot,
    RunFinish,
    RunStart,
    StateDelta,
    StepEnd,
    StepStart,
    ToolCallDone,
    ToolCallReady,
)
from awaken.contracts.identity import RunIdentity
from awaken.contracts.lifecycle import Failed, NaturalEnd, Suspended, TicketStatus
from awaken.contracts.messages.deltas import ReasoningDelta, TextDelta, ToolCallStart
from awaken.contracts.messages.message import Role
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.storage.queries import MessageQuery
from awaken.contracts.storage.store import Commit, Store
from awaken.contracts.suspension.tickets import ToolCallOutcome
from awaken.contracts.tool_results import ToolResult

from .writing import (
    DONE,
    RUN,
    THREAD,
    WAITING,
    Writer,
    build_call_message,
    build_result_message,
    build_user_message,
    run,
    ticket,
)


async def events_are_numbered_from_one_without_gaps(store: Store) -> None:
    """Per thread, over commits with and without events."""
    first, second = Writer(store), Writer(store, "thread-2")
    for count in (2, 0, 3, 1):
        await first.commit(events=(StepEnd(),) * count)
        await second.commit(events=(StepStart(),) * (count + 1))
    assert [logged.seq for logged in await store.list_events(THREAD)] == [1, 2, 3, 4, 5, 6]
    assert [logged.seq for logged in await store.list_events("thread-2")] == list(range(1, 11))


async def a_refused_commit_leaves_no_gap(store: Store) -> None:
    """A sequence number is used only by an applied commit."""
    writer = Writer(store)
    await writer.commit(events=(StepStart(),))
    orphan = (build_result_message("m-1", "c-1"),)
    await writer.expect_refusal(InvalidTranscript, messages=orphan, events=(StepEnd(),) * 3)
    assert (await writer.commit(events=(StepEnd(),))).event_seq == 2
    assert [logged.seq for logged in await store.list_events(THREAD)] == [1, 2]


async def a_retried_commit_logs_its_events_once(store: Store) -> None:
    """A reader never sees an event twice because its writer was unsure."""
    commit = Writer(store).next(events=(StepStart(), StepEnd()))
    await store.commit(commit)
    await store.commit(commit)
    assert len(await store.list_events(THREAD)) == 2


async def events_are_read_from_a_cursor(store: Store) -> None:
    """After a number, at most so many, whatever commits they came with."""
    writer = Writer(store)
    for group in ((1, 2, 3), (), (4,), (5, 6)):
        await writer.commit(events=tuple(TextDelta(delta=str(number)) for number in group))
    table: tuple[tuple[int, int, list[int]], ...] = (
        (0, 1000, [1, 2, 3, 4, 5, 6]),
        (2, 1000, [3, 4, 5, 6]),
        (3, 1, [4]),
        (1, 3, [2, 3, 4]),
        (5, 1000, [6]),
        (6, 1000, []),
        (99, 1000, []),
        (-5, 2, [1, 2]),
        (0, 0, []),
    )
    for after, limit, expected in table:
        logged = await store.list_events(THREAD, after=after, limit=limit)
        assert [entry.seq for entry in logged] == expected, (after, limit)
        assert [entry.event for entry in logged] == [TextDelta(delta=str(n)) for n in expected]


async def an_event_knows_its_run_and_time(store: Store) -> None:
    """The commit's run, else the thread's open run, else none."""
    writer = Writer(store)
    await writer.commit(events=(StepStart(),))
    await writer.commit(events=(StepStart(),), run=run())
    await writer.commit(events=(StepStart(),))
    await writer.commit(events=(StepStart(),), run=run(status=DONE))
    await writer.commit(events=(StepStart(),))
    logged = await store.list_events(THREAD)
    assert [entry.run_id for entry in logged] == [None, RUN, RUN, RUN, None]
    assert [entry.created_at for entry in logged] == [1000, 2000, 3000, 4000, 5000]


async def events_come_back_as_they_were(store: Store) -> None:
    """Every kind, with nested values."""
    identity = RunIdentity(thread_id=THREAD, run_id=RUN, agent_id="agent")
    result = ToolResult.success("search", {"hits": ["ü", 1.5, None]})
    events: tuple[AgentEvent, ...] = (
        RunStart(thread_id=THREAD, run_id=RUN, identity=identity),
        StepStart(message_id="m-1"),
        ReasoningDelta(delta="hm"),
        TextDelta(delta="🦜\n"),
        ToolCallStart(id="c-1", name="search"),
        ToolCallReady(id="c-1", name="search", arguments={"q": [1]}),
        InferenceComplete(model="m", usage=TokenUsage(prompt_tokens=1), duration_ms=5),
        ToolCallDone(id="c-1", result=result, outcome=ToolCallOutcome.SUCCEEDED),
        StateDelta(delta=[{"op": "add", "path": "/a", "value": 1}]),
        MessagesSnapshot(messages=(build_user_message("m-1"),)),
        StepEnd(),
        RunFinish(
            thread_id=THREAD, run_id=RUN, result={"response": "x"}, termination=Failed(message="no")
        ),
        ErrorEvent(message="bad", code="c"),
    )
    await Writer(store).commit(events=events)
    assert tuple(entry.event for entry in await store.list_events(THREAD)) == events


async def the_folded_log_is_the_projection(store: Store) -> None:
    """At every version the events tell the run pointers and the messages."""
    writer = Writer(store)
    for number in range(3):
        for commit in _script_run(writer, f"run-{number}"):
            writer.version = (await store.commit(commit)).version
            await _check_fold(store)
    assert writer.version == 12


def _script_run(writer: Writer, run_id: str) -> list[Commit]:
    """A run that asks, suspends, goes on and ends, with the events that it would log."""
    of: dict[str, Any] = {"thread_id": THREAD, "run_id": run_id}
    call, decided = f"{run_id}-c", f"{run_id}-t"
    asks, answers = (
        build_call_message(f"{run_id}-m2", call),
        build_result_message(f"{run_id}-m3", call),
    )
    result = ToolResult.success("search", 1)
    parts: list[dict[str, Any]] = [
        {
            "messages": (build_user_message(f"{run_id}-m1"),),
            "run": run(run_id),
            "events": (RunStart(**of),),
        },
        {
            "messages": (asks,),
            "run": run(run_id, WAITING),
            "tickets": (ticket(decided, call, **of),),
            "events": (
                StepStart(message_id=f"{run_id}-m2"),
                RunFinish(**of, termination=Suspended()),
            ),
        },
        {"run": run(run_id), "events": (RunStart(**of),)},
        {
            "messages": (answers,),
            "run": run(run_id, DONE),
            "tickets": (ticket(decided, call, TicketStatus.CLOSED, **of),),
            "events": (
                ToolCallDone(
                    id=call,
                    message_id=f"{run_id}-m3",
                    result=result,
                    outcome=ToolCallOutcome.SUCCEEDED,
                ),
                StepEnd(),
                RunFinish(**of, termination=NaturalEnd()),
            ),
        },
    ]
    start = writer.version
    return [
        writer.next(**part, expected_version=start + at, commit_id=f"{run_id}-{at}")
        for at, part in enumerate(parts)
    ]


async def _check_fold(store: Store) -> None:
    seen = await store.checkout(THREAD)
    assert seen is not None
    active, opened, latest = _fold(await store.list_events(THREAD))
    thread = seen.thread
    assert (thread.active_run_id, thread.open_run_id, thread.latest_run_id) == (
        active,
        opened,
        latest,
    )
    listed = (await store.list_messages(THREAD, MessageQuery(limit=200))).items
    assert tuple(record.message for record in listed) == seen.messages
    assert len(listed) == thread.message_count
    shown = {
        logged.event.message_id
        for logged in await store.list_events(THREAD)
        if isinstance(logged.event, StepStart | ToolCallDone)
    }
    assert shown == {message.id for message in seen.messages if message.role is not Role.USER}


def _fold(log: tuple[LoggedEvent, ...]) -> tuple[str | None, str | None, str | None]:
    active = opened = latest = None
    for logged in log:
        event = logged.event
        if isinstance(event, RunStart):
            active = opened = latest = event.run_id
        elif isinstance(event, RunFinish):
            active = None
            opened = event.run_id if isinstance(event.termination, Suspended) else None
    return active, opened, latest


CHECKS = (
    events_are_numbered_from_one_without_gaps,
    a_refused_commit_leaves_no_gap,
    a_retried_commit_logs_its_events_once,
    events_are_read_from_a_cursor,
    an_event_knows_its_run_and_time,
    events_come_back_as_they_were,
    the_folded_log_is_the_projection,
)
