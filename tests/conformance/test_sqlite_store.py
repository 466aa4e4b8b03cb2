"""The SQLite store against the suites that every store must pass."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from awaken.stores.sqlite import SqliteStore
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


def on_a_file(path: Path, check: Callable[[SqliteStore], Awaitable[None]]) -> None:
    async def run() -> None:
        store = SqliteStore(path / "store.db")
        await store.open()
        try:
            await check(store)
        finally:
            await store.close()

    asyncio.run(run())


@pytest.mark.parametrize("check", STORE_CHECKS, ids=name_of)
def test_the_sqlite_store_keeps_every_promise_of_a_store(check: StoreCheck, tmp_path: Path) -> None:
    on_a_file(tmp_path, check)


@pytest.mark.parametrize("check", PROFILE_CHECKS, ids=name_of)
def test_the_sqlite_store_keeps_every_promise_of_a_profile_store(
    check: ProfileCheck, tmp_path: Path
) -> None:
    on_a_file(tmp_path, check)


@pytest.mark.parametrize("check", CONFIG_CHECKS, ids=name_of)
def test_the_sqlite_store_keeps_every_promise_of_a_config_store(
    check: ConfigCheck, tmp_path: Path
) -> None:
    on_a_file(tmp_path, check)


@pytest.mark.parametrize("check", SCHEDULE_CHECKS, ids=name_of)
def test_the_sqlite_store_keeps_every_promise_of_a_schedule_store(
    check: ScheduleCheck, tmp_path: Path
) -> None:
    on_a_file(tmp_path, check)


@pytest.mark.parametrize("check", MEMORY_CHECKS, ids=name_of)
def test_the_sqlite_store_keeps_every_promise_of_a_memory_engine(
    check: MemoryCheck, tmp_path: Path
) -> None:
    on_a_file(tmp_path, lambda store: check(store.open_memory()))


@pytest.mark.parametrize("check", EVAL_CHECKS, ids=name_of)
def test_the_sqlite_store_keeps_every_promise_of_an_eval_store(
    check: EvalCheck, tmp_path: Path
) -> None:
    on_a_file(tmp_path, lambda store: check(store.open_evals()))
