"""The Postgres store against the suites that every store must pass."""

import asyncio

import pytest
from tests.postgres.stores import opened

from awaken.testing.store_conformance import (
    CONFIG_CHECKS,
    EVAL_CHECKS,
    MEMORY_CHECKS,
    PROFILE_CHECKS,
    SCHEDULE_CHECKS,
    STORE_CHECKS,
    ConfigCheck,
    EvalCheck,
    MemoryCheck,
    ProfileCheck,
    ScheduleCheck,
    StoreCheck,
)


def name_of(check: object) -> str:
    return getattr(check, "__name__", "check")


EVERY_CHECK = [*STORE_CHECKS, *PROFILE_CHECKS, *CONFIG_CHECKS, *SCHEDULE_CHECKS]


@pytest.mark.parametrize("check", EVERY_CHECK, ids=name_of)
def test_the_postgres_store_keeps_every_promise(
    check: StoreCheck | ProfileCheck | ConfigCheck | ScheduleCheck,
) -> None:
    async def run() -> None:
        # A slow disk is no broken promise.
        async with opened(connect_timeout_ms=30_000) as store:
            await check(store)

    asyncio.run(run())


@pytest.mark.parametrize("check", MEMORY_CHECKS, ids=name_of)
def test_the_postgres_store_keeps_every_promise_of_a_memory_engine(check: MemoryCheck) -> None:
    async def run() -> None:
        async with opened(connect_timeout_ms=30_000) as store:
            await check(store.open_memory())

    asyncio.run(run())


@pytest.mark.parametrize("check", EVAL_CHECKS, ids=name_of)
def test_the_postgres_store_keeps_every_promise_of_an_eval_store(check: EvalCheck) -> None:
    async def run() -> None:
        async with opened(connect_timeout_ms=30_000) as store:
            await check(store.open_evals())

    asyncio.run(run())
