"""A lease is judged by a clock that begins anew with the machine: it ends with its boot."""

import asyncio
from pathlib import Path
from unittest.mock import patch

import pytest

from awaken.contracts.storage.dispatch import RunDispatch
from awaken.stores.sql.session import Moment
from awaken.stores.sqlite import SqliteStore
from awaken.testing.store_conformance.writing import dispatch

LEASE_MS = 60_000
UPTIME_MS = 1_000_000_000


async def reclaimed(folder: Path, boot: str, uptime_ms: int) -> tuple[RunDispatch, ...]:
    """Open a store on a machine that has been up for so long, and take back what it can."""
    now = Moment(wall_ms=1_700_000_000_000, lease_ms=uptime_ms)
    store = SqliteStore(folder / "store.db", lambda: now)
    with patch("awaken.stores.sqlite.connection.boot_id", return_value=boot):
        await store.open()
    try:
        back = await store.reclaim()
        if await store.find_dispatch("d-1") is None:
            await store.enqueue(dispatch("d-1", "t-1"))
            assert len(await store.claim("worker", "token", LEASE_MS)) == 1
        return back
    finally:
        await store.close()


@pytest.mark.parametrize("is_restarted", [False, True], ids=["same boot", "next boot"])
def test_a_lease_of_an_earlier_boot_has_run_out(is_restarted: bool, tmp_path: Path) -> None:
    async def run() -> None:
        assert await reclaimed(tmp_path, "first", UPTIME_MS) == ()
        boot, uptime_ms = ("second", 5) if is_restarted else ("first", UPTIME_MS + 5)
        back = await reclaimed(tmp_path, boot, uptime_ms)
        assert [it.dispatch_id for it in back] == (["d-1"] if is_restarted else [])

    asyncio.run(run())
