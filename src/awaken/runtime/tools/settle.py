"""Settling a call: its output becomes state, one transcript message, events, or a ticket.

Calls are settled in call order, in whatever order they finished, so that the same inputs give
the same bytes under any schedule.
"""

import importlib
import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from awaken.authoring.functions import is_interruption
from awaken.contracts.errors import IllegalTransition, StateError
from awaken.contracts.events import ToolCallDone, ToolCallResumed
from awaken.contracts.lifecycle import TicketStatus, ToolCallStatus
from awaken.contracts.messages.content import Text
from awaken.contracts.messages.message import Message, Role, ToolCall
from awaken.contracts.models.budgets import Amount
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.loop_state import TOOL_CALL_STATES, TOOL_REFUSALS
from awaken.contracts.plugins.plugin import AfterToolExecuteContext
from awaken.contracts.state.keys import EMPTY_COMMAND
from awaken.contracts.suspension.tickets import (
    DecisionAction,
    SuspendTicket,
    Ticket,
    ToolCallOutcome,
    ToolCallResume,
    ToolCallState,
    hash_call,
)
from awaken.contracts.tool_results import ToolResult, ToolStatus
from awaken.contracts.tools.tool import ToolOutput
from awaken.redaction import describe_error, make_loggable, remove_secrets
from awaken.runtime.journal.bookmark import PendingAfterHook
from awaken.runtime.outbox import delegate_of
from awaken.runtime.phases.commands import commit_command, dispatch_effects
from awaken.runtime.phases.contexts import tool_phase_context
from awaken.runtime.phases.runner import run_phase
from awaken.runtime.run import Run
from awaken.runtime.spending.ledgers import charge, is_charged

from .delegate_tickets import stop_child
from .execution import ToolExecution, shown_text

logger = logging.getLogger(__name__)

INTERRUPTED = "[Tool execution was interrupted]"
CANCELLED = "[The run was cancelled]"

_STATUS = {
    ToolCallOutcome.SUCCEEDED: ToolCallStatus.SUCCEEDED,
    ToolCallOutcome.FAILED: ToolCallStatus.FAILED,
    ToolCallOutcome.SUSPENDED: ToolCallStatus.SUSPENDED,
}
_GIVEN_UP = (ToolCallStatus.SUSPENDED, ToolCallStatus.CANCELLED)
# Bound once: Python 3.11 reads a member through its class slowly.
_TOOL, _SUCCEEDED, _FAILED = Role.TOOL, ToolCallOutcome.SUCCEEDED, ToolCallOutcome.FAILED
_PENDING, _ERROR = ToolStatus.PENDING, ToolStatus.ERROR


async def settle(
    run: Run,
    call: ToolCall,
    output: ToolOutput,
    resume: ToolCallResume | None = None,
    attempt: ToolExecution | None = None,
    *,
    is_gated: bool = False,
) -> None:
    """Apply the output of a call, or a gate's answer, and run the hooks that follow it."""
    ticket = run.tickets.get(call.id) if resume is not None else None
    is_plain = output.command is EMPTY_COMMAND
    result = output.result if is_plain else apply_updates(run, call, output)
    write_result(run, call, result, resume, attempt, is_gated=is_gated)
    if output.command.effects and result is output.result:
        # Effects act outside the run: the command that requested them is durable before they run.
        await run.flush()
        await dispatch_effects(run, output.command)
    if result.status is ToolStatus.PENDING or not run.has_work(Phase.AFTER_TOOL_EXECUTE):
        return
    # Hooks are foreign code: the tool's result is durable before they run.
    question = None if ticket is None else ticket.question
    run.step.pending_after_hook = PendingAfterHook(
        call=call, result=result, resume=resume, question=question
    )
    await run.flush()
    await run_hooks_after(run, run.step.pending_after_hook)


async def run_hooks_after(run: Run, pending: PendingAfterHook) -> None:
    """Run the hooks that follow a call whose result is durable."""
    context = tool_phase_context(
        run,
        AfterToolExecuteContext,
        pending.call,
        pending.resume,
        pending.question,
        result=pending.result,
    )
    await run_phase(run, Phase.AFTER_TOOL_EXECUTE, context)


def apply_updates(run: Run, call: ToolCall, output: ToolOutput) -> ToolResult:
    """Apply a call's state command atomically; a refused command becomes an error result."""
    command = output.command
    if command.is_empty:
        return output.result
    try:
        run.state.declare(op.key for op in command.patch.ops)
        commit_command(run, command)
    except (StateError, IllegalTransition) as error:
        return ToolResult.error_with_code(call.name, error.code, remove_secrets(str(error)))
    except BaseException as error:
        if is_interruption(error):
            raise
        shown = make_loggable(error)
        logger.warning("The state updates of call %r failed.", call.id, exc_info=shown)
        problem = describe_error(error)
        return ToolResult.error_with_code(call.name, "state_update_failed", problem)
    return output.result


def write_result(
    run: Run,
    call: ToolCall,
    result: ToolResult,
    resume: ToolCallResume | None = None,
    attempt: ToolExecution | None = None,
    *,
    is_gated: bool = False,
) -> None:
    """Write a result: a message that answers the call, or a ticket if the call is suspended."""
    started_at, duration_ms, attempts = None, 0, 1
    if attempt is not None:
        attempts = attempt.number
        if attempt.started is not None and run.loop_zero_ms is not None:
            started_at = run.loop_zero_ms + int(attempt.started * 1000)
            duration_ms = int((attempt.ended - attempt.started) * 1000)
    if result.status is _PENDING:
        wanted = result.suspension or SuspendTicket()
        event = build_ticket_event(result, open_ticket(run, call, wanted, is_gated=is_gated))
        run.journal.announce(
            msgspec.structs.replace(
                event, started_at=started_at, duration_ms=duration_ms, attempts=attempts
            )
        )
        return
    outcome = _FAILED if result.status is _ERROR else _SUCCEEDED
    if outcome is _FAILED:
        _count_failure(run, attempt, result)
    elif TOOL_REFUSALS.name in run.state.values:
        _refusals().forget_refusals(run, call.name)
    if result.usage is not None:
        _add_usage(run, result.usage)
    ticket = run.tickets.pop(call.id, None) if run.tickets else None
    if ticket is not None:
        let_delegate_go(run, ticket)
    message_id = run.services.ids.new_id()
    run.append(
        Message(
            role=_TOOL,
            id=message_id,
            content=(Text(text=shown_text(result)),),
            tool_call_id=call.id,
            metadata=run.step.metadata,
        )
    )
    if run.agent.env.has_behaviour:
        put_states(run, (call,), _end_status(run, call, outcome))
    done: ToolCallDone | ToolCallResumed
    if resume is None:
        done = ToolCallDone(
            id=call.id,
            message_id=message_id,
            result=result,
            outcome=outcome,
            started_at=started_at,
            duration_ms=duration_ms,
            attempts=attempts,
        )
    else:
        done = msgspec.structs.replace(
            _build_resumed(call, message_id, result, resume, ticket),
            started_at=started_at,
            duration_ms=duration_ms,
            attempts=attempts,
        )
    run.journal.events.append(done)
    run.journal.announced = [*run.journal.announced, done]


def _build_resumed(
    call: ToolCall,
    message_id: str,
    result: ToolResult,
    resume: ToolCallResume,
    ticket: Ticket | None,
) -> ToolCallResumed:
    is_declined = resume.action is DecisionAction.CANCEL
    return ToolCallResumed(
        target_id=call.id,
        message_id=message_id,
        result=_payload_of_resume(result),
        is_declined=is_declined,
        is_failed=result.status is _ERROR and not is_declined,
        ticket_id=None if ticket is None else ticket.ticket_id,
    )


def _count_failure(run: Run, attempt: ToolExecution | None, result: ToolResult) -> None:
    run.step.failures += 1
    tool = None if attempt is None else attempt.tool
    if tool is not None and tool.descriptor.retries is not None:
        _refusals().count_refusal(run, tool.descriptor, result)


def _refusals() -> Any:
    """The module that is loaded by the first tool with a limit: most programs have none."""
    return importlib.import_module("awaken.runtime.tools.refusals")


def let_delegate_go(run: Run, ticket: Ticket) -> None:
    """Order the cancellation of a delegate that the call no longer waits for."""
    child_run_id = delegate_of(ticket)
    if child_run_id is not None:
        run.order(stop_child(run.identity, child_run_id))


def _add_usage(run: Run, usage: TokenUsage) -> None:
    """Add the usage of a delegate; it is written with the result, so it is counted once."""
    run.usage = run.usage.plus(usage)
    if run.has_budgets and is_charged(run):
        charge(run, Amount.of(usage))


def _end_status(run: Run, call: ToolCall, outcome: ToolCallOutcome) -> ToolCallStatus:
    """The status of an answered call; one that is answered without a resume was given up."""
    known = run.state.get(TOOL_CALL_STATES).get(call.id)
    if known is not None and known.status in _GIVEN_UP:
        return ToolCallStatus.CANCELLED
    return _STATUS[outcome]


def interrupt(run: Run, calls: tuple[ToolCall, ...], text: str = INTERRUPTED) -> None:
    """Answer calls that will not run, so that each still has exactly one result."""
    for call in calls:
        write_result(run, call, ToolResult.error(call.name, text, code="interrupted"))


def close_tickets(run: Run, because: str) -> None:
    """Close the run's open tickets; they can no longer be decided."""
    now = run.services.clock.now_ms()
    for ticket in run.tickets.values():
        let_delegate_go(run, ticket)
        if ticket.status is TicketStatus.OPEN:
            run.journal.tickets[ticket.ticket_id] = msgspec.structs.replace(
                ticket, status=TicketStatus.CLOSED, closed_because=because, updated_at=now
            )
    run.tickets.clear()


def put_states(run: Run, calls: Sequence[ToolCall], status: ToolCallStatus) -> None:
    """Write the status of calls to the state, for plugins that act on runs."""
    now = run.services.clock.now_ms()
    states = [
        ToolCallState(
            call_id=call.id,
            tool_name=call.name,
            arguments=call.arguments,
            status=status,
            updated_at=now,
        )
        for call in calls
    ]
    run.state.update(TOOL_CALL_STATES, tuple(states))


def build_ticket_event(result: ToolResult, ticket: Ticket) -> ToolCallDone:
    """The event of a call that waits for a ticket, with the ticket's id for the client."""
    asked = msgspec.structs.replace(
        result.suspension or SuspendTicket(), suspension=ticket.suspension, asks=ticket.asks
    )
    return ToolCallDone(
        id=ticket.call_id,
        result=msgspec.structs.replace(result, suspension=asked),
        outcome=ToolCallOutcome.SUSPENDED,
        ticket_id=ticket.ticket_id,
    )


def open_ticket(
    run: Run, call: ToolCall, wanted: SuspendTicket, *, is_gated: bool = False
) -> Ticket:
    """Open the ticket of a call that waits for a decision, under an id that cannot be guessed."""
    now = run.services.clock.now_ms()
    before = run.tickets.get(call.id)
    held, mode = None, wanted.resume_mode
    if before is not None and is_gated:
        # The gate asks before the tool has received the decision: it receives it afterwards.
        held, mode = before.held or before.decision, before.effective_mode
    ticket_id = run.services.ids.new_id()
    ticket = Ticket(
        ticket_id=ticket_id,
        thread_id=run.identity.thread_id,
        run_id=run.identity.run_id,
        call_id=call.id,
        tool_name=call.name,
        arguments=call.arguments,
        resume_mode=mode,
        suspension=msgspec.structs.replace(wanted.suspension, id=ticket_id),
        asks=wanted.question_kind,
        topic=wanted.suspension.id,
        arguments_hash=hash_call(call.name, call.arguments),
        hears_refusal=wanted.hears_refusal,
        user_id=run.identity.user_id if before is None else before.user_id,
        expires_at=None if wanted.expires_at is None else int(wanted.expires_at),
        on_expiry=wanted.on_expiry,
        deciders=wanted.deciders,
        asked_by=wanted.asked_by,
        answered=(*before.answered, before.question) if before is not None else (),
        held=held,
        created_at=now,
        updated_at=now,
    )
    run.tickets[call.id] = ticket
    run.journal.tickets[ticket.ticket_id] = ticket
    run.state.update(TOOL_CALL_STATES, (ToolCallState.of(ticket),))
    return ticket


def _payload_of_resume(result: ToolResult) -> object:
    if result.status is ToolStatus.ERROR:
        return {"error": result.message} if result.message is not None else result.data
    if result.metadata:
        return {"data": result.data, "metadata": result.metadata}
    # The message in place of data, such as that the call was declined.
    return result.message if result.data is None else result.data
