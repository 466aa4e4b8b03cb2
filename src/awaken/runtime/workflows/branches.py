"""The branches of a workflow: which task takes which steps, and whose code executes.

The code of one branch executes at a time, until it comes to a step. Then the branch whose result
was recorded first goes on. So what branches do to common variables is the same in every replay.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from typing import Any

import msgspec

from awaken.contracts.workflows.errors import ForeignTask, WorkflowMisuse
from awaken.contracts.workflows.operations import WorkflowOperation
from awaken.runtime.primitives.signals import WakeSignal

logger = logging.getLogger(__name__)
_QUIET_TURNS = 32
"""How many turns of the event loop code may wait for something that is no step.

What branches do to each other with asyncio's primitives takes fewer. Then the others go on.
"""


class Branch(msgspec.Struct, eq=False):
    """One flow of control; the paths of its steps begin with its prefix."""

    prefix: str = ""
    count: int = 0
    attempts_of: str = ""
    """Names the step whose attempts its steps are, if they are attempts of one."""
    unawaited: dict[int, WorkflowOperation[Any]] = {}
    """The operations that its code has made and not begun."""

    def next_path(self) -> str:
        """Return the path of its next step."""
        self.count += 1
        return f"{self.prefix}{self.count}"


class CodePause(msgspec.Struct, eq=False):
    """The time that a branch spends in a step, and not in its code."""

    prefix: str = ""
    is_over: bool = False


class BranchWait(msgspec.Struct, eq=False):
    """What a branch waits for while nothing of it executes."""

    future: "asyncio.Future[Any]"
    is_released: bool = False


class Branches:
    """The tasks of one workflow; the signal is rung when one is over or all of them wait."""

    def __init__(self, workflow_id: str, signal: WakeSignal) -> None:
        self._workflow_id = workflow_id
        self._loop = asyncio.get_running_loop()
        self._by_task: dict[asyncio.Task[Any], Branch] = {}
        self._active = 0
        self._in_code = 0
        """How many branches execute their code; more than one only if it awaits something else."""
        self._turns: list[tuple[int, int, asyncio.Future[None], CodePause]] = []
        """Branches that may go on, by the place of their result."""
        self._turn_count = 0
        self._ticks = 0
        self._is_ticking = False
        self._holds = 0
        self._closed: tuple[str, ...] = ()
        self._is_abandoned = False
        self.waits: dict[str, BranchWait] = {}
        """What branches wait for: a call id, or a path with what is missing there."""
        self.changed = signal

    @property
    def is_idle(self) -> bool:
        """Whether no branch executes anything."""
        return self._active == 0

    @property
    def tasks(self) -> tuple["asyncio.Task[Any]", ...]:
        """The tasks that are not over."""
        return tuple(self._by_task)

    @property
    def is_stalled(self) -> bool:
        """Whether all code that is not in a step waits for something else."""
        return self._in_code > 0 and not self._turns and self._ticks >= _QUIET_TURNS

    def start(
        self,
        prefix: str,
        work: Coroutine[Any, Any, Any],
        on_end: "Callable[[asyncio.Task[Any]], None]",
    ) -> "asyncio.Task[Any]":
        """Start a branch; `on_end` is called in its own turn when it is over."""
        pause = CodePause(prefix)
        turn = self._queue_turn(0, pause)
        name = f"workflow {self._workflow_id}"
        task = self._loop.create_task(self._run_branch(turn, work), name=name)
        self._by_task[task] = Branch(prefix)
        self._active += 1

        def end(task: "asyncio.Task[Any]") -> None:
            if not self._is_abandoned:
                # A branch that was cancelled before its first turn has not begun its work.
                work.close()
            # First the owner, which may go on, then the count: idle means that nobody goes on.
            on_end(task)
            self._by_task.pop(task, None)
            self._active -= 1
            turn.cancel()
            if pause.is_over:
                self._in_code -= 1
            self._give_turns()
            self.changed.ring()

        task.add_done_callback(end)
        self._give_turns()
        return task

    async def _run_branch(
        self, turn: "asyncio.Future[None]", work: Coroutine[Any, Any, Any]
    ) -> Any:
        await turn
        return await _BranchCode(self, work)

    @property
    def is_abandoned(self) -> bool:
        """Whether code that does not end by itself is left where it is."""
        return self._is_abandoned

    def abandon(self) -> None:
        """End all tasks, whatever their code does; it is left where it is."""
        self._is_abandoned = True
        for task in self.tasks:
            task.cancel()

    # --- whose code executes ---

    def leave_code(self) -> CodePause:
        """Note that the current branch is in a step: others may go on."""
        pause = CodePause(self.find_current().prefix)
        self._in_code -= 1
        self._give_turns()
        return pause

    def return_to_code(self, pause: CodePause) -> None:
        """Note that a branch executes its code again; a second time changes nothing."""
        if not pause.is_over:
            pause.is_over = True
            self._in_code += 1
            self._watch()

    async def take_turn(self, place: int, pause: CodePause | None = None) -> None:
        """Return to the code of the current branch when no other code executes.

        Of all branches that may go on, the one whose result has the first place does.
        """
        is_fresh, pause = pause is None, pause or CodePause(self.find_current().prefix)
        turn = self._queue_turn(place, pause)
        if is_fresh:
            self._in_code -= 1
        self._give_turns()
        try:
            await turn
        finally:
            turn.cancel()
            self.return_to_code(pause)

    def _queue_turn(self, place: int, pause: CodePause) -> "asyncio.Future[None]":
        turn: asyncio.Future[None] = self._loop.create_future()
        self._turn_count += 1
        heappush(self._turns, (place, self._turn_count, turn, pause))
        return turn

    def _give_turns(self, *, is_forced: bool = False) -> None:
        turns = self._turns
        while turns and (self._in_code <= 0 or is_forced):
            _, _, turn, pause = heappop(turns)
            if turn.done() or pause.prefix.startswith(self._closed):
                continue
            is_forced = False
            self.return_to_code(pause)
            turn.set_result(None)
        self._watch()

    def _watch(self) -> None:
        """Count the turns of the event loop while code executes."""
        self._ticks = 0
        is_watched = self._in_code > 0 and not self._holds
        if is_watched and not self._is_ticking and not self._loop.is_closed():
            self._is_ticking = True
            self._loop.call_soon(self._tick)

    def _tick(self) -> None:
        self._is_ticking = False
        if self._in_code <= 0 or self._holds or self._is_abandoned:
            return
        self._ticks += 1
        if self._ticks < _QUIET_TURNS:
            self._is_ticking = True
            self._loop.call_soon(self._tick)
        elif self._turns:
            self._give_turns(is_forced=True)
        else:
            self.changed.ring()

    # --- branches and what they wait for ---

    @property
    def is_here(self) -> bool:
        """Whether the current task is one of the workflow's."""
        return self._find_task() is not None

    def _find_task(self) -> "asyncio.Task[Any] | None":
        try:
            task = asyncio.current_task()
        except RuntimeError:
            # A thread without an event loop.
            return None
        return task if task in self._by_task else None

    def find_current(self) -> Branch:
        """Return the branch that executes now.

        Raises:
            ForeignTask: The task is none of the workflow's.
        """
        task = self._find_task()
        if task is None:
            raise ForeignTask(workflow=self._workflow_id)
        return self._by_task[task]

    def find_branch(self, task: "asyncio.Task[Any] | None" = None) -> Branch | None:
        """Return the branch of a task, or of the current one; None if it has none."""
        task = task or self._find_task()
        return None if task is None else self._by_task.get(task)

    def swap(self, branch: Branch) -> Branch:
        """Let the current task take the steps of another branch; returns the one it had."""
        task = asyncio.current_task()
        assert task is not None
        before, self._by_task[task] = self._by_task[task], branch
        return before

    async def wait(self, key: str) -> Any:
        """Wait until `release` is called for the key; other branches may go on."""
        wait = BranchWait(self._loop.create_future())
        self.waits[key] = wait
        self._active -= 1
        if self._active == 0:
            self.changed.ring()
        try:
            return await wait.future
        finally:
            self.waits.pop(key, None)
            if not wait.is_released:
                wait.is_released = True
                self._active += 1

    def release(self, key: str, value: Any = None) -> None:
        """Let a branch go on with a value."""
        wait = self.waits.pop(key, None)
        if wait is not None and not wait.future.done():
            wait.is_released = True
            self._active += 1
            wait.future.set_result(value)

    @contextmanager
    def hold_turns(self) -> Iterator[None]:
        """Let no other branch go on meanwhile, however long it takes."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            self._watch()

    def close_below(self, prefix: str) -> None:
        """Let the branches below a path take no more steps, and see no more results."""
        self._closed += (prefix,)

    def is_closed(self, branch: Branch) -> bool:
        """Whether a branch takes no more steps: it lost a race."""
        return branch.prefix.startswith(self._closed)


class _BranchCode:
    """Executes the code of a branch in the current task, until it is over or abandoned."""

    def __init__(self, branches: Branches, work: Coroutine[Any, Any, Any]) -> None:
        self._branches = branches
        self._work = work

    def __await__(self) -> Generator[Any, Any, Any]:
        work, sent = self._work, None
        error: BaseException | None = None
        while True:
            try:
                wanted = work.send(sent) if error is None else work.throw(error)
            except StopIteration as end:
                return end.value
            except SystemExit as raised:
                # It would end the host, and every process that takes the run over.
                problem = f"the workflow's code left with sys.exit({raised.code!r})."
                raise WorkflowMisuse(problem=problem) from raised
            sent, error = None, None
            try:
                sent = yield wanted
            except GeneratorExit:
                raise
            except BaseException as raised:
                if self._branches.is_abandoned:
                    logger.error("The code of a workflow does not end when it is left.")
                    _Abandoned.keep(work)
                    raise
                error = raised


class _Abandoned(msgspec.Struct, gc=False, eq=False):
    """Code that does not end when it is cancelled, kept for ever.

    Python closes code that nobody refers to, at its own end too, and closing would run this again.
    It refers to itself, and the garbage collector does not see it.
    """

    work: Coroutine[Any, Any, Any]
    own: Any = None

    @classmethod
    def keep(cls, work: Coroutine[Any, Any, Any]) -> None:
        """Keep code for ever."""
        kept = cls(work)
        kept.own = kept


def check_branches(branches: tuple[Any, ...]) -> None:
    """Check that branches are coroutines that have not begun, each a branch of its own.

    Raises:
        WorkflowMisuse: One is not; the others are closed.
    """
    try:
        seen: set[int] = set()
        for it in branches:
            _check_branch(it, seen)
    except WorkflowMisuse:
        for it in branches:
            if asyncio.iscoroutine(it):
                it.close()
        raise


def _check_branch(branch: Any, seen: set[int]) -> None:
    if not asyncio.iscoroutine(branch):
        problem = "ctx.gather and ctx.race take coroutines, such as ctx.call(…), no tasks."
        raise WorkflowMisuse(problem=problem)
    if id(branch) in seen:
        problem = f"{branch!r} is two branches of ctx.gather or ctx.race; make another one."
        raise WorkflowMisuse(problem=problem)
    seen.add(id(branch))
    if isinstance(branch, WorkflowOperation):
        branch.check_unused()


def raise_error(task: "asyncio.Task[Any]") -> None:
    """Raise the error of a branch that is over, if it has one."""
    if task.cancelled():
        raise asyncio.CancelledError
    error = task.exception()
    if error is not None:
        raise error
