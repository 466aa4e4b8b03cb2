"""Canaries: which guardrail one breaches, that it is ended once, and how it becomes live."""

from collections import Counter
from typing import Any

import pytest

from awaken.contracts.config.audit import AuditQuery
from awaken.contracts.config.errors import (
    CanaryConflict,
    LiveConflict,
    NoCanary,
    PublishRefused,
    SwitchConflict,
)
from awaken.contracts.config.heads import (
    CanaryKey,
    CanaryPlan,
    Guardrails,
    SeenCanary,
    SwitchKind,
    SwitchState,
)
from awaken.contracts.config.store import ConfigReceipt, ConfigWrite
from awaken.contracts.models.model_specs import NANOS
from awaken.contracts.runs.records import RunRequest
from awaken.managed.canaries import EndedRun, find_breach
from awaken.managed.drafts import PublishDraft
from awaken.managed.heads import SwitchOrder
from awaken.managed.history import list_undone
from awaken.managed.parts import Author
from awaken.managed.publishing import Published
from awaken.runtime.resolution.canary import CanaryChoice
from awaken.stores.memory.store import MemoryStore

from .config_world import ANN, BEN, ConfigWorld, in_loop, write_agent


def runs(good: int, bad: int = 0, *, ms: int = 100, usd: float | None = None) -> list[EndedRun]:
    cost = None if usd is None else round(usd * NANOS)
    return [
        EndedRun(is_error=number < bad, duration_ms=ms, cost_nanos=cost)
        for number in range(good + bad)
    ]


@pytest.mark.parametrize(
    ("rails", "tried", "live", "breach"),
    [
        ({"max_error_rate": 0.1}, runs(18, 2), [], None),
        ({"max_error_rate": 0.1}, runs(17, 3), [], "error rate"),
        # Too few runs to tell.
        ({"max_error_rate": 0.1}, runs(0, 19), [], None),
        ({"max_error_rate": 0.1, "min_runs": 19}, runs(0, 19), [], "error rate"),
        ({"max_error_rate": 0}, runs(19, 1), [], "error rate"),
        ({"max_error_rate_ratio": 2}, runs(16, 4), runs(90, 10), None),
        ({"max_error_rate_ratio": 2}, runs(15, 5), runs(90, 10), "2 times"),
        # Without failures of the live one there is no ratio.
        ({"max_error_rate_ratio": 2}, runs(15, 5), runs(90), None),
        ({"max_error_rate_ratio": 2}, runs(15, 5), [], None),
        ({"max_p95_ms": 100}, runs(19) + runs(1, ms=900), [], None),
        ({"max_p95_ms": 100}, runs(18) + runs(2, ms=900), [], "p95 of 900 ms"),
        ({"max_cost_usd_per_run": 0.5}, runs(20, usd=0.5), [], None),
        ({"max_cost_usd_per_run": 0.5}, runs(20, usd=0.51), [], "costs 0.5100 USD"),
        # A run without a known price says nothing about the cost.
        ({"max_cost_usd_per_run": 0.5}, runs(30) + runs(1, usd=0.4), [], None),
        ({}, runs(0, 100, ms=10**6, usd=99), runs(100), None),
    ],
)
def test_a_guardrail_is_breached_only_above_its_limit(
    rails: dict[str, Any], tried: list[EndedRun], live: list[EndedRun], breach: str | None
) -> None:
    found = find_breach(Guardrails(**rails), tried, live)
    assert found is None if breach is None else breach in (found or "")


STRICT = CanaryPlan(percent=50, guardrails=Guardrails(min_runs=2, max_error_rate=0.1))


async def try_agent(world: ConfigWorld, prompt: str, plan: CanaryPlan = STRICT) -> Published:
    draft = await world.managed.drafts.create(ANN)
    body = {"model_id": "scripted", "system_prompt": prompt}
    await world.managed.drafts.put_record(draft.id, write_agent("support"), body)
    return await world.managed.drafts.publish(draft.id, PublishDraft(author=ANN, canary=plan))


async def audit_of(world: ConfigWorld) -> list[tuple[str, str]]:
    rows = await world.store.list_audit(AuditQuery(limit=100))
    return [(it.event.action.value, it.event.actor) for it in reversed(rows)]


@in_loop
async def test_two_processes_end_a_breaching_canary_once() -> None:
    store = MemoryStore()
    ours, theirs = ConfigWorld(store), ConfigWorld(store)
    await ours.put("support", system_prompt="live")
    await try_agent(ours, "tried")
    await theirs.managed.live.refresh()
    for world in (ours, theirs):
        world.ended = {1: runs(20), 2: runs(1)}
        assert await world.managed.canary.judge() is None
        world.ended[2] = runs(1, 9)
    told = [await it.managed.canary.judge() for it in (ours, theirs)]
    assert (told[0], told[1]) == ("error rate 90.0% is above 10.0%", None)
    head = await ours.managed.heads.read_head()
    assert (head.publication, head.canary) == (1, None)
    assert (await audit_of(ours))[-1] == ("canary", "guardrail")
    assert Counter(await audit_of(ours))["canary", "guardrail"] == 1
    await theirs.managed.live.refresh()
    assert await theirs.managed.canary.judge() is None


@in_loop
async def test_a_guardrail_does_not_end_the_canary_that_came_after() -> None:
    store = MemoryStore()
    ours, theirs = ConfigWorld(store), ConfigWorld(store)
    await ours.put("support", system_prompt="live")
    await try_agent(ours, "tried")
    await theirs.managed.live.refresh()
    await ours.managed.heads.end_canary(SeenCanary(publication=2), ANN, "enough")
    await try_agent(ours, "tried again")
    theirs.ended = {2: runs(0, 10)}
    # It still judges the first one, which it saw.
    assert await theirs.managed.canary.judge() is None
    canary = (await ours.managed.heads.read_head()).canary
    assert canary is not None
    assert canary.publication == 3


@in_loop
async def test_a_promoted_canary_is_live_everywhere() -> None:
    store = MemoryStore()
    ours, theirs = ConfigWorld(store), ConfigWorld(store)
    await ours.put("support", system_prompt="live")
    await try_agent(ours, "tried")
    await theirs.managed.live.refresh()
    await theirs.managed.heads.promote_canary(SeenCanary(publication=2), BEN, "good")
    await ours.managed.live.refresh()
    for world in (ours, theirs):
        assert world.compiler.specs["support"].system_prompt == "tried"
        assert world.managed.live.head.canary is None
    assert (await audit_of(ours))[-1] == ("promote", "ben")
    with pytest.raises(NoCanary):
        await ours.managed.heads.promote_canary(SeenCanary(publication=2), BEN)


@in_loop
async def test_a_decision_about_a_canary_that_a_colleague_replaced_is_refused() -> None:
    world = ConfigWorld()
    heads = world.managed.heads
    await world.put("support", system_prompt="live")
    await try_agent(world, "tried")
    seen = SeenCanary(publication=2)
    await heads.end_canary(seen, BEN, "worse")
    await try_agent(world, "tried by ben")
    for decision in (heads.promote_canary(seen, ANN), heads.end_canary(seen, ANN, "enough")):
        with pytest.raises(CanaryConflict, match="publication 3 runs"):
            await decision
    # The same publication is tried again: the figures that were read are of the first trial.
    first = (await heads.read_head()).canary
    assert first is not None
    old = SeenCanary(publication=3, since=first.since)
    await heads.end_canary(old, BEN, "once more, with more runs")
    world.clock.advance(1)
    await heads.start_canary(3, STRICT, BEN)
    with pytest.raises(CanaryConflict):
        await heads.promote_canary(old, ANN)
    assert (await heads.read_head()).publication == 1
    assert (await heads.promote_canary(SeenCanary(publication=3), ANN)).publication == 3


@in_loop
async def test_a_guardrail_does_not_end_the_same_publication_that_is_tried_again() -> None:
    store = MemoryStore()
    ours, theirs = ConfigWorld(store), ConfigWorld(store)
    await ours.put("support", system_prompt="live")
    await try_agent(ours, "tried")
    await theirs.managed.live.refresh()
    await ours.managed.heads.end_canary(SeenCanary(publication=2), ANN, "a stricter plan")
    ours.clock.advance(1)
    await ours.managed.heads.start_canary(2, STRICT, ANN)
    theirs.ended = {2: runs(0, 10)}
    assert await theirs.managed.canary.judge() is None
    assert (await ours.managed.heads.read_head()).canary is not None


@in_loop
async def test_going_back_undoes_only_what_was_seen_and_ends_only_the_canary_that_it_names() -> (
    None
):
    world = ConfigWorld()
    heads = world.managed.heads
    await world.put("support", system_prompt="one")
    await world.put("support", system_prompt="two")
    await world.put("support", system_prompt="three")
    with pytest.raises(LiveConflict, match="Publication 3 is live, not 2"):
        await heads.roll_back(1, ANN, expected_head=2)
    undone = await list_undone(world.store, 3, 1)
    assert [it.no for it in undone] == [3, 2]
    await try_agent(world, "tried")
    await heads.end_canary(SeenCanary(publication=4), BEN, "worse")
    await try_agent(world, "tried by ben")
    seen = SeenCanary(publication=4)
    with pytest.raises(CanaryConflict, match="publication 5 runs"):
        await heads.roll_back(1, ANN, expected_head=3, over_canary=seen)
    with pytest.raises(PublishRefused, match="publication 5 is being tried"):
        await heads.roll_back(1, ANN, expected_head=3)
    seen = SeenCanary(publication=5)
    published = await heads.roll_back(1, ANN, expected_head=3, over_canary=seen)
    assert published.publication.no == 6
    assert (await heads.read_head()).canary is None
    # What was tried beside it never became live: nothing of it is undone.
    undone = await list_undone(world.store, 6, 1)
    assert [it.no for it in undone] == [6, 3, 2]


@in_loop
async def test_going_back_to_what_equals_the_live_one_ends_the_canary_as_it_says() -> None:
    world = ConfigWorld()
    await world.put("support", system_prompt="one")
    await world.put("support", system_prompt="two")
    await world.managed.heads.roll_back(1, ANN, expected_head=2)
    await try_agent(world, "tried")
    seen = SeenCanary(publication=4)
    back = await world.managed.heads.roll_back(1, ANN, expected_head=3, over_canary=seen)
    assert back.is_changed
    assert (await world.managed.heads.read_head()).canary is None


@in_loop
async def test_a_switch_that_is_set_meanwhile_is_no_reason_to_refuse_a_publication() -> None:
    world = ConfigWorld()
    await world.put("support", system_prompt="one")
    await world.put("support", system_prompt="two")
    order = SwitchOrder(
        kind=SwitchKind.AGENT, id="support", state=SwitchState.PAUSED, reason="wrong answers"
    )
    read, switches = world.store.write_config, iter((order,))

    async def write(write: ConfigWrite) -> ConfigReceipt:
        if write.publication is not None and (switch := next(switches, None)) is not None:
            await world.managed.heads.set_switch(switch, BEN)
        return await read(write)

    world.store.write_config = write  # type: ignore[method-assign]
    published = await world.managed.heads.roll_back(1, ANN, expected_head=2)
    assert published.publication.no == 3
    assert (await world.managed.heads.read_head()).switches[0].reason == "wrong answers"


@in_loop
async def test_a_switch_that_was_set_again_for_another_reason_is_not_released_unread() -> None:
    world = ConfigWorld()
    heads = world.managed.heads

    async def stop(reason: str, author: Author) -> int:
        order = SwitchOrder(
            kind=SwitchKind.AGENT, id="support", state=SwitchState.PAUSED, reason=reason
        )
        return (await heads.set_switch(order, author)).switches[0].at

    seen = await stop("slow", ANN)
    world.clock.advance(1)
    now = await stop("it deletes data", BEN)
    with pytest.raises(SwitchConflict, match="ben has set"):
        await heads.release_switch(SwitchKind.AGENT, "support", ANN, set_at=seen)
    head = await heads.release_switch(SwitchKind.AGENT, "support", ANN, set_at=now)
    assert head.switches == ()


@in_loop
async def test_publishing_beside_a_canary_needs_to_be_said_and_ends_it() -> None:
    world = ConfigWorld()
    await world.put("support", system_prompt="first")
    await world.put("support", system_prompt="live")
    await try_agent(world, "tried")
    with pytest.raises(PublishRefused, match="publication 3 is being tried"):
        await world.put("support", system_prompt="next")
    with pytest.raises(PublishRefused):
        await world.managed.heads.roll_back(1, ANN, expected_head=2)
    draft = await world.managed.drafts.create(ANN)
    body = {"model_id": "scripted", "system_prompt": "next"}
    await world.managed.drafts.put_record(draft.id, write_agent("support"), body)
    how = PublishDraft(author=ANN, over_canary=SeenCanary(publication=3))
    published = await world.managed.drafts.publish(draft.id, how)
    head = await world.managed.heads.read_head()
    assert (head.publication, head.canary) == (published.publication.no, None)
    assert world.compiler.specs["support"].system_prompt == "next"


@pytest.mark.parametrize("percent", [0.01, 1, 10, 50, 99.5, 100])
def test_a_canary_takes_its_share_of_the_threads(percent: float) -> None:
    choice = CanaryChoice(publication=2, salt="salt", basis_points=round(percent * 100))
    request = RunRequest(agent_id="a")
    threads = [f"thread-{number}" for number in range(10_000)]
    chosen = [choice.choose(request, it) for it in threads]
    assert chosen == [choice.choose(request, it) for it in threads]
    taken, expected = chosen.count(2), percent * 100
    rest = 10_000 - expected
    # χ² with one degree of freedom; the keys and the salt are fixed, so that it never flickers.
    chi = (taken - expected) ** 2 / expected + ((taken - expected) ** 2 / rest if rest else 0)
    assert chi < 10.83


def test_another_canary_chooses_other_threads() -> None:
    request, by = RunRequest(agent_id="a"), CanaryKey.THREAD
    first, second = (
        CanaryChoice(publication=2, salt=salt, basis_points=5_000, by=by) for salt in ("a", "b")
    )
    threads = [f"thread-{number}" for number in range(1_000)]
    same = sum(first.choose(request, it) == second.choose(request, it) for it in threads)
    assert 400 < same < 600
