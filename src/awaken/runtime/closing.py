"""The way out: ending a step, and the one exit path of every run.

Success, stop, block, suspension, cancellation and error all pass through `close_run`: it answers
what is unanswered, writes the outcome in one commit and emits the one terminal event.
"""

import asyncio
import logging
from functools import partial

import msgspec

from awaken.contracts.content import text_of
from awaken.contracts.errors import AwakenError
from awaken.contracts.events import ErrorEvent, RunFinish, StateSnapshot, StepEnd
from awaken.contracts.lifecycle import (
    Cancelled,
    RunStatus,
    Suspended,
    Termination,
    reason_text,
    status_after,
)
from awaken.contracts.loop_state import (
    RUN_LIFECYCLE,
    STOP_STATS,
    CompleteStep,
    End,
    Wait,
)
from awaken.contracts.messages import Message, Role
from awaken.contracts.phases import Phase
from awaken.contracts.plugins import RunEndContext, StepEndContext
from awaken.contracts.runs import Waiting, WaitingReason

from .answer import block_events
from .contexts import phase_context
from .phases.runner import has_work, run_phase
from .run import Run
from .spending.ledgers import close_accounts, counts_time
from .tool_calls.settle import CANCELLED, INTERRUPTED, close_tickets, interrupt

logger = logging.getLogger(__name__)


async def complete_step(run: Run) -> None:
    """End a step; the commit that follows makes it durable, and its `step_end` visible."""
    if has_work(run, Phase.STEP_END):
        # Hooks are foreign code: what the step did is durable before they run.
        await run.flush()
        await run_phase(run, Phase.STEP_END, phase_context(run, StepEndContext))
    _end_step(run)


def _end_step(run: Run) -> None:
    if run.termination is None:
        run.state.update(RUN_LIFECYCLE, CompleteStep())
    run.is_step_open = False
    _keep_stats(run)
    _announce_state(run)
    run.journal.announce(StepEnd())


def _keep_stats(run: Run) -> None:
    if run.agent.stop_rules.conditions or counts_time(run):
        run.state.update(STOP_STATS, run.stats)


async def close_run(run: Run, termination: Termination) -> Termination:
    """End the run, or let it wait, in one commit.

    Raises:
        StorageError: The outcome could not be made durable; an error event was emitted.
    """
    try:
        await run.cancels.carry_through(run.journal.settle)
        _answer_everything(run, termination)
        await _last_phase(run, termination)
        await _close_accounts(run)
        await _write_outcome(run, termination)
    except Exception as error:
        code = error.code if isinstance(error, AwakenError) else "internal_error"
        run.feed.emit(ErrorEvent(message=str(error), code=code))
        raise
    return termination


def _answer_everything(run: Run, termination: Termination) -> None:
    """Leave nothing open: unfinished words, tool calls, tickets, the step, the inbox."""
    if run.streaming is not None:
        _keep_partial(run)
    is_waiting = isinstance(termination, Suspended)
    if not is_waiting:
        close_tickets(run, reason_text(termination))
        interrupt(run, tuple(run.open_calls.values()), _interruption(termination))
    if run.is_step_open:
        _end_step(run)
    if not is_waiting:
        run.take_in_news()
    if leftover := run.inbox.close():
        run.hold(leftover)


def _keep_partial(run: Run) -> None:
    """Keep what the client has seen of a turn that was cut off, in the log and the transcript."""
    if run.streaming is None:
        return
    run.streaming.give_up_calls("the turn was cut off")
    said, _, _ = run.streaming.checkpoint()
    for event in block_events(said):
        run.journal.record(event)
    if text_of(said).strip():
        run.append(
            Message(
                role=Role.ASSISTANT,
                id=run.step_message_id,
                content=said,
                metadata=run.metadata,
            )
        )
    run.streaming = None


def _interruption(termination: Termination) -> str:
    return CANCELLED if isinstance(termination, Cancelled) else INTERRUPTED


async def _last_phase(run: Run, termination: Termination) -> None:
    if isinstance(termination, Suspended):
        # A suspended run goes on later and ends once.
        run.state.update(RUN_LIFECYCLE, Wait(reason=WaitingReason.TOOL_PERMISSION))
        return
    run.state.update(RUN_LIFECYCLE, End(termination=termination))
    if not has_work(run, Phase.RUN_END):
        return
    await run.cancels.carry_through(run.flush)
    try:
        async with asyncio.timeout(run.services.limits.run_end_ms / 1000):
            context = phase_context(run, RunEndContext, termination=termination)
            await run_phase(run, Phase.RUN_END, context)
    except asyncio.CancelledError:
        # Too late to change the outcome; the hooks are cut short.
        run.cancels.absorb()
    except Exception:
        # The outcome is decided; a hook that fails now cannot change it.
        logger.exception("A run_end hook of run '%s' failed.", run.identity.run_id)


async def _close_accounts(run: Run) -> None:
    """Charge the time since the last call; a run that waits goes on counting from here."""
    await run.cancels.carry_through(partial(close_accounts, run))
    run.stats = msgspec.structs.replace(run.stats, active_ms=run.active_ms)
    _keep_stats(run)


async def _write_outcome(run: Run, termination: Termination) -> None:
    status = status_after(termination)
    waiting = None
    result = None
    if status is RunStatus.WAITING:
        tickets = tuple(ticket.ticket_id for ticket in run.tickets.values())
        waiting = Waiting(reason=WaitingReason.TOOL_PERMISSION, ticket_ids=tickets)
    else:
        result = {
            "response": run.response,
            "status": status.value,
            "status_reason": reason_text(termination),
        }
    _announce_state(run)
    run.journal.announce(
        RunFinish(
            thread_id=run.identity.thread_id,
            run_id=run.identity.run_id,
            identity=run.identity,
            result=result,
            termination=termination,
        )
    )
    ended = None if waiting is not None else termination
    await run.cancels.carry_through(
        partial(run.flush_record, status, termination=ended, waiting=waiting),
    )


def _announce_state(run: Run) -> None:
    """Show the exported state, if anybody looks."""
    if run.feed.readers:
        shown = run.state.shown(RUN_LIFECYCLE)
        run.journal.announce(StateSnapshot(snapshot=shown), is_logged=False)
