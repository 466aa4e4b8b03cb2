"""The other processes of the store: which publication each has, and what it says of a trial."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

import msgspec

from awaken.contracts.clock import Clock
from awaken.contracts.config.compiler import ConfigProblem
from awaken.contracts.config.errors import RefusedByWorkers

TRIAL_MS = 30_000
"""How long every process may take to compile a trial."""
LOOK_MS = 250


class Follower(msgspec.Struct, frozen=True, kw_only=True):
    """What one live process says of its configuration."""

    id: str
    publication: int | None = None
    revision: int = 0
    problem: str | None = None
    trial: int | None = None
    trial_problems: tuple[ConfigProblem, ...] = ()


class ListFollowers(Protocol):
    """Reads which processes are live."""

    async def __call__(self) -> Sequence[Follower]:
        """Return what every live process says, this one included."""
        ...


async def wait_for_trial(list_followers: ListFollowers, no: int, clock: Clock) -> None:
    """Wait until every live process has compiled a trial.

    Raises:
        RefusedByWorkers: One of them would lose an agent, or said nothing in time.
    """
    deadline = clock.monotonic_ms() + TRIAL_MS
    while True:
        followers = await list_followers()
        refusals = [it for it in followers if it.trial == no and it.trial_problems]
        silent = [it for it in followers if it.trial != no]
        if refusals or clock.monotonic_ms() > deadline:
            break
        if not silent:
            return
        await asyncio.sleep(LOOK_MS / 1000)
    told = [f"{it.id}: {it.trial_problems[0].message}" for it in refusals]
    told += [f"{it.id} has not answered" for it in silent if not refusals]
    problems = tuple(problem for it in refusals for problem in it.trial_problems)
    raise RefusedByWorkers(workers="; ".join(told), problems=problems)
