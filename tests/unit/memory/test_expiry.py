"""Facts that expire: renewed when they are said again, removed by the sweeper, forgotten whole."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, MailboxConfig
from awaken.contracts.storage.store import Store
from awaken.errors import UnknownFact
from awaken.extensions.memory import FactSource, user_memory
from awaken.stores import MemoryStore, SqliteStore
from awaken.stores.sqlite.clock import Moment
from awaken.testing import FakeClock, LoopClock, ScriptedModel, replay

ANN = user_memory("acme", "ann")
SOURCE = FactSource()
DAY_MS = 24 * 3600 * 1000


def opened(
    kind: str, folder: Path, test: Callable[[AgentRuntime, FakeClock], Awaitable[None]]
) -> None:
    clock = FakeClock()

    def now() -> Moment:
        return Moment(wall_ms=clock.now_ms(), lease_ms=clock.monotonic_ms())

    async def main() -> None:
        store: Store = MemoryStore(clock=clock)
        if kind == "sqlite":
            store = SqliteStore(folder / "a.db", now)
        async with AgentRuntime(store=store, clock=clock) as runtime:
            await test(runtime, clock)

    asyncio.run(asyncio.wait_for(main(), 30))


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize(
    ("first", "again", "kept"),
    [(2, None, None), (2, 5, 5), (5, 2, 5), (None, 2, None)],
)
def test_a_fact_that_is_said_again_is_kept_for_the_longer_time(
    kind: str, first: int | None, again: int | None, kept: int | None, tmp_path: Path
) -> None:
    async def test(runtime: AgentRuntime, clock: FakeClock) -> None:
        remember, begun = runtime.memory.remember, clock.now_ms()
        ttl = {it: None if it is None else it * DAY_MS for it in (first, again, kept)}
        (one,) = await remember(ANN, ["Ann has a cold."], SOURCE, ttl_ms=ttl[first])
        (two,) = await remember(ANN, ["Ann has a cold."], SOURCE, ttl_ms=ttl[again])
        assert two.id == one.id
        assert two.expires_at == (None if kept is None else begun + kept * DAY_MS)
        assert await runtime.memory.get(ANN, one.id) == two
        clock.advance(3 * DAY_MS)
        found = await runtime.memory.search(ANN, "cold")
        assert [it.fact.id for it in found] == [one.id]

    opened(kind, tmp_path, test)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_an_expired_fact_can_be_forgotten(kind: str, tmp_path: Path) -> None:
    async def test(runtime: AgentRuntime, clock: FakeClock) -> None:
        (fact,) = await runtime.memory.remember(ANN, ["Dr. Xylophonist"], SOURCE, ttl_ms=1_000)
        clock.advance(2_000)
        forgotten = await runtime.memory.forget(ANN, fact.id)
        assert forgotten.is_erased
        assert forgotten.facts == ()
        files = [it.read_bytes().lower() for it in tmp_path.iterdir()]
        assert not [it for it in files if b"xylophonist" in it]
        with pytest.raises(UnknownFact):
            await runtime.memory.forget(ANN, fact.id)

    opened(kind, tmp_path, test)


def test_the_sweeper_removes_what_has_expired() -> None:
    async def work() -> None:
        clock = LoopClock()
        store = MemoryStore(clock=clock)
        agent = Agent("a", model=ScriptedModel(["Hi."], cycle=True))
        config = MailboxConfig(sweep_ms=60_000)
        async with AgentRuntime([agent], store=store, clock=clock, mailbox=config) as runtime:
            await runtime.memory.remember(ANN, ["Soon gone"], SOURCE, ttl_ms=1_000)
            await runtime.memory.remember(ANN, ["Stays"], SOURCE)
            engine: Any = store.open_memory()
            assert sum(len(it.items) for it in engine._shelves.values()) == 2
            # The sweeper begins with the first work that this process has.
            await runtime.submit("a", "Hello.")
            await asyncio.sleep(3600)
            assert sum(len(it.items) for it in engine._shelves.values()) == 1

    replay(work, seed=1)
