"""Recordings of long runs: their time, their size, and how fast they replay."""

import asyncio
import gzip
import time
from pathlib import Path
from typing import Any

from tests.sampling import choose_size, sampled

from awaken import Agent, AgentRuntime, StateKey, ToolContext, tool
from awaken.bootstrap.replays import build_recorder, build_replays
from awaken.evals.recording_files import encode_recording
from awaken.plugins import StateScope
from awaken.testing import ScriptedModel, ToolCalls

LINES: StateKey[int, int] = StateKey("sized_lines", default=0, scope=StateScope.THREAD)
RECORD_S = 2.0
PACKED_MAX = 20 * 1024 * 1024
STEPS_PER_S = 200


@tool(effect="none")
async def count(n: int, ctx: ToolContext) -> str:
    """Count."""
    ctx.state.set(LINES, n)
    return f"line {n}: " + "some text of a result " * 10


@sampled
def test_a_run_of_a_thousand_steps(tmp_path: Path) -> None:
    steps = choose_size(200, 1_000)
    script: list[Any] = [ToolCalls([("count", {"n": n})]) for n in range(steps - 1)]
    model = ScriptedModel([*script, "done"])

    async def main() -> None:
        agent = Agent("long", model=model, tools=[count], max_rounds=steps + 1)
        store = f"sqlite:///{tmp_path}/long.db"
        async with asyncio.timeout(300), AgentRuntime([agent], store=store) as runtime:
            run_id = (await runtime.run("long", "go")).run_id
            engine = runtime.view("test").engine
            before = time.process_time()
            recording = await build_recorder(engine).record(run_id)
            spent = time.process_time() - before
            assert len(recording.steps) == steps
            # CPU time: the machine may do other things meanwhile.
            assert spent <= RECORD_S * max(1.0, steps / 1_000), spent
            assert len(gzip.compress(encode_recording(recording))) <= PACKED_MAX
            before = time.process_time()
            result = await build_replays(engine).replay(recording)
            spent = time.process_time() - before
            assert result.is_same, result.divergences
            assert steps / spent >= STEPS_PER_S, steps / spent
            print(f"{steps / spent:.0f} steps/s")

    asyncio.run(main())
