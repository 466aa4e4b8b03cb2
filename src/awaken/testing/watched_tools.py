"""Tools that are watched while they run: how often each call was executed, and when.

A watched tool behaves like the tool it wraps. The simulation may kill its process right before
or right after the tool's own code, and may stand in for that code.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from awaken.contracts.messages.message import Role
from awaken.contracts.models.inference import ModelClient
from awaken.contracts.storage.store import Commit
from awaken.contracts.tool_results import ToolResult, ToolStatus
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.tool import (
    Reconcilable,
    Tool,
    ToolDescriptor,
    ToolEffect,
    ToolOutput,
    approval_of,
    check_of,
)
from awaken.runtime.resolution.registries import RegistrySet
from awaken.runtime.resolution.registry import RegistryHandle
from awaken.runtime.resolution.resolver import ResolvedAgent
from awaken.runtime.resolution.snapshots import RegistrySnapshot

from .crash_points import Lifeline

STAND_IN = "This is the simulation's answer; the tool was not executed."


@dataclass(slots=True)
class WatchedExecution:
    """One time that a tool's code was begun."""

    key: str
    """The idempotency key: run, step and call."""
    tool: ToolDescriptor
    commits_before: int
    """How much was durable when it began."""
    is_pending: bool = False
    """It asked for a decision, and so had no effect."""
    is_taken_back: bool = False
    """The tool itself said later that this execution never took effect."""


class EffectLog:
    """Every execution of a trial, in order."""

    def __init__(self) -> None:
        self.executions: list[WatchedExecution] = []

    def problems(self, commits: Iterable[Commit]) -> list[str]:
        """What was executed again although it must not be."""
        by_call: dict[str, list[WatchedExecution]] = defaultdict(list)
        for execution in self.executions:
            by_call[execution.key].append(execution)
        results = _results(commits)
        problems = []
        for key, executions in by_call.items():
            problems += _find_repeated_once(executions)
            if (done_by := results.get(key)) is not None:
                problems += _find_repeated_after(executions, done_by)
        return problems


def _find_repeated_once(executions: list[WatchedExecution]) -> list[str]:
    tool = executions[0].tool
    counted = [it for it in executions if not it.is_pending and not it.is_taken_back]
    if tool.effect is not ToolEffect.ONCE or len(counted) <= 1:
        return []
    key = executions[0].key
    return [f"tool '{tool.id}' has effect 'once' and ran {len(counted)} times for call {key}"]


def _find_repeated_after(executions: list[WatchedExecution], done_by: int) -> list[str]:
    late = [it for it in executions if it.commits_before >= done_by]
    return [
        f"tool '{it.tool.id}' ran for call {it.key} although its result was durable" for it in late
    ]


def _results(commits: Iterable[Commit]) -> dict[str, int]:
    """How many commits it took until the result of each call was durable."""
    found: dict[str, int] = {}
    for number, commit in enumerate(commits, 1):
        for message in commit.messages:
            mark = message.metadata
            if message.role is Role.TOOL and mark is not None and mark.step_index is not None:
                key = f"{mark.run_id}:{mark.step_index + 1}:{message.tool_call_id}"
                found.setdefault(key, number)
    return found


class WatchedTool:
    """A tool that logs its executions, and whose process may die right before or after one."""

    def __init__(
        self, tool: Tool, life: Lifeline, log: EffectLog, count: Callable[[], int], *, is_real: bool
    ) -> None:
        self._tool = tool
        self.approval = approval_of(tool)
        self.check_arguments = check_of(tool)
        self._life = life
        self._log = log
        self._count = count
        self._is_real = is_real

    @property
    def descriptor(self) -> ToolDescriptor:
        """What the tool is."""
        return self._tool.descriptor

    def validate(self, arguments: Any) -> Any:
        """Check arguments as the tool does."""
        return self._tool.validate(arguments)

    async def execute(self, arguments: Any, context: ToolContext) -> ToolOutput:
        """Execute the tool, or be killed around it."""
        self._life.check()
        number = self._life.begin("tool")
        await self._life.die_at("tool", number, is_after=False)
        seen = WatchedExecution(_key(context), self.descriptor, self._count())
        self._log.executions.append(seen)
        output = await self._body(arguments, context)
        seen.is_pending = output.result.status is ToolStatus.PENDING
        await self._life.die_at("tool", number, is_after=True)
        return output

    async def _body(self, arguments: Any, context: ToolContext) -> ToolOutput:
        if self._is_real:
            return await self._tool.execute(arguments, context)
        return ToolOutput(result=ToolResult.success(self.descriptor.id, STAND_IN))

    def _take_back(self, key: str) -> None:
        for execution in self._log.executions:
            if execution.key == key:
                execution.is_taken_back = True


class ReconcilingWatchedTool(WatchedTool):
    """A watched tool that can tell what a lost call did."""

    async def reconcile(self, arguments: Any, context: ToolContext) -> ToolOutput | None:
        """Ask the tool; what it says never took effect does not count as executed."""
        self._life.check()
        output = await self._answer(arguments, context)
        if output is None:
            self._take_back(_key(context))
        return output

    def _answer(self, arguments: Any, context: ToolContext) -> Awaitable[ToolOutput | None]:
        assert isinstance(self._tool, Reconcilable)
        if self._is_real:
            return self._tool.reconcile(arguments, context)
        return self._from_log(_key(context))

    async def _from_log(self, key: str) -> ToolOutput | None:
        if not any(it.key == key for it in self._log.executions):
            return None
        return ToolOutput(result=ToolResult.success(self.descriptor.id, STAND_IN))


def _key(context: ToolContext) -> str:
    return context.idempotency_key or f"{context.run.run_id}:{context.call_id}"


class WatchedRegistry(RegistryHandle):
    """The agents of one simulated process: what they use is watched, or replaced."""

    def __init__(
        self,
        registries: RegistrySet,
        watch: Callable[[Tool], Tool],
        model: Callable[[str, ModelClient], ModelClient],
    ) -> None:
        super().__init__(registries)
        # The one snapshot there is.
        self._snapshot = _WatchedSnapshot(self.version, registries, watch, model)


class _WatchedSnapshot(RegistrySnapshot):
    def __init__(
        self,
        version: int,
        registries: RegistrySet,
        watch: Callable[[Tool], Tool],
        model: Callable[[str, ModelClient], ModelClient],
    ) -> None:
        super().__init__(version, registries)
        self._watch = watch
        self._model = model
        self._agents: dict[str, ResolvedAgent] = {}

    def resolve(self, agent_id: str) -> ResolvedAgent:
        """Return the agent with its watched tools and its deterministic model."""
        known = self._agents.get(agent_id)
        if known is None:
            agent = super().resolve(agent_id)
            tools = {name: self._watch(tool) for name, tool in agent.tools.items()}
            watched = replace(agent, tools=tools)
            known = watched.with_clients(partial(self._model, agent_id))
            self._agents[agent_id] = known
        return known
