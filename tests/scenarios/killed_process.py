"""A process that is killed: its arguments are what it does before, and its store."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from awaken import AgentRuntime, MailboxConfig, ToolContext, WorkflowContext, tool, workflow
from awaken.errors import StepFailed
from awaken.stores import DeleteStrategy, PostgresStore, RunQuery, SqliteStore, Store

SILENT = MailboxConfig(relay_ms=3_600_000, sweep_ms=3_600_000)
"""The relay looks when a commit wakes it, and a deletion is no commit."""
SHORT = MailboxConfig(lease_ms=2_000, renew_ms=500, sweep_ms=500)
"""What a killed process held is free soon."""


@workflow
async def asks_a_sleeper(ctx: WorkflowContext) -> str:
    """Ask a workflow that sleeps for a year."""
    try:
        return str(await ctx.ask("sleeper", "go"))
    except StepFailed as error:
        return f"no answer: {error}"


@workflow
async def sleeper(ctx: WorkflowContext, message: str) -> str:
    """Sleep for a year."""
    await ctx.sleep(days=365)
    return message


@workflow
async def nap(ctx: WorkflowContext) -> str:
    """Sleep for a moment."""
    await ctx.sleep(2)
    return "awake"


def open_store(kind: str, place: str, schema: str = "") -> Store:
    return SqliteStore(place) if kind == "sqlite" else PostgresStore(place, schema=schema)


async def delete_and_die(store: Store) -> None:
    """Delete the child once its parent waits for it, and die before anything else happens."""
    async with AgentRuntime([asks_a_sleeper, sleeper], store=store, mailbox=SILENT) as runtime:
        parent = await runtime.start("asks_a_sleeper", {}, thread_id="t")
        while (await runtime.get_run(parent.run_id)).status != "waiting":
            await asyncio.sleep(0.01)
        # The check of the parent at rest is over: nothing else tells it of its child.
        while await store.list_outbox(pause_max_ms=0):
            await asyncio.sleep(0.01)
        runs = (await store.list_runs(RunQuery())).items
        (child,) = [it for it in runs if it.parent_run_id == parent.run_id]
        await store.delete_thread(child.thread_id, DeleteStrategy.DETACH)
        os.kill(os.getpid(), signal.SIGKILL)


@tool
async def pay(ctx: ToolContext) -> str:
    """Pay, and hang."""
    with Path(os.environ["LEDGER"]).open("ab", buffering=0) as ledger:
        ledger.write(b"paid\n")
    await asyncio.Event().wait()
    return "paid"


@workflow(tools=[pay])
async def payer(ctx: WorkflowContext, message: str) -> str:
    """Pay."""
    return str(await ctx.call(pay))


@workflow
async def asks_a_payer(ctx: WorkflowContext) -> str:
    """Ask a workflow that pays."""
    try:
        return str(await ctx.ask("payer", "go"))
    except StepFailed as error:
        return f"no answer: {error}"


async def die_while_a_child_pays(store: Store) -> None:
    """Die while the parent executes, once its child has paid."""
    ledger = Path(os.environ["LEDGER"])
    async with AgentRuntime([asks_a_payer, payer], store=store, mailbox=SHORT) as runtime:
        await runtime.start("asks_a_payer", {}, thread_id="t")
        while not ledger.exists():
            await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)


async def sleep_and_stay(store: Store) -> None:
    """Start a workflow that sleeps, tell its id once it does, and live on."""
    async with AgentRuntime([nap], store=store, has_worker=False) as runtime:
        begun = await runtime.start("nap", {}, thread_id="t")
        while (await runtime.get_run(begun.run_id)).status != "waiting":
            await asyncio.sleep(0.01)
        print(begun.run_id, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    stories = {"delete": delete_and_die, "sleep": sleep_and_stay, "pay": die_while_a_child_pays}
    story = stories[sys.argv[1]]
    asyncio.run(story(open_store(*sys.argv[2:])))
