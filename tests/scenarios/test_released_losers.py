"""A loser that may go on and has not done so yet when its race is over: it sees its end alone."""

import asyncio

import pytest

from awaken import NaturalEnd, WorkflowContext, tool, workflow
from awaken.contracts.runs.records import RunRecord
from awaken.errors import StepTimedOut
from awaken.testing import simulate_agent


@tool(effect="none")
async def write(names: list[str]) -> str:
    """Write names."""
    return ",".join(names)


@workflow(tools=[write])
async def outlived(ctx: WorkflowContext) -> str:
    # A process that takes over from a dead one finds that both times have come.
    seen: list[str] = []

    async def lose() -> None:
        try:
            await ctx.wait_for("never", timeout=20)
        except StepTimedOut:
            seen.append("late")
        except asyncio.CancelledError:
            seen.append("lost")
            raise

    async def lose_both() -> None:
        await ctx.gather(lose(), lose())

    await ctx.race(lose_both(), ctx.sleep(2))
    await ctx.call(write, seen)
    await ctx.sleep(1)
    return str(await ctx.call(write, seen))


def judge(run: RunRecord) -> str | None:
    if isinstance(run.termination, NaturalEnd):
        return None
    return f"ended {run.termination!r}, waits {run.waiting!r}"


@pytest.mark.parametrize("seed", range(6))
def test_a_loser_that_was_released_takes_no_step_after_its_race(seed: int) -> None:
    for commit in range(2, 7):
        simulate_agent(outlived, "{}", judge=judge, seed=seed, crash=f"after commit {commit}")
