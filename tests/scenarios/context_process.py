"""A process that is killed in the middle of a run with a context: `python -m … FOLDER`.

What it leaves is continued by another process on the same file.
"""

import asyncio
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.forked_python import run_python

from awaken import Agent, AgentRuntime, MailboxConfig, RunContext, ToolContext, tool
from awaken.testing import ScriptedModel, ToolCalls

ROOT = Path(__file__).resolve().parents[2]
QUICK = MailboxConfig(lease_ms=1_000, renew_ms=200, sweep_ms=50, poll_ms=20, drain_ms=1)


@dataclass
class Customer:
    id: str
    tier: str = "basic"


def make_runtime(folder: Path, *, is_deadly: bool) -> tuple[AgentRuntime, ScriptedModel, list[str]]:
    """A runtime on the folder's file; its tool kills the process if it is deadly."""
    seen: list[str] = []

    @tool(effect="idempotent")
    async def look(ctx: ToolContext[dict[str, str], Customer]) -> str:
        """Look the customer up."""
        if is_deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        return f"{ctx.context.id} {ctx.context.tier} {ctx.deps['process']}"

    def instruct(ctx: RunContext[dict[str, str], Customer]) -> str:
        seen.append(ctx.context.id)
        return f"Help {ctx.context.id}, said by the {ctx.deps['process']} process."

    def answer(request: object) -> str:
        return "Done."

    model = ScriptedModel([ToolCalls([("look", {})]), answer] if is_deadly else [answer])
    agent = Agent(
        "support", model=model, instructions=instruct, tools=[look], context_type=Customer
    )
    deps = {"process": "first" if is_deadly else "second"}
    store = f"sqlite:///{folder}/awaken.db"
    return AgentRuntime([agent], store=store, mailbox=QUICK, deps=deps), model, seen


def be_killed(folder: Path) -> None:
    """Have a process begin a run, and be killed in its tool."""
    done = run_python("-m", "tests.scenarios.context_process", str(folder), cwd=ROOT)
    assert done.returncode == -signal.SIGKILL, done.stderr


async def _work(folder: Path) -> None:
    runtime, _, _ = make_runtime(folder, is_deadly=True)
    async with runtime:
        receipt = await runtime.submit(
            "support", "Hi!", thread_id="t1", context=Customer("c7", "gold"), run_id_hint="r1"
        )
        await runtime.wait(receipt.run_id)


if __name__ == "__main__":
    asyncio.run(_work(Path(sys.argv[1])))
