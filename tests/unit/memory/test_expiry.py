"""Facts that expire: renewed when they are said again, removed by the sweeper, forgotten whole."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.server.in_process import ask, bearer, config, token

from awaken import Agent, AgentRuntime, MailboxConfig
from awaken.contracts.storage.store import Store
from awaken.errors import InvalidInput, UnknownFact
from awaken.extensions.memory import FactOrigin, FactSource, user_memory
from awaken.memory.service import MemoryService
from awaken.stores import MemoryStore, SqliteStore
from awaken.stores.sqlite.clock import Moment
from awaken.testing import FakeClock, LoopClock, ScriptedModel, replay

ANN = user_memory("acme", "ann")
SOURCE = FactSource()
DAY_MS = 24 * 3600 * 1000
FACTS = "/v1/memory/facts"


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
def test_an_edit_keeps_what_it_does_not_name(kind: str, tmp_path: Path) -> None:
    async def test(runtime: AgentRuntime, clock: FakeClock) -> None:
        source = FactSource(origin=FactOrigin.TOOL, run_id="r", thread_id="t", agent_id="a", by="a")
        memory, begun = runtime.memory, clock.now_ms()
        (fact,) = await memory.remember(ANN, ["Ann has a cold."], source, ttl_ms=5 * DAY_MS)
        clock.advance(DAY_MS)
        edited = await memory.edit(ANN, fact.id, "Ann has the flu.", by="ann")
        by_ann = msgspec.structs.replace(source, origin=FactOrigin.PERSON, by="ann")
        now = clock.now_ms()
        assert edited == msgspec.structs.replace(
            fact, text="Ann has the flu.", source=by_ann, updated_at=now
        )
        # A longer time is no other text: it is still the first one's.
        longer = await memory.edit(ANN, fact.id, "Ann has the flu.", by="bob", ttl_ms=9 * DAY_MS)
        assert longer == msgspec.structs.replace(edited, expires_at=now + 9 * DAY_MS)
        assert (await memory.edit(ANN, fact.id, "Ann is well.", by="ann")).expires_at is not None
        lasting = await memory.edit(ANN, fact.id, "Ann is well.", by="ann", ttl_ms=None)
        assert (lasting.expires_at, lasting.created_at) == (None, begun)
        clock.advance(30 * DAY_MS)
        assert await memory.get(ANN, fact.id) == lasting

    opened(kind, tmp_path, test)


def test_over_http_an_edit_says_of_the_expiry_only_what_it_names() -> None:
    async def main() -> None:
        async with AgentRuntime(store=MemoryStore()) as runtime:
            app = runtime.asgi(config(token("ann")))

            async def send(method: str, path: str, body: Any) -> Any:
                return (await ask(app, method, path, headers=bearer("ann"), body=body)).json

            made = await send("POST", FACTS, {"text": "Ann has a cold.", "ttl_ms": DAY_MS})
            place = f"{FACTS}/{made['id']}"
            kept = await send("PUT", place, {"text": "Ann has the flu."})
            assert kept == {**made, "text": "Ann has the flu.", "updated_at": kept["updated_at"]}
            longer = await send("PUT", place, {"text": "Ann has the flu.", "ttl_ms": 9 * DAY_MS})
            assert longer["expires_at"] > made["expires_at"]
            lasting = await send("PUT", place, {"text": "Ann is well.", "ttl_ms": None})
            assert lasting["expires_at"] is None

    asyncio.run(asyncio.wait_for(main(), 30))


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_an_expired_fact_can_be_forgotten(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def delete_nothing(_memory: MemoryService) -> int:
        return 0

    # The first sweep of the process might come before the test.
    monkeypatch.setattr(MemoryService, "delete_expired", delete_nothing)

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


@pytest.mark.parametrize("ttl_ms", [0, -1, 1 << 46, 10**20])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_time_to_live_that_no_store_could_keep_is_refused(
    kind: str, ttl_ms: int, tmp_path: Path
) -> None:
    async def run() -> None:
        store = MemoryStore() if kind == "memory" else SqliteStore(tmp_path / "a.db")
        async with AgentRuntime(store=store) as runtime:
            with pytest.raises(InvalidInput, match="time to live"):
                await runtime.memory.remember(ANN, ["tea"], FactSource(), ttl_ms=ttl_ms)
            (fact,) = await runtime.memory.remember(ANN, ["tea"], FactSource())
            with pytest.raises(InvalidInput, match="time to live"):
                await runtime.memory.edit(ANN, fact.id, "coffee", by=None, ttl_ms=ttl_ms)
            wrong: Any
            for wrong in (5, None, b"tea"):
                with pytest.raises(InvalidInput, match="no text"):
                    await runtime.memory.remember(ANN, ["more", wrong], FactSource())
            assert (await runtime.memory.list_facts(ANN)).items == (fact,)

    asyncio.run(run())
