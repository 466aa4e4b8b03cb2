"""Recovery of calls that another process left unsettled, from the tool journal.

A call that was over keeps its result and its updates. A call that was running is run again if its
tool allows that. Otherwise its tool is asked for the outcome; if that is unknown, the model gets
an error result that says so.
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

import msgspec

from awaken.authoring.functions import is_interruption
from awaken.contracts.errors import StateError, UnknownKey
from awaken.contracts.messages.message import ToolCall
from awaken.contracts.state.keys import (
    Clear,
    MutationBatch,
    ScheduledAction,
    Snapshot,
    StateCommand,
    StateKey,
    StateOp,
    TypedEffect,
    Update,
    list_living_keys,
)
from awaken.contracts.storage.store import ToolRecord, ToolRecordStatus
from awaken.contracts.suspension.tickets import Ticket, ToolCallResume
from awaken.contracts.tool_results import ToolResult, ToolStatus
from awaken.contracts.tools.context import ToolState
from awaken.contracts.tools.tool import Reconcilable, Tool, ToolEffect, ToolError, ToolOutput
from awaken.redaction import make_loggable, remove_secrets
from awaken.runtime.progress import Recovery
from awaken.runtime.run import Run

from .execution import (
    ToolExecution,
    build_finish_record,
    context_of,
    keep_output,
    list_journal_entries,
    output_from_decision,
    prepare_attempt,
    shown_text,
    timeout_of,
)

logger = logging.getLogger(__name__)

OUTCOME_UNKNOWN = "outcome_unknown"
_UNKNOWN_TEXT = (
    "the process stopped while this call was running; it may or may not have taken effect. Find "
    "out before it is repeated"
)
_BEFORE_EVERYTHING = Snapshot(0, {})


async def recall(
    run: Run, recovery: Recovery, call: ToolCall, resume: ToolCallResume | None
) -> ToolExecution | None:
    """An attempt from the journal that needs no execution; None when the call must be run."""
    record = recovery.lost.pop(call.id, None)
    if record is None:
        return None
    if resume is not None and output_from_decision(run, call, resume) is not None:
        # The decision is the result, and it is newer than the journal's record.
        return None
    attempt = prepare_attempt(run, call, resume)
    if record.status is ToolRecordStatus.FINISHED:
        return _reuse_finished(run, recovery, attempt, record)
    if record.effect is not ToolEffect.ONCE:
        recovery.count_attempt(record)
        return None
    return await reconcile_lost(run, recovery, attempt, record)


def _reuse_finished(
    run: Run, recovery: Recovery, attempt: ToolExecution, record: ToolRecord
) -> ToolExecution | None:
    result = record.result
    ticket = run.tickets.get(attempt.call.id)
    if result is None or (ticket is not None and _is_answered(result, ticket)):
        recovery.count_attempt(record)
        return None
    attempt.number = record.attempt
    try:
        command = rebuild_command(run, attempt.tool, record.updates)
    except (StateError, msgspec.ValidationError, ToolError) as error:
        if attempt.tool is not None and attempt.tool.descriptor.is_repeatable:
            recovery.count_attempt(record)
            return None
        attempt.output = ToolOutput(result=_without_updates(attempt.call, result, error))
        return attempt
    attempt.output = ToolOutput(result=result, command=command)
    # The call ran on an earlier state: everything that was written since counts as newer.
    state = attempt.state = ToolState(_BEFORE_EVERYTHING)
    state.ops.extend(command.patch.ops)
    state.reads.update(record.reads)
    return attempt


def _is_answered(result: ToolResult, ticket: Ticket) -> bool:
    """Whether the result is a question that has been decided since."""
    asked = result.suspension
    if result.status is not ToolStatus.PENDING or asked is None:
        return False
    # The suspension of the ticket has its own id, which the tool could not know.
    named = msgspec.structs.replace(asked.suspension, id=ticket.suspension.id)
    is_asked = named == ticket.suspension and asked.question[2] == ticket.question[2]
    return is_asked or asked.question in ticket.answered


def rebuild_command(
    run: Run, tool: Tool | None, updates: Iterable[tuple[str, str, Any]]
) -> StateCommand:
    """The state command of a call, rebuilt from what the journal keeps of it.

    Raises:
        UnknownKey: A key that it names cannot be found in this process.
        msgspec.ValidationError: An update does not fit its key.
    """
    ops: list[StateOp] = []
    actions: list[ScheduledAction] = []
    effects: list[TypedEffect] = []
    for name, verb, data in updates:
        if verb == "schedule":
            actions.append(msgspec.convert(data, ScheduledAction))
        elif verb == "emit":
            effects.append(TypedEffect(key=name, payload=data))
        else:
            key = run.state.find_key(name) or _find_undeclared(tool, name)
            ops.append(Clear(key=key) if verb == "clear" else _read_update(key, data))
    return StateCommand(
        patch=MutationBatch(ops=tuple(ops)), actions=tuple(actions), effects=tuple(effects)
    )


def _find_undeclared(tool: Tool | None, name: str) -> StateKey[Any, Any]:
    """The key of a name that no plugin declares: the only living one, or the one its tool sees.

    Raises:
        UnknownKey: There is none, or it is unclear which of several the tool used.
    """
    living = list_living_keys(name)
    if len(living) > 1:
        function = getattr(tool, "__wrapped__", None)
        closure = getattr(function, "__closure__", None) or ()
        seen = (
            *getattr(function, "__globals__", {}).values(),
            *(it.cell_contents for it in closure),
        )
        living = tuple(key for key in living if any(it is key for it in seen))
    if len(living) != 1:
        raise UnknownKey(key=name)
    return living[0]


def _read_update(key: StateKey[Any, Any], data: Any) -> Update:
    return Update(key=key, update=key.decode_update(data))


def _without_updates(call: ToolCall, result: ToolResult, error: Exception) -> ToolResult:
    lost = "The call is over, but its state updates are lost. Its result: "
    problem = f"{remove_secrets(str(error))} {lost}"
    code = error.code if isinstance(error, StateError) else "state_update_failed"
    return ToolResult.error_with_code(call.name, code, problem + shown_text(result))


async def reconcile_lost(
    run: Run, recovery: Recovery, attempt: ToolExecution, record: ToolRecord
) -> ToolExecution | None:
    """Ask the tool for the outcome of a lost call; None if the call never took effect."""
    tool, name = attempt.tool, attempt.call.name
    attempt.number = record.attempt
    unknown = ToolResult.error_with_code(name, OUTCOME_UNKNOWN, _UNKNOWN_TEXT)
    output: ToolOutput | None = ToolOutput(result=unknown)
    if isinstance(tool, Reconcilable) and attempt.output is None:
        context = context_of(attempt, run.state.snapshot())
        attempt.state = context.state
        try:
            async with asyncio.timeout(timeout_of(attempt) / 1000):
                found = await tool.reconcile(attempt.arguments, context)
            if found is not None and attempt.is_journalled:
                attempt.updates = list_journal_entries(found.command)
            output = None if found is None else keep_output(run, name, found)
        except BaseException as error:
            if is_interruption(error):
                raise
            # However it failed, the outcome of the call is still unknown.
            shown = make_loggable(error)
            logger.warning("reconcile() of tool %r failed.", name, exc_info=shown)
            attempt.state, attempt.updates = None, ()
    if output is None:
        recovery.count_attempt(record)
        return None
    attempt.output = output
    if attempt.is_journalled:
        run.journal.tool_records += (build_finish_record(attempt),)
    return attempt
