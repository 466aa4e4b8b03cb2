"""Slots for the background tasks of runs: limited, and taken before a task is started."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from awaken.contracts.errors import InvalidInput
from awaken.contracts.tasks import (
    BACKGROUND_TASKS,
    RESERVED_NAMES,
    DuplicateTaskName,
    OwnedTask,
    ParentRunCancelled,
    ReservedTaskName,
    TaskEndDelivered,
    TaskInfo,
    TaskLimitReached,
    TaskStarted,
)
from awaken.runtime.run import Run

NAME_CHARS = 128
"""The longest name of a task."""


def check_task(task: TaskInfo) -> None:
    """Refuse a task description that could not be stored or shown.

    Raises:
        InvalidInput: Says what is wrong with it.
    """
    # Code can pass a value of any type.
    name: Any = task.name
    is_text = isinstance(name, str) and name.strip() and name.isprintable()
    if name is not None and not (is_text and len(name) <= NAME_CHARS):
        problem = f"write 1 to {NAME_CHARS} printable characters on one line, or no name"
        raise InvalidInput(what="The name of the task", problem=problem)
    if not isinstance(task.description, str):
        raise InvalidInput(what="The description of the task", problem="it is no text")


def check_function(work: Any, timeout_ms: Any) -> None:
    """Refuse a function that could not be run as a task.

    Raises:
        InvalidInput: It is not an async function, or its timeout is invalid.
    """
    if not callable(work):
        raise InvalidInput(what="The task", problem="pass an async function of one argument")
    if timeout_ms is not None and (type(timeout_ms) is not int or timeout_ms <= 0):
        what, problem = f"timeout_ms={timeout_ms!r:.80}", "write a positive whole number, or None"
        raise InvalidInput(what=what, problem=problem)


@contextmanager
def hold_task_place(run: Run, child_id: str, task: TaskInfo, in_process: int) -> Iterator[None]:
    """Reserve the task's slot while it is started: calls of one step start tasks in parallel.

    Raises:
        TaskError: There is no free slot, or the name is taken.
    """
    _check(run, task, in_process)
    own_task(run, child_id, task)
    try:
        yield
    except BaseException:
        run.state.update(BACKGROUND_TASKS, TaskEndDelivered(task_id=child_id))
        raise


def own_task(run: Run, child_id: str, task: TaskInfo) -> None:
    """Keep the task in the state until its end message arrives."""
    run.has_children = True
    owned = OwnedTask(
        task_id=child_id,
        name=task.name,
        description=task.description,
        fate=task.fate,
        run_id=run.identity.run_id,
    )
    run.state.update(BACKGROUND_TASKS, TaskStarted(task=owned))


def _check(run: Run, task: TaskInfo, in_process: int) -> None:
    """Refuse a task that may not be started.

    Raises:
        TaskError: Says why.
    """
    if run.token.cause is not None:
        raise ParentRunCancelled(run_id=run.identity.run_id)
    if task.name is not None and task.name in RESERVED_NAMES:
        raise ReservedTaskName(name=task.name)
    running = run.state.get(BACKGROUND_TASKS).values()
    if task.name is not None and any(it.name == task.name for it in running):
        raise DuplicateTaskName(name=task.name)
    own = sum(it.run_id == run.identity.run_id for it in running)
    limits = run.services.limits
    for scope, count, limit in (
        ("run", own, limits.tasks_per_run),
        ("thread", len(running), limits.tasks_per_thread),
        ("process", in_process, limits.tasks_in_process),
    ):
        if count >= limit:
            raise TaskLimitReached(count=count, scope=scope)
