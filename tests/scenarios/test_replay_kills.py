"""Processes that replay runs are killed: no replay stays open, and nothing is paid."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from awaken import AgentRuntime
from awaken.bootstrap.replays import build_run_replays
from awaken.contracts.evals.replays import ReplayMode, ReplaySpec, ReplayStatus
from awaken.evals.replay_jobs import LOST
from awaken.testing import ScriptedModel, ToolCalls

from . import replay_process
from .replay_process import STEPS, build_agent

WAIT_MS = 60_000


def record_run(store: str, folder: Path) -> str:
    """Let the agent pay for real, once, and return the id of its run."""
    script = [ToolCalls([("pay", {"amount": number})]) for number in range(1, STEPS)]

    async def main() -> str:
        agent = build_agent(folder, ScriptedModel([*script, "All is paid."]))
        async with asyncio.timeout(60), AgentRuntime([agent], store=store) as runtime:
            return (await runtime.run("payer", "pay")).run_id

    return asyncio.run(main())


class Replaying:
    """A process that replays; killed at its end."""

    def __init__(self, store: str, run_id: str, folder: Path, alive_ms: int) -> None:
        given = [store, run_id, str(folder), str(alive_ms)]
        command = [sys.executable, str(replay_process.__file__), *given]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def read_until(self, word: str) -> str:
        """Read lines until one begins with a word, and return the rest of that line."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(word):
                return line.removeprefix(word).strip()
        raise AssertionError(f"it ended before it said {word!r}")

    def answer(self) -> None:
        """Let the model answer once."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """Kill it as the system does, without a word."""
        self.process.kill()
        self.process.communicate(timeout=30)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("answers", range(STEPS + 1))
def test_a_replay_whose_process_is_killed_ends_and_paid_nothing(
    answers: int, tmp_path: Path
) -> None:
    """Killed before the first answer, between any two of them, and after the last one."""
    store = f"sqlite:///{tmp_path}/a.db"
    run_id = record_run(store, tmp_path)
    paid = (tmp_path / "paid").read_text()
    # The one that ends must not be taken for lost on a busy machine.
    doing = Replaying(store, run_id, tmp_path, 60_000 if answers == STEPS else 900)
    try:
        replay_id = doing.read_until("begun")
        for number in range(1, answers + 1):
            doing.read_until(f"asked {number}")
            doing.answer()
        if answers == STEPS:
            doing.read_until("ended")
        elif answers:
            doing.read_until(f"asked {answers + 1}")
    finally:
        doing.kill()
    script = [ToolCalls([("pay", {"amount": number})]) for number in range(1, STEPS)]

    async def look() -> None:
        agent = build_agent(tmp_path, ScriptedModel([*script, "All is paid."]))
        async with asyncio.timeout(90), AgentRuntime([agent], store=store) as runtime:
            replays = build_run_replays(runtime.view("operator").engine)
            found = await replays.jobs.load(run_id, replay_id, WAIT_MS)
            if answers == STEPS:
                assert (found.replay.status, found.missing) == (ReplayStatus.DONE, None)
                assert found.result is not None
            else:
                assert (found.replay.status, found.replay.problem) == (ReplayStatus.FAILED, LOST)
                assert found.result is None
            # The run is as it was, and can be replayed again.
            again = await replays.begin(run_id, ReplaySpec(mode=ReplayMode.WHAT_IF))
            done = await replays.jobs.load(run_id, again.replay.replay_id, WAIT_MS)
            assert done.replay.status is ReplayStatus.DONE
            assert len(await replays.jobs.list_of(run_id)) == 2
            await replays.close()

    asyncio.run(look())
    assert (tmp_path / "paid").read_text() == paid
