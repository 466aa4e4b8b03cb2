"""Runs a scenario under many seeded schedules, or with an injection at every point of one.

A scenario is a callable that builds a fresh world and returns the coroutine to run in it. It may
only finish: a failure, a deadlock, a task left behind and an unseen exception all fail the
run, and name the seed or the point that replays it. Refuses to know what the scenario tests.
"""

import asyncio
import contextlib
import inspect
import itertools
import random
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from awaken.testing.schedules import (
    DEFAULT_MAX_STEPS,
    Deadlock,
    LiveLock,
    Policy,
    SimulatedLoop,
    SimulationError,
)

__all__ = ["Deadlock", "LiveLock", "Policy", "SimulatedLoop", "SimulationError"]
__all__ += ["Fifo", "LeakedTask", "RandomOrder", "ScheduleFailed", "SimulationReport"]
__all__ += ["UnseenFailure", "replay", "run", "simulate"]
__all__ += ["InjectionPoint", "enumerate_awaits", "inject_at", "inject_cancellation"]

T = TypeVar("T")
Scenario: TypeAlias = Callable[[], Coroutine[Any, Any, T]]
InjectedScenario: TypeAlias = Callable[["InjectionPoint"], Coroutine[Any, Any, T]]
_CLEANUP_STEPS = 10_000


class Fifo:
    """First come, first served: the order a stock asyncio loop would use."""

    def choose(self, count: int) -> int:
        """Return the oldest."""
        return 0


class RandomOrder:
    """Uniformly random choices that follow from the seed alone."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random

    def choose(self, count: int) -> int:
        """Return any, each as likely as the others."""
        return int(self._random() * count)


class LeakedTask(SimulationError):
    """A task outlived the scenario that started it."""


class UnseenFailure(LeakedTask):
    """A task or a callback failed unobserved; chained from what it raised."""


class ScheduleFailed(AssertionError):
    """A `seed` for `replay`, or a `point` for `inject_at`, that fails; chained from the failure."""

    seed: int | None = None
    point: int | None = None


@dataclass(frozen=True, slots=True)
class SimulationReport:
    """What was covered; interleavings are the distinct orders in which tasks stepped."""

    schedules: int
    interleavings: int
    steps: int
    virtual_seconds: float


def simulate(
    scenario: Scenario[object],
    *,
    seeds: Iterable[int] = range(200),
    policy: Callable[[int], Policy] = RandomOrder,
    max_steps: int = DEFAULT_MAX_STEPS,
) -> SimulationReport:
    """Run a scenario once per seed, each time in a fresh loop.

    Raises:
        ScheduleFailed: At the first seed under which the scenario fails.
        ValueError: There was no seed, so nothing would have been shown.
    """
    schedules, steps, seconds = 0, 0, 0.0
    interleavings: set[int] = set()
    for seed in seeds:
        loop = SimulatedLoop(policy(seed), max_steps=max_steps)
        with _name_failure(f"replay(scenario, seed={seed})", seed=seed):
            run(loop, scenario)
        schedules, steps, seconds = schedules + 1, steps + loop.steps, seconds + loop.time()
        interleavings.add(loop.schedule_hash)
    if not schedules:
        raise ValueError("no seeds, no evidence")
    return SimulationReport(schedules, len(interleavings), steps, seconds)


def replay(
    scenario: Scenario[T],
    seed: int,
    *,
    policy: Callable[[int], Policy] = RandomOrder,
    max_steps: int = DEFAULT_MAX_STEPS,
) -> T:
    """Run the one schedule of a seed; return the scenario's result or raise its own failure."""
    return run(SimulatedLoop(policy(seed), max_steps=max_steps), scenario)


def run(
    loop: SimulatedLoop, scenario: Scenario[T], *, meant: type[BaseException] | tuple[()] = ()
) -> T:
    """Run a scenario to its end, hold it to owning its tasks, and close the loop.

    Failures of the kind `meant` are part of the scenario and need not be looked at.
    """

    async def own_and_run() -> T:
        result = await scenario()
        if leaked := loop.describe_pending():
            raise LeakedTask("still running when the scenario ended", leaked)
        return result

    try:
        result = loop.run_until_complete(loop.create_task(own_and_run(), name="scenario"))
        # Not earlier: a done-callback that looks at the failure may still have been queued.
        if failures := [it for it in loop.unseen_failures() if not isinstance(it, meant)]:
            raise UnseenFailure("failed unobserved", map(repr, failures)) from failures[0]
        return result
    finally:
        _abandon(loop)


def _abandon(loop: SimulatedLoop) -> None:
    taken, loop.before_step = loop.steps, None
    loop.max_steps = loop.steps + _CLEANUP_STEPS
    # Tasks that refuse to end have been reported already; they must not hide that report.
    with contextlib.closing(loop), contextlib.suppress(SimulationError):
        if pending := asyncio.all_tasks(loop):
            for task in pending:
                task.cancel()
            loop.run_until_complete(asyncio.wait(pending))
        loop.run_until_complete(loop.shutdown_asyncgens())
    loop.steps = taken  # Cleaning up is no part of the scenario.


@contextlib.contextmanager
def _name_failure(
    again: str, *, seed: int | None = None, point: int | None = None
) -> Iterator[None]:
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as failure:  # Cancellation and pytest's outcomes are failures too.
        failed = ScheduleFailed(f"{type(failure).__name__}: {failure}\nSee it again with {again}")
        failed.seed, failed.point = seed, point
        raise failed from failure


class InjectionPoint:
    """The moment of a run at which something is done to it, once.

    The scenario arms it as soon as there is something to inject into. From then on every callback
    about to run, each task step among them, and every jump of the clock is one point: between two
    of them nothing happens. `fired` tells the scenario which outcome to expect.
    """

    def __init__(self, point: int) -> None:
        self.fired = False
        self._remaining = point
        self._inject: Callable[[], object] | None = None
        self._injected: asyncio.Future[Any] | None = None

    def arm(self, inject: Callable[[], object]) -> None:
        """Begin to count; at the point, call `inject` and own the awaitable it may return."""
        self._inject = inject

    def disarm(self) -> None:
        """Stop counting, for a scenario that has torn its world down before it ends."""
        self._inject = None

    def reach(self) -> None:
        """Count one point, and inject if it is the one."""
        if self._inject is None or self.fired:
            return
        if self._remaining == 0:
            self.fired = True
            outcome = self._inject()
            if inspect.isawaitable(outcome):
                self._injected = asyncio.ensure_future(outcome)
        self._remaining -= 1

    async def settle(self) -> None:
        """Stop counting and wait for what was injected, failing as it fails."""
        self.disarm()
        if self._injected is not None:
            await self._injected


def inject_at(
    scenario: InjectedScenario[T], point: InjectionPoint, *, policy: Callable[[], Policy] = Fifo
) -> T:
    """Run a scenario once, injecting at one point; return its result or raise its own failure."""

    async def run_injected() -> T:
        result = await scenario(point)
        await point.settle()
        return result

    loop = SimulatedLoop(policy())
    loop.before_step = point.reach
    return run(loop, run_injected)


def enumerate_awaits(
    scenario: InjectedScenario[object], *, policy: Callable[[], Policy] = Fifo
) -> int:
    """Inject at every point of a scenario, each in a fresh run; return how many there were.

    The last run ends before its point comes, and so shows the scenario undisturbed.

    Raises:
        ScheduleFailed: At the first point where the scenario fails.
        ValueError: There was no point, for the scenario never armed its hook.
    """
    for index in itertools.count():
        point = InjectionPoint(index)
        with _name_failure(f"inject_at(scenario, InjectionPoint({index}))", point=index):
            inject_at(scenario, point, policy=policy)
        if not point.fired:
            break
    if not index:
        raise ValueError("never armed, no evidence")
    return index


def inject_cancellation(scenario: Scenario[object]) -> InjectedScenario[None]:
    """Turn a scenario into one whose injection cancels it; it may end so, or finish, or fail."""

    async def run_and_cancel(hook: InjectionPoint) -> None:
        victim = asyncio.ensure_future(scenario())
        hook.arm(victim.cancel)
        await asyncio.wait({victim})
        if not victim.cancelled():
            victim.result()

    return run_and_cancel
