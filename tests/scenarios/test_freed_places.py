"""A run that rests leaves its place to what waits for it at once, not when somebody looks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from tests.postgres.server import new_schema, server

from awaken import Agent, AgentRuntime, MailboxConfig, TenantLimits
from awaken.stores.postgres import PostgresStore
from awaken.testing import ScriptedModel

NEVER_MS = 600_000
"""Polls so rare that only a wake finds work."""
LIMITS = {"ann": TenantLimits(max_busy=1)}


@asynccontextmanager
async def opened(schema: str, answer: Any = "hi", **options: Any) -> AsyncIterator[AgentRuntime]:
    times = MailboxConfig(
        poll_ms=NEVER_MS, sweep_ms=NEVER_MS, renew_ms=200, drain_ms=0, tenants=LIMITS
    )
    store = PostgresStore(server().url, schema=schema)
    agent = Agent("x", model=ScriptedModel([answer], cycle=True))
    async with AgentRuntime([agent], store=store, mailbox=times, **options) as runtime:
        yield runtime


async def until_empty(runtime: AgentRuntime) -> None:
    async with asyncio.timeout(20):
        while await runtime.store.count_queued():
            await asyncio.sleep(0.02)


def test_a_tenant_at_its_limit_gets_its_next_run_when_one_ends() -> None:
    async def check() -> None:
        async with opened(new_schema()) as runtime:
            for number in range(6):
                await runtime.submit("x", "hi", tenant_id="ann", thread_id=f"t{number}")
            await until_empty(runtime)

    asyncio.run(check())


@pytest.mark.parametrize("has_worker", [True, False], ids=["worker here", "worker elsewhere"])
@pytest.mark.parametrize("waits_on", ["its thread", "its tenant"])
def test_a_run_of_a_caller_leaves_its_place_as_well(has_worker: bool, waits_on: str) -> None:
    async def check() -> None:
        asked, may_end = asyncio.Event(), asyncio.Event()

        async def answer(_request: object) -> str:
            asked.set()
            await may_end.wait()
            return "hi"

        schema = new_schema()
        async with (
            opened(schema, answer, has_worker=has_worker) as runtime,
            opened(schema, has_worker=not has_worker) as other,
        ):
            # Known to each other by their beats.
            await asyncio.sleep(0.5)
            running = asyncio.create_task(runtime.run("x", "a", tenant_id="ann", thread_id="t1"))
            await asyncio.wait_for(asked.wait(), 20)
            place = "t1" if waits_on == "its thread" else "t2"
            await other.submit("x", "b", tenant_id="ann", thread_id=place)
            await asyncio.sleep(0.3)
            assert await other.store.count_queued() == 1
            may_end.set()
            await running
            await until_empty(other)

    asyncio.run(check())


@pytest.mark.parametrize("is_queued", [False, True], ids=["of a caller", "queued"])
def test_a_run_that_a_stopping_process_gives_back_goes_on_elsewhere_at_once(
    is_queued: bool,
) -> None:
    async def check() -> None:
        asked = asyncio.Event()

        async def never(_request: object) -> str:
            asked.set()
            await asyncio.Event().wait()
            return ""

        schema = new_schema()
        async with AsyncExitStack() as stopping:
            runtime = await stopping.enter_async_context(opened(schema, never))
            running = None
            if is_queued:
                await runtime.submit("x", "a", thread_id="t1")
            else:
                running = asyncio.create_task(runtime.run("x", "a", thread_id="t1"))
            await asyncio.wait_for(asked.wait(), 20)
            async with opened(schema) as other:
                # It has looked, and the one that stops knows it.
                await asyncio.sleep(0.7)
                await stopping.aclose()
                if running is not None:
                    await asyncio.wait([running])
                    assert running.exception() is not None
                async with asyncio.timeout(20):
                    while (thread := await other.store.load_thread("t1")) is None or (
                        thread.open_run_id is not None
                    ):
                        await asyncio.sleep(0.02)

    asyncio.run(check())
