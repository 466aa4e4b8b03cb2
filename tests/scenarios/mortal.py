"""Processes that die in real time: their way to a store that outlives them is cut."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from awaken import AgentRuntime, AwakenError, MailboxConfig, RunHandle
from awaken.errors import StoreUnavailable
from awaken.stores import Commit, MemoryStore, SqliteStore

PROMPT = MailboxConfig(
    lease_ms=20_000, renew_ms=50, sweep_ms=50, poll_ms=20, drain_ms=1, relay_ms=50, relay_base_ms=20
)
"""Looks often; its leases outlive every pause of a busy machine."""


class Mortal:
    """One process's way to a store that outlives it; once it is cut, nothing gets through.

    The leases of a process lapse when it dies, not some time later: a lease short enough to wait
    for would also lapse while the process lives, on a machine that is busy for a moment.
    """

    def __init__(self, store: Any, *, leases_lapse: bool = True) -> None:
        self._store = store
        self.is_cut = False
        self.leases_lapse = leases_lapse
        """Off for a test that does something before they do, and then says when."""
        self._claim_tokens: set[str] = set()
        self.commits = 0
        """How many were applied."""
        self.dies_with: Callable[[Commit], bool] = lambda _: False
        """Says of each commit that was applied whether the process dies before it hears of it."""
        self.refuses: dict[str, int] = {}
        """How often a method is still refused, as if the store was away; or one for an id."""
        self.refusal: Exception = StoreUnavailable(store="the store", problem="it is away")

    def die_with(self, number: int) -> None:
        """Have the process die with the so-manieth commit that is applied."""
        self.dies_with = lambda _: self.commits == number

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not inspect.iscoroutinefunction(found) or name in ("open", "close"):
            return found

        async def asked(*arguments: Any, **options: Any) -> Any:
            self._check(name)
            if arguments:
                self._check(f"{name} {arguments[0]}")
            if name == "claim":
                self._claim_tokens.add(arguments[1])
            elif name == "commit" and arguments[0].fencing_token is not None:
                self._claim_tokens.add(arguments[0].fencing_token)
            answer = await found(*arguments, **options)
            if name == "commit":
                self.commits += 1
                self.is_cut = self.is_cut or self.dies_with(arguments[0])
            self._check()
            return answer

        return asked

    def lease_keeper(self) -> Any:
        self._check()
        return Mortal.Keeper(self, self._store.lease_keeper())

    def let_leases_lapse(self) -> None:
        """What time does to the leases of a process that is dead."""
        assert self.is_cut
        let_lapse(self._store, *self._claim_tokens)

    def _check(self, name: str = "") -> None:
        if self.is_cut:
            # Here too, because what was on its way when the process died may have come through.
            if self.leases_lapse:
                self.let_leases_lapse()
            raise StoreUnavailable(store="the store", problem="this process is dead")
        if self.refuses.get(name, 0):
            self.refuses[name] -= 1
            raise self.refusal

    class Keeper:
        def __init__(self, mortal: "Mortal", keeper: Any) -> None:
            self._mortal, self._keeper = mortal, keeper

        def extend(self, *arguments: Any) -> Any:
            self._mortal._check()
            news = self._keeper.extend(*arguments)
            self._mortal._check()
            return news

        def close(self) -> None:
            self._keeper.close()


async def until_over(handle: RunHandle, mortal: Mortal) -> None:
    """Wait until a run is over or its process is dead.

    A dead process would learn only by its lease, after seconds, that nothing gets through.
    """
    result = asyncio.ensure_future(handle.result())
    try:
        while not (result.done() or mortal.is_cut):
            await asyncio.sleep(0.002)
        if result.done():
            with suppress(AwakenError):
                result.result()
    finally:
        result.cancel()


def let_lapse(store: Any, *claim_tokens: str) -> None:
    """Have leases lapse now."""
    keeper = store.lease_keeper()
    keeper.extend(claim_tokens, 0)
    keeper.close()


def sqlite(tmp_path: Path) -> list[Any]:
    return [SqliteStore(str(tmp_path / "store.db")) for _ in range(2)]


def shared_memory(_tmp_path: Path) -> list[Any]:
    store = MemoryStore(is_shared=True)
    return [store, store]


on_shared_stores = pytest.mark.parametrize("stores_of", [shared_memory, sqlite])


@asynccontextmanager
async def dying(rt: AgentRuntime) -> AsyncIterator[AgentRuntime]:
    """A process that is dead when the block ends, and cleaned up after the test."""
    await rt.__aenter__()
    yield rt
    rt.store.is_cut = True  # type: ignore[attr-defined]
    with suppress(AwakenError, TimeoutError):
        await rt.__aexit__(None, None, None)
    if rt.store.leases_lapse:  # type: ignore[attr-defined]
        rt.store.let_leases_lapse()  # type: ignore[attr-defined]
