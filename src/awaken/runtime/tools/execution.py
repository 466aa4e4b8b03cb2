"""One attempt at one tool call: look the tool up, check the arguments, run it within limits.

An attempt never raises, except when the run itself is cancelled: every other failure becomes an
error result that the model can read.
"""

import asyncio
import hashlib
import logging
from typing import Any

import msgspec

from awaken.authoring.frontend import FrontEndTool
from awaken.authoring.functions import is_interruption
from awaken.authoring.results import to_json_form
from awaken.contracts.errors import AwakenError, KeyCodecError, Misuse
from awaken.contracts.events import AgentEvent
from awaken.contracts.messages.content import replace_surrogates
from awaken.contracts.messages.message import ToolCall
from awaken.contracts.state.keys import EMPTY_COMMAND, Snapshot, StateCommand, Update
from awaken.contracts.storage.store import ToolRecord, ToolRecordStatus
from awaken.contracts.suspension.tickets import DecisionAction, ResumeMode, ToolCallResume
from awaken.contracts.tool_results import ToolResult, ToolStatus
from awaken.contracts.tools.context import ToolContext, ToolState
from awaken.contracts.tools.sub_runs import SubRuns
from awaken.contracts.tools.tool import (
    UNKNOWN_TOOL,
    InvalidArguments,
    Tool,
    ToolDescriptor,
    ToolEffect,
    ToolError,
    ToolInternalError,
    ToolNotFound,
    ToolOutput,
    ToolTimeout,
    check_of,
)
from awaken.redaction import describe_error, make_loggable, remove_secrets
from awaken.runtime.inference.screens import screen_event, screen_result
from awaken.runtime.phases.instruments import Watches
from awaken.runtime.run import Run

logger = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode
_decode_result = msgspec.json.Decoder(ToolResult).decode
_PLAIN_KINDS = ((str, ToolStatus, str), (str, ToolStatus, type(None)))
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
# Bound once: Python 3.11 reads a member through its class slowly.
_NO_EFFECT, _FINISHED = ToolEffect.NONE, ToolRecordStatus.FINISHED

DECLINED = "The call was declined."

ERROR_CHARS = 10_000
"""The longest error text that is kept."""


class ToolExecution(msgspec.Struct, eq=False):
    """A call on its way from the model's request to its result, and the tool's channel to its run.

    A tool's context refers to its execution, so an execution never refers to the context.
    """

    run: Run
    call: ToolCall
    resume: ToolCallResume | None
    idempotency_key: str  # The same in every attempt at the call.
    shown_key: str = ""  # What its tool sees instead: the same in all attempts of a retry.
    tool: Tool | None = None
    arguments: object = None
    arguments_hash: str = ""
    number: int = 1
    """Which attempt at the call it is, over all processes."""
    is_journalled: bool = False
    """Whether the call's intent and its result are written to the tool journal."""
    is_step: bool = False
    """Whether it is a step of a workflow, whose own record has all of it."""
    output: ToolOutput | None = None
    updates: tuple[tuple[str, str, object], ...] = ()
    state: ToolState | None = None
    """What the tool read and wrote; None if it used no state, and until it is over."""
    started: float | None = None
    """When its latest execution began, in the loop's time; None if its tool did not run here."""
    ended: float = 0.0
    deadline: float = 0.0
    """When the tool must be over, in the loop's time; if it is late, when it is abandoned."""
    is_late: bool = False
    is_again: bool = False
    """Whether the call was run a second time, on fresh state."""
    _sub_runs: SubRuns | None = None
    _context: Any = msgspec.UNSET

    @property
    def context(self) -> Any:
        """The run's context, decoded when a tool first asks; no other call has the same value.

        Raises:
            InvalidContext: The agent's context type has changed since the run began.
        """
        if self._context is msgspec.UNSET:
            # Loaded by the first tool that asks: most programs have no context.
            from awaken.authoring.run_contexts import decode_context  # noqa: PLC0415

            agent, given = self.run.agent, self.run.record.context
            self._context = decode_context(agent.context, agent.spec.id, given)
        return self._context

    @property
    def deps(self) -> Any:
        """The open dependencies of the runtime; None if it was given none."""
        found = self.run.services.dependencies
        return None if found is None else found.get()

    @property
    def is_cancelled(self) -> bool:
        """Whether the run was cancelled."""
        return self.run.token.cause is not None

    @property
    def sub_runs(self) -> SubRuns:
        """The child runs of the call; numbered per call, so that a second attempt finds them.

        Raises:
            Misuse: The call has its result.
        """
        if self._sub_runs is None:
            if self.run.children is None or self.output is not None:
                message = "The call is over; it can no longer start anything."
                raise Misuse(message)
            self._sub_runs = self.run.children.below(self.run, self.call.id, self.idempotency_key)
        return self._sub_runs

    def emit(self, event: AgentEvent) -> None:
        """Emit a live event of the tool, also from another thread; never after its result."""
        loop = self.run.loop
        if asyncio._get_running_loop() is loop:  # noqa: SLF001 - the public form raises instead
            self._show(event)
        else:
            loop.call_soon_threadsafe(self._show, event)

    def _show(self, event: AgentEvent) -> None:
        if self.output is not None:
            return
        shown = screen_event(self.run, event) if self.run.agent.env.result_screens else event
        if shown is not None:
            self.run.emit(shown)


def prepare_attempt(
    run: Run, call: ToolCall, resume: ToolCallResume | None = None, own: Tool | None = None
) -> ToolExecution:
    """Make an attempt with checked arguments; if a check fails, it already has its error result.

    `own` is a tool that only this call has, such as that of a workflow's question to an agent.
    """
    key = f"{run.identity.run_id}:{run.step.number}:{call.id}"
    attempt = ToolExecution(run, call, resume, key)
    if run.recovery is not None:
        attempt.number = run.recovery.attempts.get(call.id, 0) + 1
    if resume is not None:
        attempt.output = output_from_decision(run, call, resume)
        if attempt.output is not None:
            return attempt
    if own is None and call.name not in run.agent.tools:
        missing = ToolNotFound(f"tool '{call.name}' not found")
        attempt.output = build_error_output(call.name, missing)
        return attempt
    tool = attempt.tool = own or run.agent.tools[call.name]
    attempt.is_journalled = tool.descriptor.effect is not _NO_EFFECT
    try:
        data = _encode_sorted(call.arguments)
        limit = run.services.limits.argument_bytes
        if len(data) > limit:
            problem = f"{len(data)} bytes, the limit is {limit}"
            attempt.output = build_error_output(call.name, InvalidArguments(problem))
            return attempt
        if attempt.is_journalled:
            attempt.arguments_hash = hashlib.blake2b(data, digest_size=16).hexdigest()
        attempt.arguments = tool.validate(call.arguments)
    except ToolError as error:
        attempt.output = build_error_output(call.name, error)
    except BaseException as error:
        if is_interruption(error):
            raise
        shown = make_loggable(error)
        logger.warning("Tool %r failed to validate.", call.name, exc_info=shown)
        attempt.output = build_error_output(call.name, InvalidArguments(str(shown)))
    return attempt


async def check_attempt(attempt: ToolExecution) -> None:
    """Ask the check of an agent's tool about the arguments; refused ones get their error result.

    A check that takes longer than a hook may is a failed one, and the call does not run.
    """
    check = None if attempt.output is not None else check_of(attempt.tool)
    if check is None:
        return
    # Loaded by the first tool that has a check: most programs have none.
    from awaken.authoring.foreign_calls import CallTookTooLong, call_within  # noqa: PLC0415

    try:
        seconds = attempt.run.services.limits.hook_ms / 1000
        await call_within(seconds, check, attempt.arguments)
    except CallTookTooLong as error:
        late = ToolInternalError(f"the check of the arguments gave {error}")
        attempt.output = build_error_output(attempt.call.name, late)
    except ToolError as error:
        attempt.output = build_error_output(attempt.call.name, error)


def intent(attempt: ToolExecution) -> ToolRecord:
    """The journal entry for a call that is about to run."""
    assert attempt.tool is not None
    return ToolRecord(
        run_id=attempt.run.identity.run_id,
        call_id=attempt.call.id,
        step=attempt.run.step.number,
        tool_name=attempt.call.name,
        attempt=attempt.number,
        arguments_hash=attempt.arguments_hash,
        effect=attempt.tool.descriptor.effect,
    )


def build_finish_record(attempt: ToolExecution) -> ToolRecord:
    """The journal entry for a call that is over, with its result."""
    assert attempt.tool is not None
    assert attempt.output is not None
    return ToolRecord(
        run_id=attempt.run.identity.run_id,
        call_id=attempt.call.id,
        step=attempt.run.step.number,
        tool_name=attempt.call.name,
        attempt=attempt.number,
        arguments_hash=attempt.arguments_hash,
        effect=attempt.tool.descriptor.effect,
        status=_FINISHED,
        result=attempt.output.result,
        updates=attempt.updates,
        reads=tuple(sorted(attempt.state.reads)) if attempt.state is not None else (),
    )


async def perform_watched(attempt: ToolExecution, snapshot: Snapshot) -> ToolOutput:
    """Run the tool while the run's instruments watch it."""
    assert attempt.tool is not None
    call, number = attempt.call, attempt.number
    descriptor = _descriptor_for_instruments(attempt.run, attempt.tool)
    with Watches(attempt.run, lambda it: it.watch_tool_call(call, descriptor, number)) as watches:
        output = await perform(attempt, snapshot)
        watches.tell(lambda it: it.on_end(output.result))
        return output


def _descriptor_for_instruments(run: Run, tool: Tool) -> ToolDescriptor:
    """The descriptor for instruments: a client's tool gets a fixed id, as names are unbounded."""
    descriptor = tool.descriptor
    brought = run.request.frontend_tools if isinstance(tool, FrontEndTool) else ()
    if all(it.id != descriptor.id for it in brought):
        return descriptor
    return msgspec.structs.replace(descriptor, id=UNKNOWN_TOOL)


async def perform(attempt: ToolExecution, snapshot: Snapshot) -> ToolOutput:
    """Run the tool on a snapshot; the result or exception of a late tool is ignored."""
    run, call, tool = attempt.run, attempt.call, attempt.tool
    assert tool is not None
    attempt.updates, attempt.state = (), None
    context = context_of(attempt, snapshot)
    try:
        if tool.descriptor.concurrency is None:
            output = await tool.execute(attempt.arguments, context)
        else:
            async with run.services.tool_slots.of(tool):
                # Waiting for the slot does not count towards the tool's time.
                attempt.started = run.loop.time()
                attempt.deadline = attempt.started + timeout_of(attempt) / 1000
                output = await tool.execute(attempt.arguments, context)
        if output.command is not EMPTY_COMMAND:
            attempt.updates = _list_updates(attempt, output.command)
        output = keep_output(run, call.name, output)
    except ToolError as error:
        output = _screen_output(run, build_error_output(call.name, error))
    except asyncio.CancelledError as error:
        if not attempt.is_late and is_interruption(error):
            raise
        output = build_error_output(call.name, ToolError("the tool cancelled itself"))
    except BaseException as error:
        if is_interruption(error):
            raise
        if not isinstance(error, AwakenError):
            logger.warning("Tool %r raised.", call.name, exc_info=make_loggable(error))
        problem = ToolError(describe_error(error))
        output = _screen_output(run, build_error_output(call.name, problem))
    attempt.ended = run.loop.time()
    if context.state.reads or context.state.ops:
        attempt.state = context.state
    if attempt.is_late:
        attempt.updates = ()
        return build_timeout_output(attempt)
    return output


def _screen_output(run: Run, output: ToolOutput) -> ToolOutput:
    result = screen_result(run, output.result)
    return output if result is output.result else ToolOutput(result=result)


def _list_updates(
    attempt: ToolExecution, command: StateCommand
) -> tuple[tuple[str, str, object], ...]:
    """The updates that the journal keeps of a call; a call without effects needs none to survive.

    Raises:
        ToolInternalError: An update has no JSON form, and the call must not be run again.
    """
    try:
        return list_journal_entries(command)
    except ToolInternalError:
        if attempt.is_journalled:
            raise
        # The call can be run again after a crash; only a recording of the run lacks its updates.
        return ()


def list_journal_entries(command: StateCommand) -> tuple[tuple[str, str, object], ...]:
    """The updates of a call as its journal record keeps them.

    Raises:
        ToolInternalError: An update has no JSON form, or one that is read back as another value.
    """
    try:
        updates = tuple(
            (op.key.name, "update", op.key.encode_update(op.update))
            if isinstance(op, Update)
            else (op.key.name, "clear", None)
            for op in command.patch.ops
        )
    except KeyCodecError as error:
        raise ToolInternalError(str(error)) from error
    actions = ((it.key, "schedule", msgspec.to_builtins(it)) for it in command.actions)
    effects = ((it.key, "emit", it.payload) for it in command.effects)
    return (*updates, *actions, *effects)


def timeout_of(attempt: ToolExecution) -> int:
    """How long the tool may take, in milliseconds."""
    assert attempt.tool is not None
    return attempt.tool.descriptor.timeout_ms or attempt.run.services.limits.tool_timeout_ms


def build_timeout_output(attempt: ToolExecution) -> ToolOutput:
    """The output of a call that took too long, whatever its tool returns later."""
    text = f"no result within {timeout_of(attempt)} ms"
    return build_error_output(attempt.call.name, ToolTimeout(text))


def build_error_output(tool_name: str, error: ToolError) -> ToolOutput:
    """Turn an error into the result that the model reads."""
    metadata: dict[str, object] = {"code": error.code}
    if isinstance(error, ToolTimeout):
        metadata["timed_out"] = True
    # Cut after redaction: half a secret would not be found.
    text = replace_surrogates(remove_secrets(str(error))[:ERROR_CHARS])
    return ToolOutput(result=ToolResult.error(tool_name, text, **metadata))


def output_from_decision(run: Run, call: ToolCall, resume: ToolCallResume) -> ToolOutput | None:
    """The output of a call whose decision is its result, else None; no tool is needed for it."""
    ticket = run.tickets.get(call.id)
    if resume.action is DecisionAction.CANCEL:
        if ticket is not None and ticket.runs_on_refusal:
            return None
        message = None if resume.result is not None else resume.reason or DECLINED
        declined = ToolResult.success(call.name, resume.result, message)
        return keep_output(run, call.name, ToolOutput(result=declined))
    if ticket is None or ticket.effective_mode is not ResumeMode.USE_DECISION_AS_TOOL_RESULT:
        return None
    result = ToolResult.from_decision(call.name, ticket.held or resume)
    return keep_output(run, call.name, ToolOutput(result=result))


def context_of(attempt: ToolExecution, snapshot: Snapshot) -> ToolContext:
    """The context that the tool of an attempt gets."""
    run, call = attempt.run, attempt.call
    context = ToolContext(
        run=run.identity,
        agent=run.agent.spec,
        call=call,
        snapshot=snapshot,
        idempotency_key=attempt.shown_key or attempt.idempotency_key,
        channel=attempt,
    )
    context.profile = run.profile
    if run.agent.env.prepared:
        context.prepared = run.agent.env.find_prepared(call.name)
    if attempt.resume is not None:
        ticket = run.tickets.get(call.id)
        context.resume = attempt.resume
        if ticket is not None:
            context.run = msgspec.structs.replace(run.identity, user_id=ticket.user_id)
            # A decision that lets a call pass a gate does not answer the tool's own question.
            is_pass = bool(ticket.asked_by) and ticket.effective_mode is ResumeMode.REPLAY_TOOL_CALL
            context.resume = ticket.held or (None if is_pass else attempt.resume)
            context.suspension_id = ticket.question[2] or None
            context.suspension_reason = ticket.suspension.action or None
    return context


def keep_output(run: Run, tool_name: str, output: ToolOutput) -> ToolOutput:
    """Return the output of foreign code in the form that is stored, shown and sent to the model.

    A result without a JSON form, or with a field that no store could read back, becomes an error.
    """
    result = output.result
    if run.agent.env.result_screens:
        result = screen_result(run, result)
    try:
        encoded = _encode(result)
        # Fields that foreign code wrote; most results have only data and a text.
        kinds = (result.tool_name.__class__, result.status.__class__, result.message.__class__)
        is_odd = result.suspension or result.metadata or result.usage or kinds not in _PLAIN_KINDS
        if is_odd or run.agent.workflow is not None:  # Its code sees the data as a replay has it.
            result = _decode_result(encoded)
        size = len(encoded)
    except (TypeError, ValueError, RecursionError):
        result = _repaired(tool_name, result)
        size = len(_encode(result))
    limit = run.services.limits.tool_output_chars
    if tool_name in run.agent.tools:
        limit = run.agent.tools[tool_name].descriptor.output_limit or limit
    # There are never fewer bytes than characters, so most results need no further check.
    if size > limit:
        if run.agent.workflow is None:
            result = _cut(result, limit)
        else:
            result = _refuse_large(run, tool_name, result, size)
    return output if result is output.result else msgspec.structs.replace(output, result=result)


def shown_text(result: ToolResult) -> str:
    """The text that the model reads: the message, else the data as JSON.

    As JSON a string keeps its quotes, which distinguishes it from a number.
    """
    text = result.message
    if text is None:
        return _json_text(result.data)
    return text if text.isascii() else replace_surrogates(text)


def _repaired(tool_name: str, result: ToolResult) -> ToolResult:
    try:
        return msgspec.convert(to_json_form(result), ToolResult)
    except (ToolInternalError, msgspec.ValidationError) as error:
        is_known = isinstance(error, ToolInternalError)
        problem = error if is_known else ToolInternalError(f"the result is malformed: {error}")
        text = replace_surrogates(remove_secrets(str(problem)))
        return ToolResult.error(tool_name, text, code=ToolInternalError.code)


def _cut(result: ToolResult, limit: int) -> ToolResult:
    data, message = result.data, shown_text(result)
    text = data if isinstance(data, str) else _json_text(data)
    has_message = result.message is not None or len(message) > limit
    return msgspec.structs.replace(
        result,
        data=shorten_text(text, limit) if len(text) > limit else data,
        # A shortened JSON text is no longer JSON: it is sent as plain text, without more quotes.
        message=shorten_text(message, limit) if has_message else None,
    )


def _refuse_large(run: Run, tool_name: str, result: ToolResult, size: int) -> ToolResult:
    """What a workflow reads of its journal is whole: too large is an error, never cut."""
    limit = run.services.limits.step_result_bytes
    if tool_name in run.agent.tools:
        limit = run.agent.tools[tool_name].descriptor.output_limit or limit
    # What is shown of it beside its data does not count, and may be cut.
    if size <= limit:
        return result
    if (size := len(_json_text(result.data).encode())) <= limit:
        message = result.message
        shown = None if message is None else shorten_text(message, limit)
        return msgspec.structs.replace(result, message=shown)
    text = f"{size} bytes, the limit is {limit}"
    return ToolResult.error(tool_name, text, code="step_result_too_large")


def shorten_text(text: str, limit: int) -> str:
    """Return a text of at most so many characters, and what was cut."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[Output cut: {len(text)} characters, {limit} shown]"


def _json_text(data: object) -> str:
    return _encode(data).decode()
