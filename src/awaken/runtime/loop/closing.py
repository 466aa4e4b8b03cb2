"""Ending a step, and the one exit path of every run.

Success, stop, block, suspension, cancellation and error all pass through `close_run`: it closes
open calls and tickets, writes the outcome in one commit and emits the one terminal event.
"""

import asyncio
import logging
from functools import partial

import msgspec

from awaken.authoring.functions import is_interruption
from awaken.contracts.backend_results import backend_status
from awaken.contracts.errors import AwakenError
from awaken.contracts.events import ErrorEvent, RunFinish, StateSnapshot, StepEnd
from awaken.contracts.lifecycle import (
    Cancelled,
    Failed,
    NaturalEnd,
    RunStatus,
    Suspended,
    Termination,
    reason_text,
)
from awaken.contracts.messages.content import text_of
from awaken.contracts.messages.message import Message, Role
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.loop_state import (
    BACKEND_OUTPUT,
    PENDING_WORK,
    RUN_LIFECYCLE,
    STOP_STATS,
    CompleteStep,
    RunLifecycle,
    Wait,
)
from awaken.contracts.plugins.plugin import RunEndContext, StepEndContext
from awaken.contracts.runs.records import Waiting, WaitingReason
from awaken.contracts.storage.store import CancelWanted, OutboxEntry
from awaken.contracts.tasks import BACKGROUND_TASKS
from awaken.runtime.journal.bookmark import RemoteEnd
from awaken.runtime.journal.run_log import log_failure
from awaken.runtime.journal.streams import block_events
from awaken.runtime.outbox import (
    list_commands_at_end,
    list_commands_at_rest,
    list_successors,
)
from awaken.runtime.phases.contexts import phase_context
from awaken.runtime.phases.runner import run_phase
from awaken.runtime.run import Run
from awaken.runtime.spending.ledgers import close_accounts, counts_time
from awaken.runtime.tools.settle import CANCELLED, INTERRUPTED, close_tickets, interrupt

from .step import tasks_to_wait_for
from .task_waits import see_tasks_end

logger = logging.getLogger(__name__)

AWAITING_TASKS = "awaiting_tasks"
# Bound once: Python 3.11 reads a member through its class slowly.
_DONE = RunStatus.DONE
_DONE_TEXT, _WAITING_TEXT = RunStatus.DONE.value, RunStatus.WAITING.value


async def run_step_end(run: Run) -> None:
    """Run the last phase of a step; its hooks see the step among the completed ones."""
    count_completed(run)
    # Hooks are foreign code: what the step did is durable before they run.
    await run.flush()
    await run_phase(run, Phase.STEP_END, phase_context(run, StepEndContext))


def end_step(run: Run) -> None:
    """End a step; the commit that follows makes it durable, and its `step_end` visible."""
    count_completed(run)
    run.step.is_open = False
    if run.agent.stop_rules.conditions or run.has_budgets:
        _keep_stats(run)
    if run.feed.readers:
        _announce_state(run)
    run.journal.announce(StepEnd())


def count_completed(run: Run) -> None:
    """Count the step once; a run that has ended counts no more steps."""
    lifecycle: RunLifecycle = run.state.values[RUN_LIFECYCLE.name]
    if lifecycle.status is not _DONE and lifecycle.step_count < run.step.number:
        run.state.update(RUN_LIFECYCLE, CompleteStep())


def _keep_stats(run: Run) -> None:
    """Keep the counters that stop conditions check, and the executing time that budgets limit."""
    if run.agent.stop_rules.conditions or counts_time(run):
        run.state.update(STOP_STATS, run.stats)


async def close_run(run: Run, termination: Termination) -> Termination:
    """End the run, or let it wait, in one commit.

    Raises:
        StorageError: The outcome could not be made durable; an error event was emitted.
    """
    try:
        if run.journal.in_flight is not None:
            await run.cancels.carry_through(run.journal.settle)
        waiting = None
        if type(termination) is Suspended or (
            type(termination) is NaturalEnd and may_have_work(run)
        ):
            waiting = await _find_wait(run, termination)
        if waiting is not None and not waiting.is_for_own_tasks:
            termination = Suspended()
        _answer_everything(run, termination, is_waiting=waiting is not None)
        if type(termination) is Cancelled:
            await _await_tasks(run)
        if waiting is not None:
            # A run that waits resumes later, and its end phase runs only once.
            run.state.update(RUN_LIFECYCLE, Wait(reason=waiting.reason))
        else:
            run.end(termination)
            if run.has_phases and run.has_work(Phase.RUN_END):
                await _run_last_phase(run, termination)
            if run.agent.env.after_runs:
                await _queue_follow_up(run, termination)
        # Charge the time since the last call; a run that waits continues counting from here.
        if run.has_budgets:
            await run.cancels.carry_through(partial(close_accounts, run))
        if run.agent.stop_rules.conditions or run.has_budgets:
            run.stats = msgspec.structs.replace(run.stats, active_ms=run.active_ms)
            _keep_stats(run)
        try:
            await _write_outcome(run, termination, waiting)
        except CancelWanted as wanted:
            # Another process acknowledged a cancel request that this process has not seen yet.
            termination = Cancelled(cause=wanted.cause)
            if run.successors:
                # Nothing comes after a run that is cancelled.
                run.successors = ()
                run.record = msgspec.structs.replace(run.record, continued_as=None)
            await _write_outcome(run, termination, None)
        if type(termination) is Failed:
            log_failure(run.record, termination)
        if run.waiting is not None or run.successors:
            tell_deadlines(run)
    except Exception as error:
        code = error.code if isinstance(error, AwakenError) else "internal_error"
        run.feed.emit(ErrorEvent(message=str(error), code=code))
        raise
    return termination


def tell_deadlines(run: Run) -> None:
    """Tell the sweeper of this process when the next of the run's tickets is due."""
    due = [
        ticket.expires_at
        for ticket in run.tickets.values()
        if ticket.expires_at is not None and ticket.decision is None
    ]
    if run.successors:
        # A worker executes it; in memory none may have started yet.
        due.append(run.services.clock.now_ms())
    if due:
        run.services.deadlines.watch(min(due))


def may_have_work(run: Run) -> bool:
    """Whether a run that has answered may have pending tasks or other pending work."""
    values = run.state.values
    has_tasks = BACKGROUND_TASKS.name in values and bool(values[BACKGROUND_TASKS.name])
    return has_tasks or PENDING_WORK.name in values


async def _find_wait(run: Run, termination: Termination) -> Waiting | None:
    """Return what a run that suspends or has pending work waits for, or None when it ends."""
    if type(termination) is Suspended:
        told = run.waiting if run.remote_end is None else run.remote_end.waiting
        if told is not None:
            return told
        if run.is_paused:
            reason = WaitingReason.MANUAL_PAUSE
            since = run.identity.dispatch_id
            return Waiting(reason=reason, message=reason.value, since_dispatch_id=since)
        tickets = tuple(ticket.ticket_id for ticket in run.tickets.values())
        return Waiting(
            reason=WaitingReason.TOOL_PERMISSION,
            ticket_ids=tickets,
            since_dispatch_id=run.identity.dispatch_id,
        )
    since, reason = run.identity.dispatch_id, WaitingReason.BACKGROUND_TASKS
    if await tasks_to_wait_for(run):
        return Waiting(reason=reason, since_dispatch_id=since)
    if run.state.get(PENDING_WORK).has_pending:
        # Only a message can resume this run, so readers of its events may stop reading.
        return Waiting(reason=reason, message=AWAITING_TASKS, since_dispatch_id=since)
    return None


async def _await_tasks(run: Run) -> None:
    """Wait for the tasks that a cancelled run has to await, at most for `run_end_ms`."""
    try:
        await see_tasks_end(run, run.services.limits.run_end_ms / 1000)
    except asyncio.CancelledError:
        # A second cancellation ends the wait.
        run.cancels.absorb()


def _answer_everything(run: Run, termination: Termination, *, is_waiting: bool) -> None:
    """Close everything that is open: a partial answer, tool calls, tickets, step, inbox."""
    if run.streaming is not None:
        _keep_partial(run)
    if not is_waiting:
        if run.tickets:
            close_tickets(run, reason_text(termination))
        if run.open_calls:
            text = CANCELLED if type(termination) is Cancelled else INTERRUPTED
            interrupt(run, tuple(run.open_calls.values()), text)
    if run.step.is_open:
        if run.agent.spec.endpoint is not None:
            # The remote backend has not reported any steps.
            run.step.number -= 1
        end_step(run)
    if not is_waiting:
        run.drain_inbox()
    if leftover := run.inbox.close():
        run.hold(leftover)


def _keep_partial(run: Run) -> None:
    """Keep what readers have seen of an interrupted turn, in the log and the transcript."""
    if run.streaming is None:
        return
    run.streaming.give_up_calls("the turn was cut off")
    content, _, _ = run.streaming.checkpoint()
    for event in block_events(content):
        run.journal.events.append(event)
    if text_of(content).strip():
        run.append(
            Message(
                role=Role.ASSISTANT,
                id=run.step.message_id,
                content=content,
                metadata=run.step.metadata,
            )
        )
    run.streaming = None


async def _run_last_phase(run: Run, termination: Termination) -> None:
    """Run the hooks of the run's end; they cannot change the outcome."""
    await run.cancels.carry_through(run.flush)
    try:
        async with asyncio.timeout(run.services.limits.run_end_ms / 1000):
            context = phase_context(run, RunEndContext, termination=termination)
            await run_phase(run, Phase.RUN_END, context)
    except asyncio.CancelledError:
        # Too late to change the outcome; only the hooks are interrupted.
        run.cancels.absorb()
    except BaseException as error:
        if is_interruption(error):
            raise
        # The outcome is decided; a hook that fails now cannot change it.
        logger.exception("A run_end hook of run '%s' failed.", run.identity.run_id)


async def _queue_follow_up(run: Run, termination: Termination) -> None:
    # Loaded by the first run that may have one: most programs have none.
    from .follow_ups import queue_follow_up  # noqa: PLC0415

    await run.cancels.carry_through(partial(queue_follow_up, run, termination))


async def _write_outcome(run: Run, termination: Termination, waiting: Waiting | None) -> None:
    """Write the one commit that contains the run's last event."""
    identity = run.identity
    result: dict[str, object] = {
        "response": run.response,
        "status": _DONE_TEXT if waiting is None else _WAITING_TEXT,
        "status_reason": reason_text(termination) if waiting is None else _reason(waiting),
    }
    if run.agent.spec.endpoint is not None:
        result |= _remote_result(run, termination)
    if run.feed.readers:
        _announce_state(run)
    finish = RunFinish(
        thread_id=identity.thread_id,
        run_id=identity.run_id,
        identity=identity,
        result=result,
        termination=termination,
        awaits_tasks=waiting is not None and waiting.is_for_own_tasks,
    )
    ended = None if waiting is not None else termination
    orders, enqueued = _follow_ups(run, ended), run.successors
    if enqueued:
        enqueued, elsewhere = list_successors(enqueued, identity.thread_id)
        orders = (*orders, *elsewhere)
    await run.cancels.carry_through(
        partial(run.flush_last, finish, ended, waiting, orders, enqueued)
    )


def _reason(waiting: Waiting) -> str:
    if waiting.reason is WaitingReason.BACKGROUND_TASKS:
        return AWAITING_TASKS
    return waiting.message or reason_text(Suspended())


def _remote_result(run: Run, termination: Termination) -> dict[str, object]:
    """Return how a remote run ended: as its backend reports, unless it was stopped here."""
    end, output = run.remote_end, None
    if end is None or end.termination != termination:
        status, _ = backend_status(termination)
        reason = reason_text(termination)
        end = run.remote_end = RemoteEnd(status=status, reason=reason, termination=termination)
    else:
        output = run.state.get(BACKEND_OUTPUT)
    shown: dict[str, object] = {
        "status": end.status.label(termination),
        "status_reason": end.reason,
    }
    if output is None or output.is_empty:
        return shown
    return {**shown, "output": msgspec.to_builtins(output)}


def _follow_ups(run: Run, ended: Termination | None) -> tuple[OutboxEntry, ...]:
    """Return the outbox commands that follow from the end or the suspension of this run."""
    if ended is None:
        return tuple(list_commands_at_rest(run.record, run.tickets.values()))
    values = run.state.values
    has_tasks = BACKGROUND_TASKS.name in values and bool(values[BACKGROUND_TASKS.name])
    may_have_children = run.has_children or run.recovery is not None or has_tasks
    if not (may_have_children or run.record.parent_run_id):
        # Most runs: no other run waits for their end.
        return ()
    last = msgspec.structs.replace(
        run.record, termination=ended, final_output=run.response or None, usage=run.usage
    )
    return tuple(list_commands_at_end(last, may_have_children=may_have_children))


def _announce_state(run: Run) -> None:
    """Show the exported state to the readers."""
    shown = run.state.export_values(RUN_LIFECYCLE)
    run.journal.announce(StateSnapshot(snapshot=shown), is_logged=False)
