"""Many branches that begin together: their intents are durable before they act, in few commits."""

import asyncio
from pathlib import Path

from awaken import AgentRuntime, WorkflowContext, tool, workflow
from awaken.contracts.storage.store import Commit, CommitReceipt, ToolRecordStatus
from awaken.stores import SqliteStore

WIDTH = 40
TURNS = 300
"""More turns than the branches need to begin."""


class CountingStore(SqliteStore):
    """Counts commits, lets others go on during each, and notes which intents are durable."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.commits = 0
        self.durable: set[str] = set()

    async def commit(self, commit: Commit) -> CommitReceipt:
        """Commit slowly, in turns of the event loop, and then count."""
        for _ in range(TURNS):
            await asyncio.sleep(0)
        receipt = await super().commit(commit)
        self.commits += 1
        begun = [it for it in commit.tool_records if it.status is ToolRecordStatus.STARTED]
        self.durable |= {it.call_id for it in begun if it.kind == "call"}
        return receipt


def test_branches_that_begin_together_write_their_intents_together(tmp_path: Path) -> None:
    seen: list[int] = []

    async def main() -> None:
        store = CountingStore(tmp_path / "a.db")

        @tool(effect="once")
        async def act(number: int) -> int:
            """Act."""
            seen.append(len(store.durable))
            return number

        @workflow(tools=[act])
        async def wide(ctx: WorkflowContext) -> int:
            """Act in many branches."""
            return sum(await ctx.gather(*(ctx.call(act, it) for it in range(WIDTH))))

        async with AgentRuntime([wide], store=store) as runtime:
            assert (await runtime.run("wide", {})).output == sum(range(WIDTH))
        # One for each result; those of the intents, the beginning and the end are few.
        assert store.commits <= WIDTH + 8
        assert len(store.durable) == WIDTH

    asyncio.run(main())
    # No call began before its own intent, and those of the calls before it, were durable.
    assert all(durable >= place + 1 for place, durable in enumerate(seen))
