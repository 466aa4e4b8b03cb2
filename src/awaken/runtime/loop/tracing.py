"""The loop as those see it who watch: in which trace it runs, and what instruments are told."""

import logging

from awaken.contracts.lifecycle import Termination
from awaken.contracts.plugins.instruments import Instrument
from awaken.contracts.tracing import CURRENT_RUN, CURRENT_TRACE
from awaken.runtime.phases.instruments import watched
from awaken.runtime.run import Run

from .loop import Body, run_loop

logger = logging.getLogger(__name__)


async def watched_loop(run: Run, body: Body | None = None) -> Termination:
    """Drive a run as `run_loop` does, within its trace, and with its instruments around it."""
    identity = CURRENT_RUN.set(run.identity)
    trace = CURRENT_TRACE.set(run.record.trace)
    try:
        run.instruments = _instruments(run)
        if not run.instruments:
            return await run_loop(run, body)
        with watched(run, lambda it: it.run(is_continued=run.is_continued)) as watches:
            termination = await run_loop(run, body)
            watches.tell(lambda it: it.ended(termination, run.usage))
            return termination
    finally:
        CURRENT_TRACE.reset(trace)
        CURRENT_RUN.reset(identity)


def _instruments(run: Run) -> tuple[Instrument, ...]:
    made = []
    for maker in (*run.services.instruments, *(it for _, it in run.agent.env.instruments)):
        try:
            instrument = maker(run.identity, run.agent.spec)
        except Exception:
            logger.exception("An instrument could not be made.")
            continue
        if instrument is not None:
            made.append(instrument)
    return tuple(made)
