"""Stopping a run of a paused agent between two steps, so that it goes on when it is released."""

from awaken.contracts.identity import RunOrigin
from awaken.contracts.lifecycle import Suspended
from awaken.runtime.journal.outcomes import Finish
from awaken.runtime.run import Run

from .task_waits import LOOK_S


async def stop_if_paused(run: Run) -> Finish | None:
    """Return the outcome of a run whose agent is paused; None when it may take the next step.

    The run waits in the store, and nothing is held here. Only a run below a tool call stays: its
    caller holds its own run open, and waits for the answer.
    """
    board, agent_id = run.services.switches, run.agent.spec.id
    if not board.current.is_paused(agent_id):
        return None
    if run.identity.origin is not RunOrigin.SUBAGENT:
        run.is_paused = True
        return Finish(termination=Suspended())
    # Durable before the wait: a process that takes over continues from here.
    await run.flush_record()
    stop_watching = board.watch(run.inbox.signal.ring)
    try:
        while board.current.is_paused(agent_id) and run.due_end is None:
            if not await run.inbox.signal.wait(LOOK_S):
                run.has_input = True
    finally:
        stop_watching()
    return None if (ending := run.due_end) is None else Finish(termination=ending)
