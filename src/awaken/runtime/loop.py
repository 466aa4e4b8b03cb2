"""The agent loop: one run from its first event to its last.

Reads top-down: `run_loop` is the story, `step.take_step` is one chapter, `closing.close_run` is
the only way out. No storage, provider or protocol is named here.
"""

import asyncio
import contextlib
import logging

from awaken.contracts.errors import AwakenError
from awaken.contracts.lifecycle import (
    Cancelled,
    Failed,
    NaturalEnd,
    RunStatus,
    Stopped,
    Suspended,
    Termination,
)

from .closing import close_run, complete_step
from .opening import open_run, switch_agent
from .outcomes import CONTINUE, Continue, Finish, StepOutcome, Suspend
from .resume import has_decided, replay
from .run import Run
from .step import take_step
from .stopping import Progress, advanced

logger = logging.getLogger(__name__)


async def run_loop(run: Run) -> Termination:
    """Drive a run until it ends or needs a decision.

    Exactly one terminal event is emitted, whatever happens.

    Raises:
        StorageError: The end of the run could not be made durable.
    """
    termination = await _drive(run)
    run.token.seal()
    if await _was_cancelled_meanwhile():
        termination = Cancelled(cause=run.cancel_cause)
    return await close_run(run, termination)


async def _drive(run: Run) -> Termination:
    try:
        await open_run(run)
        return Cancelled(cause=run.cancel_cause) if run.is_cancelled else await _steps(run)
    except asyncio.CancelledError:
        return Cancelled(cause=run.cancel_cause)
    except AwakenError as error:
        return Failed(message=str(error), code=error.code)
    except Exception as error:
        logger.exception("Run '%s' failed.", run.identity.run_id)
        return Failed(message=f"{type(error).__name__}: {error}", code="internal_error")


async def _steps(run: Run) -> Termination:
    outcome: StepOutcome = await replay(run)
    while True:
        match outcome:
            case Continue():
                outcome = await _next_step(run)
            case Suspend():
                # A decision may have come while other calls of the step were still running.
                if not has_decided(run):
                    return Suspended()
                outcome = await replay(run)
            case Finish(termination=termination):
                return termination


async def _next_step(run: Run) -> StepOutcome:
    reason = run.agent.stop_rules.verdict(_progress(run))
    if reason is not None:
        return Finish(termination=Stopped(reason=reason))
    problem = await switch_agent(run)
    if problem is not None:
        return Finish(termination=problem)
    run.begin_step()
    outcome = await take_step(run)
    _count(run)
    await complete_step(run)
    outcome = _with_news(run, outcome)
    if isinstance(outcome, Continue):
        # An end or a suspension has a commit of its own, which takes the step along.
        await run.flush_record(RunStatus.RUNNING)
    return outcome


def _with_news(run: Run, outcome: StepOutcome) -> StepOutcome:
    """Take in what was sent to the run; news keeps a run alive that would have ended by itself."""
    if isinstance(outcome, Suspend):
        return outcome
    if isinstance(outcome, Finish) and not isinstance(outcome.termination, NaturalEnd):
        return outcome
    news = run.inbox.drain()
    for message in news:
        run.append_user(message)
    return CONTINUE if news else outcome


def _progress(run: Run) -> Progress:
    return Progress(
        stats=run.stats,
        usage=run.usage,
        tool_names=tuple(call.name for call in run.step_calls),
        text=run.response,
    )


def _count(run: Run) -> None:
    calls = run.step_calls
    run.stats = advanced(
        run.stats,
        calls if run.agent.stop_rules.conditions else (),
        failed=bool(calls) and run.step_failures >= len(calls),
        active_ms=run.active_ms,
    )


async def _was_cancelled_meanwhile() -> bool:
    """Absorb a cancellation that arrived after the last await, so that the way out is free."""
    task = asyncio.current_task()
    if task is None or not task.cancelling():
        return False
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
    while task.uncancel():
        pass
    return True
