"""Limits of tenants where they are hard: many nodes at once, long queues, plans and costs."""

import asyncio
import random
from collections import Counter
from pathlib import Path

import asyncpg
import pytest
from tests.postgres.counting import counted
from tests.postgres.server import server
from tests.postgres.stores import opened
from tests.sampling import choose_size, sampled
from tests.unit.stores.test_claim_order import enqueue, explain, fill, touched, walk

from awaken.contracts.errors import InvalidInput
from awaken.contracts.storage.dispatch import RunDispatch
from awaken.contracts.storage.mailbox import EVERY_TENANT, MailboxStore, TenantLimits
from awaken.contracts.storage.store import Store
from awaken.contracts.tenancy import tenant_in
from awaken.stores import MemoryStore, SqliteStore
from awaken.stores.rules import shares
from awaken.stores.sql import shares as sql_shares
from awaken.testing.fakes import FakeClock
from awaken.testing.store_conformance.writing import LONG_MS

ROUNDS = choose_size(25, 300)
NODES = 6
LIMITS = {
    "ann": TenantLimits(max_busy=3),
    "bob": TenantLimits(max_busy=5, weight=50),
    EVERY_TENANT: TenantLimits(max_busy=1),
}
CLAIM = 6
"""A look and a claim, as `test_postgres_cost.py` counts them."""


@sampled
def test_nodes_that_claim_and_end_runs_at_once_never_exceed_a_limit() -> None:
    async def check() -> None:
        chance = random.Random(7)
        async with opened(pool_size=NODES) as store:
            for number in range(8 * NODES):
                for tenant in ("ann", "bob", "cid"):
                    agent = f"agent-{number % NODES}"
                    await enqueue(store, f"{tenant}-{number}", tenant, agent_id=agent)
            held: list[RunDispatch] = []
            for turn in range(ROUNDS):
                over = chance.sample(held, len(held) // 2)
                held = [it for it in held if it not in over]
                backs = [store.requeue(it.dispatch_id, it.claim_token or "") for it in over]
                claims = [
                    store.claim(
                        f"w-{n}",
                        f"{turn}-{n}",
                        LONG_MS,
                        agents=(f"agent-{n}",),
                        limit=3,
                        tenants=LIMITS,
                    )
                    for n in range(NODES)
                ]
                found, _ = await asyncio.gather(asyncio.gather(*claims), asyncio.gather(*backs))
                held += [it for taken in found for it in taken]
                counts = Counter(tenant_in(it.thread_id) for it in held)
                assert counts["ann"] <= 3
                assert counts["bob"] <= 5
                assert counts["cid"] <= 1
            # Nothing is stuck: what is free is taken by who comes alone.
            held += await store.claim("w", "last", LONG_MS, limit=99, tenants=LIMITS)
            counts = Counter(tenant_in(it.thread_id) for it in held)
            assert counts == {"ann": 3, "bob": 5, "cid": 1}

    asyncio.run(check())


def test_a_lane_that_another_node_counts_is_left_out_and_all_else_is_claimed() -> None:
    async def check() -> None:
        async with opened() as store:
            for tenant in ("ann", "zoe", None):
                await enqueue(store, f"{tenant}-0", tenant)
            await enqueue(store, "free", "free")
            tenants = {"ann": TenantLimits(max_busy=1), "zoe": TenantLimits(max_busy=1)}
            lane = f"{store.database._server.schema} lane ann"
            other = await asyncpg.connect(server().url)
            async with other.transaction():
                await other.execute(f"SELECT pg_advisory_xact_lock(hashtextextended('{lane}', 0))")
                taken = await store.claim("w", "a", LONG_MS, limit=9, tenants=tenants)
                assert {it.dispatch_id for it in taken} == {"zoe-0", "None-0", "free"}
            await other.close()
            taken = await store.claim("w", "b", LONG_MS, limit=9, tenants=tenants)
            assert [it.dispatch_id for it in taken] == ["ann-0"]

    asyncio.run(check())


@pytest.mark.parametrize(
    ("tenants", "more"),
    [({}, 0), ({"ann": TenantLimits(weight=300)}, 0), ({"ann": TenantLimits(max_busy=9)}, 1)],
)
def test_only_a_limit_of_claims_costs_a_claim_one_statement(
    tenants: dict[str, TenantLimits], more: int
) -> None:
    async def check() -> None:
        async with opened() as store:
            for number in range(4):
                await enqueue(store, f"a-{number}", "ann")
            with counted() as sent:
                found = await store.claim("w", "t", LONG_MS, limit=4, tenants=tenants)
            assert len(found) == 4
            assert sent.round_trips == CLAIM + more, sent.texts

    asyncio.run(check())


@sampled
@pytest.mark.parametrize("statement", ["hold_lanes", "list_shared_due"])
def test_no_statement_of_limits_reads_what_waits_for_others_or_until_later(statement: str) -> None:
    async def check() -> None:
        async with opened() as store:
            await fill(store.database._server.schema)
            await enqueue(store, "mine", "ann")
            limits = """'{"ann": {"max_busy": 2, "weight": 100}}'"""
            lanes = "" if statement == "hold_lanes" else ", '{ann}'"
            given = f"({await store.now_ms()}, 8, '|x|', {limits}{lanes})"
            nodes = list(walk(await explain(store, statement, given)))
            scans = [it["Node Type"] for it in nodes if it.get("Relation Name") == "threads"]
            assert scans
            assert "Seq Scan" not in scans, scans
            assert sum(touched(it) for it in nodes) < 400

    asyncio.run(check())


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_any_number_of_heads_of_a_tenant_that_is_full_hides_none_of_others(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check(store: Store) -> None:
        await store.open()
        for number in range(9):
            await enqueue(store, f"a-{number}", "ann")
        await enqueue(store, "b", "bob")
        tenants = {"ann": TenantLimits(max_busy=1)}
        assert await claim(store, "1", tenants) == ["a-0"]
        assert await claim(store, "2", tenants) == ["b"]
        assert await claim(store, "3", tenants) == []
        await store.close()

    for module in (shares, sql_shares):
        monkeypatch.setattr(module, "HEADS_MAX", 5)
    store: Store = MemoryStore(clock=FakeClock())
    if kind == "sqlite":
        store = SqliteStore(tmp_path / "store.db")
    asyncio.run(check(store))


async def claim(store: MailboxStore, token: str, tenants: dict[str, TenantLimits]) -> list[str]:
    found = await store.claim("w", token, LONG_MS, tenants=tenants)
    return [it.dispatch_id for it in found]


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_busy": 0},
        {"max_busy": -1},
        {"max_busy": True},
        {"max_busy": 1.5},
        {"weight": 0},
        {"weight": 10_001},
        {"weight": None},
        {"queue_limit": 0},
        {"queue_limit": "many"},
    ],
)
def test_bad_limits_are_refused_by_name(wrong: dict[str, int]) -> None:
    (name,) = wrong
    with pytest.raises(InvalidInput, match=name):
        TenantLimits(**wrong)
