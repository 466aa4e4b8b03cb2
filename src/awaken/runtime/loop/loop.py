"""The agent loop: one run from its first event to its last.

Reads top-down: `drive_run` drives a run, `step.take_step` takes one step, `closing.close_run` is
the only exit. No storage, provider or protocol is named here.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from awaken.authoring.functions import is_interruption
from awaken.contracts.backend_results import BackendRunOutput, BackendRunResult, backend_status
from awaken.contracts.errors import AwakenError, StoreUnavailable, ThreadClaimed
from awaken.contracts.events import ErrorEvent
from awaken.contracts.lifecycle import (
    Cancelled,
    Failed,
    NaturalEnd,
    Stopped,
    Suspended,
    Termination,
)
from awaken.contracts.models.budgets import BudgetExceeded
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.instruments import Instrument
from awaken.contracts.plugins.loop_state import ACTIVE_AGENT
from awaken.redaction import describe_error, make_loggable, remove_secrets
from awaken.runtime.journal.outcomes import CONTINUE, Continue, Finish, StepOutcome, SuspendRun
from awaken.runtime.phases.instruments import Watches
from awaken.runtime.run import Run
from awaken.runtime.stop_conditions import count_step
from awaken.runtime.suspension.resume import has_decided, replay
from awaken.runtime.switches import NO_SWITCHES
from awaken.runtime.tools.settle import run_hooks_after

from .closing import close_run, end_step, may_have_work, run_step_end
from .opening import open_run, switch_agent
from .queued_input import absorb_decisions, absorb_messages
from .step import find_stop_reason, finish_step, take_step
from .task_waits import first_outcome, stop_if_paused, wait_for_updates, waits_in_process

logger = logging.getLogger(__name__)
Body = Callable[[Run], Awaitable[Termination]]


def drive_run(run: Run, body: Body | None = None) -> Coroutine[Any, Any, BackendRunResult]:
    """Drive a run until it ends or waits, observed by its instruments.

    Exactly one terminal event is emitted in any case.

    Raises:
        StorageError: The outcome could not be made durable; an error event was emitted.
        LeaseLost: Another process has the thread; nothing was written since.
        RunHandedOver: This process stops; another one continues the run.
        ThreadClaimed: Another process has the thread; nothing was written.
        StoreUnavailable: The store was unavailable; another process can continue the run.
    """
    if run.services.instruments or run.agent.env.instruments:
        run.instruments = _make_instruments(run)
    if run.instruments:
        return _watch_to_end(run, body or _take_steps)
    return _run_to_end(run, body or _take_steps)


async def _watch_to_end(run: Run, body: Body) -> BackendRunResult:
    with Watches(run, lambda it: it.watch_run(is_continued=run.is_continued)) as watches:
        ended = await _run_to_end(run, body)
        watches.tell(lambda it: it.on_end(ended.termination, run.usage))
        return ended


def _build_result(run: Run, termination: Termination) -> BackendRunResult:
    is_natural = type(termination) is NaturalEnd
    status, message = _COMPLETED if is_natural else backend_status(termination)
    identity = run.identity
    return BackendRunResult(
        agent_id=identity.active_agent_id or identity.agent_id,
        run_id=identity.run_id,
        thread_id=identity.thread_id,
        status=status,
        termination=termination,
        message=message,
        response=run.response,
        output=BackendRunOutput(text=run.response or None),
        steps=run.record.steps,
        usage=run.usage,
        tickets=tuple(run.tickets.values()) if type(termination) is Suspended else (),
    )


_COMPLETED = backend_status(NaturalEnd())


async def _run_to_end(run: Run, body: Body) -> BackendRunResult:
    try:
        await open_run(run)
        termination = await body(run)
    except asyncio.CancelledError:
        if run.cancels.absorb():
            termination = Cancelled(cause=run.cancel_cause)
        else:
            # The run was not cancelled: foreign code raised the error by itself.
            message = "a provider or a plugin cancelled itself"
            termination = _end_failed(run, message, "internal_error")
    except BudgetExceeded as error:
        termination = Stopped(reason=error.reason)
    except AwakenError as error:
        if isinstance(error, StoreUnavailable) and run.is_recoverable:
            # When the store is available again, the next worker continues from the last commit: to
            # fail here would close the tickets whose decisions were acknowledged.
            run.journal.close(error)
        termination = _end_failed(run, remove_secrets(str(error)), error.code)
    except BaseException as error:
        if is_interruption(error):
            raise
        logger.error("A run raised an unexpected error.", exc_info=make_loggable(error))
        termination = _end_failed(run, describe_error(error), "internal_error")
    if (reason := run.journal.closed_by) is not None:
        if not isinstance(reason, ThreadClaimed):
            run.feed.emit(ErrorEvent(message=str(reason), code=reason.code))
        raise reason
    run.token.seal()
    if run.cancels.has_pending and await run.cancels.absorb_pending():
        termination = Cancelled(cause=run.cancel_cause)
    return _build_result(run, await close_run(run, termination))


def _end_failed(run: Run, message: str, code: str) -> Termination:
    """Return how a run ends that raised an error: as cancelled, if a cancel was acknowledged."""
    cause = run.token.cause
    return Failed(message=message, code=code) if cause is None else Cancelled(cause=cause)


async def _take_steps(run: Run) -> Termination:
    outcome: StepOutcome = CONTINUE
    if run.recovery is not None:
        outcome = await _finish_recovered(run)
    elif run.tickets or run.is_continued:
        outcome = first_outcome(run)
    # A plugin's decision is final: a run that a plugin ended takes no step and does not wait.
    while (ending := run.find_due_end()) is None:
        match outcome:
            case Continue():
                stop = await _begin_next_step(run)
                outcome = stop or await _end_step(run, await take_step(run))
            case SuspendRun():
                # A decision may have arrived while other calls of the step were still running.
                while run.has_input:
                    await absorb_decisions(run)
                if not has_decided(run):
                    return Suspended()
                outcome = await _resume_calls(run)
            case Finish(termination=NaturalEnd() as termination) if may_have_work(run):
                if not (waits_in_process(run) and await wait_for_updates(run)):
                    return run.find_due_end() or termination
                outcome = CONTINUE
            case Finish(termination=termination):
                return termination
    return ending


async def _finish_recovered(run: Run) -> StepOutcome:
    """Do the rest of the step in which another process stopped."""
    if run.step.pending_after_hook is not None:
        await run_hooks_after(run, run.step.pending_after_hook)
    if run.step.is_open:
        return await _end_step(run, await finish_step(run))
    return first_outcome(run) if run.step.ending is None else Finish(termination=run.step.ending)


async def _resume_calls(run: Run) -> StepOutcome:
    """Resume decided calls; their results are durable before the model reads them."""
    outcome = await replay(run)
    if isinstance(outcome, Continue):
        run.drain_inbox()
        if run.has_input:
            await absorb_messages(run)
        await run.flush_record()
    return outcome


async def _begin_next_step(run: Run) -> Finish | None:
    """Take in what has arrived and begin a step; return how the run ends if it may take none."""
    if (reason := find_stop_reason(run)) is not None:
        return Finish(termination=Stopped(reason=reason))
    if ACTIVE_AGENT.name in run.state.values and (problem := await switch_agent(run)) is not None:
        return Finish(termination=problem)
    is_switched = run.services.switches.current is not NO_SWITCHES
    if is_switched and (paused := await stop_if_paused(run)) is not None:
        return paused
    run.drain_inbox()
    if run.has_input:
        await absorb_messages(run)
        if run.journal.absorbed:
            # Durable before the model reads it: until then its sender may withdraw it.
            await run.flush()
    run.begin_step()
    return None


async def _end_step(run: Run, outcome: StepOutcome) -> StepOutcome:
    """End the step and take in the messages that arrived meanwhile."""
    step = run.step
    step.is_over = True
    ending = step.ending = outcome.termination if type(outcome) is Finish else None
    has_rules, stats = bool(run.agent.stop_rules.conditions), run.stats
    run.stats = count_step(
        stats,
        step.calls if has_rules else (),
        is_failed=bool(step.calls) and step.failures >= len(step.calls),
        active_ms=run.active_ms if has_rules or run.has_budgets else stats.active_ms,
    )
    if run.has_phases and run.has_work(Phase.STEP_END):
        await run_step_end(run)
    end_step(run)
    if outcome is CONTINUE or type(ending) is NaturalEnd:
        # New input continues a run that would have ended by itself.
        is_asked = run.drain_inbox()
        if run.has_input:
            is_asked = await absorb_messages(run) or is_asked
        if is_asked:
            outcome = CONTINUE
    if outcome is CONTINUE:
        # An end or a suspension has a commit of its own, which includes the step.
        step.ending = None
        await run.flush_record()
    return outcome


def _make_instruments(run: Run) -> tuple[Instrument, ...]:
    made = []
    makers = [*run.services.instruments, *(maker for _, maker in run.agent.env.instruments)]
    for maker in makers:
        try:
            instrument = maker(run.identity, run.agent.spec)
        except BaseException as error:
            if is_interruption(error):
                raise
            logger.exception("An instrument could not be created.")
            continue
        if instrument is not None:
            made.append(instrument)
    return tuple(made)
