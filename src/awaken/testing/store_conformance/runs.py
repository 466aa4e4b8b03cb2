"""Runs move along their table, one open per thread, and show in their thread's pointers."""

from typing import Any

from awaken.contracts.errors import IllegalTransition, InvalidRecord, ThreadBusy
from awaken.contracts.identity import Adapter, RunMode, RunOrigin
from awaken.contracts.lifecycle import RUN_TRANSITIONS, RunStatus, Stopped, StoppedReason
from awaken.contracts.messages.message import MessageMetadata
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.runs.records import RunInput, RunRequest, Waiting, WaitingReason
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.queries import MessageQuery
from awaken.contracts.storage.store import Store
from awaken.contracts.tasks import TaskFate, TaskInfo

from .writing import (
    CREATED,
    DONE,
    RUN,
    RUNNING,
    THREAD,
    WAITING,
    Writer,
    build_user_message,
    dispatch,
    run,
)


async def a_run_makes_only_legal_moves(store: Store) -> None:
    """Every pair of statuses, by the table and nothing else."""
    for old in RunStatus:
        for new in RunStatus:
            run_id = f"{old}-{new}"
            writer = Writer(store, f"thread-{run_id}")
            at = {"thread_id": writer.thread_id}
            await writer.commit(run=run(run_id, old, **at))
            if new in RUN_TRANSITIONS[old]:
                await writer.commit(run=run(run_id, new, **at))
                continue
            error = await writer.expect_refusal(IllegalTransition, run=run(run_id, new, **at))
            assert (error.old, error.new) == (old, new)


async def a_run_waits_exactly_while_it_says_for_what(store: Store) -> None:
    """Waiting needs its waiting state, every other status has none."""
    writer = Writer(store)
    waiting = Waiting(reason=WaitingReason.USER_INPUT, ticket_ids=("t",), message="please")
    await writer.commit(run=run())
    await writer.expect_refusal(InvalidRecord, run=run(status=WAITING, waiting=None))
    for status in (RUNNING, DONE):
        await writer.expect_refusal(InvalidRecord, run=run(status=status, waiting=waiting))
    await writer.commit(run=run(status=WAITING, waiting=waiting))
    stored = await store.load_run(RUN)
    assert stored is not None
    assert stored.waiting == waiting
    assert stored.is_resumable_waiting


async def one_run_of_a_thread_is_open(store: Store) -> None:
    """A second run is refused while the first is created, running or waiting."""
    writer = Writer(store)
    for first in (CREATED, RUNNING, WAITING):
        await writer.commit(run=run(status=first))
        for second in (CREATED, RUNNING, WAITING):
            error = await writer.expect_refusal(ThreadBusy, run=run("run-2", second))
            assert (error.thread_id, error.run_id) == (THREAD, RUN)
    await writer.commit(run=run(status=DONE))
    await writer.commit(run=run("run-2"))
    await Writer(store, "thread-2").commit(run=run("run-3", thread_id="thread-2"))


async def a_run_may_be_recorded_at_its_end(store: Store) -> None:
    """A run that was never open disturbs no open run."""
    writer = Writer(store)
    await writer.commit(run=run())
    await writer.commit(run=run("run-2", DONE, updated_at=9))
    seen = await store.checkout(THREAD)
    assert seen is not None
    assert (seen.thread.active_run_id, seen.thread.open_run_id) == (RUN, RUN)
    assert seen.open_run == run()
    assert seen.latest_run == run("run-2", DONE, updated_at=9)


async def a_run_belongs_to_one_thread(store: Store) -> None:
    """A run of another thread, or with another thread's run id, is refused."""
    await Writer(store, "thread-2").commit(run=run("run-2", DONE, thread_id="thread-2"))
    writer = Writer(store)
    await writer.expect_refusal(InvalidRecord, run=run(thread_id="thread-2"))
    await writer.expect_refusal(InvalidRecord, run=run("run-2", DONE))
    await writer.expect_refusal(InvalidRecord, run=run("run-2", DONE, thread_id="thread-2"))
    for blank in ("", " "):
        await writer.expect_refusal(InvalidRecord, run=run(blank))


async def a_thread_points_at_its_runs(store: Store) -> None:
    """Active while running, open until done, latest always."""
    writer = Writer(store)
    table = (
        (CREATED, None, RUN),
        (RUNNING, RUN, RUN),
        (WAITING, None, RUN),
        (RUNNING, RUN, RUN),
        (DONE, None, None),
    )
    for at, (status, active, opened) in enumerate(table, start=1):
        await writer.commit(run=run(status=status, updated_at=at))
        seen = await store.checkout(THREAD)
        assert seen is not None
        thread = seen.thread
        assert (thread.active_run_id, thread.open_run_id) == (active, opened)
        assert (thread.latest_run_id, thread.latest_run_updated_at) == (RUN, at)
        assert (seen.open_run is not None) is (opened is not None)
        assert seen.latest_run == await store.load_run(RUN)


async def the_latest_run_is_the_last_updated_one(store: Store) -> None:
    """A late edit of an ended run does not bring it back."""
    writer = Writer(store)
    await writer.commit(run=run("run-1", DONE, updated_at=10))
    await writer.commit(run=run("run-2", DONE, updated_at=20))
    await writer.commit(run=run("run-1", DONE, updated_at=15, final_output="edited"))
    seen = await store.checkout(THREAD)
    assert seen is not None
    assert seen.latest_run == run("run-2", DONE, updated_at=20)
    await writer.commit(run=run("run-1", DONE, updated_at=25))
    seen = await store.checkout(THREAD)
    assert seen is not None
    assert seen.thread.latest_run_id == "run-1"
    for updated_at in (30, 50):
        await writer.commit(run=run("run-3", updated_at=updated_at))
    await writer.commit(run=run("run-1", DONE, updated_at=40))
    thread = await store.load_thread(THREAD)
    assert thread is not None
    assert (thread.latest_run_id, thread.latest_run_updated_at) == ("run-3", 50)


async def a_slow_clock_does_not_hide_the_open_run(store: Store) -> None:
    """The order of commits decides which run is open, never the writers' clocks."""
    writer = Writer(store)
    await writer.commit(run=run("run-1", DONE, updated_at=500))
    await writer.commit(run=run("run-2", updated_at=100))
    thread = await store.load_thread(THREAD)
    assert thread is not None
    assert (thread.active_run_id, thread.open_run_id, thread.latest_run_id) == ("run-2",) * 3
    await writer.commit(run=run("run-1", DONE, updated_at=600))
    await writer.commit(run=run("run-2", DONE, updated_at=110))
    thread = await store.load_thread(THREAD)
    assert thread is not None
    assert (thread.active_run_id, thread.open_run_id) == (None, None)


async def a_commit_without_a_run_keeps_the_pointers(store: Store) -> None:
    """A message or an edit alone says nothing about runs."""
    writer = Writer(store)
    await writer.commit(run=run(updated_at=3))
    await writer.commit(messages=(build_user_message("m-1"),))
    await writer.commit(thread=Thread(id=THREAD, resource_id="user-1"))
    seen = await store.checkout(THREAD)
    assert seen is not None
    thread = seen.thread
    assert (thread.active_run_id, thread.open_run_id, thread.latest_run_id) == (RUN, RUN, RUN)
    assert thread.latest_run_updated_at == 3
    assert seen.open_run == run(updated_at=3)


async def a_run_record_comes_back_as_it_was(store: Store) -> None:
    """Lineage, termination, tokens and message relations are kept."""
    await Writer(store, "thread-0").commit()
    fields: dict[str, Any] = {
        "active_agent_id": "writer",
        "parent_run_id": "run-0",
        "parent_thread_id": "thread-0",
        "parent_tool_call_id": "call-0",
        "lineage": ("planner", "writer"),
        "task": TaskInfo(name="dig", description="dig deep", fate=TaskFate.AWAIT),
        "origin": RunOrigin.SUBAGENT,
        "run_mode": RunMode.SCHEDULED,
        "adapter": Adapter.AG_UI,
        "dispatch_id": "dispatch-1",
        "publication": 4,
        "input": RunInput(message_ids=("m-1",), from_seq=1, to_seq=1),
        "termination": Stopped(reason=StoppedReason(code="max_rounds", detail="16")),
        "final_output": "done",
        "steps": 16,
        "usage": TokenUsage(prompt_tokens=10, completion_tokens=5, total_tokens=15),
        "created_at": 1,
        "started_at": 2,
        "finished_at": 3,
        "updated_at": 4,
    }
    await Writer(store).commit(run=run(status=DONE, **fields))
    assert await store.load_run(RUN) == run(status=DONE, **fields)


async def a_later_record_replaces_the_whole_run(store: Store) -> None:
    """The newest record is the run; fields it does not have are gone."""
    writer = Writer(store)
    await writer.commit(run=run(steps=1, session_id="session"))
    await writer.commit(run=run(steps=2))
    assert await store.load_run(RUN) == run(steps=2)
    seen = await store.checkout(THREAD)
    assert seen is not None
    assert seen.open_run == run(steps=2)


async def a_run_gives_its_thread_a_parent_once(store: Store) -> None:
    """A missing parent is filled in, trimmed; one that is there is never replaced."""
    for thread_id in ("parent-1", "parent-2"):
        await Writer(store, thread_id).commit()
    writer = Writer(store)
    await writer.commit(run=run(status=DONE, parent_thread_id=" parent-1 "))
    thread = await store.load_thread(THREAD)
    assert thread is not None
    assert thread.parent_thread_id == "parent-1"
    await writer.commit(run=run("run-2", parent_thread_id="parent-2"))
    thread = await store.load_thread(THREAD)
    assert thread is not None
    assert thread.parent_thread_id == "parent-1"


async def a_new_run_puts_its_thread_below_its_parents(store: Store) -> None:
    """Whatever made the thread, a commit or its dispatch; it belongs to the run's tenant."""
    await store.save_thread(Thread(id="@ann:parent", tenant_id="ann"))
    request = RunRequest(agent_id="agent", tenant_id="ann", parent_thread_id="@ann:parent")
    await store.enqueue(dispatch("d-1", "@ann:queued", run_id="@ann:later", request=request))
    for thread_id in ("@ann:queued", "@ann:written"):
        of: dict[str, Any] = {"thread_id": thread_id, "parent_thread_id": "@ann:parent"}
        first = run(f"{thread_id}-run", tenant_id="ann", **of)
        await Writer(store, thread_id).commit(run=first)
        thread = await store.load_thread(thread_id)
        assert thread is not None
        assert (thread.parent_thread_id, thread.tenant_id) == ("@ann:parent", "ann")


async def a_run_with_an_impossible_parent_is_refused(store: Store) -> None:
    """A parent that is missing, the thread itself, or its own descendant."""
    writer = Writer(store)
    for parent in ("missing", THREAD):
        await writer.expect_refusal(InvalidRecord, run=run(parent_thread_id=parent))
    await writer.commit()
    for child, parent in (("child-1", THREAD), ("child-2", "child-1")):
        await store.save_thread(Thread(id=child, parent_thread_id=parent))
        await writer.expect_refusal(InvalidRecord, run=run(parent_thread_id=child))
    await writer.commit(run=run(parent_thread_id="  "))


async def a_message_names_the_run_that_made_it(store: Store) -> None:
    """The producer comes from the message, not from the commit."""
    made = build_user_message("m-1", metadata=MessageMetadata(run_id="run-7", step_index=2))
    await Writer(store).commit(messages=(made, build_user_message("m-2")), run=run())
    first, second = (await store.list_messages(THREAD, MessageQuery())).items
    assert (first.produced_by_run_id, first.step_index) == ("run-7", 2)
    assert (second.produced_by_run_id, second.step_index) == (None, None)


CHECKS = (
    a_run_makes_only_legal_moves,
    a_run_waits_exactly_while_it_says_for_what,
    one_run_of_a_thread_is_open,
    a_run_may_be_recorded_at_its_end,
    a_run_belongs_to_one_thread,
    a_thread_points_at_its_runs,
    the_latest_run_is_the_last_updated_one,
    a_slow_clock_does_not_hide_the_open_run,
    a_commit_without_a_run_keeps_the_pointers,
    a_run_record_comes_back_as_it_was,
    a_later_record_replaces_the_whole_run,
    a_run_gives_its_thread_a_parent_once,
    a_new_run_puts_its_thread_below_its_parents,
    a_run_with_an_impossible_parent_is_refused,
    a_message_names_the_run_that_made_it,
)
