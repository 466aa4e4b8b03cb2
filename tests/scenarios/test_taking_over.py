"""A restart on the same machine goes on with its own runs at once, not after the lease."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.forked_python import ForkedPython

from awaken import Agent, AgentRuntime, MailboxConfig, NaturalEnd, tool
from awaken.testing import ScriptedModel, ToolCalls

ROOT = Path(__file__).resolve().parents[2]
HOURS = MailboxConfig(lease_ms=7_200_000, renew_ms=3_600_000, sweep_ms=100, poll_ms=20)
"""Leases that no test outlives."""


def runtime(store: str, *, hangs: bool) -> AgentRuntime:
    @tool(effect="idempotent")
    async def work() -> str:
        if hangs:
            print("working", flush=True)
            await asyncio.Event().wait()
        return "worked"

    model = ScriptedModel([ToolCalls([("work", {}, "c1")]), "done"])
    if not hangs:
        model = ScriptedModel(["done"])
    return AgentRuntime([Agent("a", model=model, tools=[work])], store=store, mailbox=HOURS)


async def hang(store: str, how: str) -> None:
    async with runtime(store, hangs=True) as it:
        if how == "submitted":
            await it.submit("a", "go", thread_id="t")
        else:
            await it.start("a", "go", thread_id="t")
        await asyncio.Event().wait()


@pytest.mark.skipif(not Path("/proc/self/ns/pid").exists(), reason="no /proc tells who lives")
@pytest.mark.parametrize("how", ["submitted", "started"])
def test_the_runs_of_a_killed_process_go_on_at_once_and_those_of_a_stopped_one_do_not(
    how: str, tmp_path: Path
) -> None:
    store = f"sqlite:///{tmp_path / 'store.db'}"
    command = ("-m", "tests.scenarios.test_taking_over", store, how)
    process = ForkedPython(*command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None

    async def main() -> None:
        async with asyncio.timeout(60), runtime(store, hangs=False) as it:
            run_id = (await it.store.load_thread("t")).open_run_id  # type: ignore[union-attr]
            assert run_id is not None
            os.kill(process.pid, signal.SIGSTOP)
            with pytest.raises(TimeoutError):
                await it.wait(run_id, timeout_ms=500)
            process.kill()
            process.wait()
            result = await it.wait(run_id)
            assert (result.termination, result.text) == (NaturalEnd(), "done")

    try:
        assert process.stdout.readline() == "working\n"
        asyncio.run(main())
    finally:
        process.kill()
        process.communicate()


if __name__ == "__main__":
    asyncio.run(hang(sys.argv[1], sys.argv[2]))
