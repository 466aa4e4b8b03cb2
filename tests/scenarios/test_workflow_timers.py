"""Timers of many workflows wake in time, without the help of a later sweep."""

import asyncio
from pathlib import Path

import pytest

from awaken import AgentRuntime, MailboxConfig, WorkflowContext, workflow

SLEEPERS = 20
NO_SWEEP = MailboxConfig(sweep_ms=3_600_000)


@workflow
async def nap(ctx: WorkflowContext) -> str:
    """Sleep."""
    await ctx.sleep(0.3)
    return "awake"


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_timers_that_are_due_one_after_the_other_all_wake(kind: str, tmp_path: Path) -> None:
    store = None if kind == "memory" else f"sqlite:///{tmp_path / 'w.db'}"

    async def story() -> None:
        async with AgentRuntime([nap], store=store, mailbox=NO_SWEEP) as runtime:
            begun = [await runtime.start("nap", {}) for _ in range(SLEEPERS)]
            async with asyncio.timeout(20):
                for run in begun:
                    while (await runtime.get_run(run.run_id)).status != "done":
                        await asyncio.sleep(0.02)

    asyncio.run(story())
