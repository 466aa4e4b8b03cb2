"""A process follows the head: in order, never backwards, and never stale because of one agent."""

import asyncio
import logging
from typing import Any

import msgspec
import pytest

from awaken.contracts.config.errors import RefusedByWorkers
from awaken.contracts.config.heads import (
    CanaryPlan,
    ConfigHead,
    SwitchKind,
    SwitchState,
)
from awaken.contracts.config.publications import Publication
from awaken.contracts.config.store import ConfigReceipt, ConfigWrite
from awaken.contracts.errors import StoreUnavailable
from awaken.managed.drafts import PublishDraft
from awaken.managed.followers import Follower
from awaken.managed.heads import SwitchOrder
from awaken.managed.live import LiveConfig
from awaken.stores.memory.store import MemoryStore

from .config_world import ANN, BEN, CODE_AGENT, ConfigWorld, in_loop, write_agent


class ShakyStore(MemoryStore):
    """A store that can be away, and that can have lost a publication."""

    def __init__(self) -> None:
        super().__init__()
        self.is_away = False
        self.lost: set[int] = set()

    async def find_config_head(self) -> ConfigHead | None:
        self._check()
        return await super().find_config_head()

    async def load_publication(self, no: int) -> Publication | None:
        self._check()
        return None if no in self.lost else await super().load_publication(no)

    async def write_config(self, write: ConfigWrite) -> ConfigReceipt:
        self._check()
        return await super().write_config(write)

    def _check(self) -> None:
        if self.is_away:
            raise StoreUnavailable(store="test", problem="the test took it away")


def two_processes(**options: Any) -> tuple[ShakyStore, ConfigWorld, ConfigWorld]:
    store = ShakyStore()
    return store, ConfigWorld(store), ConfigWorld(store, **options)


@in_loop
async def test_a_follower_installs_what_another_process_published() -> None:
    _, ours, theirs = two_processes()
    await ours.put("support", system_prompt="one")
    await theirs.managed.live.refresh()
    assert theirs.compiler.installed == [1]
    await ours.put("support", system_prompt="two")
    await ours.put("support", system_prompt="three")
    await theirs.managed.live.refresh()
    # The publication between was never seen, and nothing is missed by that.
    assert theirs.compiler.installed == [1, 3]
    assert theirs.compiler.specs["support"].system_prompt == "three"
    applied = theirs.managed.live.applied
    assert (applied.publication, applied.revision, applied.problem) == (3, 3, None)
    assert theirs.reports[-1] == applied


@in_loop
async def test_the_same_head_is_applied_once() -> None:
    _, ours, theirs = two_processes()
    await ours.put("support")
    for _ in range(3):
        await theirs.managed.live.refresh()
    assert (theirs.compiler.installed, len(theirs.heads)) == ([1], 1)


@in_loop
async def test_a_change_of_the_head_alone_compiles_nothing_again() -> None:
    _, ours, theirs = two_processes()
    await ours.put("support")
    await theirs.managed.live.refresh()
    await ours.managed.heads.set_switch(
        SwitchOrder(
            kind=SwitchKind.TOOL, id="pay", state=SwitchState.DISABLED, reason="it pays twice"
        ),
        ANN,
    )
    await theirs.managed.live.refresh()
    assert theirs.compiler.installed == [1]
    assert [it.id for it in theirs.heads[-1].switches] == ["pay"]
    await ours.managed.heads.release_switch(SwitchKind.TOOL, "pay", ANN)
    await theirs.managed.live.refresh()
    assert theirs.heads[-1].switches == ()


@in_loop
async def test_an_older_head_never_replaces_a_newer_one() -> None:
    _, ours, theirs = two_processes()
    take = ours.managed.live.take_published

    async def take_late(compiled: Any, receipt: ConfigReceipt) -> None:
        # Between the write and its installation here, another publication was made and followed.
        ours.managed.live.take_published = take  # type: ignore[method-assign]
        await theirs.put("support", BEN, system_prompt="newer")
        await ours.managed.live.refresh()
        await take(compiled, receipt)

    ours.managed.live.take_published = take_late  # type: ignore[method-assign]
    await ours.put("other", system_prompt="older")
    assert (ours.compiler.installed, ours.compiler.kept) == ([2], [1])
    assert ours.compiler.specs["support"].system_prompt == "newer"
    assert ours.managed.live.head.revision == 2


@in_loop
async def test_a_follower_with_a_broken_agent_is_partial_and_on_the_new_publication() -> None:
    """`broken` compiles where it is published, and not here."""
    store = ShakyStore()
    ours = ConfigWorld(store)
    theirs = ConfigWorld(store)
    ours.compiler.refused_prompt = "nothing"
    await ours.put("support", system_prompt="fine")
    await theirs.managed.live.refresh()
    await ours.put("odd", system_prompt="broken")
    await ours.put("support", system_prompt="stricter")
    await theirs.managed.live.refresh()
    assert theirs.compiler.specs["support"].system_prompt == "stricter"
    applied = theirs.managed.live.applied
    assert (applied.publication, dict(applied.unusable)) == (3, {"odd": "its prompt is broken"})
    assert [it.path for it in theirs.managed.live.diagnostics] == ["agents/odd/system_prompt"]


@in_loop
async def test_a_lost_publication_is_told_and_what_is_installed_stays() -> None:
    store, ours, theirs = two_processes()
    await ours.put("support", system_prompt="one")
    await theirs.managed.live.refresh()
    await ours.put("support", system_prompt="two")
    store.lost.add(2)
    await theirs.managed.live.refresh()
    applied = theirs.managed.live.applied
    assert (applied.publication, theirs.compiler.installed) == (1, [1])
    assert "Publication 2" in (applied.problem or "")
    # The head still counts: a switch is never missed.
    await ours.managed.heads.set_switch(
        SwitchOrder(kind=SwitchKind.ALL, id="*", state=SwitchState.PAUSED, reason="why"), ANN
    )
    await theirs.managed.live.refresh()
    assert theirs.heads[-1].switches
    store.lost.clear()
    await ours.put("support", system_prompt="three")
    await theirs.managed.live.refresh()
    assert (theirs.managed.live.applied.problem, theirs.compiler.installed) == (None, [1, 3])


@in_loop
async def test_a_process_catches_up_when_the_store_is_back() -> None:
    store, ours, theirs = two_processes()
    await ours.put("support", system_prompt="one")
    await theirs.managed.live.refresh()
    await ours.put("support", system_prompt="two")
    store.is_away = True
    with pytest.raises(StoreUnavailable):
        await theirs.managed.live.refresh()
    with pytest.raises(StoreUnavailable):
        await theirs.put("support", system_prompt="three")
    assert theirs.compiler.specs["support"].system_prompt == "one"
    store.is_away = False
    await theirs.managed.live.refresh()
    assert theirs.compiler.specs["support"].system_prompt == "two"


@in_loop
async def test_the_follower_survives_a_store_that_is_away() -> None:
    logging.getLogger("awaken.managed.live").setLevel(logging.CRITICAL)
    store, ours, theirs = two_processes()
    await theirs.managed.live.open()
    try:
        store.is_away = True
        theirs.managed.live.wake()
        for _ in range(10):
            await asyncio.sleep(0)
        store.is_away = False
        await ours.put("support")
        theirs.managed.live.wake()
        async with asyncio.timeout(5):
            while not theirs.compiler.installed:
                await asyncio.sleep(0)
    finally:
        await theirs.managed.live.close()
        logging.getLogger("awaken.managed.live").setLevel(logging.NOTSET)
    assert theirs.compiler.installed == [1]


@in_loop
async def test_a_signal_that_cannot_be_sent_loses_nothing() -> None:
    world = ConfigWorld()

    async def fail() -> None:
        raise StoreUnavailable(store="test", problem="no bus")

    parts = msgspec.structs.replace(world.managed.parts, notify_changed=fail)
    world.managed.live._parts = parts
    assert await world.put("support") == 1
    await world.managed.heads.set_switch(
        SwitchOrder(kind=SwitchKind.ALL, id="*", state=SwitchState.PAUSED, reason="why"), ANN
    )
    assert world.compiler.installed == [1]
    assert world.compiler.discarded == 0


@in_loop
async def test_a_process_that_is_pinned_stays_on_its_publication_and_hears_of_switches() -> None:
    store = ShakyStore()
    ours, world = ConfigWorld(store), ConfigWorld(store)
    await ours.put("support", system_prompt="one")
    await ours.put("support", system_prompt="two")
    live = LiveConfig(
        world.managed.parts, world._apply_head, world.reports.append, lambda: 0.5, pinned=1
    )
    await live.refresh()
    await ours.managed.heads.set_switch(
        SwitchOrder(kind=SwitchKind.ALL, id="*", state=SwitchState.PAUSED, reason="why"), ANN
    )
    await live.refresh()
    assert (world.compiler.installed, live.applied.publication) == ([1], 1)
    assert world.heads[-1].switches


@in_loop
async def test_a_stored_secret_that_changes_reaches_every_process() -> None:
    _, ours, theirs = two_processes()
    resolve = theirs.managed.parts.resolver.resolve
    await ours.managed.heads.set_secret("providers/mine/api_key", "sk-1", ANN)
    await theirs.managed.live.refresh()
    assert resolve("store:providers/mine/api_key") == "sk-1"
    await ours.managed.heads.set_secret("providers/mine/api_key", "sk-2", ANN)
    await theirs.managed.live.refresh()
    assert resolve("store:providers/mine/api_key") == "sk-2"
    assert theirs.compiler.installed == []


class Watched:
    """Two processes of which one publishes for all; what the other says of a trial is its own."""

    def __init__(self, **options: Any) -> None:
        _, self.ours, self.theirs = two_processes(**options)
        self.ours.compiler.refused_prompt = "nothing"
        self.ours.managed.publisher._list_followers = self.list_followers

    async def list_followers(self) -> list[Follower]:
        await self.theirs.managed.live.refresh()
        return [
            Follower(id=name, trial=it.trial, trial_problems=it.trial_problems)
            for name, it in (
                ("ours", self.ours.managed.live.applied),
                ("theirs", self.theirs.managed.live.applied),
            )
        ]

    async def publish(self, **agents: str) -> int:
        drafts = self.ours.managed.drafts
        draft = await drafts.create(ANN)
        for name, prompt in agents.items():
            body = {"model_id": "scripted", "system_prompt": prompt}
            await drafts.put_record(draft.id, write_agent(name), body)
        how = PublishDraft(author=ANN, is_required_of_all=True)
        return (await drafts.publish(draft.id, how)).publication.no


@in_loop
async def test_what_is_required_of_all_is_tried_in_every_process_first() -> None:
    world = Watched()
    number = await world.publish(support="fine")
    head = await world.ours.managed.heads.read_head()
    assert (head.publication, head.trial) == (number, None)
    await world.theirs.managed.live.refresh()
    assert (world.theirs.compiler.installed, world.theirs.compiler.discarded) == ([number], 1)


@in_loop
async def test_one_process_that_would_lose_an_agent_refuses_for_all() -> None:
    world = Watched()
    await world.publish(support="fine")
    before = await world.ours.managed.heads.read_head()
    with pytest.raises(RefusedByWorkers, match="theirs: its prompt is broken") as refused:
        await world.publish(support="broken")
    assert [it.path for it in refused.value.problems] == ["agents/support/system_prompt"]
    head = await world.ours.managed.heads.read_head()
    assert (head.publication, head.trial) == (before.publication, None)
    assert world.theirs.compiler.specs["support"].system_prompt == "fine"


@in_loop
async def test_what_a_process_has_lost_already_refuses_nothing() -> None:
    world = Watched()
    await world.ours.put("odd", system_prompt="broken")
    number = await world.publish(support="fine")
    head = await world.ours.managed.heads.read_head()
    assert head.publication == number


@in_loop
async def test_a_trial_of_another_process_is_not_ended() -> None:
    world = Watched()

    async def begin_another() -> list[Follower]:
        head = await world.ours.managed.heads.read_head()
        if head.trial != 99:
            changed = msgspec.structs.replace(head, trial=99)
            await world.ours.store.write_config(
                ConfigWrite(head=changed, expected_revision=head.revision)
            )
        return [Follower(id="ours", trial=head.trial)]

    world.ours.managed.publisher._list_followers = begin_another
    await world.publish(support="fine")
    assert (await world.ours.managed.heads.read_head()).trial == 99


@in_loop
async def test_a_canary_is_compiled_once_and_kept() -> None:
    _, ours, theirs = two_processes(code={"greeter": CODE_AGENT})
    await ours.put("support", system_prompt="one")
    draft = await ours.managed.drafts.create(ANN)
    body = {"model_id": "scripted", "system_prompt": "two"}
    await ours.managed.drafts.put_record(draft.id, write_agent("support"), body)
    how = PublishDraft(author=ANN, canary=CanaryPlan(percent=50))
    await ours.managed.drafts.publish(draft.id, how)
    await theirs.managed.live.refresh()
    await ours.managed.heads.set_switch(
        SwitchOrder(kind=SwitchKind.ALL, id="*", state=SwitchState.PAUSED, reason="why"), ANN
    )
    await theirs.managed.live.refresh()
    assert (theirs.compiler.installed, theirs.compiler.kept) == ([1], [2])
    assert (ours.compiler.installed, ours.compiler.kept) == ([1], [2])
