"""What tenants may have at once: limits of claimed threads, shares by weight, counts of queues."""

import asyncio
from collections import Counter
from collections.abc import Mapping

from awaken.contracts.runs.records import RunRequest
from awaken.contracts.storage.dispatch import InputMode, Release, RunDispatch
from awaken.contracts.storage.mailbox import EVERY_TENANT, TenantLimits
from awaken.contracts.storage.queries import LIMIT_MAX, DispatchQuery
from awaken.contracts.storage.store import Store
from awaken.contracts.tenancy import namespace_of, tenant_in

from .writing import (
    CLAIMED,
    DONE,
    LONG_MS,
    SHORT_MS,
    WAITING,
    Writer,
    claim_fields,
    dispatch,
    elapse,
    run,
)

LIMITS = {"ann": TenantLimits(max_busy=2)}
WORKERS = 12


async def a_tenant_has_at_most_its_limit_of_claims(store: Store) -> None:
    """The rest of its queue waits, and the input of others goes on behind it."""
    await _queue(store, "ann", 5)
    await _queue(store, "bob", 3)
    await _queue(store, None, 2)
    assert await _claim(store, "a", LIMITS, 9) == {"ann": 2, "bob": 3, None: 2}
    assert await _claim(store, "b", LIMITS, 9) == {}
    await _queue(store, "bob", 1, "late")
    assert await _claim(store, "c", LIMITS, 1) == {"bob": 1}


async def limits_for_every_tenant_hold_for_those_without_their_own(store: Store) -> None:
    """Not for input without a tenant, and a tenant's own limits replace them."""
    for tenant in ("ann", "bob", "cid", None):
        await _queue(store, tenant, 4)
    tenants = {
        "ann": TenantLimits(max_busy=3),
        "cid": TenantLimits(weight=200),
        EVERY_TENANT: TenantLimits(max_busy=1),
    }
    found = await _claim(store, "a", tenants, 20)
    assert found == {"ann": 3, "bob": 1, "cid": 4, None: 4}
    assert await _claim(store, "b", tenants, 20) == {}


async def a_run_that_waits_or_ends_frees_its_place(store: Store) -> None:
    """The commit that releases the thread does it, and so does a release without one."""
    await _queue(store, "ann", 6)
    first, second = await store.claim("worker", "a", LONG_MS, limit=9, tenants=LIMITS)
    for taken, status in ((first, WAITING), (second, DONE)):
        writer = Writer(store, taken.thread_id)
        record = run(taken.run_id, status, thread_id=taken.thread_id, tenant_id="ann")
        await writer.commit(run=record, fencing_token=taken.claim_token, release=Release())
    third, fourth = await store.claim("worker", "b", LONG_MS, limit=9, tenants=LIMITS)
    await store.release(third.dispatch_id, third.claim_token or "")
    await store.requeue(fourth.dispatch_id, fourth.claim_token or "", delay_ms=LONG_MS)
    assert await _claim(store, "c", LIMITS, 9) == {"ann": 2}


async def the_death_of_a_worker_frees_its_places(store: Store) -> None:
    """When its claims are taken back, others may have them, and no more than them."""
    await _queue(store, "ann", 5)
    assert await _claim(store, "dead", LIMITS, 9, SHORT_MS) == {"ann": 2}
    await elapse(store, SHORT_MS + 1)
    assert await _claim(store, "early", LIMITS, 9) == {}
    assert len(await store.reclaim()) == 2
    assert await _claim(store, "alive", LIMITS, 9) == {"ann": 2}


async def a_claim_that_a_commit_took_counts(store: Store) -> None:
    """A run that a caller started needs a place like any other."""
    started = namespace_of("ann") + "started"
    record = run("@ann:r", thread_id=started, tenant_id="ann")
    await Writer(store, started).commit(run=record, **claim_fields())
    await _queue(store, "ann", 3)
    assert await _claim(store, "a", LIMITS, 9) == {"ann": 1}


async def claimers_at_once_do_not_exceed_a_limit(store: Store) -> None:
    """Although each looks for agents of its own; and all places are taken in the end."""
    tenants = {"ann": TenantLimits(max_busy=3), EVERY_TENANT: TenantLimits(max_busy=2)}
    agents = [f"agent-{number}" for number in range(WORKERS)]
    for agent in agents:
        for tenant in ("ann", "bob"):
            await _queue(store, tenant, 3, agent, agent_id=agent)
    held: Counter[str | None] = Counter()
    for turn in range(4):
        claims = (_claim(store, f"{turn}-{it}", tenants, 2, agents=(it,)) for it in agents)
        for found in await asyncio.gather(*claims):
            held.update(found)
        assert held["ann"] <= 3
        assert held["bob"] <= 2
    held.update(await _claim(store, "last", tenants, 9))
    assert held == {"ann": 3, "bob": 2}


async def slots_are_shared_by_weight(store: Store) -> None:
    """In a batch, and claim by claim while runs end: a tenant of weight 300 gets three of four."""
    tenants = {"ann": TenantLimits(weight=300)}
    await _queue(store, "bob", 40)
    await _queue(store, "ann", 40)
    assert await _claim(store, "batch", tenants, 8) == {"ann": 6, "bob": 2}
    held = await _list_claimed(store)
    for turn in range(24):
        # The slots end in the order in which they began.
        over = held.pop(0)
        await store.release(over.dispatch_id, over.claim_token or "")
        (taken,) = await store.claim("worker", f"t-{turn}", LONG_MS, tenants=tenants)
        held.append(taken)
        shares = Counter(tenant_in(it.thread_id) for it in held)
        assert shares == {"ann": 6, "bob": 2}, turn


async def a_better_priority_goes_before_the_share(store: Store) -> None:
    """Not before the limit."""
    await _queue(store, "ann", 3)
    assert await _claim(store, "a", {"ann": TenantLimits(max_busy=3)}, 2) == {"ann": 2}
    await _queue(store, "ann", 2, "urgent", priority=1)
    await _queue(store, "bob", 1)
    tenants = {"ann": TenantLimits(max_busy=3)}
    assert await _claim_ids(store, "b", tenants) == ["ann-urgent0"]
    assert await _claim_ids(store, "c", tenants) == ["bob-0"]
    assert await _claim_ids(store, "d", tenants) == []


async def what_is_stale_takes_no_place_of_a_tenant(store: Store) -> None:
    """It is dropped, and the next thread of the tenant is claimed."""
    await _queue(store, "ann", 3)
    thread = namespace_of("ann") + "t-0"
    await Writer(store, thread).commit(run=run("@ann:r", WAITING, thread_id=thread))
    resume = dispatch("resume", thread, run_id="@ann:r", mode=InputMode.RESUME, priority=1)
    await store.enqueue(resume)
    await store.interrupt(thread, "user")
    assert await _claim(store, "a", LIMITS, 9) == {"ann": 2}


async def agents_of_others_take_no_place_of_a_tenant(store: Store) -> None:
    """Work is shared among what the worker can do."""
    await _queue(store, "ann", 3, "other", agent_id="other")
    await _queue(store, "ann", 3)
    found = await store.claim("worker", "a", LONG_MS, limit=9, agents=("agent",), tenants=LIMITS)
    assert [it.dispatch_id for it in found] == ["ann-0", "ann-1"]


async def queues_are_counted_by_tenant(store: Store) -> None:
    """What is queued, not what is claimed; tenants without any are left out."""
    assert await store.count_queued_by_tenant() == {}
    await _queue(store, "ann", 3)
    await _queue(store, "bob", 1)
    await _queue(store, None, 1)
    assert await store.count_queued_by_tenant() == {"ann": 3, "bob": 1}
    assert await _claim(store, "a", LIMITS, 9) == {"ann": 2, "bob": 1, None: 1}
    assert await store.count_queued_by_tenant() == {"ann": 1}


async def _queue(
    store: Store,
    tenant: str | None,
    count: int,
    name: str = "",
    agent_id: str = "agent",
    priority: int = 128,
) -> None:
    """Queue input on threads of their own."""
    mark = namespace_of(tenant)
    for number in range(count):
        thread_id = f"{mark}t-{name}{number}"
        request = RunRequest(agent_id=agent_id, thread_id=thread_id, tenant_id=tenant)
        sent = dispatch(
            f"{tenant}-{name}{number}",
            thread_id,
            run_id=f"{mark}r-{name}{number}",
            request=request,
            priority=priority,
        )
        await store.enqueue(sent)


async def _claim(
    store: Store,
    token: str,
    tenants: Mapping[str, TenantLimits],
    limit: int,
    lease_ms: int = LONG_MS,
    agents: tuple[str, ...] | None = None,
) -> Counter[str | None]:
    """Claim what is due, and count it by tenant."""
    found = await store.claim(
        "worker", token, lease_ms, limit=limit, agents=agents, tenants=tenants
    )
    return Counter(tenant_in(it.thread_id) for it in found)


async def _claim_ids(store: Store, token: str, tenants: Mapping[str, TenantLimits]) -> list[str]:
    found = await store.claim("worker", token, LONG_MS, tenants=tenants)
    return [it.dispatch_id for it in found]


async def _list_claimed(store: Store) -> list[RunDispatch]:
    query = DispatchQuery(status=CLAIMED, limit=LIMIT_MAX)
    return list((await store.list_dispatches(query)).items)


CHECKS = (
    a_tenant_has_at_most_its_limit_of_claims,
    limits_for_every_tenant_hold_for_those_without_their_own,
    a_run_that_waits_or_ends_frees_its_place,
    the_death_of_a_worker_frees_its_places,
    a_claim_that_a_commit_took_counts,
    claimers_at_once_do_not_exceed_a_limit,
    slots_are_shared_by_weight,
    a_better_priority_goes_before_the_share,
    what_is_stale_takes_no_place_of_a_tenant,
    agents_of_others_take_no_place_of_a_tenant,
    queues_are_counted_by_tenant,
)
