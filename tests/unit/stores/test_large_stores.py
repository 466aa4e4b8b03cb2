"""What a node does in a large store: it reads no more rows the more of them rest there."""

import asyncio
from collections import Counter

import pytest
from tests.postgres.server import new_schema, server
from tests.sampling import choose_size, sampled

from awaken import Agent, AgentRuntime
from awaken.mailbox.config import MailboxConfig
from awaken.stores import PostgresStore
from awaken.stores.sql.usage import CURSOR
from awaken.testing import ScriptedModel

THREADS = choose_size(20_000, 1_000_000)
"""Threads that rest, each with a run that is over, its log, its messages and its dispatch."""
WAITING = choose_size(2_000, 10_000)
"""Heads that wait until later."""
READ_MAX = 1_000
"""How many rows of one table all the work of this test may read."""
FIRST = 10_000_000
"""The numbers of copied threads begin here, above those that the store gives."""
PLACE = 4_294_967_296
DAY_MS = 86_400_000
CONFIG = MailboxConfig(purge_ms=1, retention_ms=7 * DAY_MS)


def open_runtime(schema: str) -> AgentRuntime:
    agent = Agent("agent", model=ScriptedModel(["answer"], cycle=True))
    store = PostgresStore(server().url, schema=schema)
    return AgentRuntime([agent], store=store, mailbox=CONFIG)


async def execute_one(runtime: AgentRuntime, thread_id: str) -> None:
    receipt = await runtime.submit("agent", "go", thread_id=thread_id)
    async with asyncio.timeout(60):
        await runtime.wait(receipt.run_id)


async def multiply(schema: str) -> None:
    """Copy what the first thread left for many others, and let input wait until later."""
    copies = f"generate_series({FIRST}, {FIRST + THREADS - 1}) AS n"
    heads = "status, created_at, finished_at, first_version, record, agent_id, ended, tokens"
    # Runs of a real store begin and end at different times, which their indexes rely on.
    spread = heads.replace("created_at, finished_at", "created_at - n, finished_at - n")
    logged = "digest, committed_at, message_count, event_seq, events, day"
    waiting = "status, priority, available_at, mode, created_at, updated_at, record"
    for text in (
        "INSERT INTO {0}.threads (no, id, version, message_count, event_seq, updated_at, sort_at,"
        " latest_run_id, head, served_at) SELECT n, 'copy-' || n, version, message_count,"
        " event_seq, updated_at, sort_at, 'copy-' || n, head, served_at"
        " FROM {0}.threads, {1} WHERE no = 1",
        f"INSERT INTO {{0}}.runs (place, run_id, thread_no, {heads})"
        f" SELECT n * {PLACE} + 1, 'copy-' || n, n, {spread} FROM {{0}}.runs, {{1}}",
        # Their usage is counted.
        f"INSERT INTO {{0}}.facts (name, value) SELECT '{CURSOR}', max(finished_at) || ' ~'"
        " FROM {0}.runs",
        f"INSERT INTO {{0}}.commits (place, commit_id, run_id, {logged}) SELECT n * {PLACE}"
        f" + place % {PLACE}, commit_id || n, 'copy-' || n, {logged} FROM {{0}}.commits, {{1}}",
        "INSERT INTO {0}.messages (place, created_at, body)"
        f" SELECT n * {PLACE} + place % {PLACE}, created_at, body FROM {{0}}.messages, {{1}}",
        f"INSERT INTO {{0}}.dispatches (no, dispatch_id, thread_no, run_id, {waiting})"
        f" SELECT n, 'copy-' || n, n, 'copy-' || n, {waiting} FROM {{0}}.dispatches, {{1}}",
        "INSERT INTO {0}.threads (id, head, queued, head_priority, due_at, turn_at, head_no,"
        " head_agent) SELECT 'later-' || n, '', 1, 128, 9000000000000, 1, n, 'agent'"
        f" FROM generate_series(1, {WAITING}) AS n",
        *(f"ANALYZE {{0}}.{it}" for it in ("threads", "runs", "commits", "messages", "dispatches")),
    ):
        await server().sql(text.format(schema, copies))


async def count_reads(schema: str) -> Counter[str]:
    """How many rows of each table were read; sessions that have ended have told theirs."""
    await server().until_alone()
    rows = await server().sql(
        "SELECT relname, COALESCE(seq_tup_read, 0) + COALESCE(idx_tup_fetch, 0)"
        " FROM pg_stat_user_tables WHERE schemaname = $1",
        schema,
    )
    return Counter({row[0]: int(row[1]) for row in rows})


@sampled
@pytest.mark.timeout(600)
def test_a_node_reads_none_of_what_rests_in_its_store() -> None:
    async def check() -> None:
        schema = new_schema()
        async with open_runtime(schema) as runtime:
            await execute_one(runtime, "first")
        await multiply(schema)
        before = await count_reads(schema)
        async with open_runtime(schema) as runtime:
            for number in range(3):
                await execute_one(runtime, f"mine-{number}")
            for _ in range(3):
                await runtime._node._sweeper.sweep()
        read = await count_reads(schema) - before
        assert {name: count for name, count in read.items() if count > READ_MAX} == {}

    asyncio.run(check())
