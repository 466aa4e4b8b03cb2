"""Tools that answer from a recording; their real code runs only where the policy lets it.

Which recorded call answers follows from the calls of the run so far, never from a counter: a
process that takes the run over finds the same answers.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

import msgspec

from awaken.authoring.delegates import AgentTool
from awaken.authoring.results import as_output
from awaken.contracts.evals.recordings import RecordedCall, Recording
from awaken.contracts.evals.worlds import CallMatch, OnMiss, ToolPolicy, ToolSource, ToolStub
from awaken.contracts.messages.message import Message, Role, ToolCall
from awaken.contracts.plugins.loop_state import ACTIVE_AGENT
from awaken.contracts.suspension.tickets import Question, Ticket
from awaken.contracts.tool_results import ToolResult, ToolStatus
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.tool import (
    ExecutionFailed,
    Reconcilable,
    Tool,
    ToolDescriptor,
    ToolOutput,
)

from .recorded_steps import is_cut_off

_encode = msgspec.json.Encoder(order="sorted").encode

PASSED_ON = ("approval", "check_arguments", "delegates_to", "hands_off_to", "__wrapped__")
"""What a tool that stands for another one has of it, besides its descriptor."""


class Stubbed(msgspec.Struct, frozen=True):
    """A stub answers the call."""

    stub: ToolStub


class Missing(msgspec.Struct, frozen=True):
    """Nothing answers the call; `nearest` is a recorded call of the same tool, if there is one.

    If the recording has this very call, `nearest` is that one.
    """

    nearest: RecordedCall | None = None
    never_ran: bool = False
    """Whether the recording has this call, and it was not executed there either."""


CallAnswer = RecordedCall | Stubbed | Missing


class CallingRun(Protocol):
    """The run whose calls are answered, as far as answers depend on it."""

    def find_answer(self, context: ToolContext) -> CallAnswer:
        """Return what answers a call."""
        ...

    def list_questions(self, call_id: str) -> tuple[Question, ...]:
        """Return the questions of a call that were decided so far."""
        ...

    def may_execute(self, descriptor: ToolDescriptor, *, is_miss: bool) -> bool:
        """Whether the real code of a tool may run for a call."""
        ...

    def note_execution(self, tool: str) -> None:
        """Note that the real code of a tool is executed."""
        ...

    async def simulate(
        self, descriptor: ToolDescriptor, arguments: Any, context: ToolContext
    ) -> ToolOutput:
        """Let a model answer in place of the tool."""
        ...

    def build_output(self, call: RecordedCall, tool: Tool | None) -> ToolOutput:
        """Return the recorded result with what the tool did to the state."""
        ...

    def diverge(self, call: ToolCall, nearest: RecordedCall | None) -> ToolOutput:
        """End the run as diverged at a call; the result says so."""
        ...

    async def wait_for_cancel(self) -> None:
        """Cancel the run here, as the recorded run was."""
        ...

    @property
    def policy(self) -> ToolPolicy:
        """How calls are answered."""
        ...


class RecordedTool:
    """A tool with its own description and its recorded results."""

    def __init__(self, descriptor: ToolDescriptor, tool: Tool | None, run: CallingRun) -> None:
        self._descriptor = descriptor
        self._tool = tool
        self._run = run
        for name in PASSED_ON:
            # What the runtime asks of a tool besides its results is the real tool's.
            if (value := getattr(tool, name, None)) is not None:
                setattr(self, name, value)

    @property
    def descriptor(self) -> ToolDescriptor:
        """The description of the real tool: requests stay byte-equal."""
        return self._descriptor

    def validate(self, arguments: Any) -> Any:
        """Check the arguments as the real tool does.

        Raises:
            InvalidArguments: They do not fit.
        """
        return arguments if self._tool is None else self._tool.validate(arguments)

    async def execute(self, arguments: Any, context: ToolContext) -> ToolOutput:
        """Answer a call from stubs or the recording, else as the policy says."""
        run, policy = self._run, self._run.policy
        is_live = policy.source is ToolSource.LIVE and self._can_execute(is_miss=False)
        if is_live and self._tool is not None:
            run.note_execution(self._descriptor.id)
            return await self._tool.execute(arguments, context)
        answer = run.find_answer(context)
        if self._tool is None and isinstance(answer, Missing) and answer.never_ran:
            # What refused the call then, its check or a gate of a plugin, is gone with the tool.
            answer = answer.nearest or answer
        is_recorded = isinstance(answer, RecordedCall)
        if policy.delegates == "replay" and is_recorded and self._tool and asks_agent(self._tool):
            # The child is in the same world: its models and tools answer from its own recording.
            return await self._tool.execute(arguments, context)
        if isinstance(answer, RecordedCall):
            if (played := await self._play(answer, context)) is not None:
                return played
            answer = Missing(answer)
        if isinstance(answer, Stubbed):
            return _play_stub(self._descriptor.id, answer.stub)
        return await self._answer_miss(arguments, context, answer)

    async def reconcile(self, arguments: Any, context: ToolContext) -> ToolOutput | None:
        """Return None if a lost call had no effect outside: then it is answered once more.

        Raises:
            ExecutionFailed: The real tool may have been executed, and cannot say what happened.
        """
        if not any(self._can_execute(is_miss=is_miss) for is_miss in (False, True)):
            return None
        if isinstance(self._tool, Reconcilable):
            return await self._tool.reconcile(arguments, context)
        raise ExecutionFailed("the real tool may have been executed")

    async def _answer_miss(
        self, arguments: Any, context: ToolContext, missing: Missing
    ) -> ToolOutput:
        """Answer a call that has no recorded result."""
        run, policy = self._run, self._run.policy
        may_execute = self._tool is not None and self._can_execute(is_miss=True)
        find_target: Callable[[Any], str] | None = getattr(self, "hands_off_to", None)
        if find_target is not None and not may_execute:
            # Which agent goes on is the run's own affair; what a callback does outside is not done.
            context.state.set(ACTIVE_AGENT, target := find_target(arguments))
            return as_output(self._descriptor.id, f"Transferred to {target}.", context)
        if policy.is_simulated:
            return await run.simulate(self._descriptor, arguments, context)
        if self._tool is not None and may_execute:
            run.note_execution(self._descriptor.id)
            return await self._tool.execute(arguments, context)
        if policy.on_miss is OnMiss.ERROR:
            text = f"tool '{self._descriptor.id}' has no recorded result for these arguments"
            return ToolOutput(result=ToolResult.error(self._descriptor.id, text, code="no_result"))
        call = ToolCall(id=context.call_id, name=context.tool_name, arguments=arguments)
        return run.diverge(call, missing.nearest)

    def _can_execute(self, *, is_miss: bool) -> bool:
        return self._run.may_execute(self._descriptor, is_miss=is_miss)

    async def _play(self, call: RecordedCall, context: ToolContext) -> ToolOutput | None:
        """Answer from a recorded call; None if that call was still waiting for its decision."""
        own = [it.question for it in call.decisions if not it.question.asked_by]
        decided = [it for it in self._run.list_questions(context.call_id) if not it[0]]
        if len(decided) < len(own):
            return ToolOutput(result=ToolResult.from_ticket(call.tool, own[len(decided)]))
        if call.result.status is ToolStatus.PENDING:
            return None
        if is_cut_off(call.result):
            await self._run.wait_for_cancel()
        return self._run.build_output(call, self._tool)


def asks_agent(tool: Tool) -> bool:
    """Whether a tool is another agent."""
    return isinstance(tool, AgentTool) or getattr(tool, "delegates_to", None) is not None


def _play_stub(tool: str, stub: ToolStub) -> ToolOutput:
    if stub.error is not None:
        return ToolOutput(result=ToolResult.error(tool, stub.error))
    data = None if stub.result is msgspec.UNSET else stub.result
    text = data if isinstance(data, str) else None
    return ToolOutput(result=ToolResult.success(tool, data, text))


class CallPlan:
    """Assigns an answer to each call of a run, in the order of the calls."""

    def __init__(
        self, recording: Recording | None, policy: ToolPolicy, delegates: Collection[str] = ()
    ) -> None:
        """`delegates` are the tools that are agents; no model puts a question the same way twice.

        So what was recorded of an agent answers any question to it, if no equal one was recorded.
        """
        self._policy = policy
        self._delegates = delegates
        steps = () if recording is None else recording.steps
        self._recorded = [call for step in steps for call in step.calls]
        self._by_key: dict[bytes, list[int]] = {}
        self._by_name: dict[str, list[int]] = {}
        for place, call in enumerate(self._recorded):
            self._by_key.setdefault(self._key(call.tool, call.arguments), []).append(place)
            self._by_name.setdefault(call.tool, []).append(place)
        self._used: set[int] = set()
        self._stubs_used: dict[tuple[str, int], int] = {}
        self._answers: dict[tuple[int, str], CallAnswer] = {}
        self._count = 0
        self._seen = 0
        """How many messages of the transcript it has read."""

    def read(self, messages: Sequence[Message], run_id: str) -> None:
        """Add the calls of a run from its transcript, as far as they are new."""
        for place in range(self._seen, len(messages)):
            message = messages[place]
            metadata = message.metadata
            if metadata is None or metadata.run_id != run_id or message.role is not Role.ASSISTANT:
                continue
            self.add((metadata.step_index or 0) + 1, message.tool_calls or ())
        self._seen = len(messages)

    def find_decided(self, step: int, ticket: Ticket) -> RecordedCall | None:
        """Return the recorded call with the arguments of a ticket's call, if it is matched with it.

        What was decided on other arguments, or on another occurrence of an equal call, is no
        decision on this one.
        """
        found = self.find(step, ticket.call_id)
        if isinstance(found, Missing):
            found = found.nearest if found.never_ran else None
        if not isinstance(found, RecordedCall):
            return None
        asked = msgspec.to_builtins(ticket.arguments), msgspec.to_builtins(found.arguments)
        left, right = (remove_paths(it, self._policy.ignore) for it in asked)
        return found if left == right else None

    def find(self, step: int, call_id: str) -> CallAnswer | None:
        """Return what answers a call that was added."""
        return self._answers.get((step, call_id))

    def add(self, step: int, calls: Sequence[ToolCall]) -> None:
        """Add the calls of one answer, in their order."""
        for call in calls:
            self._answers[step, call.id] = self._choose(call)
            self._count += 1
        for call in calls:
            # Behind all others: an equal question comes first. One that the recorded run put and
            # that was refused or cut off there takes no answer from a later question.
            answer = self._answers[step, call.id]
            is_new = isinstance(answer, Missing) and not answer.never_ran
            if is_new and call.name in self._delegates:
                self._answers[step, call.id] = self._take(self._by_name.get(call.name, ()), call)

    def _choose(self, call: ToolCall) -> CallAnswer:
        for place, stub in enumerate(self._policy.stubs.get(call.name, ())):
            used = self._stubs_used.get((call.name, place), 0)
            is_left = stub.times is None or used < stub.times
            if is_left and (stub.when is None or is_subset(stub.when, call.arguments)):
                self._stubs_used[call.name, place] = used + 1
                return Stubbed(stub)
        match self._policy.match:
            case CallMatch.ARGS:
                return self._take(self._by_key.get(self._key(call.name, call.arguments), ()), call)
            case CallMatch.NAME:
                return self._take(self._by_name.get(call.name, ()), call)
            case CallMatch.ORDINAL:
                is_left = self._count < len(self._recorded)
                found = self._recorded[self._count] if is_left else None
                if found is None or found.tool != call.name:
                    return Missing(found)
                return found if found.has_run else Missing(found, never_ran=True)

    def _take(self, places: Sequence[int], call: ToolCall) -> CallAnswer:
        """Use the first of these recorded calls that is not used; one that never ran misses."""
        place = next((it for it in places if it not in self._used), None)
        if place is not None:
            self._used.add(place)
            found = self._recorded[place]
            return found if found.has_run else Missing(found, never_ran=True)
        nearest = next((it for it in self._recorded if it.tool == call.name), None)
        return Missing(nearest)

    def _key(self, tool: str, arguments: Any) -> bytes:
        return _encode([tool, remove_paths(arguments, self._policy.ignore)])


def remove_paths(value: Any, paths: Sequence[str]) -> Any:
    """Return a JSON value without the values at these pointers, such as `/requested_at`."""
    for path in paths:
        value = _remove(value, path.strip("/").split("/"))
    return value


def _remove(value: Any, names: Sequence[str]) -> Any:
    first, *rest = names
    first = first.replace("~1", "/").replace("~0", "~")
    if isinstance(value, dict) and first in value:
        if not rest:
            return {name: it for name, it in value.items() if name != first}
        return {**value, first: _remove(value[first], rest)}
    if isinstance(value, list):
        chosen = range(len(value)) if first == "*" else [int(first)] if first.isdigit() else []
        return [_remove(it, rest) if rest and n in chosen else it for n, it in enumerate(value)]
    return value


def is_subset(wanted: Any, found: Any) -> bool:
    """Whether a JSON value has what is wanted: objects by key, arrays and others whole."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            name in found and is_subset(value, found[name]) for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        is_list = isinstance(found, list) and len(found) == len(wanted)
        return is_list and all(map(is_subset, wanted, found))
    return bool(wanted == found) and isinstance(wanted, bool) == isinstance(found, bool)
