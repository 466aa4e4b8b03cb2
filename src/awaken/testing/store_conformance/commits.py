"""A commit is applied whole, once, and only at the version it expects."""

from typing import Any

import msgspec

from awaken.contracts.errors import (
    IdempotencyConflict,
    InvalidRecord,
    InvalidTranscript,
    VersionConflict,
)
from awaken.contracts.events import StepEnd, StepStart
from awaken.contracts.lifecycle import TicketStatus
from awaken.contracts.runs.records import Waiting, WaitingReason
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.queries import MessageQuery
from awaken.contracts.storage.store import Commit, Store

from .writing import (
    DONE,
    RUN,
    THREAD,
    Writer,
    build_call_message,
    build_result_message,
    build_user_message,
    read_everything,
    refusal,
    run,
    ticket,
    tool_record,
    value,
)


async def a_commit_stores_all_its_parts(store: Store) -> None:
    """Messages, run, state, journal, events and pointers arrive together."""
    messages, step = (
        (build_user_message("m-1"), build_call_message("m-2", "c-1")),
        tool_record("c-1"),
    )
    await Writer(store).commit(
        messages=messages,
        run=run(updated_at=7),
        state={"topic": value('"birds"')},
        run_state={"round": value("1")},
        tool_records=(step,),
        events=(StepStart(message_id="m-2"), StepEnd()),
    )
    seen = await store.checkout(THREAD)
    assert seen is not None
    assert seen.messages == messages
    assert seen.open_run == seen.latest_run == run(updated_at=7)
    assert seen.state == {"topic": value('"birds"')}
    assert seen.run_state == {"round": value("1")}
    assert (seen.thread.active_run_id, seen.thread.latest_run_updated_at) == (RUN, 7)
    assert (seen.thread.version, seen.thread.message_count) == (1, 2)
    assert await store.load_run(RUN) == run(updated_at=7)
    assert await store.list_tool_records(RUN) == (step,)
    events = await store.list_events(THREAD)
    assert [logged.event for logged in events] == [StepStart(message_id="m-2"), StepEnd()]


async def a_commit_creates_its_thread(store: Store) -> None:
    """A new thread is at version 0 and needs no other call."""
    await Writer(store).commit(thread=Thread(id=THREAD, resource_id="user-1"))
    thread = await store.load_thread(THREAD)
    assert thread is not None
    assert (thread.resource_id, thread.version) == ("user-1", 1)
    assert thread.metadata.created_at == thread.metadata.updated_at == 1000


async def an_empty_commit_counts(store: Store) -> None:
    """Every applied commit has its own version, whatever is in it."""
    writer = Writer(store)
    assert (await writer.commit()).version == 1
    assert (await writer.commit()).version == 2


async def every_commit_raises_the_version_by_one(store: Store) -> None:
    """Versions are integers from the store, whatever the times say."""
    writer = Writer(store)
    for expected, committed_at in enumerate((5000, 100, 100, 9000), start=1):
        receipt = await writer.commit(committed_at=committed_at)
        thread = await store.load_thread(THREAD)
        assert thread is not None
        assert receipt.version == thread.version == expected


async def a_receipt_counts_what_the_thread_holds(store: Store) -> None:
    """A receipt names the commit, and the thread's totals after it."""
    writer = Writer(store)
    await writer.commit(
        messages=(build_user_message("m-1"), build_user_message("m-2")), events=(StepEnd(),)
    )
    receipt = await writer.commit(
        messages=(build_user_message("m-3"),), events=(StepStart(), StepEnd())
    )
    assert receipt.commit_id == f"{THREAD}-commit-2"
    assert (receipt.version, receipt.message_count, receipt.event_seq) == (2, 3, 3)
    assert (await writer.commit()).event_seq == 3


async def commits_append_and_never_replace(store: Store) -> None:
    """A commit adds messages and never replaces them."""
    writer = Writer(store)
    for number in range(1, 6):
        await writer.commit(messages=(build_user_message(f"m-{number}"),))
    seen = await store.checkout(THREAD)
    assert seen is not None
    assert [message.id for message in seen.messages] == ["m-1", "m-2", "m-3", "m-4", "m-5"]


async def a_wrong_version_is_refused(store: Store) -> None:
    """Behind, ahead or negative: a typed conflict that names both and changes nothing."""
    writer = Writer(store)
    await writer.commit(messages=(build_user_message("m-1"),))
    await writer.commit()
    for wrong in (0, 1, 3, 99, -1):
        error = await writer.expect_refusal(
            VersionConflict,
            expected_version=wrong,
            messages=(build_user_message("m-2"),),
            run=run(),
        )
        assert (error.thread_id, error.expected, error.actual) == (THREAD, wrong, 2)


async def a_new_thread_is_at_version_zero(store: Store) -> None:
    """A commit that expects more of an unknown thread creates nothing."""
    error = await Writer(store).expect_refusal(VersionConflict, expected_version=1)
    assert error.actual == 0
    assert await store.load_thread(THREAD) is None


async def the_same_commit_twice_is_applied_once(store: Store) -> None:
    """A retry gets the first receipt and adds nothing."""
    writer = Writer(store)
    commit = writer.next(messages=(build_user_message("m-1"),), run=run(), events=(StepEnd(),))
    first = await store.commit(commit)
    before = await read_everything(store)
    assert await store.commit(commit) == first
    assert await store.commit(_copy_commit(commit)) == first
    assert await read_everything(store) == before


async def a_retry_after_later_commits_gets_the_first_receipt(store: Store) -> None:
    """However late the retry, the answer is the first one."""
    writer = Writer(store)
    commit = writer.next(messages=(build_user_message("m-1"),))
    first = await writer.commit(messages=(build_user_message("m-1"),))
    for number in range(2, 41):
        await writer.commit(messages=(build_user_message(f"m-{number}"),))
        if number in (2, 15, 16, 17, 18, 40):
            assert await store.commit(commit) == first
    thread = await store.load_thread(THREAD)
    assert thread is not None
    assert (thread.version, thread.message_count) == (40, 40)


async def a_commit_id_with_other_contents_is_refused(store: Store) -> None:
    """Any difference is a conflict, and changes nothing."""
    writer = Writer(store)
    parts: dict[str, Any] = {"messages": (build_user_message("m-1"),), "state": {"key": value("1")}}
    commit_id = (await writer.commit(run=run(), **parts)).commit_id
    others: tuple[dict[str, Any], ...] = (
        {},
        parts | {"run": run(), "messages": (build_user_message("m-1", "bye"),)},
        parts | {"run": run(), "state": {"key": value("2")}},
        parts | {"run": run(steps=1)},
        parts | {"run": run(), "events": (StepEnd(),)},
        parts | {"run": run(), "expected_version": 1},
    )
    for other in others:
        changed = {"commit_id": commit_id, "expected_version": 0, "committed_at": 1000} | other
        error = await writer.expect_refusal(IdempotencyConflict, **changed)
        assert error.commit_id == commit_id


async def commit_ids_belong_to_their_thread(store: Store) -> None:
    """Two threads may use the same commit id."""
    for thread_id in ("thread-a", "thread-b"):
        await Writer(store, thread_id).commit(
            commit_id="same", messages=(build_user_message(thread_id),)
        )
    for thread_id in ("thread-a", "thread-b"):
        seen = await store.checkout(thread_id)
        assert seen is not None
        assert seen.messages == (build_user_message(thread_id),)


async def a_commit_named_after_its_run_and_version_is_found_again(store: Store) -> None:
    """The form in which runs name their commits is the usual one; others may look like it."""
    writer = Writer(store)
    first = writer.next(commit_id=f"{RUN}:1", run=run())
    receipt = await store.commit(first)
    writer.version = 1
    other = await writer.commit(commit_id="2", events=(StepEnd(),))
    unlike = await writer.commit(commit_id=f"{RUN}:2", events=(StepEnd(),))
    assert await store.commit(first) == receipt
    assert await store.find_commit(f"{RUN}:1", THREAD) == receipt
    assert await store.find_commit("2", THREAD) == other
    assert await store.find_commit(f"{RUN}:2", THREAD) == unlike
    for absent in (f"{RUN}:3", f"{RUN}:", ":1", "1", ""):
        assert await store.find_commit(absent, THREAD) is None
    last = await writer.commit(commit_id=f"{RUN}:4", events=(StepEnd(),))
    writer.version = 3
    same = writer.next(commit_id=f"{RUN}:4", events=(StepEnd(),))
    assert await store.commit(same) == last
    changed = writer.next(commit_id=f"{RUN}:4", events=(StepEnd(), StepEnd()))
    await refusal(IdempotencyConflict, store.commit(changed))


async def a_commit_without_an_id_is_refused(store: Store) -> None:
    """It could not be told from another one when it is sent again."""
    writer = Writer(store)
    await writer.commit(run=run())
    await writer.expect_refusal(InvalidRecord, commit_id="")


async def find_commit_tells_applied_from_absent(store: Store) -> None:
    """A lost reply is resolved by asking; the thread is part of the question."""
    writer = Writer(store)
    receipt = await writer.commit(commit_id="first", messages=(build_user_message("m-1"),))
    await writer.commit(commit_id="second")
    assert await store.find_commit("first", THREAD) == receipt
    assert await store.find_commit("third", THREAD) is None
    assert await store.find_commit("first", "thread-2") is None


async def a_refused_commit_is_not_remembered(store: Store) -> None:
    """After a refusal the id is free, also for other contents."""
    writer = Writer(store)
    await writer.expect_refusal(InvalidTranscript, messages=(build_result_message("m-1", "c-1"),))
    await writer.expect_refusal(VersionConflict, expected_version=5)
    assert await store.find_commit(f"{THREAD}-commit-1", THREAD) is None
    assert await store.load_thread(THREAD) is None
    assert (await writer.commit(messages=(build_user_message("m-1"),))).version == 1


async def one_bad_part_refuses_the_whole_commit(store: Store) -> None:
    """Whichever part is bad, no other part is applied."""
    writer = Writer(store)
    await writer.commit(messages=(build_user_message("m-1"),), run=run(), state={"key": value("1")})
    good: dict[str, Any] = {
        "messages": (build_user_message("m-2"), build_call_message("m-3", "c-1")),
        "run": run(steps=1),
        "state": {"key": value("2"), "other": value("3")},
        "run_state": {"round": value("1")},
        "tool_records": (tool_record("c-1"),),
        "tickets": (ticket("ticket-1", "c-1"),),
        "events": (StepEnd(),),
    }
    bad_parts: tuple[dict[str, Any], ...] = (
        {"messages": (build_user_message("m-2"), build_user_message("m-1"))},
        {"messages": (build_user_message("m-2"), build_user_message(None))},
        {"run": run(thread_id="thread-2")},
        {"run": run(waiting=Waiting(reason=WaitingReason.USER_INPUT))},
        {"tool_records": (tool_record("c-1"), tool_record("c-2", run_id="missing"))},
        {"tickets": (ticket("ticket-1", "c-1"), ticket("ticket-2", "c-1", run_id="missing"))},
        {"tickets": (ticket("ticket-1", "c-1", thread_id="thread-2"),)},
        {"thread": Thread(id=THREAD, parent_thread_id="missing")},
        {"thread": Thread(id="thread-2")},
    )
    for bad in bad_parts:
        await writer.expect_refusal(InvalidRecord, **(good | bad))
    await writer.commit(**good)
    seen = await store.checkout(THREAD)
    assert seen is not None
    assert (len(seen.messages), len(seen.state), len(seen.tickets)) == (3, 2, 1)


async def a_refused_first_commit_creates_nothing(store: Store) -> None:
    """A thread whose first commit is refused does not exist."""
    writer = Writer(store)
    await writer.expect_refusal(
        InvalidTranscript, messages=(build_user_message("m-1"), build_result_message("m-2", "c"))
    )
    await writer.expect_refusal(
        InvalidTranscript, run=run(status=DONE), messages=(build_call_message("m", "c"),)
    )
    await writer.expect_refusal(
        InvalidRecord, run=run(status=DONE), tickets=(ticket("ticket-1", "c", TicketStatus.OPEN),)
    )
    assert await store.checkout(THREAD) is None
    assert await store.load_run(RUN) is None
    assert await store.find_ticket("ticket-1") is None


async def a_checkout_never_changes_later(store: Store) -> None:
    """A view is of one version; later commits do not show through it."""
    writer = Writer(store)
    await writer.commit(
        messages=(build_user_message("m-1"),),
        run=run(),
        state={"key": value("1")},
        run_state={"key": value("1")},
    )
    seen = await store.checkout(THREAD)
    assert seen is not None
    frozen = msgspec.json.encode(seen, enc_hook=list)
    await writer.commit(
        messages=(build_user_message("m-2"),),
        run=run(steps=1),
        state={"key": None, "more": value("2")},
        run_state={"key": value("2")},
    )
    assert msgspec.json.encode(seen, enc_hook=list) == frozen


async def an_unknown_thread_has_nothing(store: Store) -> None:
    """Missing is None or empty, never an error."""
    await Writer(store).commit(
        messages=(build_user_message("m-1"),), run=run(), events=(StepEnd(),)
    )
    assert await store.checkout("missing") is None
    assert await store.load_thread("missing") is None
    assert await store.load_run("missing") is None
    assert await store.find_ticket("missing") is None
    assert await store.find_commit("missing", "missing") is None
    assert await store.list_events("missing") == ()
    assert await store.list_tool_records("missing") == ()
    assert await store.list_tickets("missing") == ()
    assert (await store.list_messages("missing", MessageQuery())).items == ()


async def a_blank_thread_id_is_refused(store: Store) -> None:
    """A thread has a name."""
    for blank in ("", "  "):
        await Writer(store, blank).expect_refusal(
            InvalidRecord, messages=(build_user_message("m-1"),)
        )
        await refusal(InvalidRecord, store.save_thread(Thread(id=blank)))


async def what_was_committed_survives_close_and_open(store: Store) -> None:
    """A store that is opened again shows what it showed, and goes on."""
    writer = Writer(store)
    await writer.commit(messages=(build_user_message("m-1"),), run=run(), events=(StepEnd(),))
    before = await read_everything(store)
    await store.open()
    assert await read_everything(store) == before
    await store.close()
    await store.open()
    assert await read_everything(store) == before
    assert (
        await writer.commit(messages=(build_user_message("m-2"),), events=(StepEnd(),))
    ).event_seq == 2


def _copy_commit(commit: Commit) -> Commit:
    """The same contents in other objects, as another process would send them."""
    return msgspec.json.decode(msgspec.json.encode(commit), type=Commit)


CHECKS = (
    a_commit_stores_all_its_parts,
    a_commit_creates_its_thread,
    an_empty_commit_counts,
    every_commit_raises_the_version_by_one,
    a_receipt_counts_what_the_thread_holds,
    commits_append_and_never_replace,
    a_wrong_version_is_refused,
    a_new_thread_is_at_version_zero,
    the_same_commit_twice_is_applied_once,
    a_retry_after_later_commits_gets_the_first_receipt,
    a_commit_id_with_other_contents_is_refused,
    commit_ids_belong_to_their_thread,
    a_commit_named_after_its_run_and_version_is_found_again,
    a_commit_without_an_id_is_refused,
    find_commit_tells_applied_from_absent,
    a_refused_commit_is_not_remembered,
    one_bad_part_refuses_the_whole_commit,
    a_refused_first_commit_creates_nothing,
    a_checkout_never_changes_later,
    an_unknown_thread_has_nothing,
    a_blank_thread_id_is_refused,
    what_was_committed_survives_close_and_open,
)
