"""What is queued is durable, queued once, and found again."""

import asyncio
from typing import Any

import msgspec

from awaken.contracts.errors import AlreadyExists, DedupeConflict, InvalidRecord, QueueFull
from awaken.contracts.runs.records import RunRequest
from awaken.contracts.storage.dispatch import DispatchStatus, InputMode, RunDispatch
from awaken.contracts.storage.queries import DispatchQuery, at_cursor
from awaken.contracts.storage.store import Store
from awaken.contracts.suspension.tickets import ToolCallResume

from .writing import (
    CLAIMED,
    QUEUED,
    THREAD,
    Writer,
    build_user_message,
    claim,
    claim_ids,
    dispatch,
    elapse,
    find,
    queue,
    read_everything,
    refusal,
)

RIVALS = 128


async def a_queued_dispatch_is_stamped_by_the_store(store: Store) -> None:
    """Status, epoch and times are the store's, whatever the caller put there."""
    before = await store.now_ms()
    asked = dispatch(
        "d-1", dispatch_epoch=9, created_at=5, completed_at=5, status=DispatchStatus.DEAD_LETTER
    )
    stored = await store.enqueue(asked)
    after = await store.now_ms()
    assert (stored.status, stored.dispatch_epoch, stored.completed_at) == (QUEUED, 0, None)
    assert before <= stored.created_at == stored.updated_at == stored.available_at <= after
    assert await find(store, "d-1") == stored


async def a_dispatch_comes_back_as_it_was(store: Store) -> None:
    """Every field that the caller owns, with nested values."""
    decisions = (("t-1", ToolCallResume(decision_id="x", result={"a": [1, None]})),)
    request = RunRequest(
        agent_id="agent",
        messages=(build_user_message("m-1", "grüße"),),
        decisions=decisions,
        session_id="s",
    )
    asked = dispatch(
        "d-1",
        request=request,
        mode=InputMode.STEER,
        priority=3,
        dedupe_key="key",
        max_attempts=2,
        available_at=99_999_999_999_999,
    )
    await store.enqueue(asked)
    stored = await find(store, "d-1")
    fields = ("dispatch_id", "thread_id", "run_id", "request", "mode", "priority", "dedupe_key")
    for name in (*fields, "request_hash", "max_attempts", "available_at", "attempt_count"):
        assert getattr(stored, name) == getattr(asked, name), name


async def a_submission_creates_its_thread(store: Store) -> None:
    """Something can be queued on a thread before the first write to it."""
    await queue(store, "d-1")
    thread = await store.load_thread(THREAD)
    assert thread is not None
    assert (thread.version, thread.message_count, thread.open_run_id) == (0, 0, None)
    assert (await Writer(store).commit(messages=(build_user_message("m-1"),))).version == 1


async def the_same_dispatch_again_changes_nothing(store: Store) -> None:
    """A sender that is unsure sends it again, also when it is claimed or over."""
    (first,) = await queue(store, "d-1")
    await elapse(store, 2)
    assert await store.enqueue(dispatch("d-1")) == first
    taken = await claim(store)
    assert await store.enqueue(dispatch("d-1")) == taken
    over = await store.release("d-1", taken.claim_token or "")
    assert await store.enqueue(dispatch("d-1")) == over
    assert await store.count_queued() == 0


async def a_dispatch_id_is_used_once(store: Store) -> None:
    """For another thread or another request it is refused, and nothing is changed."""
    await queue(store, "d-1")
    before = await read_everything(store)
    others = (
        dispatch("d-1", "thread-2"),
        dispatch("d-1", request_hash="other"),
        dispatch("d-1", mode=InputMode.STEER),
    )
    for other in others:
        error = await refusal(AlreadyExists, store.enqueue(other))
        assert error.record_id == "d-1"
    assert await read_everything(store) == before


async def a_dedupe_key_with_the_same_request_is_one_dispatch(store: Store) -> None:
    """The second submission gets the first, whatever its own id."""
    first = await store.enqueue(dispatch("d-1", dedupe_key="key", request_hash="h"))
    again = await store.enqueue(dispatch("d-2", dedupe_key="key", request_hash="h"))
    assert again == first
    assert await store.find_dispatch("d-2") is None
    assert await store.count_queued() == 1


async def a_dedupe_key_with_another_request_is_refused(store: Store) -> None:
    """A typed conflict that names both, and changes nothing."""
    await store.enqueue(dispatch("d-1", dedupe_key="key", request_hash="h"))
    before = await read_everything(store)
    other = dispatch("d-2", dedupe_key="key", request_hash="other")
    error = await refusal(DedupeConflict, store.enqueue(other))
    assert (error.thread_id, error.dedupe_key) == (THREAD, "key")
    assert await read_everything(store) == before


async def requests_without_a_hash_are_compared_themselves(store: Store) -> None:
    """Two submissions under one key without hashes ask for the same if their requests do."""
    first = await store.enqueue(dispatch("d-1", dedupe_key="key", request_hash=""))
    again = dispatch("d-2", dedupe_key="key", request_hash="")
    assert await store.enqueue(again) == first
    other = msgspec.structs.replace(again, request=RunRequest(agent_id="other"))
    await refusal(DedupeConflict, store.enqueue(other))
    # So it is under one dispatch id.
    plain = dispatch("d-3", request_hash="")
    known = await store.enqueue(plain)
    assert await store.enqueue(plain) == known
    for changed in (
        msgspec.structs.replace(plain, request=RunRequest(agent_id="other")),
        msgspec.structs.replace(plain, mode=InputMode.STEER),
    ):
        await refusal(AlreadyExists, store.enqueue(changed))
    assert await store.count_queued() == 2


async def a_dedupe_key_belongs_to_its_thread(store: Store) -> None:
    """Another thread may use the same key for something else."""
    await store.enqueue(dispatch("d-1", dedupe_key="key"))
    await store.enqueue(dispatch("d-2", "thread-2", dedupe_key="key"))
    assert await store.count_queued() == 2


async def a_dedupe_key_outlives_its_delivery(store: Store) -> None:
    """Claimed, acked or cancelled: the key still answers with the first dispatch."""
    await store.enqueue(dispatch("d-1", dedupe_key="key", request_hash="h"))
    taken = await claim(store)
    again = dispatch("d-2", dedupe_key="key", request_hash="h")
    assert (await store.enqueue(again)).status is CLAIMED
    await store.release("d-1", taken.claim_token or "")
    assert (await store.enqueue(again)).status is DispatchStatus.ACKED
    assert await store.count_queued() == 0


async def a_dispatch_is_found_by_its_dedupe_key(store: Store) -> None:
    """In its thread only, whatever the state of its delivery; until the thread is deleted."""

    async def find_by_key(
        thread_id: str | None = THREAD, key: str = "key"
    ) -> tuple[RunDispatch, ...]:
        query = DispatchQuery(thread_id=thread_id, dedupe_key=key)
        return (await store.list_dispatches(query)).items

    assert await find_by_key() == ()
    await queue(store, "d-0")
    await store.release("d-0", (await claim(store)).claim_token or "")
    first = await store.enqueue(dispatch("d-1", dedupe_key="key"))
    assert await find_by_key() == (first,)
    for thread_id, key in ((THREAD, "other"), ("thread-2", "key"), (None, "key")):
        assert await find_by_key(thread_id, key) == ()
    ended = DispatchQuery(thread_id=THREAD, dedupe_key="key", status=DispatchStatus.ACKED)
    assert (await store.list_dispatches(ended)).total == 0
    taken = await claim(store)
    assert await find_by_key() == (taken,)
    over = await store.release("d-1", taken.claim_token or "")
    assert await find_by_key() == (over,)
    assert (await store.list_dispatches(ended)).items == (over,)
    await store.delete_thread(THREAD)
    assert await find_by_key() == ()


async def the_mode_of_a_hashed_request_may_come_out_otherwise(store: Store) -> None:
    """What was asked for is in its hash; how the thread stood then decides about the mode."""
    first = await store.enqueue(dispatch("d-1", dedupe_key="key", request_hash="h"))
    again = dispatch("d-2", dedupe_key="key", request_hash="h", mode=InputMode.INTERRUPT)
    assert await store.enqueue(again) == first
    await store.interrupt(THREAD, "user", then=again)
    assert await find(store, "d-1") == first


async def one_of_many_rivals_owns_a_dedupe_key(store: Store) -> None:
    """However many submit at once, one dispatch is queued and all get it."""

    async def submit(number: int) -> RunDispatch:
        return await store.enqueue(dispatch(f"d-{number}", dedupe_key="key", request_hash="h"))

    answers = await asyncio.gather(*(submit(number) for number in range(RIVALS)))
    assert {answer.dispatch_id for answer in answers} == {answers[0].dispatch_id}
    assert await store.count_queued() == 1


async def many_submissions_at_once_all_count(store: Store) -> None:
    """Different ids on one thread: each is queued once."""
    names = [f"d-{number:03}" for number in range(RIVALS // 4)]
    await asyncio.gather(*(store.enqueue(dispatch(name)) for name in names))
    listed = await store.list_dispatches(DispatchQuery(limit=200))
    assert sorted(found.dispatch_id for found in listed.items) == names
    assert await store.count_queued() == len(names)


async def a_full_thread_refuses_more(store: Store) -> None:
    """With how much is queued, the limit, and a hint; other threads are not concerned."""
    await store.enqueue(dispatch("d-1"), backlog_max=2)
    await store.enqueue(dispatch("d-2"), backlog_max=2)
    error = await refusal(QueueFull, store.enqueue(dispatch("d-3"), backlog_max=2))
    assert (error.size, error.limit, error.retryable) == (2, 2, True)
    assert error.retry_after_ms > 0
    assert await store.find_dispatch("d-3") is None
    again = await store.enqueue(dispatch("d-2"), backlog_max=2)
    assert again.dispatch_id == "d-2"
    await store.enqueue(dispatch("d-4", "thread-2"), backlog_max=2)


async def only_what_is_queued_fills_a_thread(store: Store) -> None:
    """What is claimed, cancelled or over takes no room."""
    await queue(store, "d-1", "d-2", "d-3")
    await claim(store)
    await store.cancel_dispatch("d-2")
    await store.enqueue(dispatch("d-4"), backlog_max=2)
    await refusal(QueueFull, store.enqueue(dispatch("d-5"), backlog_max=2))


async def a_dispatch_with_a_blank_id_is_refused(store: Store) -> None:
    """It could not be found or executed later."""
    for name in ("dispatch_id", "thread_id", "run_id"):
        fields: dict[str, Any] = {name: " "}
        await refusal(
            InvalidRecord, store.enqueue(msgspec.structs.replace(dispatch("d"), **fields))
        )
    assert await store.count_queued() == 0


async def dispatches_are_listed_oldest_first(store: Store) -> None:
    """By thread and status, in pages, whatever became of them."""
    await queue(store, "d-1", "d-2", "d-3")
    await queue(store, "e-1", thread_id="thread-2")
    await store.cancel_dispatch("d-2")
    table: tuple[tuple[DispatchQuery, list[str]], ...] = (
        (DispatchQuery(thread_id=THREAD), ["d-1", "d-2", "d-3"]),
        (DispatchQuery(thread_id="thread-2"), ["e-1"]),
        (DispatchQuery(thread_id="missing"), []),
        (DispatchQuery(thread_id=THREAD, status=QUEUED), ["d-1", "d-3"]),
        (DispatchQuery(status=DispatchStatus.CANCELLED), ["d-2"]),
        (DispatchQuery(status=CLAIMED), []),
    )
    for query, expected in table:
        page = await store.list_dispatches(query)
        assert [found.dispatch_id for found in page.items] == expected, query
        assert page.total == len(expected)
    taken = await claim(store)
    for status in DispatchStatus:
        page = await store.list_dispatches(DispatchQuery(status=status))
        found_all = {it.dispatch_id: it.status for it in page.items}
        assert set(found_all.values()) <= {status}, status
        assert (taken.dispatch_id in found_all) is (status is CLAIMED), status
        assert ("d-2" in found_all) is (status is DispatchStatus.CANCELLED), status
    await store.release(taken.dispatch_id, taken.claim_token or "")
    over = await store.list_dispatches(DispatchQuery(status=DispatchStatus.ACKED))
    assert [it.dispatch_id for it in over.items] == [taken.dispatch_id]
    query = DispatchQuery(limit=3)
    first = await store.list_dispatches(query)
    second = await store.list_dispatches(at_cursor(query, first.next_cursor or ""))
    assert (len(first.items), len(second.items), second.total) == (3, 1, 4)
    assert not second.has_more


async def a_dispatch_is_found_by_its_run(store: Store) -> None:
    """The newest one that names the run."""
    assert await store.find_dispatch_of_run("run-x") is None
    await queue(store, "d-1", "d-2", run_id="run-x")
    await queue(store, "d-0")
    found = await store.find_dispatch_of_run("run-x")
    assert found is not None
    assert found.dispatch_id == "d-2"


async def what_waits_is_counted(store: Store) -> None:
    """In all threads, and nothing that is claimed or over."""
    assert await store.count_queued() == 0
    await queue(store, "d-1", "d-2")
    await queue(store, "e-1", thread_id="thread-2")
    assert await store.count_queued() == 3
    taken = await claim(store)
    assert await store.count_queued() == 2
    await store.requeue(taken.dispatch_id, taken.claim_token or "")
    assert await store.count_queued() == 3
    await store.delete_thread(THREAD)
    assert await store.count_queued() == 1
    assert await claim_ids(store, limit=9) == ["e-1"]


CHECKS = (
    a_queued_dispatch_is_stamped_by_the_store,
    a_dispatch_comes_back_as_it_was,
    a_submission_creates_its_thread,
    the_same_dispatch_again_changes_nothing,
    a_dispatch_id_is_used_once,
    a_dedupe_key_with_the_same_request_is_one_dispatch,
    a_dedupe_key_with_another_request_is_refused,
    requests_without_a_hash_are_compared_themselves,
    a_dedupe_key_belongs_to_its_thread,
    a_dedupe_key_outlives_its_delivery,
    a_dispatch_is_found_by_its_dedupe_key,
    the_mode_of_a_hashed_request_may_come_out_otherwise,
    one_of_many_rivals_owns_a_dedupe_key,
    many_submissions_at_once_all_count,
    a_full_thread_refuses_more,
    only_what_is_queued_fills_a_thread,
    a_dispatch_with_a_blank_id_is_refused,
    dispatches_are_listed_oldest_first,
    a_dispatch_is_found_by_its_run,
    what_waits_is_counted,
)
