"""Who gets what, and in which order: one claim per thread, threads take turns."""

import asyncio

from awaken.contracts.runs.records import RunRequest
from awaken.contracts.storage.dispatch import DispatchStatus, InputMode
from awaken.contracts.storage.store import Store

from .writing import (
    CLAIMED,
    DONE,
    LONG_MS,
    RUN,
    THREAD,
    WAITING,
    Writer,
    claim,
    claim_fields,
    claim_ids,
    dispatch,
    elapse,
    find,
    queue,
    run,
)

WORKERS, THREADS = 16, 6


async def a_claim_returns_what_was_queued(store: Store) -> None:
    """With token, worker, lease and the attempt counted; the record says the same."""
    (queued,) = await queue(store, "d-1")
    before = await store.now_ms()
    taken = await claim(store, token="token-7")
    assert (taken.status, taken.claim_token, taken.claimed_by) == (CLAIMED, "token-7", "worker")
    assert taken.attempt_count == 1
    assert taken.lease_until is not None
    assert taken.lease_until >= before + LONG_MS
    assert (taken.request, taken.created_at) == (queued.request, queued.created_at)
    assert await find(store, "d-1") == taken


async def where_nothing_is_queued_nothing_is_claimed(store: Store) -> None:
    """No dispatch, no thread: an empty answer."""
    assert await claim_ids(store) == []
    await Writer(store).commit()
    assert await claim_ids(store) == []


async def a_dispatch_is_claimed_when_it_is_due(store: Store) -> None:
    """Not before, by the store's clock."""
    await queue(store, "d-1", available_at=await store.now_ms() + 400)
    assert await claim_ids(store) == []
    await elapse(store, 401)
    assert await claim_ids(store) == ["d-1"]


async def priority_goes_before_arrival(store: Store) -> None:
    """0 goes first, whenever it came."""
    for name, priority in (("d-1", 128), ("d-2", 200), ("d-3", 0), ("d-4", 127)):
        await queue(store, name, priority=priority)
    assert await _all_in_order(store) == ["d-3", "d-4", "d-1", "d-2"]


async def equal_priorities_keep_their_order(store: Store) -> None:
    """The order they were queued in, not that of their ids."""
    names = ["d-5", "d-1", "d-4", "d-2", "d-3"]
    await queue(store, *names)
    assert await _all_in_order(store) == names


async def what_is_not_due_holds_back_its_successors(store: Store) -> None:
    """Input to a thread is never overtaken by later input."""
    await queue(store, "d-1", available_at=await store.now_ms() + 400)
    await queue(store, "d-2")
    assert await claim_ids(store, limit=5) == []
    await elapse(store, 401)
    assert await _all_in_order(store) == ["d-1", "d-2"]


async def what_continues_a_waiting_run_overtakes_what_is_not_due(store: Store) -> None:
    """A decision or an event for the run is no later input: the run waits for it."""
    await Writer(store).commit(run=run(status=WAITING))
    await queue(store, "d-1", available_at=await store.now_ms() + LONG_MS)
    await queue(store, "d-2")
    assert await claim_ids(store, limit=5) == []
    await queue(store, "d-3", run_id=RUN, mode=InputMode.RESUME)
    assert await claim_ids(store, limit=5) == ["d-3"]


async def urgent_input_overtakes_what_is_not_due(store: Store) -> None:
    """A better priority comes first, due or not."""
    await queue(store, "d-1", available_at=await store.now_ms() + LONG_MS)
    await queue(store, "d-2", priority=1)
    assert await claim_ids(store) == ["d-2"]


async def a_thread_that_waits_holds_back_no_other(store: Store) -> None:
    """Only its own successors."""
    await queue(store, "d-1", available_at=await store.now_ms() + LONG_MS)
    await queue(store, "e-1", thread_id="thread-2")
    assert await claim_ids(store, limit=5) == ["e-1"]


async def a_thread_is_claimed_once_at_a_time(store: Store) -> None:
    """The next dispatch of a thread waits for the end of the claim."""
    await queue(store, "d-1", "d-2")
    assert await claim_ids(store, limit=5) == ["d-1"]
    assert await claim_ids(store, limit=5, token="token-2") == []
    await store.release("d-1", "token-n")
    assert await claim_ids(store, limit=5, token="token-3") == ["d-2"]


async def a_claim_takes_at_most_its_limit(store: Store) -> None:
    """One of each thread, in the order of their turns."""
    for number in range(5):
        await queue(store, f"d-{number}", f"e-{number}", thread_id=f"thread-{number}")
    assert await claim_ids(store, limit=2, token="a") == ["d-0", "d-1"]
    assert await claim_ids(store, limit=0, token="b") == []
    assert await claim_ids(store, limit=9, token="c") == ["d-2", "d-3", "d-4"]
    assert await claim_ids(store, limit=9, token="d") == []


async def claims_taken_together_have_their_own_tokens(store: Store) -> None:
    """So that one can be lost, extended or cancelled without the others."""
    for number in range(3):
        await queue(store, f"d-{number}", thread_id=f"thread-{number}")
    taken = await store.claim("worker", "token", LONG_MS, limit=3)
    tokens = [found.claim_token or "" for found in taken]
    assert tokens[0] == "token"
    assert len(set(tokens)) == 3
    for found, token in zip(taken, tokens, strict=True):
        assert (await store.release(found.dispatch_id, token)).status is DispatchStatus.ACKED


async def threads_take_turns(store: Store) -> None:
    """A thread with much to do waits behind the others after each of its turns."""
    await queue(store, "a-1", "a-2", "a-3", thread_id="thread-a")
    await elapse(store, 2)
    await queue(store, "b-1", "b-2", thread_id="thread-b")
    await elapse(store, 2)
    await queue(store, "c-1", thread_id="thread-c")
    order = []
    for _ in range(6):
        await elapse(store, 2)
        taken = await claim(store)
        await store.release(taken.dispatch_id, taken.claim_token or "")
        order.append(taken.dispatch_id)
    assert order == ["a-1", "b-1", "c-1", "a-2", "b-2", "a-3"]


async def a_claim_of_a_commit_keeps_workers_away(store: Store) -> None:
    """A run that took its thread by itself is alone there, too."""
    await Writer(store).commit(**claim_fields())
    await queue(store, "d-1")
    assert await claim_ids(store) == []
    assert await store.claim_dispatch("d-1", "worker", "token-2", LONG_MS) is None


async def the_holder_of_a_claim_is_known_while_it_lasts(store: Store) -> None:
    """Whether a worker claimed the thread or a run did; a free or unknown thread has none."""
    assert await store.find_claim_holder(THREAD) is None
    await queue(store, "d-1")
    assert await store.find_claim_holder(THREAD) is None
    taken = await claim(store, token="token-7")
    assert await store.find_claim_holder(THREAD) == taken.claimed_by == "worker"
    await store.release("d-1", "token-7")
    assert await store.find_claim_holder(THREAD) is None
    by_commit = claim_fields()
    await Writer(store, "other").commit(**by_commit)
    assert await store.find_claim_holder("other") == by_commit["claim"].worker_id


async def one_dispatch_can_be_claimed_by_its_id(store: Store) -> None:
    """Not due, not first: it is claimed now, and the rest keeps its order."""
    await queue(store, "d-1", "d-2")
    await queue(store, "d-3", available_at=await store.now_ms() + LONG_MS)
    taken = await store.claim_dispatch("d-3", "worker", "token-1", LONG_MS)
    assert taken is not None
    assert (taken.status, taken.attempt_count, taken.claim_token) == (CLAIMED, 1, "token-1")
    assert await claim_ids(store) == []
    await store.release("d-3", "token-1")
    assert await _all_in_order(store) == ["d-1", "d-2"]


async def only_a_queued_dispatch_of_a_free_thread_can_be_claimed(store: Store) -> None:
    """Unknown, claimed, over, or of a claimed thread: None."""
    await queue(store, "d-1", "d-2", "d-3")
    await store.cancel_dispatch("d-3")
    assert await store.claim_dispatch("d-9", "worker", "token-1", LONG_MS) is None
    assert await store.claim_dispatch("d-3", "worker", "token-1", LONG_MS) is None
    assert await store.claim_dispatch("d-1", "worker", "token-1", LONG_MS) is not None
    for name in ("d-1", "d-2"):
        assert await store.claim_dispatch(name, "worker", "token-2", LONG_MS) is None
    assert (await find(store, "d-1")).claim_token == "token-1"
    assert (await find(store, "d-2")).attempt_count == 0


async def many_claimers_share_nothing(store: Store) -> None:
    """Each thread goes to one of the concurrent claimers."""
    for number in range(THREADS):
        await queue(store, f"d-{number}", f"e-{number}", thread_id=f"thread-{number}")
    claims = (store.claim(f"w-{n}", f"token-{n}", LONG_MS, limit=2) for n in range(WORKERS))
    taken = [found for answer in await asyncio.gather(*claims) for found in answer]
    assert sorted(found.dispatch_id for found in taken) == [f"d-{n}" for n in range(THREADS)]
    assert len({found.claim_token for found in taken}) == THREADS


async def one_of_many_claims_a_dispatch_by_its_id(store: Store) -> None:
    """The others get None."""
    await queue(store, "d-1")
    claims = (store.claim_dispatch("d-1", f"w-{n}", f"token-{n}", LONG_MS) for n in range(WORKERS))
    won = [found for found in await asyncio.gather(*claims) if found is not None]
    assert len(won) == 1
    assert (await find(store, "d-1")).claim_token == won[0].claim_token


async def what_is_stale_takes_nobody_elses_turn(store: Store) -> None:
    """A dispatch that an interrupt left behind is dropped, and the next thread's is claimed."""
    await queue(store, "d-1")
    taken = await claim(store)
    await store.interrupt(THREAD, "interrupt")
    await store.give_up_claim(THREAD, taken.claim_token or "")
    await queue(store, "d-2", thread_id="other")
    assert await claim_ids(store, limit=1) == ["d-2"]
    assert (await find(store, "d-1")).status is DispatchStatus.SUPERSEDED


async def input_that_a_run_can_take_in_is_listed(store: Store) -> None:
    """Queued `steer` and `resume`, in the order of the queue; nothing that is not due."""
    assert await store.list_inputs(THREAD) == ()
    await queue(store, "d-1")
    taken = await claim(store)
    await queue(store, "s-1", mode=InputMode.STEER)
    await queue(store, "q-1")
    await queue(store, "r-1", mode=InputMode.RESUME, priority=1)
    await queue(store, "s-2", mode=InputMode.STEER)
    await queue(store, "s-3", mode=InputMode.STEER, available_at=await store.now_ms() + LONG_MS)
    await queue(store, "s-4", mode=InputMode.STEER, thread_id="thread-2")
    await store.cancel_dispatch("s-2")
    await store.enqueue(dispatch("s-5", mode=InputMode.STEER))
    listed = await store.list_inputs(THREAD)
    assert [found.dispatch_id for found in listed] == ["r-1", "s-1", "s-5"]
    assert (await find(store, "d-1")) == taken


async def input_to_an_idle_thread_is_claimed_like_anything_else(store: Store) -> None:
    """Nothing ran there ever, or all of it is over: its claimer makes a run of it."""
    await Writer(store, "over").commit(run=run("run-0", DONE, thread_id="over"))
    for thread_id in ("over", "new"):
        steer = dispatch(f"s-{thread_id}", thread_id, mode=InputMode.STEER)
        stored = await store.enqueue(steer)
        assert await store.enqueue(steer) == stored
        (taken,) = await store.claim("worker", f"token-{thread_id}", LONG_MS)
        assert (taken.dispatch_id, taken.mode) == (f"s-{thread_id}", InputMode.STEER)
        checkout = await store.checkout(thread_id)
        assert checkout is not None
        assert checkout.open_run is None


async def work_is_found_behind_that_of_agents_with_similar_names(store: Store) -> None:
    """Ids are compared exactly, whatever signs they have, before the limit counts."""
    for agent in ("a_b", "A|B", "a|b%", "a"):
        for number in range(3):
            name = f"{agent}-{number}"
            request = RunRequest(agent_id=agent, thread_id=f"t-{name}")
            await queue(store, name, thread_id=f"t-{name}", request=request)
    for agent in ("a|b", "a%b", "ab"):
        request = RunRequest(agent_id=agent, thread_id=f"t-{agent}")
        await queue(store, agent, thread_id=f"t-{agent}", request=request)
    for agent in ("a|b", "a%b", "ab"):
        found = await store.claim("worker", f"token-{agent}", LONG_MS, agents=(agent,))
        assert [it.dispatch_id for it in found] == [agent]
    assert await store.claim("worker", "token", LONG_MS, agents=("a|b", "%", "b", "")) == ()


async def _all_in_order(store: Store) -> list[str]:
    """Claim and ack until nothing is due; the order in which they came."""
    order: list[str] = []
    while found := await store.claim("worker", f"token-{len(order)}", LONG_MS):
        await store.release(found[0].dispatch_id, found[0].claim_token or "")
        order.append(found[0].dispatch_id)
    return order


CHECKS = (
    a_claim_returns_what_was_queued,
    where_nothing_is_queued_nothing_is_claimed,
    a_dispatch_is_claimed_when_it_is_due,
    priority_goes_before_arrival,
    equal_priorities_keep_their_order,
    what_is_not_due_holds_back_its_successors,
    what_continues_a_waiting_run_overtakes_what_is_not_due,
    urgent_input_overtakes_what_is_not_due,
    a_thread_that_waits_holds_back_no_other,
    a_thread_is_claimed_once_at_a_time,
    a_claim_takes_at_most_its_limit,
    claims_taken_together_have_their_own_tokens,
    threads_take_turns,
    a_claim_of_a_commit_keeps_workers_away,
    the_holder_of_a_claim_is_known_while_it_lasts,
    one_dispatch_can_be_claimed_by_its_id,
    only_a_queued_dispatch_of_a_free_thread_can_be_claimed,
    many_claimers_share_nothing,
    one_of_many_claims_a_dispatch_by_its_id,
    what_is_stale_takes_nobody_elses_turn,
    input_that_a_run_can_take_in_is_listed,
    input_to_an_idle_thread_is_claimed_like_anything_else,
    work_is_found_behind_that_of_agents_with_similar_names,
)
