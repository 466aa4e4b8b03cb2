"""One entry of a workflow's function: which steps it may take, and when they are answered.

The function is entered from its beginning. Recorded results are answered in the order in which they
were recorded. Until every branch has come to what is not recorded, nothing new is executed: so a
difference is found before anything happens.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, NoReturn, Protocol, TypeVar

from awaken.authoring.workflows import Workflow
from awaken.contracts.errors import AwakenError, StorageError
from awaken.contracts.identity import RunIdentity
from awaken.contracts.runs.records import Divergence
from awaken.contracts.storage.store import ToolRecord
from awaken.contracts.suspension.tickets import (
    SuspendTicket,
    Ticket,
)
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.workflows.errors import (
    StepFailed,
    TooManySteps,
    WorkflowMisuse,
)
from awaken.contracts.workflows.operations import WorkflowOperation
from awaken.contracts.workflows.steps import (
    STEPS_MAX,
    StepKind,
    read_path,
)
from awaken.runtime.journal.leases import RunHandedOver
from awaken.runtime.primitives.signals import WakeSignal

from .branches import Branch, Branches
from .step_errors import raise_failure
from .step_journal import Diverged, StepJournal, WorkflowStep
from .wait_answers import sort_answers
from .workflow_tools import WantedTool, copy_result

T = TypeVar("T")
_UNWIND_S = 0.05
"""How long a branch may take to unwind before it is cancelled again."""
_LEAST_S = 0.001
"""A shorter time is none: a clock may not even show it."""
_FRONTIER = ":frontier"
"""Ends the key of a branch that waits until the entry is live."""


def _count_references(made: Mapping[int, object]) -> list[int]:
    return [sys.getrefcount(it) for it in made.values()]


_DROPPED = _count_references({0: object()})[0]
"""The count of an operation that no code refers to; versions of Python count differently."""
_REFUSALS_MAX = 20
"""How often code that goes on after it was left is told so; then it gets no more answers."""


class LivePort(Protocol):
    """Executes steps that are not recorded; each result is durable when it is returned."""

    @property
    def deps(self) -> Any:
        """The open dependencies of the runtime."""
        ...

    def note(self, step: WorkflowStep, data: Any = None) -> None:
        """Write a marker with the next commit."""
        ...

    async def call(
        self, step: WorkflowStep, tool: WantedTool, timeout_ms: int | None
    ) -> ToolResult:
        """Call a tool."""
        ...

    async def suspend(
        self, step: WorkflowStep, ticket: SuspendTicket, duration_ms: int | None, wanted: Any
    ) -> ToolResult:
        """Wait for a time, an event or a person."""
        ...

    async def read_value(self, step: WorkflowStep) -> ToolResult:
        """Read the clock, a random number or a new id."""
        ...

    async def end_race(self, step: WorkflowStep, winner: int, losers: tuple[str, ...]) -> None:
        """Record the winner of a race, and close what the losers wait for."""
        ...

    def release_losers(self, losers: tuple[str, ...]) -> None:
        """Close what losers still wait for, and keep the events that they did nothing with."""
        ...


class WorkflowEntry:
    """The steps of one entry; without a live port nothing is executed (a check)."""

    def __init__(
        self,
        workflow: Workflow,
        records: Iterable[ToolRecord],
        identity: RunIdentity | None,
        signal: WakeSignal,
    ) -> None:
        self.workflow = workflow
        self.journal = StepJournal(records)
        self.branches = Branches(workflow.id, signal)
        self.port: LivePort | None = None
        self.is_live = False
        """Whether all branches have come to what is not recorded."""
        self.is_parked = False
        """Whether the function is being left: it takes no more steps."""
        self.is_cancelled = False
        """Whether the function has received the cancellation of its run."""
        self.divergence: Divergence | None = None
        self.fatal: AwakenError | None = None
        """Why the run fails, whatever its code does."""
        self.broken: BaseException | None = None
        """Why this process cannot go on with the run: its code never sees that."""
        self.last_failure: StepFailed | None = None
        self.root: asyncio.Task[Any] | None = None
        self._identity = identity
        self._count = 0
        self._tries = 0
        self._refusals = 0
        self._marks: list[tuple[WorkflowStep, Any]] = []
        self._unawaited: list[dict[int, WorkflowOperation[Any]]] = []
        """What branches that are over have left, each in its own place."""
        self._losers: tuple[str, ...] = ()
        """Where losers were replayed: what they left is settled when the entry is live."""
        self._losing: set[str] = set()
        """Branches whose race is over, while its winner is being recorded."""

    # --- the entry ---

    def go_live(self, tickets: Mapping[str, Ticket], *, is_released: bool = True) -> None:
        """Let the steps that are not recorded be executed; those that wait for it, if released.

        Those whose tickets are decided are answered first, in an order that no schedule changes.
        """
        self.is_live = True
        assert self.port is not None
        for step, data in self._marks:
            self.port.note(step, data)
        self._marks.clear()
        if self._losers:
            self.port.release_losers(self._losers)
        if not is_released:
            return
        paths = [it.removesuffix(_FRONTIER) for it in self.branches.waits if it.endswith(_FRONTIER)]
        # First those that go on waiting: an event that is there is theirs, and not of a branch
        # that wakes up with it. Then, not as they arrived, what was due first is settled first.
        asked = {read_path(it) for it, ticket in tickets.items() if ticket.decision is None}
        order = sort_answers(paths, tickets)
        for path in sorted(order, key=lambda it: it not in asked):
            self.branches.release(f"{path}{_FRONTIER}")

    async def leave(self, timeout_s: float) -> None:
        """Leave the function: its code is unwound, and takes no more steps.

        Code that has not ended after the timeout is abandoned: it never executes again.

        If the caller is cancelled meanwhile, that is raised at the end, not before.
        """
        self.is_parked = True
        loop, cancelled = asyncio.get_running_loop(), None
        deadline = loop.time() + timeout_s
        while (tasks := self.branches.tasks) and (left := deadline - loop.time()) > _LEAST_S:
            for task in tasks:
                task.cancel()
            try:
                await asyncio.wait(tasks, timeout=min(left, _UNWIND_S))
            except asyncio.CancelledError as error:
                cancelled = error
        if tasks:
            self.branches.abandon()
            await asyncio.sleep(0)
        if cancelled is not None:
            raise cancelled

    def _note_end(self, task: "asyncio.Task[Any]") -> None:
        error = None if task.cancelled() else task.exception()
        branch = self.branches.find_branch(task)
        if branch is not None and branch.unawaited and not task.cancelled() and error is None:
            # Another branch may await what this one has made; code that was left awaits nothing.
            self._unawaited.append(branch.unawaited)
        if isinstance(error, Diverged) and self.divergence is None:
            self.divergence = error.divergence

    # --- what was not awaited ---

    def list_unawaited(self) -> dict[int, WorkflowOperation[Any]]:
        """Return where an operation that is made now is kept until it begins."""
        branch = self.branches.find_branch()
        return {} if branch is None else branch.unawaited

    def find_unawaited(self) -> WorkflowMisuse | None:
        """Return the refusal of a function that has ended and never awaited an operation."""
        forgotten = [it for made in self._unawaited for it in made.values()]
        # The one that was made last contains those that were made for it.
        return forgotten[-1].explain() if forgotten else None

    def _check_forgotten(self) -> None:
        """Let the run fail before its next step if its code has dropped an operation.

        Nothing may happen after a question that nobody was asked.
        """
        branch = self.branches.find_branch()
        if branch is None or not branch.unawaited:
            return
        counts = _count_references(branch.unawaited)
        for made, count in zip(tuple(branch.unawaited.values()), counts, strict=True):
            if count > _DROPPED:
                continue
            if made.was_lost_to(sys.exception()):
                # What code that failed has left: what it does about that must not fail as well.
                made.close()
            else:
                self._fail(made.explain())

    # --- a step ---

    @property
    def _is_over(self) -> bool:
        is_left = self.is_parked or self.broken is not None
        return is_left or self.fatal is not None or self.divergence is not None

    async def _enter_step(self, *unused: Coroutine[Any, Any, Any]) -> Branch:
        """Return the branch that takes the next step; branches that it will not run are closed."""
        try:
            self._check_forgotten()
            if self._is_over:
                await self._refuse()
            if not self.branches.is_here:
                # Not at once: code that Python closes would otherwise go on for ever.
                await asyncio.sleep(0)
            branch = self.branches.find_current()
            if self.branches.is_closed(branch):
                await self._refuse(branch)
            self._count_step()
        except BaseException:
            for work in unused:
                work.close()
            raise
        return branch

    def _count_step(self) -> None:
        self._count += 1
        if self._count > STEPS_MAX:
            error = TooManySteps(limit=STEPS_MAX)
            if self._count > STEPS_MAX + _REFUSALS_MAX:
                # The code goes on as if nothing was: it must not do so for ever.
                self._fail(error)
            raise error

    async def _refuse(self, branch: Branch | None = None) -> NoReturn:
        """Answer code that was left with its cancellation; never at once, and not for ever.

        Code that ignores it would otherwise keep the whole process busy.
        """
        self._refusals += 1
        pause = None if branch is None else self.branches.leave_code()
        try:
            await _wait_turn(is_endless=self._refusals > _REFUSALS_MAX)
        finally:
            if pause is not None:
                self.branches.return_to_code(pause)
        raise asyncio.CancelledError

    def _fail(self, error: AwakenError) -> None:
        """Let the run fail, whatever its code does."""
        self.fatal = self.fatal or error
        self.branches.changed.ring()

    def _check_cancel(self, branch: Branch) -> None:
        """Let the run fail if its own code has cancelled a step: a replay would differ."""
        if not (self._is_over or self.is_cancelled or self.branches.is_closed(branch)):
            problem = (
                "The code of the workflow cancelled a step; give ctx.call, ctx.ask or ctx.wait_for "
                "a timeout, or use ctx.race, instead of asyncio.timeout or asyncio.wait_for."
            )
            self._fail(WorkflowMisuse(problem=problem))

    def _open(
        self, branch: Branch, kind: StepKind, name: str, arguments: Any = None, wanted: Any = None
    ) -> WorkflowStep:
        try:
            return self.journal.open_step(branch.next_path(), kind, name, arguments, wanted)
        except Diverged as error:
            self._note_divergence(error)
            raise

    def _note_divergence(self, error: Diverged) -> None:
        self.divergence = self.divergence or error.divergence
        self.branches.changed.ring()

    def check_replayed(self) -> None:
        """Find a recorded step that no branch has come by, now that all of them wait."""
        try:
            self.journal.check_all_seen("another way")
        except Diverged as error:
            self._note_divergence(error)

    async def _take(
        self,
        kind: StepKind,
        name: str,
        arguments: Any,
        live: Callable[[LivePort, WorkflowStep], Awaitable[ToolResult]],
        wanted: Any = None,
    ) -> tuple[WorkflowStep, ToolResult]:
        """Take one step: its recorded result, or the result of executing it now."""
        branch = await self._enter_step()
        step = self._open(branch, kind, name, arguments, wanted)
        record = step.record
        try:
            if step.is_done and record is not None:
                await self.branches.take_turn(record.place)
                return step, copy_result(record.result or ToolResult(tool_name=name))
            pause = self.branches.leave_code()
            try:
                result = await self._execute(live(await self._become_live(step), step))
                assert step.record is not None
                await self.branches.take_turn(step.record.place, pause)
            finally:
                self.branches.return_to_code(pause)
        except asyncio.CancelledError:
            self._check_cancel(branch)
            raise
        return step, copy_result(result)

    async def _execute(self, work: Awaitable[T]) -> T:
        """Await what the runtime does for a step; that it cannot is not for the workflow's code.

        Code that saw it would take another way than the journal has, or compensate what happened.
        """
        try:
            return await work
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            if isinstance(error, Exception) and not isinstance(error, StorageError | RunHandedOver):
                raise
            self.broken = self.broken or error
            self.branches.changed.ring()
            await asyncio.sleep(0)
            raise asyncio.CancelledError from error

    async def _become_live(self, step: WorkflowStep) -> LivePort:
        branch = self.branches.find_current()
        while self.port is None or not self.is_live or self._has_lost(branch, step):
            # Looked at again when it is released: its race may be over by then.
            await self.branches.wait(f"{step.path}{_FRONTIER}")
        return self.port

    def _has_lost(self, branch: Branch, step: WorkflowStep) -> bool:
        """Whether a loser would take the step, which a replay would not come to."""
        losing = self._losing
        is_losing = bool(losing) and step.path.startswith(tuple(losing))
        return is_losing or self.branches.is_closed(branch)

    def _mark(self, step: WorkflowStep, data: Any = None) -> None:
        """Note a marker that is not recorded."""
        if step.record is not None:
            return
        if self.is_live and self.port is not None:
            self.port.note(step, data)
        else:
            self._marks.append((step, data))

    def _answer(self, step: WorkflowStep, result: ToolResult) -> ToolResult:
        try:
            raise_failure(step, result)
        except StepFailed as error:
            self.last_failure = error
            raise
        return result

    def _enter_now(self, *, is_step: bool = True) -> Branch | None:
        """Return the branch that takes a marker; None if its code was left."""
        self._check_forgotten()
        if self._is_over:
            return None
        branch = self.branches.find_current()
        if self.branches.is_closed(branch):
            return None
        if is_step:
            self._count_step()
        return branch

    async def _count_try(self) -> None:
        """Count what the code asks for, so that it cannot ask in vain for ever."""
        self._tries += 1
        if self._tries > 2 * STEPS_MAX:
            self._fail(TooManySteps(limit=STEPS_MAX))
        if self._is_over:
            await self._refuse()


async def _wait_turn(*, is_endless: bool) -> None:
    """Wait for a turn of the event loop, or until the caller is cancelled."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        # Python closes code that was abandoned.
        is_endless = False
    if is_endless:
        await loop.create_future()
    else:
        await asyncio.sleep(0)
