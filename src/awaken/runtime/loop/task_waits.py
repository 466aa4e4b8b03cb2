"""What a run waits for: its background tasks, pending work of plugins, an agent that is paused.

The end of a task reaches its thread as a message. The runtime cannot observe other work: a message
resumes the run, in which a plugin marks the work as done, or the run is cancelled.
"""

from awaken.contracts.identity import RunOrigin
from awaken.contracts.lifecycle import NaturalEnd, Suspended
from awaken.contracts.plugins.loop_state import PENDING_WORK
from awaken.contracts.tasks import BACKGROUND_TASKS, TaskFate
from awaken.runtime.journal.known_messages import wakes_model
from awaken.runtime.journal.outcomes import CONTINUE, SUSPEND, Finish, StepOutcome
from awaken.runtime.run import Run

from .queued_input import absorb_messages
from .step import tasks_to_wait_for

LOOK_S = 2.0
"""How often to check for queued input when no signal arrives."""


def waits_in_process(run: Run) -> bool:
    """Whether the run has to wait in this process: a caller awaits it, or it is a sub-agent's.

    Also where no mailbox could wake it.
    """
    is_needed = run.is_attached or run.identity.origin is RunOrigin.SUBAGENT
    return is_needed or not run.services.may_rest


def is_suspending(run: Run) -> bool:
    """Whether a run may be about to wait: its end is decided, and some work is pending."""
    if not run.token.is_sealed:
        return False
    is_asking = run.remote_end is not None and run.remote_end.waiting is not None
    is_told = run.is_paused or run.waiting is not None
    is_held = bool(run.state.get(BACKGROUND_TASKS)) or has_pending_work(run)
    return is_asking or is_told or bool(run.tickets) or is_held


def first_outcome(run: Run) -> StepOutcome:
    """Return the first outcome of a continued run that has no unfinished step."""
    if run.tickets:
        return SUSPEND
    messages = run.request.messages
    if run.is_continued and messages and not wakes_model(messages) and not run.open_calls:
        # It waits for its tasks, and the messages only report their progress.
        return Finish(termination=NaturalEnd())
    return CONTINUE


async def wait_for_updates(run: Run) -> bool:
    """Wait for input about the run's pending work; False when the run need not wait here."""
    is_below = run.identity.origin is RunOrigin.SUBAGENT
    if not await tasks_to_wait_for(run) and not (is_below and has_pending_work(run)):
        return False
    # Durable before the wait: a process that takes over must not ask the model again.
    await run.flush_record()
    while not await _take_updates(run):
        if run.journal.messages:
            # The thread shows an update when it arrives, not when its task ends.
            await run.flush_record()
        has_tasks = bool(await tasks_to_wait_for(run))
        # A sub-agent also waits for other pending work, which messages report.
        has_work = has_tasks or (is_below and has_pending_work(run))
        if not has_work or run.find_due_end() is not None:
            return False
        if not await run.inbox.signal.wait(LOOK_S):
            run.has_input = True
    run.step.ending = None
    await run.flush_record()
    return True


def has_pending_work(run: Run) -> bool:
    """Whether a plugin has marked work as pending, so that the run must not end yet."""
    return run.state.get(PENDING_WORK).has_pending


async def see_tasks_end(run: Run, patience_s: float) -> None:
    """Take in the ends of tasks that a cancelled run has to await, until the timeout."""
    deadline = run.loop.time() + patience_s
    while _has_awaited_task(run) and (left := deadline - run.loop.time()) > 0:
        run.has_input = True
        if not await absorb_messages(run):
            await run.inbox.signal.wait(min(left, LOOK_S))


def _has_awaited_task(run: Run) -> bool:
    own = run.identity.run_id
    tasks = run.state.get(BACKGROUND_TASKS).values()
    return any(task.fate is TaskFate.AWAIT and task.run_id == own for task in tasks)


async def _take_updates(run: Run) -> bool:
    is_asked = run.drain_inbox()
    if run.has_input:
        is_asked = await absorb_messages(run) or is_asked
    return is_asked


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
        while board.current.is_paused(agent_id) and run.find_due_end() is None:
            if not await run.inbox.signal.wait(LOOK_S):
                run.has_input = True
    finally:
        stop_watching()
    return None if (ending := run.find_due_end()) is None else Finish(termination=ending)
