"""What must hold in a store after a trial, and at every moment of it."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence

from awaken.contracts.lifecycle import Cancelled, RunStatus
from awaken.contracts.messages.message import Message, Role
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.dispatch import DispatchStatus, RunDispatch
from awaken.contracts.storage.queries import LIMIT_MAX, DispatchQuery, ThreadQuery
from awaken.contracts.storage.store import Commit, Store

from .event_order import check_events
from .transcripts import check_transcript


def prefix_problems(commits: Sequence[Commit]) -> list[str]:
    """Check the transcript of each thread after every commit; calls at work may be open."""
    threads: dict[str, list[Message]] = {}
    for number, commit in enumerate(commits, 1):
        messages = threads.setdefault(commit.thread_id, [])
        messages += commit.messages
        is_over = commit.run is not None and commit.run.status is RunStatus.DONE
        problems = check_transcript(messages, open_calls=() if is_over else open_calls(messages))
        if problems:
            return [f"after commit {number}: {problem}" for problem in problems]
    return []


def open_calls(messages: Sequence[Message]) -> set[str]:
    """The calls of the last answer that have no result."""
    answered: set[str | None] = set()
    for message in reversed(messages):
        if message.role is not Role.TOOL:
            return {call.id for call in message.tool_calls or ()} - answered
        answered.add(message.tool_call_id)
    return set()


async def final_problems(store: Store) -> list[str]:
    """Check what is left when everything has ended or waits."""
    problems = await _delivery_problems(store)
    async for thread in _threads(store):
        problems += await _thread_problems(store, thread)
    return problems


async def _delivery_problems(store: Store) -> list[str]:
    dead = await store.list_dispatches(DispatchQuery(status=DispatchStatus.DEAD_LETTER))
    problems = [f"dispatch '{it.dispatch_id}' is dead: {it.last_error}" for it in dead.items]
    given_up = await store.list_dead_outbox(limit=LIMIT_MAX)
    problems += [f"order '{it.entry_id}' was given up: {it.error}" for it in given_up]
    claimed = await store.list_dispatches(DispatchQuery(status=DispatchStatus.CLAIMED))
    problems += [f"dispatch '{it.dispatch_id}' is still claimed" for it in claimed.items]
    async for dispatch in _list_acked(store):
        problems += await _find_lost_input(store, dispatch)
    return problems


async def _find_lost_input(store: Store, dispatch: RunDispatch) -> list[str]:
    """Messages that were acknowledged and are in no transcript; a cancelled run took none in."""
    run = await store.load_run(dispatch.run_id)
    checkout = await store.checkout(dispatch.thread_id)
    if run is None or checkout is None or isinstance(run.termination, Cancelled):
        return []
    known = {message.id for message in checkout.messages}
    lost = [it.id for it in dispatch.request.messages if it.id not in known]
    return [f"message '{it}' of dispatch '{dispatch.dispatch_id}' is lost" for it in lost]


async def _list_acked(store: Store) -> AsyncIterator[RunDispatch]:
    offset, has_more = 0, True
    while has_more:
        query = DispatchQuery(status=DispatchStatus.ACKED, offset=offset, limit=LIMIT_MAX)
        page = await store.list_dispatches(query)
        for dispatch in page.items:
            yield dispatch
        offset, has_more = offset + len(page.items), page.has_more


async def _thread_problems(store: Store, thread: Thread) -> list[str]:
    checkout = await store.checkout(thread.id)
    assert checkout is not None
    waiting: set[str] = set()
    if checkout.open_run is not None and not checkout.open_run.is_workflow:
        # The calls of a workflow enter the transcript with their results.
        waiting = {ticket.call_id for ticket in checkout.tickets}
    problems = check_transcript(list(checkout.messages), open_calls=waiting)
    ids = Counter(message.id for message in checkout.messages)
    problems += [f"message '{it}' is there {count} times" for it, count in ids.items() if count > 1]
    open_run = checkout.open_run
    if open_run is not None and open_run.status is not RunStatus.WAITING:
        problems.append(f"run '{open_run.run_id}' neither ended nor waits: {open_run.status}")
    problems += await _event_problems(store, thread.id)
    if await store.request_cancel(thread.id, "simulation"):
        problems.append("it is still claimed")
    return [f"thread '{thread.id}': {problem}" for problem in problems]


async def _event_problems(store: Store, thread_id: str) -> list[str]:
    events = list(await store.list_events(thread_id))
    while more := await store.list_events(thread_id, after=events[-1].seq if events else 0):
        events += more
    if not events:
        return []
    numbers = [event.seq for event in events]
    problems = check_events(events)
    if numbers != list(range(1, len(numbers) + 1)):
        problems.append(f"events are not numbered without gaps: {numbers}")
    return problems


async def _threads(store: Store) -> AsyncIterator[Thread]:
    offset, has_more = 0, True
    while has_more:
        page = await store.list_threads(ThreadQuery(offset=offset, limit=LIMIT_MAX))
        for thread in page.items:
            yield thread
        offset, has_more = offset + len(page.items), page.has_more
