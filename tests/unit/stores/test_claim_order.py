"""How Postgres finds work: without reading what waits for others, and in fair shares."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest
from tests.postgres.server import server
from tests.postgres.stores import opened
from tests.sampling import choose_size, sampled

from awaken.contracts.runs.records import RunRequest
from awaken.contracts.storage.mailbox import MailboxStore
from awaken.contracts.tenancy import namespace_of
from awaken.stores.postgres import PostgresStore
from awaken.stores.postgres.texts import STATEMENTS, add_schema
from awaken.testing.store_conformance.writing import dispatch, elapse

THREADS = choose_size(30_000, 1_000_000)
WAITING = choose_size(3_000, 10_000)
"""How many heads wait for an agent of others, and how many until later."""
KINDS = {
    "list_due": "(bigint, bigint, text)",
    "find_due": "(bigint, text)",
    "hold_lanes": "(bigint, bigint, text, text)",
    "list_shared_due": "(bigint, bigint, text, text, text[])",
    "read_queues": "(bigint[])",
    "look_again": "(bigint)",
}
CLAIMING = ("list_due", "hold_lanes", "list_shared_due", "read_queues")
"""Statements of a claim, whose plans are kept."""
READ_MAX = 400
"""How many rows a statement may touch, however many there are."""


async def enqueue(store: MailboxStore, name: str, tenant: str | None = None, **more: Any) -> None:
    request = RunRequest(agent_id=more.pop("agent_id", "x"), tenant_id=tenant)
    mark = namespace_of(tenant)
    more |= {"thread_id": f"{mark}t-{name}", "run_id": f"{mark}r-{name}"}
    await store.enqueue(dispatch(name, request=request, **more))


async def claim(store: PostgresStore, limit: int = 1, *agents: str) -> list[str]:
    claim.count += 1  # type: ignore[attr-defined]
    found = await store.claim(
        "worker",
        f"token-{claim.count}",  # type: ignore[attr-defined]
        60_000,
        limit=limit,
        agents=agents or None,
    )
    return [it.dispatch_id for it in found]


claim.count = 0  # type: ignore[attr-defined]


def test_a_tenant_with_one_run_behind_one_with_many_starts_with_the_next_free_slot() -> None:
    async def check() -> None:
        async with opened() as store:
            for number in range(40):
                await enqueue(store, f"many-{number}", "many")
            taken = await claim(store, 4)
            assert taken == [f"many-{number}" for number in range(4)]
            await enqueue(store, "one", "single")
            # A run of the first tenant ends: its slot goes to who has none.
            await store.release(taken[0], "token-1")
            assert await claim(store) == ["one"]
            await store.release(taken[1], "token-1:1")
            assert await claim(store) == ["many-4"]

    claim.count = 0  # type: ignore[attr-defined]
    asyncio.run(check())


def test_a_batch_is_shared_between_tenants_and_one_alone_is_first_come_first_served() -> None:
    async def check() -> None:
        async with opened() as store:
            for tenant in ("a", "b"):
                for number in range(4):
                    await enqueue(store, f"{tenant}{number}", tenant)
            assert await claim(store, 4) == ["a0", "b0", "a1", "b1"]
            assert await claim(store, 8) == ["a2", "b2", "a3", "b3"]
        async with opened() as store:
            for number in range(6):
                await enqueue(store, f"n{number}", "only", agent_id="xy"[number % 2])
            assert await claim(store, 6, "x", "y") == [f"n{number}" for number in range(6)]

    asyncio.run(check())


def test_a_higher_priority_goes_before_the_share_of_a_tenant() -> None:
    async def check() -> None:
        async with opened() as store:
            for number in range(3):
                await enqueue(store, f"a{number}", "a")
            assert await claim(store, 2) == ["a0", "a1"]
            await enqueue(store, "urgent", "a", priority=1)
            await enqueue(store, "b0", "b")
            assert await claim(store, 3) == ["urgent", "b0", "a2"]

    asyncio.run(check())


def test_delayed_input_comes_at_its_time_and_blank_agents_go_to_every_worker() -> None:
    async def check() -> None:
        async with opened() as store:
            now = await store.now_ms()
            await enqueue(store, "later", available_at=now + 500)
            await enqueue(store, "blank", agent_id=None)
            await enqueue(store, "pipe", agent_id="a|b")
            assert await claim(store, 9, "x") == ["blank"]
            assert await claim(store, 9, "a|b") == ["pipe"]
            await elapse(store, 500)
            assert await claim(store, 9) == ["later"]

    asyncio.run(check())


def test_input_that_was_delayed_is_shared_between_tenants_too() -> None:
    async def check() -> None:
        async with opened() as store:
            now = await store.now_ms()
            for number in range(40):
                await enqueue(store, f"a{number}", "a", available_at=now + 100 + number)
            await enqueue(store, "b", "b", available_at=now + 400)
            await elapse(store, 400)
            assert await claim(store, 2) == ["a0", "b"]

    asyncio.run(check())


def test_a_pause_is_not_longer_because_the_clock_of_the_server_was_set_back() -> None:
    async def check() -> None:
        async with opened() as store:
            now = await store.now_ms()
            for priority in range(3):
                await enqueue(store, f"again-{priority}", priority=priority)
                later = now + 60_000
                await enqueue(store, f"delayed-{priority}", priority=priority, available_at=later)
            for it in await store.claim("worker", "token", 60_000, limit=9):
                await store.requeue(it.dispatch_id, it.claim_token or "", delay_ms=30_000)
            await store.reclaim()
            assert await claim(store, 9) == []
            # As the server tells it from now on; a store continues the latest reading.
            clock = store.database._shared.clock
            clock.set(now - 600_000)
            await store.reclaim()
            clock.set(now - 600_000)
            # What its sender has delayed keeps its time.
            assert await claim(store, 9) == [f"again-{priority}" for priority in range(3)]

    asyncio.run(check())


def test_workers_that_claim_at_once_share_what_waits() -> None:
    async def check() -> None:
        async with opened() as store:
            for number in range(12):
                await enqueue(store, f"n{number}")
            both = await asyncio.gather(claim(store, 4), claim(store, 4), claim(store, 4))
            taken = [name for names in both for name in names]
            assert len(taken) == len(set(taken)) == 12

    asyncio.run(check())


def test_a_claim_locks_no_more_threads_than_it_takes() -> None:
    async def check() -> None:
        async with opened() as store:
            for number in range(20):
                await enqueue(store, f"n{number}", "ab"[number % 2])
            plan = await explain(store, "list_due", f"({await store.now_ms()}, 4, '|x|')")
            locks = [it for it in walk(plan) if it["Node Type"] == "LockRows"]
            assert sum(it["Actual Loops"] * it["Actual Rows"] for it in locks) == 4

    asyncio.run(check())


def test_a_claim_of_many_leaves_the_rest_of_each_queue() -> None:
    async def check() -> None:
        async with opened() as store:
            for thread in range(20):
                for place in range(4):
                    name = f"{place}-{thread:02}"
                    await store.enqueue(
                        dispatch(name, f"t-{thread:02}", run_id=f"r-{name}", priority=place + 1)
                    )
            for place in range(4):
                found = await store.claim("worker", f"token-{place}", 60_000, limit=20)
                assert [it.dispatch_id for it in found] == [f"{place}-{n:02}" for n in range(20)]
                assert await store.count_queued() == 20 * (3 - place)
                # The thread tells of the dispatch that is next, not of the one that is claimed.
                schema = store.database._server.schema
                text = f"SELECT DISTINCT queued, head_priority FROM {schema}.threads"
                rows = await store.database._ask(text, ())
                assert list(map(tuple, rows)) == [(3 - place, place + 2 if place < 3 else None)]
                for it in found:
                    assert it.claim_token is not None
                    await store.release(it.dispatch_id, it.claim_token)
            assert await claim(store, 9) == []

    asyncio.run(check())


@sampled
@pytest.mark.parametrize("statement", ["list_due", "find_due", "count_queued", "look_again"])
def test_no_statement_reads_what_waits_for_others_or_until_later(statement: str) -> None:
    async def check() -> None:
        async with opened() as store:
            await fill(store.database._server.schema)
            await enqueue(store, "mine", "tenant")
            arguments = {
                "list_due": "({now}, 8, '|x|')",
                "find_due": "({now}, '|x|')",
                "count_queued": "",
                "look_again": "({now})",
            }[statement].format(now=await store.now_ms())
            plan = await explain(store, statement, arguments)
            nodes = list(walk(plan))
            scans = [it["Node Type"] for it in nodes if it.get("Relation Name") == "threads"]
            assert "Seq Scan" not in scans, scans
            if statement != "count_queued":
                assert sum(touched(it) for it in nodes) < READ_MAX
            assert statement != "list_due" or await claim(store, 8, "x") == ["mine"]

    asyncio.run(check())


@sampled
def test_a_plan_of_a_claim_that_was_made_for_a_small_table_is_good_for_a_large_one() -> None:
    async def check() -> None:
        async with opened(pool_size=1) as store:
            schema = store.database._server.schema
            # Nothing tells the server later that its plan is of a small table.
            await server().sql(f"ALTER TABLE {schema}.threads SET (autovacuum_enabled = false)")
            await enqueue(store, "first", "tenant")
            await server().sql(f"ANALYZE {schema}.threads")
            assert await claim(store, 8, "x") == ["first"]
            await fill(schema, is_analyzed=False)
            before = await count_read(schema)
            await enqueue(store, "mine", "tenant")
            assert await claim(store, 8, "x") == ["mine"]
        assert await count_read(schema) - before < READ_MAX

    claim.count = 0  # type: ignore[attr-defined]
    asyncio.run(check())


async def count_read(schema: str) -> int:
    """How many threads were read one after the other; sessions tell it in time, or at their end."""
    await asyncio.sleep(1.2)
    text = "SELECT seq_tup_read FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = $2"
    return int((await server().sql(text, schema, "threads"))[0][0])


@sampled
def test_the_queues_of_claimed_threads_are_read_without_those_of_others_or_what_is_over() -> None:
    async def check() -> None:
        async with opened() as store:
            schema = store.database._server.schema
            await fill(schema)
            names = [f"mine-{number}" for number in range(4)]
            for name in names:
                await enqueue(store, name, "tenant")
            await fill_dispatches(schema)
            numbers = await server().sql(f"SELECT no FROM {schema}.threads WHERE id LIKE '%mine-%'")
            assert len(numbers) == len(names)
            given = ",".join(str(row[0]) for row in numbers)
            nodes = list(walk(await explain(store, "read_queues", f"('{{{given}}}')")))
            scans = {it["Relation Name"]: it["Node Type"] for it in nodes if "Relation Name" in it}
            assert set(scans) == {"threads", "runs", "dispatches"}
            assert "Seq Scan" not in scans.values(), scans
            # Each thread, its run, and its queue twice: to count it, and to read its beginning.
            read = sum(touched(it, "threads", "runs", "dispatches") for it in nodes)
            assert read <= 4 * len(names)

    asyncio.run(check())


async def fill_dispatches(schema: str) -> None:
    """Queued input of others, much that is over on the threads to claim, and runs of others.

    As in every store that was used for a while, far more input is over than waits: while most of
    it waits, the planner may read what is over on a claimed thread as well.
    """
    for name, status, of, count in (
        ("waits", "queued", "foreign-", 2),
        ("past", "acked", "later-", 20),
        ("over", "acked", "mine-", 500),
    ):
        await server().sql(
            f"INSERT INTO {schema}.dispatches (dispatch_id, thread_no, run_id, status, priority,"
            " available_at, mode, created_at, updated_at, record) SELECT"
            f" '{name}-' || no || '-' || n, no, '{name}-run-' || no, '{status}', 128, 0, 'queue',"
            f" 1, 1, '' FROM {schema}.threads, generate_series(1, {count}) AS n"
            f" WHERE id LIKE '%{of}%'"
        )
    await server().sql(
        f"INSERT INTO {schema}.runs (place, run_id, thread_no, status, created_at,"
        " first_version, record)"
        f" SELECT no, 'run-' || no, no, 'done', 1, 1, '' FROM {schema}.threads LIMIT {THREADS}"
    )
    for table in ("threads", "dispatches", "runs"):
        await server().sql(f"ANALYZE {schema}.{table}")


async def fill(schema: str, *, is_analyzed: bool = True) -> None:
    """Threads that rest, heads for an agent of others, and heads that wait until later."""
    await server().sql(
        f"INSERT INTO {schema}.threads (id, head) SELECT 'rest-' || n, ''"
        f" FROM generate_series(1, {THREADS}) AS n"
    )
    for name, agent, due_at in (("foreign", "y", 0), ("later", "x", 9_000_000_000_000)):
        await server().sql(
            f"INSERT INTO {schema}.threads (id, head, queued, head_priority, due_at, turn_at,"
            f" head_no, head_agent) SELECT '{name}-' || n, '', 1, 128, {due_at}, 1, n, '{agent}'"
            f" FROM generate_series(1, {WAITING}) AS n"
        )
    if is_analyzed:
        await server().sql(f"ANALYZE {schema}.threads")


async def explain(store: PostgresStore, statement: str, arguments: str) -> dict[str, Any]:
    schema = store.database._server.schema
    connection = await asyncpg.connect(server().url)
    try:
        text = add_schema(STATEMENTS[statement], schema)
        await connection.execute(f"PREPARE p {KINDS.get(statement, '')} AS {text}")
        begin = store.database._begin_claim if statement in CLAIMING else "BEGIN"
        await connection.execute(begin)
        text = f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) EXECUTE p {arguments}"
        found: dict[str, Any] = json.loads(await connection.fetchval(text))[0]["Plan"]
        return found
    finally:
        await connection.close()


def walk(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from walk(inner)


def touched(plan: dict[str, Any], *tables: str) -> int:
    """How many rows of threads, or of other tables, a node of a plan has read."""
    if plan.get("Relation Name") not in (tables or ("threads",)):
        return 0
    loops: int = plan["Actual Loops"]
    return int(loops * (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)))
