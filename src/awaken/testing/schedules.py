"""One deterministic schedule: an asyncio loop with virtual time and a policy for every choice.

Any ready task may step next; plain callbacks keep the registration order that asyncio documents.

Refuses to know: real clocks, sockets, signals and threads. A function handed to a thread runs
inline, so one that blocks until the loop moves on will hang.
"""

import asyncio
import heapq
import itertools
import math
from asyncio.events import _set_running_loop  # Exported for those who write loops.
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from contextvars import Context
from types import CoroutineType
from typing import Any, Protocol, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

DEFAULT_MAX_STEPS = 1_000_000
_CLOCK_RESOLUTION = 1e-9  # Deadlines closer together are one instant, as in asyncio's loops.
_CALLBACK, _THREAD = -1, -2  # Where a queue entry of a task has the task's ordinal.


class Policy(Protocol):
    """Makes the choices that a real machine makes by its timing."""

    def choose(self, count: int) -> int:
        """Return which of `count` legal alternatives happens next; 0 is the oldest."""


class SimulationError(AssertionError):
    """A run that broke a rule; `tasks` describes the tasks concerned."""

    def __init__(self, rule: str, tasks: Iterable[str]) -> None:
        self.tasks = tuple(tasks)
        super().__init__(f"{rule}: {', '.join(self.tasks)}")


class Deadlock(SimulationError):
    """Nothing is ready, no timer is set, and the scenario is not done."""


class LiveLock(SimulationError):
    """The scenario took more steps than it was allowed."""


class SimulatedLoop(asyncio.BaseEventLoop):
    """An event loop without a world: one policy, one schedule, no waiting.

    Attributes:
        steps: Callbacks taken off the queue so far; beyond `max_steps`, the loop raises `LiveLock`.
        before_step: If set, called before every callback and before every jump of the clock.
    """

    def __init__(self, policy: Policy, *, max_steps: int = DEFAULT_MAX_STEPS) -> None:
        super().__init__()
        self.steps = 0
        self.max_steps = max_steps
        self.before_step: Callable[[], None] | None = None
        self._policy = policy
        self._now = 0.0
        self._queue: list[tuple[asyncio.Handle, int]] = []
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timer_numbers = itertools.count()
        self.task_numbers = itertools.count()
        self._ordinals: dict[asyncio.Task[Any], int] = {}
        self._order: list[int] = []
        self._unseen: list[BaseException] = []
        self.set_task_factory(lambda loop, coro, **kw: _NumberedTask(coro, loop=loop, **kw))

    @property
    def trace(self) -> tuple[str, ...]:
        """The names of the tasks in the order they stepped, until the loop closes."""
        names = {ordinal: task.get_name() for task, ordinal in self._ordinals.items()}
        return tuple(names.get(ordinal, "<thread>") for ordinal in self._order)

    @property
    def schedule_hash(self) -> int:
        """A hash of the order in which tasks stepped, the same in every process."""
        return hash(tuple(self._order))

    def describe_pending(self) -> list[str]:
        """Describe every unfinished task but the current one."""
        return sorted(map(_describe, asyncio.all_tasks(self) - {asyncio.current_task(self)}))

    def unseen_failures(self) -> list[BaseException]:
        """Return what callbacks and tasks raised and no code looked at."""
        failures = map(_unseen_failure, self._ordinals)
        return self._unseen + [failure for failure in failures if failure is not None]

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._now

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Queue a callback, to run when the policy says so."""
        if self.is_closed():
            raise RuntimeError("Event loop is closed")
        handle, task = asyncio.Handle(callback, args, self, context), _task_stepped_by(callback)
        known = self._ordinals
        self._queue.append((handle, known.setdefault(task, len(known)) if task else _CALLBACK))
        return handle

    # No other thread exists here, so there is nothing to be safe from.
    call_soon_threadsafe = call_soon

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Queue a callback for a virtual moment."""
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._timer_numbers), timer))
        return timer

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run a function inline at a moment of the policy's choosing, whatever the executor."""
        future: asyncio.Future[T] = self.create_future()
        # A real thread starts in an empty context.
        handle = asyncio.Handle(self._run_thread, (future, func, args), self, Context())
        self._queue.append((handle, _THREAD))
        return future

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep what asyncio would only have logged, so that the run can fail with it."""
        self._unseen.append(context.get("exception") or RuntimeError(context["message"]))

    def close(self) -> None:
        """Close the loop and let go of its tasks, so that no cycle waits for the collector."""
        super().close()
        self._queue.clear()
        self._timers.clear()
        self._ordinals.clear()

    def _release_due_timers(self) -> None:
        horizon, timers, due = self._now + _CLOCK_RESOLUTION, self._timers, []
        while timers and (timers[0][0] <= horizon or timers[0][2].cancelled()):
            entry = heapq.heappop(timers)
            if not entry[2].cancelled():
                due.append(entry)
        # Equal deadlines have no order, and a timer may be late by less than the clock can show.
        while due:
            entry = due.pop(self._policy.choose(len(due)) if len(due) > 1 else 0)
            if self._queue and self._policy.choose(2):
                heapq.heappush(timers, entry)
            else:
                self._queue.append((entry[2], _CALLBACK))

    def _jump_to_next_timer(self) -> None:
        when = self._timers[0][0] if self._timers else math.inf
        if when == math.inf:
            # Waiting for a task that died unseen is the usual reason.
            cause = next(iter(self.unseen_failures()), None)
            raise Deadlock("nothing left to run, yet not done", self.describe_pending()) from cause
        self._now = when

    def _take_ready(self) -> asyncio.Handle:
        reachable = len(self._queue)
        if reachable > 1:
            for index, (_, actor) in enumerate(self._queue):
                if actor == _CALLBACK:
                    reachable = index + 1  # Nothing overtakes a plain callback.
                    break
        handle, actor = self._queue.pop(self._policy.choose(reachable) if reachable > 1 else 0)
        if actor != _CALLBACK:
            self._order.append(actor)
        self.steps += 1
        if self.steps > self.max_steps:
            raise LiveLock(f"not done after {self.max_steps} steps", self.describe_pending())
        return handle

    def _run_thread(
        self, future: asyncio.Future[T], func: Callable[[*Ts], T], args: tuple[*Ts]
    ) -> None:
        # Cancelling stops a thread call that has not begun, never one that has: both happen.
        if future.cancelled() and self._policy.choose(2):
            return
        _set_running_loop(None)  # A real thread has none.
        try:
            result = func(*args)
        except BaseException as error:  # noqa: BLE001 - its waiter is the one to raise it
            if not future.done():
                future.set_exception(error)
        else:
            if not future.done():
                future.set_result(result)
        finally:
            _set_running_loop(self)

    # From here to the end of the file: asyncio's private parts, alike from Python 3.11 to 3.14.
    # `_run_once` is the body of `run_forever`, which leaves once `_stopping` is set.
    _stopping: bool

    def _run_once(self) -> None:
        self._release_due_timers()
        if self.before_step is not None:
            self.before_step()
            self._release_due_timers()
        if self._queue:
            handle = self._take_ready()
            if not handle.cancelled():
                handle._run()  # noqa: SLF001
        elif not self._stopping:
            self._jump_to_next_timer()


class _NumberedTask(asyncio.Task[T]):
    # asyncio iterates over sets of tasks (TaskGroup's abort, for one) and numbers its default
    # names per process: neither would replay, were tasks not numbered per loop.
    def __init__(
        self, coro: Any, *, loop: SimulatedLoop, name: str | None = None, **options: Any
    ) -> None:
        self._number = next(loop.task_numbers)  # Before super(), which already hashes the task.
        super().__init__(coro, loop=loop, name=name or f"Task-{self._number}", **options)

    def __hash__(self) -> int:
        return self._number


def _task_stepped_by(callback: Callable[..., object]) -> asyncio.Task[Any] | None:
    # A step is bound to its task but, unlike `task.cancel`, is no method anyone can name.
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task) and not hasattr(owner, getattr(callback, "__name__", "")):
        return owner
    return None


def _unseen_failure(task: asyncio.Task[Any]) -> BaseException | None:
    # The flag behind "exception was never retrieved", read without waiting for the collector.
    return task.exception() if task.done() and task._log_traceback else None  # noqa: SLF001


def _describe(task: asyncio.Task[Any]) -> str:
    coro = task.get_coro()
    while isinstance(inner := getattr(coro, "cr_await", None), CoroutineType):
        coro = inner
    frame = getattr(coro, "cr_frame", None)
    place = f"{frame.f_code.co_qualname}:{frame.f_lineno}" if frame else type(coro).__name__
    return f"{task.get_name()} at {place}"
