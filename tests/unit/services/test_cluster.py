"""What a deployment is told to be: nodes, queue, problems, and how many slots it needs."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.postgres.server import server
from tests.postgres.stores import opened
from tests.unit.stores.test_claim_order import enqueue
from tests.unit.stores.test_nodes import begin, lapse, node, sql

from awaken import Agent, AgentRuntime, MailboxConfig, TenantLimits
from awaken.buses.memory import MemoryBus
from awaken.contracts.state.profile import ProfileEntry
from awaken.services.cluster import REPORTS, ClusterStatus, read_cluster, read_scale
from awaken.services.workers import OWNER, REPORT_MS, WorkerEntry
from awaken.stores import MemoryProfileStore, MemoryStore, SqliteStore
from awaken.stores.postgres import PostgresStore
from awaken.testing import ScriptedModel
from awaken.testing.store_conformance.writing import dispatch

LONG_AGO = 120_000
LIMIT = TenantLimits(max_busy=1)


def codes(status: ClusterStatus) -> list[str]:
    return [it.code for it in status.problems]


async def read(store: PostgresStore, **options: Any) -> ClusterStatus:
    return await read_cluster(store, store, **options)


def test_a_healthy_cluster_shows_nodes_with_their_load_and_has_no_problems() -> None:
    async def check() -> None:
        async with opened() as store:
            about = await begin(store, "a", "t1", "t2")
            await store.take_turn("sweep", about.node_id, 1)
            bus = MemoryBus()
            await bus.open()
            found = await read(store, bus=bus)
            assert (found.leases, found.problems, found.is_stuck) == ("node", (), False)
            (shown,) = found.nodes
            assert (shown.address, shown.state, shown.claims) == ("a" * 12, "ok", 2)
            assert (found.claims.held, found.claims.of_dead_nodes) == (2, 0)
            assert found.sweep is not None
            assert found.sweep.by == "a" * 12
            assert found.schema is not None
            assert found.schema.found == found.schema.known == shown.schema_no
            # Every field is always there: clients need not guess.
            fields = set(msgspec.to_builtins(found))
            assert fields == set(ClusterStatus.__struct_fields__)

    asyncio.run(check())


def test_what_is_stuck_is_named() -> None:
    async def check() -> None:
        async with opened() as store:
            over = await begin(store, "a", "t1")
            late = node("b")
            await store.begin_node(late, 60_000)
            await store.begin_node(node("c"), 60_000)
            await store.end_node(over.node_id)
            await lapse(store, late)
            await sql(store, "UPDATE {}.nodes SET beat_at = beat_at - $1, started_at = 0", LONG_AGO)
            await store.enqueue(dispatch("d-9", thread_id="t9"))
            await sql(
                store,
                "UPDATE {}.dispatches SET created_at = created_at - $1,"
                " available_at = available_at - $1",
                LONG_AGO,
            )
            found = await read(store, bus=MemoryBus())
            assert codes(found) == [
                "claims_of_dead_nodes",
                "sweep_is_late",
                "queue_is_stuck",
                "node_is_late",
                "carrier_down",
            ]
            assert found.is_stuck
            assert {it.address[0]: it.state for it in found.nodes} == {
                "a": "over",
                "b": "late",
                "c": "ok",
            }

    asyncio.run(check())


def test_a_carrier_that_is_down_and_a_late_node_are_no_standstill() -> None:
    async def check() -> None:
        async with opened() as store:
            about = await begin(store, "a")
            await lapse(store, about)
            await store.take_turn("sweep", about.node_id, 1)
            found = await read(store, bus=MemoryBus())
            assert codes(found) == ["node_is_late", "carrier_down"]
            assert not found.is_stuck

    asyncio.run(check())


def test_the_scale_counts_claiming_nodes_and_asks_for_a_third_more_than_is_needed() -> None:
    async def check() -> None:
        async with opened() as store:
            for name, fields in {
                "a": {"slots": 8, "busy": 5},
                "b": {"slots": 8, "busy": 2},
                "c": {"slots": 8, "busy": 8, "is_draining": True},
                "d": {"slots": 0},
            }.items():
                await store.begin_node(node(name, **fields), 60_000)
            for number in range(7):
                await store.enqueue(dispatch(f"d-{number}", thread_id=f"t{number}"))
            found = await read_scale(store, store)
            assert (found.due, found.busy, found.slots, found.desired_slots) == (7, 7, 16, 20)

    asyncio.run(check())


def test_a_store_without_nodes_is_told_by_its_reports() -> None:
    async def check() -> None:
        store = MemoryStore()
        await store.enqueue(dispatch("d-1", thread_id="t1"))
        found = await read_cluster(store, MemoryProfileStore())
        assert (found.leases, found.nodes, found.sweep) == ("thread", (), None)
        assert (found.queue.due, found.queue.delayed) == (1, 0)
        assert (await read_scale(store, MemoryProfileStore())).desired_slots == 2
        # What stands behind it, and what stands behind a run of its own thread, takes no slot.
        await store.enqueue(dispatch("d-2", thread_id="t1"))
        assert (await read_scale(store, MemoryProfileStore())).due == 1
        assert await store.claim("w", "token", 60_000)
        assert (await read_scale(store, MemoryProfileStore())).due == 0

    asyncio.run(check())


def test_the_figures_read_no_more_than_indexes_of_what_waits() -> None:
    """With many ended dispatches nothing scans all of them."""

    async def check() -> None:
        async with opened() as store:
            schema = store.database._server.schema
            await store.enqueue(dispatch("d-1", thread_id="t1"))
            await server().sql(
                f"INSERT INTO {schema}.dispatches (dispatch_id, thread_no, run_id, status,"
                " priority, available_at, mode, created_at, updated_at, record)"
                " SELECT 'old-' || n, 0, 'r', 'acked', 128, 0, 'queue', 0, 0, ''"
                " FROM generate_series(1, 20000) AS n"
            )
            await server().sql(f"ANALYZE {schema}.dispatches")
            for status in ("queued", "dead_letter"):
                plan = await server().sql(
                    f"EXPLAIN SELECT count(*) FROM (SELECT 1 FROM {schema}.dispatches"
                    f" WHERE status = '{status}' LIMIT 10000) AS waiting"
                )
                text = "\n".join(row[0] for row in plan)
                assert "Seq Scan" not in text, text

    asyncio.run(check())


async def report(store: PostgresStore, **fields: Any) -> None:
    """The entry of a process, as a version without nodes wrote it."""
    known = {"id": "old:7", "version": "0.0.9", "host": "old", "pid": 7, "slots": 4, "running": 2}
    entry = WorkerEntry(**(known | {"at": await store.now_ms()} | fields))
    value = msgspec.to_builtins(entry)
    await store.save_entry(ProfileEntry(owner=OWNER, key=entry.id, value=value))


def test_a_process_of_a_version_without_nodes_is_listed_with_its_claims() -> None:
    async def check() -> None:
        async with opened() as store:
            about = await begin(store, "a", "t1")
            await report(store)
            # The new node reports itself as well: it is listed once.
            await report(store, id=about.node_id, host=about.host, pid=about.pid)
            for number, worker in enumerate(("old:7", "old:7", "silent")):
                await store.enqueue(dispatch(f"o-{number}", thread_id=f"o-{number}"))
                assert await store.claim(worker, f"o-{number}", 60_000)
            found = await read(store)
            assert [(it.state, it.version, it.claims) for it in found.nodes] == [
                ("ok", about.version, 1),
                ("older", "0.0.9", 2),
            ]
            assert found.claims.held == 4, "and one of a process that does not even report itself"
            scale = await read_scale(store, store)
            assert (scale.busy, scale.slots) == (about.busy + 2, about.slots + 4)

    asyncio.run(check())


@pytest.mark.parametrize("is_swept", [True, False])
def test_a_node_that_was_killed_is_listed_once_and_has_no_slots(is_swept: bool) -> None:
    """Its latest report counts for a minute, its lease for ten seconds."""

    async def check() -> None:
        async with opened() as store:
            dead, again = node("a", slots=8, busy=3, pid=1), node("b", slots=8, pid=2)
            for it in (dead, again):
                await store.begin_node(it, 60_000)
                await report(store, id=it.node_id, host=it.host, pid=it.pid, slots=8, running=3)
            await lapse(store, dead)
            if is_swept:
                await store.reclaim()
            found = await read(store)
            assert [(it.address[0], it.state, it.slots) for it in found.nodes] == [
                *([] if is_swept else [("a", "late", 0)]),
                ("b", "ok", 8),
                *([("a", "over", 0)] if is_swept else []),
            ]
            scale = await read_scale(store, store)
            assert (scale.slots, scale.busy) == (8, again.busy)

    asyncio.run(check())


def test_input_that_is_due_is_stuck_if_the_only_nodes_are_late() -> None:
    async def check() -> None:
        async with opened() as store:
            late = await begin(store, "a")
            await lapse(store, late)
            await store.enqueue(dispatch("d-9", thread_id="t9"))
            await sql(store, "UPDATE {}.dispatches SET created_at = 0, available_at = 0")
            assert codes(await read(store)) == ["queue_is_stuck", "node_is_late"]

    asyncio.run(check())


def test_a_process_without_a_row_has_no_slots_once_its_reports_stop() -> None:
    async def check() -> None:
        async with opened() as store:
            await report(store, at=await store.now_ms() - REPORTS * REPORT_MS)
            (shown,) = (await read(store)).nodes
            assert (shown.state, shown.slots) == ("late", 0)
            assert (await read_scale(store, store)).slots == 0

    asyncio.run(check())


def test_what_a_tenant_has_queued_above_its_limit_is_not_due() -> None:
    async def check() -> None:
        async with opened() as store:
            about = await begin(store, "a")
            for tenant, count in (("ann", 5), ("bob", 2), ("cid", 1)):
                for number in range(count):
                    await enqueue(store, f"{tenant}-{number}", tenant)
            assert await store.claim(about.node_id, "t", 60_000)
            await sql(store, "UPDATE {}.dispatches SET created_at = 0, available_at = 0")
            assert (await read_scale(store, store)).due == 7
            limits = {"ann": 1, "*": 1}
            await report(store, id=about.node_id, host=about.host, pid=about.pid, max_busy=limits)
            found = await read(store)
            # One of `ann` is claimed, and one each of the others could start.
            assert found.queue.due == 2
            limits = {"ann": 1}
            await report(store, id=about.node_id, host=about.host, pid=about.pid, max_busy=limits)
            await store.claim(about.node_id, "u", 60_000, limit=9, tenants={"ann": LIMIT})
            found = await read(store)
            assert (found.queue.due, found.queue.oldest_due_ms, codes(found)) == (0, None, [])

    asyncio.run(check())


@pytest.mark.parametrize("serves", [True, False])
def test_a_file_lists_a_server_as_a_server(tmp_path: Path, serves: bool) -> None:
    async def check() -> None:
        store, agent = SqliteStore(tmp_path / "s.db"), Agent("a", model=ScriptedModel(["hi"]))
        limits = MailboxConfig(tenants={"ann": LIMIT, "bob": TenantLimits(weight=9)})
        async with AgentRuntime([agent], store=store, mailbox=limits) as runtime:
            if serves:
                runtime.asgi()
            report = runtime._parts.report
            assert report is not None
            entry = await report.write()
            found = await read_cluster(store, report._profile)
            assert [it.kind for it in found.nodes] == ["server" if serves else "worker"]
            assert entry.max_busy == {"ann": 1}

    asyncio.run(check())
