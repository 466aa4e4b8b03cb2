"""A store that fails while a workflow takes a step: its code never sees that.

Code that caught the error would undo what has happened, and could not be replayed.
"""

import asyncio
from collections import Counter
from typing import Any

import pytest

from awaken import AgentRuntime, MailboxConfig, RunStatus, WorkflowContext, tool, workflow
from awaken.errors import StoreUnavailable
from awaken.stores import MemoryStore

QUICK = MailboxConfig(retry_base_ms=1, retry_cap_ms=5, poll_ms=20, sweep_ms=20)


class FlakyStore(MemoryStore):
    """A store that is away for one commit, before or after it is written."""

    def __init__(self, failing: int, *, is_written: bool) -> None:
        super().__init__(is_shared=True)
        self.left = failing
        self.is_written = is_written
        self.is_away = False

    async def commit(self, commit: Any) -> Any:
        self.left -= 1
        if self.left:
            return await super().commit(commit)
        if self.is_written:
            await super().commit(commit)
        self.is_away = True
        raise StoreUnavailable(store="flaky", problem="it is away")

    async def find_commit(self, *arguments: Any) -> Any:
        if self.is_away:
            self.is_away = False
            raise StoreUnavailable(store="flaky", problem="it is away")
        return await super().find_commit(*arguments)


@pytest.mark.parametrize("is_written", [True, False])
@pytest.mark.parametrize("failing", range(2, 10))
def test_code_never_sees_that_a_store_fails(failing: int, is_written: bool) -> None:
    seen: list[str] = []
    done: Counter[str] = Counter()

    @tool(effect="idempotent")
    async def reserve(x: int) -> int:
        """Reserve something."""
        done[f"reserve {x}"] += 1
        return x

    @tool(effect="idempotent")
    async def undo() -> int:
        """Undo all."""
        done["undo"] += 1
        return 0

    @workflow(tools=[reserve, undo])
    async def books(ctx: WorkflowContext) -> int:
        try:
            first = await ctx.call(reserve, 1)
            await ctx.gather(ctx.call(reserve, 2), ctx.call(reserve, 3))
            await ctx.race(ctx.call(reserve, 4), ctx.sleep(60))
            await ctx.random()
        except BaseException as error:
            if not isinstance(error, asyncio.CancelledError):
                seen.append(repr(error))
                await ctx.call(undo)
            raise
        return int(first)

    async def story() -> None:
        store = FlakyStore(failing, is_written=is_written)
        async with AgentRuntime([books], store=store, mailbox=QUICK, has_worker=True) as runtime:
            receipt = await runtime.submit("books", "{}")
            async with asyncio.timeout(20):
                while (await runtime.get_run(receipt.run_id)).status is not RunStatus.DONE:
                    await asyncio.sleep(0.005)
            assert store.left <= 0
            assert (await runtime.wait(receipt.run_id)).output == 1
        assert seen == []
        assert done["undo"] == 0

    asyncio.run(story())
