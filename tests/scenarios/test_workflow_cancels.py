"""A workflow that is cancelled while any of its commits is under way ends at once, and exactly."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

from tests.sampling import choose_size, sampled

from awaken import AgentRuntime, Cancelled, RunStatus, WorkflowContext, tool, workflow
from awaken.messages import Role
from awaken.stores import Commit, SqliteStore

ENDS_S = 10
"""Far less than a lease: a run that its process has lost would end after that."""


class PausingStore(SqliteStore):
    """Pauses before one of its commits."""

    def __init__(self, path: Path, number: int) -> None:
        super().__init__(path)
        self.left = number
        self.is_paused, self.let_go = asyncio.Event(), asyncio.Event()

    async def commit(self, commit: Commit, **options: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            self.is_paused.set()
            await self.let_go.wait()
        return await super().commit(commit, **options)


@tool(effect="none")
async def look(x: int) -> int:
    """Look something up."""
    return x


@tool(effect="once")
async def pay(x: int) -> int:
    """Pay."""
    return x


@workflow(tools=[look, pay])
async def inner(ctx: WorkflowContext) -> int:
    return int(await ctx.call(look, 7))


@workflow(tools=[look, pay])
async def busy(ctx: WorkflowContext) -> int:
    try:
        await ctx.call(look, 1)
        await ctx.gather(ctx.call(look, 2), ctx.call(pay, 3), ctx.ask(inner, {}))
        await ctx.race(ctx.call(look, 4), ctx.wait_for("never"))
        await ctx.wait_for("never")
    finally:
        await ctx.call(look, 5)
    return 1


async def cancel_in_commit(path: Path, number: int) -> bool:
    """Cancel while a commit is under way; returns whether there was such a commit."""
    store = PausingStore(path, number)
    async with AgentRuntime([busy, inner], store=store) as runtime:
        receipt = await runtime.submit("busy", {})
        paused = asyncio.create_task(store.is_paused.wait())
        async with asyncio.timeout(ENDS_S):
            while not paused.done():
                run = await store.load_run(receipt.run_id)
                if run is not None and run.status is RunStatus.WAITING:
                    break
                await asyncio.wait([paused], timeout=0.01)
        has_paused = paused.done()
        paused.cancel()
        cancelling = asyncio.create_task(runtime.cancel(receipt.run_id))
        # The request reaches the run before the commit is over.
        await asyncio.sleep(0.05)
        store.let_go.set()
        await cancelling
        async with asyncio.timeout(ENDS_S):
            while any((await store.count_open_runs()).values()):
                await asyncio.sleep(0.01)
        run = await runtime.get_run(receipt.run_id)
        assert isinstance(run.termination, Cancelled), run
        for thread_id in {it.thread_id for it in await runtime.list_runs()}:
            said = [it.message for it in await runtime.messages(thread_id)]
            answered = Counter(it.tool_call_id for it in said if it.role is Role.TOOL)
            assert set(answered.values()) <= {1}, (number, answered)
            asked = Counter(call.id for it in said for call in it.tool_calls or ())
            assert asked == answered
        return has_paused


@sampled
def test_a_workflow_can_be_cancelled_while_any_commit_is_under_way(tmp_path: Path) -> None:
    async def main() -> None:
        number = 2
        while await cancel_in_commit(tmp_path / f"{number}.db", number):
            number += choose_size(2, 1)
        assert number > 10

    asyncio.run(main())
