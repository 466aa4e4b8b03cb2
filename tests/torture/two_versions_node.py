"""A node of the stage `two_versions`: it works, and submits what its standard input names.

It runs with the code of any version (`PYTHONPATH`), so it uses nothing but public names that all
of them have.
"""

import asyncio
import os
import sys
from pathlib import Path

from awaken import Agent, AgentRuntime, MailboxConfig, ToolContext, tool
from awaken.messages import Role
from awaken.stores import PostgresStore
from awaken.testing import ScriptedModel, ToolCalls

TIMES = MailboxConfig(lease_ms=3_000, renew_ms=500, sweep_ms=300, poll_ms=100, drain_ms=200)


def open_runtime(url: str, schema: str, ledger: Path) -> AgentRuntime:
    """A runtime whose agent naps, pays once, and answers."""

    def note(ctx: ToolContext) -> None:
        with ledger.open("a", encoding="utf-8") as file:
            file.write(f"{ctx.run.run_id} {ctx.call_id}\n")

    @tool(effect="idempotent")
    async def nap() -> str:
        """Take a while, to be killed in."""
        await asyncio.sleep(0.2)
        return "rested"

    @tool(effect="once")
    async def pay(ctx: ToolContext) -> str:
        """Pay; at most once, whatever happens."""
        note(ctx)
        return "paid"

    def answer(request: object) -> object:
        told = [it for it in request.messages if it.role is Role.TOOL]  # type: ignore[attr-defined]
        if len(told) == 2:
            return "done"
        return ToolCalls([("pay" if told else "nap", {})])

    return AgentRuntime(
        [Agent("agent", model=ScriptedModel([answer], cycle=True), tools=[nap, pay])],
        store=PostgresStore(url, schema=schema),
        mailbox=TIMES,
        has_worker=True,
    )


async def serve(url: str, schema: str, ledger: Path) -> None:
    """Submit a run for each line of the input, acknowledge it with a line, work until its end."""
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with open_runtime(url, schema, ledger) as runtime:
        print(f"ready {os.getpid()}", flush=True)
        while line := (await lines.readline()).decode().strip():
            receipt = await runtime.submit("agent", line, thread_id=line, dedupe_key=line)
            print(receipt.run_id, flush=True)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
