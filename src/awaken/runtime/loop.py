"""The agent loop: one run from its first event to its last.

Reads top-down: `run_loop` is the story, `step.take_step` is one chapter, `closing.close_run` is
the only way out. No storage, provider or protocol is named here.
"""

import asyncio
import logging

from awaken.contracts.errors import AwakenError
from awaken.contracts.lifecycle import (
    Cancelled,
    Failed,
    NaturalEnd,
    RunStatus,
    Stopped,
    StoppedReason,
    Suspended,
    Termination,
)

from .closing import close_run, complete_step
from .opening import open_run, switch_agent
from .outcomes import CONTINUE, SUSPEND, Continue, Finish, StepOutcome, Suspend
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
    if await run.cancels.absorb_pending():
        termination = Cancelled(cause=run.cancel_cause)
    return await close_run(run, termination)


async def _drive(run: Run) -> Termination:
    try:
        await open_run(run)
        return await _steps(run)
    except asyncio.CancelledError:
        if run.cancels.absorb():
            return Cancelled(cause=run.cancel_cause)
        # Nobody cancelled the run: foreign code raised this by itself.
        return Failed(message="a provider or a plugin cancelled itself", code="internal_error")
    except AwakenError as error:
        return Failed(message=str(error), code=error.code)
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        logger.exception("Run '%s' failed.", run.identity.run_id)
        return Failed(message=f"{type(error).__name__}: {error}", code="internal_error")


async def _steps(run: Run) -> Termination:
    outcome: StepOutcome = SUSPEND if run.tickets else CONTINUE
    # A plugin's word is final: a run that it ended takes no step and waits for nobody.
    while (ended := run.ending) is None:
        match outcome:
            case Continue():
                outcome = await _next_step(run)
            case Suspend():
                # A decision may have come while other calls of the step were still running.
                if not has_decided(run):
                    return Suspended()
                outcome = await _go_on(run)
            case Finish(termination=termination):
                return termination
    return ended


async def _go_on(run: Run) -> StepOutcome:
    """Let decided calls go on; what they give is durable before the model uses it."""
    outcome = await replay(run)
    if isinstance(outcome, Continue):
        run.take_in_news()
        await run.flush_record(RunStatus.RUNNING)
    return outcome


async def _next_step(run: Run) -> StepOutcome:
    reason = _stop_reason(run)
    if reason is not None:
        return Finish(termination=Stopped(reason=reason))
    problem = await switch_agent(run)
    if problem is not None:
        return Finish(termination=problem)
    run.take_in_news()
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
    return CONTINUE if run.take_in_news() else outcome


def _stop_reason(run: Run) -> StoppedReason | None:
    rules = run.agent.stop_rules
    if not rules.conditions:
        return rules.rounds_verdict(run.stats.rounds)
    progress = Progress(
        stats=run.stats,
        usage=run.usage,
        tool_names=tuple(call.name for call in run.step_calls),
        text=run.response,
    )
    return rules.verdict(progress)


def _count(run: Run) -> None:
    calls = run.step_calls
    run.stats = advanced(
        run.stats,
        calls if run.agent.stop_rules.conditions else (),
        failed=bool(calls) and run.step_failures >= len(calls),
        active_ms=run.active_ms,
    )
