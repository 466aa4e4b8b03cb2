"""What the context of a workflow offers: each step, answered from the journal or taken now."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, NoReturn

import msgspec

from awaken.authoring.delegates import delegate_tool_id
from awaken.authoring.output import OutputInvalid, OutputType
from awaken.authoring.schema import schema_of
from awaken.authoring.workflows import Workflow, compile_schema, decode_as
from awaken.contracts.identity import RunIdentity
from awaken.contracts.storage.store import ToolRecord
from awaken.contracts.suspension.tickets import (
    Asks,
    DecisionAction,
    ResumeMode,
    SuspendTicket,
    Suspension,
)
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.workflows.context import WorkflowContext
from awaken.contracts.workflows.errors import (
    EventInvalid,
    StepFailed,
    WorkflowMisuse,
)
from awaken.contracts.workflows.steps import (
    EVENT_NAME_CHARS,
    PARK_MS,
    ApprovalAnswer,
    StepKind,
    StepRetry,
)

from .branches import Branch, CodePause, check_branches, raise_error
from .entry import WorkflowEntry
from .event_queue import make_event_ticket
from .step_errors import can_retry
from .step_journal import Diverged, WorkflowStep
from .workflow_tools import (
    AskTool,
    StartTool,
    bind_arguments,
    check_size,
    encode_prompt,
    find_result_type,
    name_agent,
    to_step_form,
    to_workflow_tool,
)

_LOSERS_S = 1.0
"""How long a race waits for its losers to unwind."""


class ContinueAsNew(BaseException):
    """The function has asked for a fresh run; `text` carries its arguments."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class Flow(WorkflowEntry):
    """The steps of one entry, as its function takes them."""

    def enter(self, arguments: Mapping[str, Any]) -> None:
        """Enter the function from its beginning."""
        self.is_live = not self.journal.steps and self.port is not None
        context = WorkflowContext(self)
        work = self.workflow.function(context, **arguments)
        self.root = self.branches.start("", work, self._note_end)

    # --- what the context offers ---

    @property
    def identity(self) -> RunIdentity:
        """The run."""
        assert self._identity is not None
        return self._identity

    @property
    def deps(self) -> Any:
        """The open dependencies of the runtime; a check has none."""
        return None if self.port is None else self.port.deps

    async def call(
        self,
        tool: Any,
        arguments: tuple[tuple[Any, ...], dict[str, Any]],
        timeout_ms: int | None,
        retry: StepRetry | None,
    ) -> Any:
        """Call a tool; see `WorkflowContext.call`."""
        await self._count_try()
        found = to_workflow_tool(self.workflow, tool)
        given = bind_arguments(found, *arguments)

        async def once() -> Any:
            name = found.descriptor.id
            step, result = await self._take(
                StepKind.CALL, name, given, lambda port, step: port.call(step, found, timeout_ms)
            )
            return find_result_type(found)(self._answer(step, result).data)

        return await self._repeat(once, retry, StepKind.CALL, found.descriptor.id)

    async def ask(
        self,
        agent: Any,
        prompt: Any,
        output: Any,
        timeout_ms: int | None,
        retry: StepRetry | None,
    ) -> Any:
        """Let an agent answer; see `WorkflowContext.ask`."""
        await self._count_try()
        agent_id = name_agent(agent)
        wanted = None if output is None else OutputType(output)
        tool = AskTool(agent_id, None if wanted is None else wanted.schema)
        given = {"prompt": encode_prompt(agent_id, _fill_prompt(agent, prompt))}

        async def once() -> Any:
            step, result = await self._take(
                StepKind.ASK,
                delegate_tool_id(agent_id),
                given,
                lambda port, step: port.call(step, tool, timeout_ms),
                None if wanted is None else wanted.schema,
            )
            return self._decode_answer(step, self._answer(step, result).data, output, wanted)

        return await self._repeat(once, retry, StepKind.ASK, agent_id)

    async def start(self, agent: Any, prompt: Any) -> str:
        """Start an agent that outlives the run; see `WorkflowContext.start`."""
        await self._count_try()
        agent_id = name_agent(agent)
        step, result = await self._take(
            StepKind.START,
            delegate_tool_id(agent_id),
            {"prompt": encode_prompt(agent_id, _fill_prompt(agent, prompt))},
            lambda port, step: port.call(step, StartTool(agent_id), None),
        )
        return str(self._answer(step, result).data)

    def _decode_answer(
        self, step: WorkflowStep, data: Any, output: Any, wanted: OutputType | None
    ) -> Any:
        if wanted is None:
            return data
        try:
            return wanted.decode(data) if isinstance(data, str) else decode_as(output, data)
        except (OutputInvalid, msgspec.ValidationError) as error:
            self._check_form(step, wanted.schema)
            problem, code = str(error), "invalid_output"
            raise StepFailed(
                step=step.path, name=step.name, problem=problem, cause_code=code
            ) from error

    async def _repeat(
        self,
        once: Callable[[], Awaitable[Any]],
        retry: StepRetry | None,
        kind: StepKind,
        name: str,
    ) -> Any:
        """Try a step until it succeeds; each attempt and each long pause is a step of its own.

        What the journal has goes before the policy, which may be new: it holds from then on.
        """
        retry = self._keep_form(retry, kind)
        if retry is None:
            return await once()
        step = self._open(await self._enter_step(), StepKind.RETRY, name)
        self._mark(step)
        inner = Branch(f"{step.path}.0.", attempts_of=f"{step.generation}:{step.path}")
        outer = self.branches.swap(inner)
        try:
            failures = 0
            while True:
                try:
                    return await once()
                except StepFailed as error:
                    failures += 1
                    is_last = failures >= retry.attempts or self._find_next(outer) is not None
                    if not can_retry(error) or (is_last and self._find_next(inner) is None):
                        raise
                await self._pause(self._find_next(inner), retry.pause_ms(failures))
        finally:
            self.branches.swap(outer)

    def _keep_form(self, retry: StepRetry | None, kind: StepKind) -> StepRetry | None:
        """Return a policy that fits how the next step was taken: as one attempt, or as several."""
        branch = self.branches.find_branch()
        known = None if branch is None else self._find_next(branch)
        if known is None or known.kind not in (StepKind.RETRY, kind):
            return retry
        if known.kind == kind:
            return None
        return retry or StepRetry(attempts=1)

    def _find_next(self, branch: Branch) -> ToolRecord | None:
        """Return what is recorded of the next step of a branch."""
        return self.journal.steps.get(f"{branch.prefix}{branch.count + 1}")

    async def _pause(self, known: ToolRecord | None, pause_ms: int) -> None:
        """Pause before the next attempt; `known` is the pause or the attempt that is recorded."""
        if pause_ms > PARK_MS if known is None else known.kind == StepKind.SLEEP:
            await self.sleep(pause_ms)
        elif known is None:
            pause = self.branches.leave_code()
            try:
                await asyncio.sleep(pause_ms / 1000)
            finally:
                self.branches.return_to_code(pause)

    async def sleep(self, duration_ms: int) -> None:
        """Wait until a time has passed."""
        ticket = make_event_ticket("sleep", "Sleeping", DecisionAction.RESUME)
        await self._suspend(StepKind.SLEEP, "sleep", {"ms": duration_ms}, ticket, duration_ms)

    async def wait_for(self, name: str, schema: Any, timeout_ms: int | None) -> Any:
        """Wait for an event."""
        if not name.strip() or len(name) > EVENT_NAME_CHARS:
            problem = f"ctx.wait_for: an event's name has 1 to {EVENT_NAME_CHARS} characters."
            raise WorkflowMisuse(problem=problem)
        checked = compile_schema(f"event '{name}'", schema)
        shown = schema if isinstance(schema, dict) else None
        if checked is not None and shown is None:
            shown = schema_of(schema, what=f"event '{name}'")
        message = f"Waiting for the event '{name}'"
        ticket = make_event_ticket(
            "wait_for", message, DecisionAction.CANCEL, {"event": name}, shown
        )
        given = {"event": name, "timeout_ms": timeout_ms}
        step, result = await self._suspend(
            StepKind.WAIT_FOR, name, given, ticket, timeout_ms, checked
        )
        data = self._answer(step, result).data
        if step.is_changed and checked is not None and checked.violations(data):
            self._check_form(step, shown)
        try:
            return decode_as(schema, data)
        except msgspec.ValidationError as error:
            self._check_form(step, shown)
            problem = str(error)
            raise EventInvalid(step=step.path, name=name, problem=problem) from error

    def _check_form(self, step: WorkflowStep, wanted: Any) -> None:
        """A recorded result does not fit: other code has taken the step if it wanted another form.

        Raises:
            Diverged: So it is; the code must not see it as a failure.
        """
        if step.is_changed:
            error = self.journal.explain_form(step.path, wanted)
            self._note_divergence(error)
            raise error

    async def approve(
        self,
        message: str,
        parameters: Any,
        deciders: tuple[str, ...] | None,
        timeout_ms: int | None,
    ) -> ApprovalAnswer:
        """Ask a person."""
        shown = to_step_form("ctx.approve: parameters", parameters)
        asked: dict[str, Any] = {"message": message, "parameters": shown}
        # Who may answer, and until when, makes it another question: the open ticket has the old.
        if deciders is not None:
            asked["deciders"] = sorted(set(deciders))
        if timeout_ms is not None:
            asked["timeout_ms"] = timeout_ms
        given = check_size("What ctx.approve shows", asked)
        ticket = SuspendTicket(
            suspension=Suspension(action="workflow:approve", message=message, parameters=shown),
            resume_mode=ResumeMode.USE_DECISION_AS_TOOL_RESULT,
            asks=Asks.EITHER,
            deciders=deciders,
        )
        step, result = await self._suspend(StepKind.APPROVE, "approve", given, ticket, timeout_ms)
        return msgspec.convert(self._answer(step, result).data, ApprovalAnswer)

    async def _suspend(
        self,
        kind: StepKind,
        name: str,
        given: Any,
        ticket: SuspendTicket,
        duration_ms: int | None,
        wanted: Any = None,
    ) -> tuple[WorkflowStep, ToolResult]:
        return await self._take(
            kind,
            name,
            given,
            lambda port, step: port.suspend(step, ticket, duration_ms, wanted),
            ticket.suspension.response_schema,
        )

    async def read_value(self, kind: str) -> Any:
        """Read the time, a random number or a new id."""
        _, result = await self._take(
            StepKind(kind), kind, None, lambda port, step: port.read_value(step)
        )
        return result.data

    def patched(self, patch_id: str) -> bool:
        """Whether the run takes the new way of a change."""
        check_size("The id of ctx.patched", patch_id, EVENT_NAME_CHARS)
        branch = self._enter_now()
        if branch is None:
            return False
        path = f"{branch.prefix}{branch.count + 1}"
        is_recorded = self.journal.is_marked(path, StepKind.PATCHED, patch_id)
        if not is_recorded and self.journal.has(path):
            # The run was beyond this point before the change: it has no step here.
            return False
        self._mark(self._open(branch, StepKind.PATCHED, patch_id))
        return True

    def set_status(self, value: Any) -> None:
        """Keep a value that others can read; a replayed one is not written again."""
        branch = self._enter_now()
        if branch is None:
            return
        data = to_step_form("ctx.set_status: the value", value)
        check_size("The value of ctx.set_status", data)
        step = self._open(branch, StepKind.STATUS, "status", data)
        self._mark(step, data)

    def continue_as_new(self, given: Any) -> NoReturn:
        """End the run and begin a fresh one."""
        if self._enter_now(is_step=False) is None:
            raise asyncio.CancelledError
        text = encode_prompt(self.workflow.id, {} if given is None else given)
        self.workflow.arguments.read(text)
        raise ContinueAsNew(text)

    # --- branches ---

    async def gather(self, branches: tuple[Coroutine[Any, Any, Any], ...]) -> list[Any]:
        """Run branches side by side."""
        check_branches(branches)
        branch = await self._enter_step(*branches)
        _, below = self._start_below(branch, StepKind.GATHER, branches)
        try:
            while len(below.over) < len(below.tasks):
                await self._wait_below(below)
        except asyncio.CancelledError:
            self._check_cancel(branch)
            await below.cancel(is_ordered=self.branches.is_closed(branch))
            raise
        for task in below.tasks:
            raise_error(task)
        return [task.result() for task in below.tasks]

    async def race(self, branches: tuple[Coroutine[Any, Any, Any], ...]) -> tuple[int, Any]:
        """Run branches side by side until one is over."""
        check_branches(branches)
        if not branches:
            raise WorkflowMisuse(problem="ctx.race needs at least one branch.")
        branch = await self._enter_step(*branches)
        step, below = self._start_below(branch, StepKind.RACE, branches)
        try:
            winner = await self._find_winner(step, below)
            for prefix in (losers := below.list_losers(winner)):
                self.branches.close_below(prefix)
                self.journal.skip_below(prefix)
            # What losers do when they unwind, they do before the race is over, in their order.
            with self.branches.hold_turns():
                lost = [it for index, it in enumerate(below.tasks) if index != winner]
                await _unwind(lost, _LOSERS_S)
            self._release_losers(losers)
            while not below.tasks[winner].done():
                await self._wait_below(below)
        except asyncio.CancelledError:
            self._check_cancel(branch)
            await below.cancel(is_ordered=self.branches.is_closed(branch))
            raise
        raise_error(below.tasks[winner])
        return winner, below.tasks[winner].result()

    async def _find_winner(self, step: WorkflowStep, below: "_Below") -> int:
        """Return the winner of a race: the recorded one, or the first that is over."""
        record = step.record
        if step.is_done and record is not None and record.result is not None:
            # The losers as well come to where they were when the race was over.
            await self.branches.take_turn(record.place)
            return int(record.result.data["winner"])
        pause = self.branches.leave_code()
        try:
            if not below.over:
                await self.branches.wait(f"{below.path}:branches")
            winner = below.over[0]
            port, losers = await self._become_live(step), below.list_losers(winner)
            self._losing.update(losers)
            try:
                await self._execute(port.end_race(step, winner, losers))
                assert step.record is not None
                await self.branches.take_turn(step.record.place, pause)
            finally:
                self._losing.difference_update(losers)
        finally:
            self.branches.return_to_code(pause)
        return winner

    def _release_losers(self, losers: tuple[str, ...]) -> None:
        """Settle what losers left, or note it: nothing is executed before the entry is live."""
        if self.is_live and self.port is not None:
            self.port.release_losers(losers)
        else:
            self._losers += losers

    def _start_below(
        self, branch: Branch, kind: StepKind, works: tuple[Coroutine[Any, Any, Any], ...]
    ) -> "tuple[WorkflowStep, _Below]":
        """Open a step that has branches, and start them."""
        try:
            step = self._open(branch, kind, f"{len(works)} branches")
        except Diverged:
            for work in works:
                work.close()
            raise
        self._mark(step)
        below = _Below(step.path)

        def note(index: int, task: "asyncio.Task[Any]") -> None:
            self._note_end(task)
            below.over.append(index)
            is_race = step.kind is StepKind.RACE
            if self.divergence is None and (is_race or len(below.over) == len(works)):
                if below.pause is not None:
                    # The owner goes on at once: it comes before all other branches.
                    self.branches.return_to_code(below.pause)
                self.branches.release(f"{step.path}:branches")

        for index, work in enumerate(works):
            prefix = f"{step.path}.{index}."
            below.tasks.append(self.branches.start(prefix, work, partial(note, index)))
        return step, below

    async def _wait_below(self, below: "_Below") -> None:
        """Wait until all branches of a step are over, or one more in a race."""
        below.pause = pause = self.branches.leave_code()
        try:
            await self.branches.wait(f"{below.path}:branches")
        finally:
            below.pause = None
            self.branches.return_to_code(pause)


def _fill_prompt(agent: Any, prompt: Any) -> Any:
    """A workflow that is given nothing begins without arguments."""
    return {} if prompt == "" and isinstance(agent, Workflow) else prompt


class _Below(msgspec.Struct, eq=False):
    """The branches of one step."""

    path: str
    tasks: "list[asyncio.Task[Any]]" = []
    over: list[int] = []
    """The branches that are over, in their order."""
    pause: CodePause | None = None
    """Set while their owner waits for nothing but them."""

    def list_losers(self, winner: int) -> tuple[str, ...]:
        """Return the prefixes of all branches but one."""
        return tuple(f"{self.path}.{it}." for it in range(len(self.tasks)) if it != winner)

    async def cancel(self, *, is_ordered: bool) -> None:
        """Cancel the branches, and wait until they are over; those of a loser one by one."""
        if is_ordered:
            await _unwind(self.tasks, _LOSERS_S)
        for task in self.tasks:
            task.cancel()
        if self.tasks and not is_ordered:
            await asyncio.wait(self.tasks)


async def _unwind(tasks: "list[asyncio.Task[Any]]", timeout_s: float) -> None:
    """Cancel tasks one after the other, each when the one before is over, or late."""
    for task in tasks:
        task.cancel()
        if not task.done():
            await asyncio.wait((task,), timeout=timeout_s)
