"""Old configuration goes; what is live, young, or pinned by a run stays."""

import pytest

from awaken.contracts.config.audit import AuditQuery
from awaken.contracts.config.errors import PublishRefused
from awaken.managed.publish_rules import FreezeWindow, PublishRules, combine_rules
from awaken.managed.retention import DAY_MS, HOUR_MS, ConfigPurger, ConfigRetention

from .config_world import ANN, ConfigWorld, in_loop, write_agent


def purger_of(world: ConfigWorld, *pinned: int, **limits: int) -> ConfigPurger:
    async def list_pinned() -> frozenset[int]:
        return frozenset(pinned)

    retention = ConfigRetention(**limits)
    return ConfigPurger(world.store, world.clock, list_pinned, lambda: retention)


async def numbers_of(world: ConfigWorld) -> list[int]:
    return [it.no for it in await world.store.list_publications()]


@in_loop
async def test_publications_go_when_they_are_old_and_no_run_or_head_needs_them() -> None:
    world = ConfigWorld()
    for at in range(5):
        await world.put("a", system_prompt=f"{at}")
    await purger_of(world, publications=1).purge_if_due()
    assert await numbers_of(world) == [5, 4, 3, 2, 1]
    world.clock.advance(366 * DAY_MS)
    await purger_of(world, 2, publications=1).purge_if_due()
    assert await numbers_of(world) == [5, 2]


@in_loop
async def test_audit_events_and_drafts_go_at_their_own_times() -> None:
    world = ConfigWorld()
    await world.put("a")
    await world.managed.drafts.create(ANN, "old")
    world.clock.advance(31 * DAY_MS)
    await world.put("a", system_prompt="new")
    purged = await purger_of(world, audit_days=30).purge_if_due()
    assert purged is not None
    assert (purged.audit, purged.drafts) == (1, 1)
    assert len(await world.store.list_audit(AuditQuery())) == 1
    assert (await world.managed.audit.verify()).is_intact


@in_loop
async def test_a_process_purges_once_an_hour() -> None:
    world = ConfigWorld()
    purger = purger_of(world)
    assert await purger.purge_if_due() is not None
    assert await purger.purge_if_due() is None
    world.clock.advance(HOUR_MS)
    assert await purger.purge_if_due() is not None


@in_loop
async def test_the_rules_of_a_server_hold_beside_those_of_the_runtime() -> None:
    world = ConfigWorld(rules=PublishRules(requires_message=True))
    served = world.managed.with_rules(PublishRules(requires_second_person=True))
    with pytest.raises(PublishRefused) as refused:
        await served.records.put(write_agent("a"), {"model_id": "scripted"})
    assert len(refused.value.unmet) == 2
    with pytest.raises(PublishRefused) as refused:
        await world.put("a")
    assert refused.value.unmet == ("a message is required",)
    assert served.live is world.managed.live
    window = FreezeWindow(begin=1, end=2)
    assert combine_rules(PublishRules(freeze=(window,)), PublishRules()).freeze == (window,)
