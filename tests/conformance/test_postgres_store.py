"""The Postgres store against the suites that every store must pass."""

import asyncio

import pytest
from tests.postgres.stores import opened

from awaken.testing.store_conformance import (
    CONFIG_CHECKS,
    PROFILE_CHECKS,
    STORE_CHECKS,
    ConfigCheck,
    ProfileCheck,
    StoreCheck,
)


def name_of(check: object) -> str:
    return getattr(check, "__name__", "check")


@pytest.mark.parametrize("check", [*STORE_CHECKS, *PROFILE_CHECKS, *CONFIG_CHECKS], ids=name_of)
def test_the_postgres_store_keeps_every_promise(
    check: StoreCheck | ProfileCheck | ConfigCheck,
) -> None:
    async def run() -> None:
        # A slow disk is no broken promise.
        async with opened(connect_timeout_ms=30_000) as store:
            await check(store)

    asyncio.run(run())
