"""A process with background tasks that dies where it is told to: `python -m … FILE WHERE`.

What it leaves is found by another process on the same file.
"""

import asyncio
import os
import sys
from pathlib import Path

from tests.forked_python import run_python

from awaken import ToolContext, tool
from awaken.extensions.background import DurableMessageRequest
from awaken.stores import Commit
from awaken.tools import TaskInfo

from .task_worlds import MORTAL, Town, use

KILLED = 9
ROOT = Path(__file__).resolve().parents[2]


def dies(folder: Path, where: str) -> None:
    """Have a process work on the file of a folder, and die."""
    done = run_python("-m", "tests.scenarios.task_process", str(folder), where, cwd=ROOT)
    assert done.returncode == KILLED, done.stderr


def deadly_tools(is_deadly: bool) -> list[object]:
    """Tools after whose work the process dies, before anybody knows of it."""

    def die() -> None:
        if is_deadly:
            os._exit(KILLED)

    @tool(effect="idempotent")
    async def spawn_and_die(ctx: ToolContext) -> str:
        task = await ctx.sub_runs.spawn_agent("helper", "go", TaskInfo(name="child"))
        die()
        return task.task_id

    @tool(effect="idempotent")
    async def send_and_die(ctx: ToolContext) -> str:
        request = DurableMessageRequest(
            recipient_thread_id="other", sender_agent_id="boss", message="for you"
        )
        sent = await ctx.sub_runs.send_agent_message(request)
        die()
        return sent

    return [spawn_and_die, send_and_die]


async def _work(folder: Path, where: str) -> None:
    async with Town("sqlite", folder, tools=deadly_tools(is_deadly=True), config=MORTAL) as town:
        await town.runtime.run("second", "hello", thread_id="other")
        match where:
            case "released":
                await town.start(use("spawn", {"name": "a"}))
            case "suspended":
                await town.start(use("spawn", {"name": "a"}, "ask", {}))
            case "in the tool":
                await town.start(use("spawn_and_die", {}))
            case "before it is sent":
                await town.start(use("send_and_die", {}))
            case "when it is committed" | "when it has ended":
                _die_with_orders(town, where)
                to = {"relation": "agent", "thread_id": "other"}
                send = ("send_message", {"to": to, "message": "for you"})
                spawn = ("spawn", {"name": "a", "how": "now"})
                await town.start(use(*(send if where == "when it is committed" else spawn)))
                await asyncio.Event().wait()
        # Inside: a runtime that is left cancels its functions, and a process that dies does not.
        os._exit(KILLED)


def _die_with_orders(town: Town, where: str) -> None:
    def watch(commit: Commit) -> None:
        is_end = commit.run is not None and commit.run.task is not None
        if commit.outbox and is_end == (where == "when it has ended"):
            os._exit(KILLED)

    town.runtime._engine.services.watchers.commits.insert(0, watch)


if __name__ == "__main__":
    asyncio.run(_work(Path(sys.argv[1]), sys.argv[2]))
