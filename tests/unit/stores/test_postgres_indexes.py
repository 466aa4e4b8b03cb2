"""How many index entries a queued run writes: most of its log. A number is only ever lowered."""

import asyncio
import re
from collections import Counter

import asyncpg
from tests.postgres.server import new_schema, server

from awaken import Agent, AgentRuntime, tool
from awaken.stores import PostgresStore
from awaken.testing import ScriptedModel, ToolCalls

RUNS = 3
ENTRIES = {
    # Written when it is queued, claimed and released: a commit between leaves the row in place.
    "threads": 11,
    "dispatches": 7,
    "runs": 10,
    "commits": 3,
    "messages": 4,
}
"""By table, for a queued run of two steps on a thread of its own, with its submission."""
_ADDED = (
    "SELECT block_ref FROM public.pg_get_wal_records_info($1::text::pg_lsn, $2::text::pg_lsn)"
    " WHERE resource_manager = 'Btree' AND record_type = 'INSERT_LEAF'"
)
_INDEXES = (
    "SELECT pg_relation_filenode(i.indexrelid)::text, t.relname FROM pg_index i"
    " JOIN pg_class t ON t.oid = i.indrelid WHERE t.relnamespace = $1::regnamespace"
)


@tool(effect="none")
async def look_up(key: str) -> str:
    """Look something up."""
    return key


def test_a_queued_run_writes_few_index_entries() -> None:
    async def scenario() -> None:
        schema = new_schema()
        watch = await asyncpg.connect(server().url)
        await watch.execute("CREATE EXTENSION IF NOT EXISTS pg_walinspect WITH SCHEMA public")
        call = ToolCalls([("look_up", {"key": "a"})])
        agent = Agent("a", model=ScriptedModel([call, "Done."], cycle=True), tools=[look_up])
        store = PostgresStore(server().url, schema=schema)
        place = "SELECT pg_current_wal_insert_lsn()::text"
        async with AgentRuntime([agent], store=store) as runtime, asyncio.timeout(60):
            before = await watch.fetchval(place)
            for _ in range(RUNS):
                receipt = await runtime.submit("a", "go")
                await runtime.wait(receipt.run_id)
            after = await watch.fetchval(place)
            tables = dict(map(tuple, await watch.fetch(_INDEXES, schema)))
            added = await watch.fetch(_ADDED, before, after)
        await watch.close()
        found: Counter[str] = Counter()
        for row in added:
            index = re.search(r"rel \d+/\d+/(\d+)", row[0])
            if index is not None and index[1] in tables:
                found[re.sub(r"_(first|rest)$", "", tables[index[1]])] += 1
        assert {name: found[name] / RUNS for name in ENTRIES} == ENTRIES

    asyncio.run(scenario())
