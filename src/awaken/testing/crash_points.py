"""The moments at which a simulated process can be killed, and its way to the store until then.

A process is killed before or after one of its commits, or right before or right after the body
of a tool. From then on nothing of it reaches the store.
"""

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from awaken.contracts.errors import InvalidInput, StoreUnavailable
from awaken.contracts.storage.dispatch import LeaseReport
from awaken.contracts.storage.store import Commit, CommitReceipt, Store

_POINT = re.compile(r"(before|after) (commit|tool) ([1-9][0-9]*)")


class Dead(BaseException):
    """The process that gets this is dead."""


@dataclass(frozen=True, slots=True, order=True)
class CrashPoint:
    """One moment; commits and executions of tools are counted from 1 over the whole trial."""

    place: str
    number: int
    is_after: bool = False

    def __str__(self) -> str:
        return f"{'after' if self.is_after else 'before'} {self.place} {self.number}"

    @classmethod
    def parse(cls, text: str) -> "CrashPoint":
        """Read what `str` wrote.

        Raises:
            InvalidInput: It is no crash point.
        """
        found = _POINT.fullmatch(text.strip())
        if found is None:
            problem = "write 'before commit 3', 'after commit 3', 'before tool 1' or 'after tool 1'"
            raise InvalidInput(what=f"crash '{text}'", problem=problem)
        return cls(found[2], int(found[3]), found[1] == "after")


Crashes = tuple[CrashPoint, ...]
"""The deaths of one trial; none for a trial without a crash."""


def crashes_of(text: str | None) -> Crashes:
    """Read several points, with commas between them.

    Raises:
        InvalidInput: One of them is no crash point.
    """
    return tuple(map(CrashPoint.parse, text.split(","))) if text is not None else ()


def every_point(commits: int, tools: int) -> list[CrashPoint]:
    """All moments of a trial in which so much happened."""
    counts = (("commit", commits), ("tool", tools))
    return [
        CrashPoint(place, number, is_after)
        for place, count in counts
        for number in range(1, count + 1)
        for is_after in (False, True)
    ]


class Fate:
    """Counts what the processes of one trial do, and kills the one that reaches a point."""

    def __init__(self, crashes: Crashes = ()) -> None:
        self.counts = {"commit": 0, "tool": 0}
        self._crashes = set(crashes)

    def begin(self, place: str) -> int:
        """Count one more commit or execution; returns its number."""
        self.counts[place] += 1
        return self.counts[place]

    def strikes(self, place: str, number: int, *, is_after: bool) -> bool:
        """Whether this is one of the moments."""
        return CrashPoint(place, number, is_after) in self._crashes


class Lifeline:
    """One process's way to the store, until it dies.

    Dying is one moment: every task of the process is stopped at once, and whatever it still does
    on its way out has no effect.
    """

    def __init__(self, store: Store, fate: Fate, stop_tasks: Callable[[], None]) -> None:
        self._store = store
        self._fate = fate
        self._stop_tasks = stop_tasks
        self.name = store.name
        self.is_shared = store.is_shared
        self.commits: list[Commit] = []
        self.death: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def is_dead(self) -> bool:
        """Whether the process was killed."""
        return self.death.done()

    def die(self) -> None:
        """Kill the process, here and now."""
        if not self.death.done():
            self.death.set_result(None)
            self._stop_tasks()

    def check(self) -> None:
        """Raise in a process that is dead."""
        if self.death.done():
            raise Dead

    async def die_at(self, place: str, number: int, *, is_after: bool) -> None:
        """Kill the process if this is its moment; then this never returns."""
        if self._fate.strikes(place, number, is_after=is_after):
            self.die()
        self.check()

    def begin(self, place: str) -> int:
        """Count one more commit or execution."""
        return self._fate.begin(place)

    async def commit(self, commit: Commit) -> CommitReceipt:
        """Commit, unless the process dies before; it may die before it gets the answer."""
        self.check()
        await asyncio.sleep(0)
        self.check()
        number = self.begin("commit")
        await self.die_at("commit", number, is_after=False)
        receipt = await self._store.commit(commit)
        await self.die_at("commit", number, is_after=True)
        await asyncio.sleep(0)
        self.check()
        return receipt

    def lease_keeper(self) -> "Lifeline":
        """The process's own keeper of leases."""
        return self

    def extend(self, claim_tokens: Sequence[str], lease_ms: int) -> tuple[LeaseReport, ...]:
        """Extend leases; a dead process extends none."""
        if self.is_dead:
            raise StoreUnavailable(store=self.name, problem="the process is dead")
        return self._store.lease_keeper().extend(claim_tokens, lease_ms)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        return self._guard(method) if inspect.iscoroutinefunction(method) else method

    def _guard(self, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call_guarded(*arguments: Any, **options: Any) -> Any:
            self.check()
            await asyncio.sleep(0)
            self.check()
            answer = await method(*arguments, **options)
            await asyncio.sleep(0)
            self.check()
            return answer

        return call_guarded
