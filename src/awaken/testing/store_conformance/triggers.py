"""Webhook triggers: each delivery is recorded once, together with the run that it starts."""

import asyncio
from typing import Any

import msgspec

from awaken.contracts.errors import AlreadyExists, InvalidRecord, UnknownThread
from awaken.contracts.runs.records import RunRequest
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.dispatch import RunDispatch
from awaken.contracts.storage.queries import DeliveryQuery, Order, TriggerQuery, at_cursor
from awaken.contracts.storage.schedule_errors import ScheduleChanged
from awaken.contracts.storage.schedules import (
    Creator,
    DeliveryOutcome,
    HookDelivery,
    RunTarget,
    SignatureScheme,
    Trigger,
    TriggerSpec,
)

from .schedules import ScheduleCheck, StoreWithSchedules
from .writing import refusal

SPEC = TriggerSpec(
    scheme=SignatureScheme.GITHUB,
    secrets=("env:HOOK",),
    target=RunTarget(agent_id="writer", input="{/title}"),
)
_FAR = 10**14


def _trigger(trigger_id: str = "hook", **more: Any) -> Trigger:
    return Trigger(trigger_id=trigger_id, spec=SPEC, **more)


def _delivery(delivery_id: str = "1", **more: Any) -> HookDelivery:
    return HookDelivery(trigger_id="hook", delivery_id=delivery_id, **more)


def _dispatch(name: str, thread_id: str = "t1", tenant: str | None = None) -> RunDispatch:
    return RunDispatch(
        dispatch_id=name,
        thread_id=thread_id,
        run_id=f"run-{name}",
        request=RunRequest(thread_id=thread_id, tenant_id=tenant),
    )


async def a_trigger_comes_back_as_it_was(store: StoreWithSchedules) -> None:
    """With the store's times; its id is used once, and a blank one is refused."""
    made = await store.add_trigger(_trigger(creator=Creator(principal_id="ci", tenant_id="ann")))
    assert await store.find_trigger("hook") == made
    assert await store.find_trigger("other") is None
    await refusal(AlreadyExists, store.add_trigger(_trigger()))
    await refusal(InvalidRecord, store.add_trigger(_trigger(" ")))
    assert await store.find_trigger("hook") == made


async def a_change_of_a_trigger_keeps_its_deliveries(store: StoreWithSchedules) -> None:
    """A delivery is no change: the writer that read before it succeeds, and loses nothing of it."""
    made = await store.add_trigger(_trigger())
    delivered = await store.accept_delivery(_delivery())
    paused = msgspec.structs.replace(made, spec=msgspec.structs.replace(SPEC, is_paused=True))
    saved = await store.save_trigger(paused)
    assert (saved.last, saved.fired_count, saved.spec.is_paused) == (delivered, 1, True)
    await refusal(ScheduleChanged, store.save_trigger(paused))
    assert await store.find_trigger("hook") == saved


async def a_refused_delivery_is_decided_again(store: StoreWithSchedules) -> None:
    """Under its id in place of the refusal, under another id beside it; then it is a repeat."""
    await store.add_trigger(_trigger())
    refused = DeliveryOutcome.REFUSED
    for number in "12":
        made = await store.accept_delivery(_delivery(number, digest="d", outcome=refused))
        assert made is not None
        assert (made.delivery_id, made.outcome) == (number, refused)
    fired = _delivery("1", digest="d", run_id="run-a")
    first = await store.accept_delivery(fired, _dispatch("a"))
    assert first is not None
    assert first.run_id == "run-a"
    for again in (fired, _delivery("2", digest="d"), _delivery("3", digest="d")):
        assert await store.accept_delivery(again, _dispatch("b", "t2")) == first
    assert await store.find_delivery("hook", "1") == first
    page = await store.list_deliveries(DeliveryQuery(trigger_id="hook"))
    assert {it.delivery_id: it.outcome.value for it in page.items} == {"1": "fired", "2": "refused"}
    trigger = await store.find_trigger("hook")
    assert trigger is not None
    assert trigger.fired_count == 1


async def triggers_are_listed_by_creation(store: StoreWithSchedules) -> None:
    """In pages, filtered by tenant and agent."""
    for number in range(3):
        await store.add_trigger(_trigger(f"h{number}", creator=Creator(tenant_id=f"t{number}")))
    query = TriggerQuery(limit=2)
    page = await store.list_triggers(query)
    rest = await store.list_triggers(at_cursor(query, page.next_cursor or ""))
    names = [it.trigger_id for it in (*page.items, *rest.items)]
    assert sorted(names) == ["h0", "h1", "h2"]
    own = await store.list_triggers(TriggerQuery(tenant_id="t1", order=Order.DESC))
    assert [it.trigger_id for it in own.items] == ["h1"]
    assert (await store.list_triggers(TriggerQuery(agent_id="other"))).items == ()


async def a_repeated_delivery_starts_nothing(store: StoreWithSchedules) -> None:
    """The first answer comes back, whatever the repeat says; its dispatch is not queued."""
    await store.add_trigger(_trigger())
    first = await store.accept_delivery(_delivery(run_id="run-d1"), _dispatch("d1"))
    again = await store.accept_delivery(_delivery(run_id="run-d2"), _dispatch("d2"))
    assert first is not None
    assert again == first
    assert await store.find_delivery("hook", "1") == first
    assert await store.find_dispatch("d1") is not None
    assert await store.find_dispatch("d2") is None
    stored = await store.find_trigger("hook")
    assert stored is not None
    assert (stored.fired_count, stored.last) == (1, first)


async def a_repeated_body_is_a_repeat_under_any_id(store: StoreWithSchedules) -> None:
    """If the delivery has a digest; deliveries without one are told apart by their ids alone."""
    await store.add_trigger(_trigger())
    first = await store.accept_delivery(_delivery("1", digest="abc"))
    assert await store.accept_delivery(_delivery("2", digest="abc")) == first
    for number in "34":
        made = await store.accept_delivery(_delivery(number))
        assert made is not None
        assert made.delivery_id == number


async def concurrent_deliveries_start_one_run(store: StoreWithSchedules) -> None:
    """Of many requests with one delivery, one queues its dispatch, and all get its answer."""
    await store.add_trigger(_trigger())
    work = [
        store.accept_delivery(_delivery(run_id=f"run-d{it}"), _dispatch(f"d{it}", f"t{it}"))
        for it in range(8)
    ]
    answers = await asyncio.gather(*work)
    assert len({it.run_id for it in answers if it is not None}) == 1
    assert await store.count_queued() == 1


async def a_delivery_that_cannot_be_queued_changes_nothing(store: StoreWithSchedules) -> None:
    """A refused dispatch leaves no delivery: the sender's next try is not a repeat."""
    await store.save_thread(Thread(id="t1"))
    made = await store.add_trigger(_trigger())
    dispatch = _dispatch("d1", tenant="ann")
    await refusal(UnknownThread, store.accept_delivery(_delivery(), dispatch))
    assert await store.find_delivery("hook", "1") is None
    assert await store.find_trigger("hook") == made


async def a_deleted_trigger_accepts_nothing(store: StoreWithSchedules) -> None:
    """Its deliveries go with it."""
    await store.add_trigger(_trigger())
    await store.accept_delivery(_delivery())
    assert await store.delete_trigger("hook")
    assert not await store.delete_trigger("hook")
    assert await store.find_delivery("hook", "1") is None
    assert await store.accept_delivery(_delivery(), _dispatch("d1")) is None
    assert await store.find_dispatch("d1") is None


async def deliveries_are_listed_and_purged(store: StoreWithSchedules) -> None:
    """In pages, by outcome; old ones are removed, a few at a time."""
    await store.add_trigger(_trigger())
    for number in range(5):
        outcome = DeliveryOutcome.IGNORED if number % 2 else DeliveryOutcome.FIRED
        await store.accept_delivery(_delivery(str(number), outcome=outcome))
    query = DeliveryQuery(trigger_id="hook", limit=3, order=Order.DESC)
    page = await store.list_deliveries(query)
    rest = await store.list_deliveries(at_cursor(query, page.next_cursor or ""))
    assert len({it.delivery_id for it in (*page.items, *rest.items)}) == 5
    ignored = await store.list_deliveries(DeliveryQuery(trigger_id="hook", outcome="ignored"))
    assert {it.delivery_id for it in ignored.items} == {"1", "3"}
    assert await store.purge_firings(_FAR, 0, 100) == 0
    assert await store.purge_firings(0, _FAR, 3) == 3
    assert await store.purge_firings(0, _FAR, 3) == 2


CHECKS: tuple[ScheduleCheck, ...] = (
    a_trigger_comes_back_as_it_was,
    a_change_of_a_trigger_keeps_its_deliveries,
    a_refused_delivery_is_decided_again,
    triggers_are_listed_by_creation,
    a_repeated_delivery_starts_nothing,
    a_repeated_body_is_a_repeat_under_any_id,
    concurrent_deliveries_start_one_run,
    a_delivery_that_cannot_be_queued_changes_nothing,
    a_deleted_trigger_accepts_nothing,
    deliveries_are_listed_and_purged,
)
