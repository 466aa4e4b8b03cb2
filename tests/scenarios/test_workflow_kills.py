"""Workflows under kill -9: two processes on one store, killed in turn while they work."""

import asyncio
import random
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.postgres.server import new_schema, server
from tests.sampling import choose_size, sampled

from awaken import RunStatus

from . import workflow_process

SCRIPT = Path(workflow_process.__file__)
ROUNDS, RUNS = 6, 6


async def start(folder: Path) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(SCRIPT),
        str(folder),
        *workflow_process.PLACE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert await asyncio.wait_for(process.stdout.readline(), 60) == b"ready\n"
    return process


async def kill(process: asyncio.subprocess.Process) -> None:
    process.send_signal(signal.SIGKILL)
    await process.wait()


@sampled
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_workflows_end_once_whatever_process_is_killed(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflow_process, "FOLDER", tmp_path)
    place = (server().url, new_schema()) if kind == "postgres" else ()
    monkeypatch.setattr(workflow_process, "PLACE", place)
    chance = random.Random(7)

    async def story() -> None:
        processes = [await start(tmp_path), await start(tmp_path)]
        try:
            async with workflow_process.make_runtime(has_worker=False) as runtime:
                receipts = [await runtime.submit("busy", {"rounds": ROUNDS}) for _ in range(RUNS)]
                for cycle in range(choose_size(2 if place else 4, 40)):
                    await asyncio.sleep(chance.uniform(0.05, 0.6))
                    await kill(processes[cycle % 2])
                    processes[cycle % 2] = await start(tmp_path)
                async with asyncio.timeout(100):
                    for receipt in receipts:
                        while await runtime.store.load_run(receipt.run_id) is None:
                            await asyncio.sleep(0.05)
                        for _ in range(2):
                            await runtime.send_event(receipt.run_id, "bonus", 1000, event_id="b")
                        while (run := await runtime.get_run(receipt.run_id)).status is not (
                            RunStatus.DONE
                        ):
                            await asyncio.sleep(0.05)
                        wanted = sum(2 * (it + 1) for it in range(ROUNDS)) + 1000
                        assert run.final_output == str(wanted), run
        finally:
            for process in processes:
                await kill(process)
        lines = (tmp_path / "ledger").read_text(encoding="utf-8").splitlines()
        paid = Counter(line for line in lines if line.startswith("pay"))
        assert max(paid.values()) == 1
        saved = {line for line in lines if line.startswith("save")}
        assert len(saved) == RUNS * ROUNDS * 2

    asyncio.run(story())
