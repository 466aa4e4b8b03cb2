"""A process that replays a stored run in the background, and says how far it is.

    python replay_process.py STORE RUN FOLDER ALIVE_MS

It prints `begun REPLAY`, then `asked N` before each answer of the live model, and waits for a line
on its standard input before it answers.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from awaken import Agent, AgentRuntime, tool
from awaken.bootstrap.replays import build_run_replays
from awaken.contracts.evals.replays import ReplayMode, ReplaySpec
from awaken.contracts.messages.deltas import TextDelta, ToolCallDelta, ToolCallStart
from awaken.contracts.models.inference import ModelEvent, Stop
from awaken.evals.replay_jobs import ReplayLimits
from awaken.models import InferenceRequest, StopReason

STEPS = 4


def build_agent(folder: Path, model: Any) -> Agent:
    """Make an agent whose tool leaves a line in a file each time it is executed."""

    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        with (folder / "paid").open("a") as file:
            file.write(f"{amount}\n")
        return f"paid {amount}"

    return Agent("payer", model=model, tools=[pay], max_rounds=STEPS + 2)


class SlowModel:
    """Pays a few times; says so before each answer, and waits until it may."""

    name = "slow"

    async def stream(self, request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        """Play one answer."""
        number = 1 + sum(it.role == "tool" for it in request.messages)
        print(f"asked {number}", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        if number < STEPS:
            yield ToolCallStart(id=f"live_{number}", name="pay")
            yield ToolCallDelta(id=f"live_{number}", args_delta=f'{{"amount": {number}}}')
            yield Stop(reason=StopReason.TOOL_USE)
        else:
            yield TextDelta(delta="All is paid.")
            yield Stop(reason=StopReason.END_TURN)


async def main(store: str, run_id: str, folder: Path, alive_ms: int) -> None:
    """Begin a replay, and wait for its end."""
    async with AgentRuntime([build_agent(folder, SlowModel())], store=store) as runtime:
        limits = ReplayLimits(alive_ms=alive_ms)
        replays = build_run_replays(runtime.view("operator").engine, limits=limits)
        begun = await replays.begin(run_id, ReplaySpec(mode=ReplayMode.WHAT_IF))
        print(f"begun {begun.replay.replay_id}", flush=True)
        await replays.jobs.load(run_id, begun.replay.replay_id, 60_000)
        await replays.close()
        print("ended", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])))
