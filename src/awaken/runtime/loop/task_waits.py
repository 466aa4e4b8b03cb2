"""What keeps a run that has answered from ending: background tasks, and work that plugins know of.

A task tells its thread how it ended. Of other work nothing is known here: a message lets the run
go on, in which a plugin says that the work is done, or the run is cancelled.
"""

from collections.abc import Mapping

from awaken.contracts.identity import RunOrigin
from awaken.contracts.lifecycle import NaturalEnd
from awaken.contracts.plugins.loop_state import PENDING_WORK
from awaken.contracts.tasks import BACKGROUND_TASKS, OwnedTask, TaskEndDelivered, TaskFate
from awaken.runtime.journal.known_messages import wakes_model
from awaken.runtime.journal.outcomes import CONTINUE, SUSPEND, Finish, StepOutcome
from awaken.runtime.outbox import end_letter_id
from awaken.runtime.run import Run

from .queued_input import absorb_messages

LOOK_S = 2.0
"""How often queued news is looked for when no signal comes."""


def waits_in_process(run: Run) -> bool:
    """Whether the run may not be released: somebody awaits it here, or it is a sub-agent's.

    Nor where nobody could wake it.
    """
    is_needed = run.is_attached or run.identity.origin is RunOrigin.SUBAGENT
    return is_needed or not run.services.may_rest


def is_suspending(run: Run) -> bool:
    """Whether a run may be about to wait: its end is decided, and not all is done."""
    if not run.token.is_sealed:
        return False
    is_asking = run.remote_end is not None and run.remote_end.waiting is not None
    is_held = bool(run.state.get(BACKGROUND_TASKS)) or has_pending_work(run)
    return is_asking or bool(run.tickets) or is_held


def first_outcome(run: Run) -> StepOutcome:
    """What a run begins with that has nothing left of an earlier step."""
    if run.tickets:
        return SUSPEND
    messages = run.request.messages
    if run.is_continued and messages and not wakes_model(messages) and not run.open_calls:
        # It waits for its tasks, and has only heard how far they are.
        return Finish(termination=NaturalEnd())
    return CONTINUE


async def hears_news(run: Run) -> bool:
    """Wait for news of what a run that would end has under way; False when it is released."""
    is_below = run.identity.origin is RunOrigin.SUBAGENT
    if not await tasks_to_wait_for(run) and not (is_below and has_pending_work(run)):
        return False
    # Durable before the wait: whoever takes the run over must not ask the model again.
    await run.flush_record()
    while not await _has_news(run):
        has_tasks = bool(await tasks_to_wait_for(run))
        # A sub-agent is also told of other work, by messages.
        if run.due_end is not None or not (has_tasks or (is_below and has_pending_work(run))):
            return False
        if not await run.inbox.signal.wait(LOOK_S):
            run.has_input = True
    run.step.ending = None
    await run.flush_record()
    return True


def has_pending_work(run: Run) -> bool:
    """Whether a plugin has said that the run must not end yet."""
    return run.state.get(PENDING_WORK).has_pending


async def tasks_to_wait_for(run: Run) -> Mapping[str, OwnedTask]:
    """The tasks whose end the thread has not heard of; those of which nothing is left are dropped.

    A task that was detached holds nobody up.
    """
    known: Mapping[str, OwnedTask] = run.state.values.get(BACKGROUND_TASKS.name, {})
    found = {}
    for task_id, task in known.items():
        if not await _will_be_told(run, task_id):
            run.state.update(BACKGROUND_TASKS, TaskEndDelivered(task_id=task_id))
        elif task.fate is not TaskFate.DETACH:
            found[task_id] = task
    return found


async def _will_be_told(run: Run, task_id: str) -> bool:
    """Whether the end of a task is still to come; who deletes or buries it must stop nobody."""
    record = await run.store.load_run(task_id)
    if record is None or not record.status.is_terminal:
        return record is not None
    letter_id = end_letter_id(task_id)
    letter = await run.store.find_dispatch(letter_id)
    if letter is not None:
        return not letter.status.is_terminal
    given_up = await run.store.list_dead_outbox(record.thread_id)
    return all(entry.entry_id != letter_id for entry in given_up)


async def see_tasks_end(run: Run, patience_s: float) -> None:
    """Take in the ends of tasks that a cancelled run has to await, as long as there is patience."""
    deadline = run.loop.time() + patience_s
    while _has_awaited_task(run) and (left := deadline - run.loop.time()) > 0:
        run.has_input = True
        if not await absorb_messages(run):
            await run.inbox.signal.wait(min(left, LOOK_S))


def _has_awaited_task(run: Run) -> bool:
    own = run.identity.run_id
    tasks = run.state.get(BACKGROUND_TASKS).values()
    return any(task.fate is TaskFate.AWAIT and task.run_id == own for task in tasks)


async def _has_news(run: Run) -> bool:
    has_news = run.drain_inbox()
    if run.has_input:
        has_news = await absorb_messages(run) or has_news
    return has_news
