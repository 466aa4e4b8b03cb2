"""Messages that name their reader: held by a run that waits and must not read them."""

from typing import Any

from awaken.contracts.messages.message import Sender, SenderKind
from awaken.contracts.runs.records import RunRequest, Waiting, WaitingReason
from awaken.contracts.storage.dispatch import DispatchStatus, InputMode, Release, RunDispatch
from awaken.contracts.storage.store import Store

from .writing import (
    DONE,
    LONG_MS,
    RUN,
    THREAD,
    WAITING,
    Writer,
    build_cancelled_record,
    build_user_message,
    claim,
    claim_fields,
    claim_ids,
    dispatch,
    find,
    queue,
    run,
)

WRITER = Sender(kind=SenderKind.AGENT, agent_id="writer", thread_id="elsewhere")
FOR_TASKS = Waiting(reason=WaitingReason.BACKGROUND_TASKS)


async def a_run_that_waits_holds_what_names_another_reader(store: Store) -> None:
    """Others pass it; when the run is ended by force, all of it is claimed, in its order."""
    writer = await _leave_waiting(store)
    await _queue_message(store, "d-1", reader="other")
    await _queue_message(store, "d-2", reader="other")
    assert await claim_ids(store) == []
    await _queue_message(store, "d-3")
    await queue(store, "d-4")
    for name in ("d-4", "d-3"):
        assert await claim_ids(store) == [name]
        await store.release(name, "token-n")
    assert await claim_ids(store) == []
    await writer.commit(run=build_cancelled_record())
    for name in ("d-1", "d-2"):
        assert await claim_ids(store) == [name]
        await store.release(name, "token-n")


async def a_run_that_waits_for_a_decision_holds_also_what_names_its_agent(store: Store) -> None:
    """The call that is decided may hand the thread over before the agent reads it."""
    await _leave_waiting(store)
    await _queue_message(store, "d-1", reader="agent")
    assert await claim_ids(store) == []
    assert (await find(store, "d-1")).status is DispatchStatus.QUEUED


async def a_run_that_waits_for_its_tasks_reads_what_names_its_agent(store: Store) -> None:
    """And nothing that names another one, also after a handoff."""
    await _leave_waiting(store, waiting=FOR_TASKS, active_agent_id="second")
    await _queue_message(store, "d-1", reader="agent")
    await _queue_message(store, "d-2", reader="second")
    assert await claim_ids(store) == ["d-2"]


async def what_was_held_is_claimed_after_the_claim_under_which_the_run_ends(store: Store) -> None:
    """It stays queued through every claim under which the run executes."""
    writer = Writer(store)
    await writer.commit(run=run(), **claim_fields())
    await _queue_message(store, "d-1", reader="other")
    await writer.commit(run=run(status=WAITING), fencing_token="token-f", release=Release())
    assert await claim_ids(store) == []
    request = RunRequest(thread_id=THREAD, continue_run_id=RUN)
    await queue(store, "r-1", run_id=RUN, mode=InputMode.RESUME, request=request)
    assert (await claim(store)).dispatch_id == "r-1"
    await writer.commit(run=run(), fencing_token="token-1")
    listed = await store.list_inputs(THREAD)
    assert [it.dispatch_id for it in listed] == ["d-1"]
    await writer.commit(run=run(status=DONE), fencing_token="token-1", release=Release())
    assert await claim_ids(store) == ["d-1"]


async def what_is_held_is_no_work_for_the_agent_that_it_names(store: Store) -> None:
    """A worker that has only that agent finds nothing, and nothing else is held up by it."""
    await _leave_waiting(store)
    await _queue_message(store, "d-1", reader="other")
    await queue(store, "e-1", thread_id="thread-2")
    taken = await store.claim("worker", "token-1", LONG_MS, limit=9, agents=("other", "agent"))
    assert [it.dispatch_id for it in taken] == ["e-1"]


async def _leave_waiting(store: Store, **fields: Any) -> Writer:
    """Leave a run of the agent waiting."""
    writer = Writer(store)
    await writer.commit(run=run())
    await writer.commit(run=run(status=WAITING, **fields))
    return writer


async def _queue_message(
    store: Store, name: str, reader: str | None = None, **fields: Any
) -> RunDispatch:
    """Queue what another agent has written, for one reader or for the agent of the thread."""
    message = build_user_message(f"m-of-{name}", sender=WRITER)
    request = RunRequest(thread_id=THREAD, agent_id=reader, messages=(message,))
    sent = dispatch(name, request=request, mode=InputMode.STEER, priority=255, **fields)
    return await store.enqueue(sent)


CHECKS = (
    a_run_that_waits_holds_what_names_another_reader,
    a_run_that_waits_for_a_decision_holds_also_what_names_its_agent,
    a_run_that_waits_for_its_tasks_reads_what_names_its_agent,
    what_was_held_is_claimed_after_the_claim_under_which_the_run_ends,
    what_is_held_is_no_work_for_the_agent_that_it_names,
)
