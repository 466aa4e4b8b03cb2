"""A worker process with workflows, for tests that kill it: `workflow_process.py FOLDER …`.

The store is a file of SQLite in the folder, or Postgres if its URL and a schema follow.
"""

import asyncio
import os
import sys
from pathlib import Path

from awaken import AgentRuntime, MailboxConfig, ToolContext, WorkflowContext, tool, workflow
from awaken.errors import OutcomeUnknown
from awaken.stores import PostgresStore, SqliteStore, Store

QUICK = MailboxConfig(
    lease_ms=800, renew_ms=200, sweep_ms=400, poll_ms=20, drain_ms=200, max_attempts=200
)
FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
PLACE = tuple(sys.argv[2:4])
"""The URL of Postgres and the schema, if any."""


def note(kind: str, ctx: ToolContext) -> None:
    """Write what was done in one go, so that a kill leaves a whole line or none."""
    with (FOLDER / "ledger").open("ab", buffering=0) as ledger:
        ledger.write(f"{kind} {ctx.idempotency_key}\n".encode())
        os.fsync(ledger.fileno())


@tool(effect="idempotent")
async def save(x: int, ctx: ToolContext) -> int:
    """Save a number."""
    await asyncio.sleep(0.01)
    note("save", ctx)
    return x + 1


@tool(effect="once")
async def pay(x: int, ctx: ToolContext) -> int:
    """Pay."""
    note("pay", ctx)
    await asyncio.sleep(0.005)
    return x


@workflow(tools=[save, pay])
async def busy(ctx: WorkflowContext, rounds: int) -> int:
    """Work, sleep, work side by side, wait for an event."""
    total = 0
    for number in range(rounds):
        total += sum(await ctx.gather(ctx.call(save, number), ctx.call(save, number)))
        try:
            await ctx.call(pay, number)
        except OutcomeUnknown:
            total += 0
        await ctx.sleep(0.05)
    return total + int(await ctx.wait_for("bonus", int))


def make_runtime(*, has_worker: bool = True) -> AgentRuntime:
    store: Store = SqliteStore(FOLDER / "store.db")
    if PLACE:
        url, schema = PLACE
        store = PostgresStore(url, schema=schema)
    return AgentRuntime([busy], store=store, mailbox=QUICK, has_worker=has_worker)


async def _work() -> None:
    async with make_runtime():
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_work())
