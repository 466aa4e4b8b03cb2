"""Which background tasks a run still has to hear from."""

from collections.abc import Mapping

from awaken.contracts.tasks import BACKGROUND_TASKS, OwnedTask, TaskEndDelivered, TaskFate
from awaken.runtime.outbox import end_message_id
from awaken.runtime.run import Run


async def tasks_to_wait_for(run: Run) -> Mapping[str, OwnedTask]:
    """Return the tasks whose end has not reached the thread; drop those that cannot report it.

    A detached task does not hold up its owner.
    """
    known: Mapping[str, OwnedTask] = run.state.values.get(BACKGROUND_TASKS.name, {})
    found = {}
    for task_id, task in known.items():
        if not await _will_be_delivered(run, task_id):
            run.state.update(BACKGROUND_TASKS, TaskEndDelivered(task_id=task_id))
        elif task.fate is not TaskFate.DETACH:
            found[task_id] = task
    return found


async def _will_be_delivered(run: Run, task_id: str) -> bool:
    """Whether the end message of a task can still arrive; False if it was deleted or given up."""
    record = await run.store.load_run(task_id)
    if record is None or not record.status.is_terminal:
        return record is not None
    message_id = end_message_id(task_id)
    dispatch = await run.store.find_dispatch(message_id)
    if dispatch is not None:
        return not dispatch.status.is_terminal
    given_up = await run.store.list_dead_outbox(record.thread_id)
    return all(entry.entry_id != message_id for entry in given_up)
