"""One attempt at one tool call: look the tool up, check the arguments, run it, bound it.

An attempt never raises, except when the run itself is cancelled: whatever goes wrong becomes an
error result that the model can read.
"""

import asyncio
import hashlib
import logging

import msgspec

from awaken.contracts.errors import AwakenError
from awaken.contracts.events import AgentEvent
from awaken.contracts.messages import ToolCall
from awaken.contracts.state import Snapshot
from awaken.contracts.storage import ToolRecord, ToolRecordStatus
from awaken.contracts.suspension import ResumeMode, ToolCallResume
from awaken.contracts.tool_context import ToolContext
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools import (
    InvalidArguments,
    Tool,
    ToolEffect,
    ToolError,
    ToolNotFound,
    ToolOutput,
    ToolTimeout,
)
from awaken.runtime.run import Run

logger = logging.getLogger(__name__)


class Attempt:
    """A call on its way from the model's request to its result."""

    __slots__ = (
        "arguments", "arguments_hash", "call", "context", "number", "output", "resume", "tool",
    )  # fmt: skip

    def __init__(self, call: ToolCall, resume: ToolCallResume | None) -> None:
        self.call = call
        self.resume = resume
        self.tool: Tool | None = None
        self.arguments: object = None
        self.arguments_hash = ""
        self.context: ToolContext | None = None
        self.output: ToolOutput | None = None
        self.number = 1

    @property
    def needs_intent(self) -> bool:
        """Whether an intent must be durable before the tool's code runs."""
        return (
            self.output is None
            and self.tool is not None
            and self.tool.descriptor.effect is not ToolEffect.NONE
        )


class ToolLine:
    """The tool's way back to the run. Implements `ToolChannel`."""

    __slots__ = ("_run",)

    def __init__(self, run: Run) -> None:
        self._run = run

    def emit(self, event: AgentEvent) -> None:
        """Show a live event."""
        self._run.emit(event)

    @property
    def is_cancelled(self) -> bool:
        """Whether the run was cancelled."""
        return self._run.is_cancelled


def prepared(run: Run, call: ToolCall, resume: ToolCallResume | None = None) -> Attempt:
    """Make an attempt whose arguments fit its tool; otherwise it already has its error result."""
    attempt = Attempt(call, resume)
    try:
        tool = attempt.tool = _known_tool(run, call)
        if tool.descriptor.effect is not ToolEffect.NONE:
            attempt.arguments_hash = _checked_hash(run, call)
        attempt.output = _decided(run, call, resume)
        if attempt.output is None:
            attempt.arguments = tool.validate(call.arguments)
    except ToolError as error:
        attempt.output = failed(call.name, error)
    except Exception as error:
        logger.warning("Tool '%s' failed to validate.", call.name, exc_info=True)
        attempt.output = failed(call.name, InvalidArguments(str(error)))
    return attempt


def intent(run: Run, attempt: Attempt) -> ToolRecord:
    """The journal entry that says: this call is about to run."""
    assert attempt.tool is not None
    return ToolRecord(
        run_id=run.identity.run_id,
        call_id=attempt.call.id,
        step=run.step,
        tool_name=attempt.call.name,
        attempt=attempt.number,
        arguments_hash=attempt.arguments_hash,
        effect=attempt.tool.descriptor.effect,
    )


def finished(run: Run, attempt: Attempt) -> ToolRecord:
    """The journal entry that says: this call is over, with this result."""
    assert attempt.output is not None
    command = attempt.output.command
    updates = tuple(
        (op.key.name, msgspec.to_builtins(getattr(op, "update", None))) for op in command.patch.ops
    )
    return msgspec.structs.replace(
        intent(run, attempt),
        status=ToolRecordStatus.FINISHED,
        result=attempt.output.result,
        updates=updates,
    )


async def perform(run: Run, attempt: Attempt, snapshot: Snapshot) -> ToolOutput:
    """Run the tool on a snapshot, within its time and its number of slots."""
    tool, call = attempt.tool, attempt.call
    assert tool is not None
    context = attempt.context = _context(run, attempt, snapshot)
    slot = run.services.tool_slots.of(tool.descriptor)
    timeout_ms = tool.descriptor.timeout_ms or run.services.limits.tool_timeout_ms
    limit = asyncio.timeout(timeout_ms / 1000)
    try:
        async with limit:
            if slot is None:
                return await tool.execute(attempt.arguments, context)
            async with slot:
                return await tool.execute(attempt.arguments, context)
    except ToolError as error:
        return failed(call.name, error)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return failed(call.name, ToolError("the tool cancelled itself"))
    except Exception as error:
        if limit.expired():
            return failed(call.name, ToolTimeout(f"no result within {timeout_ms} ms"))
        if not isinstance(error, AwakenError):
            logger.warning("Tool '%s' raised.", call.name, exc_info=True)
        return failed(call.name, ToolError(f"{type(error).__name__}: {error}"))


def failed(tool_name: str, error: ToolError) -> ToolOutput:
    """Turn an error into the result that the model reads."""
    metadata: dict[str, object] = {"code": error.code}
    if isinstance(error, ToolTimeout):
        metadata["timed_out"] = True
    return ToolOutput(result=ToolResult.error(tool_name, str(error), **metadata))


def _known_tool(run: Run, call: ToolCall) -> Tool:
    tool = run.agent.tools.get(call.name)
    if tool is None:
        raise ToolNotFound(f"tool '{call.name}' not found")
    return tool


def _decided(run: Run, call: ToolCall, resume: ToolCallResume | None) -> ToolOutput | None:
    """The output of a call whose decision is its result."""
    ticket = run.tickets.get(call.id)
    if resume is None or ticket is None:
        return None
    if ticket.resume_mode is not ResumeMode.USE_DECISION_AS_TOOL_RESULT:
        return None
    return ToolOutput(result=ToolResult.success(call.name, resume.result))


def _context(run: Run, attempt: Attempt, snapshot: Snapshot) -> ToolContext:
    call = attempt.call
    context = ToolContext(
        run=run.identity,
        agent=run.agent.spec,
        call=call,
        snapshot=snapshot,
        idempotency_key=f"{run.identity.run_id}:{run.step}:{call.id}",
        channel=ToolLine(run),
    )
    context.profile = run.profile
    if attempt.resume is not None:
        ticket = run.tickets.get(call.id)
        context.resume = attempt.resume
        if ticket is not None:
            context.suspension_id = ticket.suspension.id or None
            context.suspension_reason = ticket.suspension.action or None
    return context


def _checked_hash(run: Run, call: ToolCall) -> str:
    data = msgspec.json.encode(call.arguments, order="sorted")
    limit = run.services.limits.argument_bytes
    if len(data) > limit:
        raise InvalidArguments(f"{len(data)} bytes, the limit is {limit}")
    return hashlib.blake2b(data, digest_size=16).hexdigest()
