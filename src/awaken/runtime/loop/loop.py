"""The agent loop: one run from its first event to its last.

Reads top-down: `run_loop` is the story, `step.take_step` is one chapter, `closing.close_run` is
the only way out. No storage, provider or protocol is named here.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from awaken.contracts.errors import AwakenError, StoreUnavailable, ThreadClaimed
from awaken.contracts.events import ErrorEvent
from awaken.contracts.lifecycle import Cancelled, Failed, RunStatus, Stopped, Suspended, Termination
from awaken.contracts.models.budgets import BudgetExceeded
from awaken.redaction import describe_error, loggable_error, without_secrets
from awaken.runtime.journal.outcomes import (
    CONTINUE,
    Continue,
    Finish,
    StepOutcome,
    SuspendRun,
    may_go_on,
)
from awaken.runtime.run import Run
from awaken.runtime.suspension.resume import has_decided, replay
from awaken.runtime.tools.settle import run_hooks_after

from .closing import close_run, complete_step
from .opening import open_run, switch_agent
from .queued_input import absorb_decisions, absorb_messages
from .step import finish_step, take_step
from .stop_checks import count_step, stop_reason
from .task_waits import first_outcome, hears_news

logger = logging.getLogger(__name__)
Body = Callable[[Run], Awaitable[Termination]]


async def run_loop(run: Run, body: Body | None = None) -> Termination:
    """Drive a run until it ends or waits; exactly one terminal event is emitted in any case.

    Raises:
        StorageError: The end of the run could not be made durable.
        LeaseLost, ThreadClaimed: Somebody else has the thread; nothing more was written.
        RunHandedOver: The run stops here to be continued elsewhere.
        StoreUnavailable: The store was away; a run that was delivered can be delivered again.
    """
    termination = await _drive(run, body or _steps)
    if (reason := run.stopped_by) is not None:
        if not isinstance(reason, ThreadClaimed):
            run.feed.emit(ErrorEvent(message=str(reason), code=reason.code))
        raise reason
    run.token.seal()
    if await run.cancels.absorb_pending():
        termination = Cancelled(cause=run.cancel_cause)
    return await close_run(run, termination)


async def _drive(run: Run, body: Body) -> Termination:
    try:
        await open_run(run)
        return await body(run)
    except asyncio.CancelledError:
        if run.cancels.absorb():
            return Cancelled(cause=run.cancel_cause)
        # Nobody cancelled the run: foreign code raised this by itself.
        return Failed(message="a provider or a plugin cancelled itself", code="internal_error")
    except BudgetExceeded as error:
        return Stopped(reason=error.reason)
    except AwakenError as error:
        if isinstance(error, StoreUnavailable) and run.is_delivered:
            # The store will come back, and whoever gets the run then goes on from its last commit.
            run.journal.close(error)
        return Failed(message=without_secrets(str(error)), code=error.code)
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        logger.error("Something in a run raised.", exc_info=loggable_error(error))
        return Failed(message=describe_error(error), code="internal_error")


async def _steps(run: Run) -> Termination:
    outcome = await _rest(run) if run.is_recovered else first_outcome(run)
    # A plugin's word is final: a run that it ended takes no step and waits for nobody.
    while (ended := run.ending) is None:
        match outcome:
            case Continue():
                outcome = await _next_step(run)
            case SuspendRun():
                # A decision may have come while other calls of the step were still running.
                while run.has_input:
                    await absorb_decisions(run)
                if not has_decided(run):
                    return Suspended()
                outcome = await _go_on(run)
            case Finish(termination=termination):
                if not await hears_news(run, termination):
                    return run.ending or termination
                outcome = CONTINUE
    return ended


async def _rest(run: Run) -> StepOutcome:
    """Do what is left of the step in which another process stopped."""
    if run.owed is not None:
        await run_hooks_after(run, run.owed)
    if run.is_step_open:
        return await _finished(run, await finish_step(run))
    return first_outcome(run) if run.verdict is None else Finish(termination=run.verdict)


async def _go_on(run: Run) -> StepOutcome:
    """Let decided calls go on; what they give is durable before the model uses it."""
    outcome = await replay(run)
    if isinstance(outcome, Continue):
        run.take_in_news()
        if run.has_input:
            await absorb_messages(run)
        await run.flush_record(RunStatus.RUNNING)
    return outcome


async def _next_step(run: Run) -> StepOutcome:
    reason = stop_reason(run)
    if reason is not None:
        return Finish(termination=Stopped(reason=reason))
    problem = await switch_agent(run)
    if problem is not None:
        return Finish(termination=problem)
    run.take_in_news()
    if run.has_input:
        await absorb_messages(run)
        if run.journal.absorbed:
            # Durable before the model hears it: until then whoever sent it may take it back.
            await run.flush()
    run.begin_step()
    return await _finished(run, await take_step(run))


async def _finished(run: Run, outcome: StepOutcome) -> StepOutcome:
    """End the step, and see what was sent to the run meanwhile."""
    run.is_step_over = True
    run.verdict = outcome.termination if isinstance(outcome, Finish) else None
    count_step(run)
    await complete_step(run)
    if may_go_on(outcome):
        has_news = run.take_in_news()
        if run.has_input:
            has_news = await absorb_messages(run) or has_news
        outcome = CONTINUE if has_news else outcome
    if isinstance(outcome, Continue):
        # An end or a suspension has a commit of its own, which takes the step along.
        run.verdict = None
        await run.flush_record(RunStatus.RUNNING)
    return outcome
