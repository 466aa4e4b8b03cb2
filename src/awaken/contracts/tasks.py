"""Background tasks: work that goes on beside the run that started it, owned by its thread.

A task is a run of its own, on a thread of its own below the owner's. Its id is that run's id. What
became of it is told to the owner's thread exactly once, as a message.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Protocol

from .errors import UsageError
from .lifecycle import Blocked, Cancelled, Failed, Stopped, Termination
from .record import Record
from .state.keys import MergeStrategy, StateKey, StateScope

RESERVED_NAMES = frozenset({"parent", "self", "all", "broadcast"})
SUB_AGENT = "sub_agent"
"""The type of a task that is an agent's run."""
ORPHANED = "task_orphaned"
"""The code of a task whose process died with it."""
PARENT = "parent"
"""The cause of a run that is cancelled with the one above it."""
OWNER = "owner"
"""The cause of a task that its owner cancelled."""


class TaskStatus(StrEnum):
    """Where a task is in its life; `running` is the only one that it can leave."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    ORPHANED = "orphaned"

    @property
    def is_terminal(self) -> bool:
        """Whether the task has ended for good."""
        return self is not TaskStatus.RUNNING


class TaskFate(StrEnum):
    """What becomes of a task when the run that started it is cancelled."""

    CASCADE = "cascade"
    """It is cancelled as well."""
    DETACH = "detach"
    """It goes on, and its run does not wait for it."""
    AWAIT = "await"
    """It goes on, and the cancelled run ends when it has ended."""


class TaskInfo(Record, frozen=True, kw_only=True):
    """What a run is as a task; kept in its record."""

    name: str | None = None
    """How the model calls it; unique among the running tasks of its owner."""
    description: str = ""
    task_type: str = "task"
    fate: TaskFate = TaskFate.CASCADE
    parent_task_id: str | None = None
    """The task in which it was started."""


class TaskRecord(Record, frozen=True, kw_only=True):
    """A task as its owner sees it."""

    task_id: str
    owner_thread_id: str
    status: TaskStatus = TaskStatus.RUNNING
    name: str | None = None
    description: str = ""
    task_type: str = "task"
    fate: TaskFate = TaskFate.CASCADE
    agent_id: str | None = None
    parent_run_id: str | None = None
    parent_call_id: str | None = None
    parent_task_id: str | None = None
    result: Any = None
    error: str | None = None
    created_at: int = 0
    completed_at: int | None = None


def task_status(termination: Termination) -> TaskStatus:
    """How a task has ended, by how its run did."""
    match termination:
        case Cancelled():
            return TaskStatus.CANCELLED
        case Failed(code=code) if code == ORPHANED:
            return TaskStatus.ORPHANED
        case Failed(code="timeout"):
            return TaskStatus.TIMED_OUT
        case Stopped(reason=reason) if reason.code == "timeout":
            return TaskStatus.TIMED_OUT
        case Failed() | Stopped() | Blocked():
            return TaskStatus.FAILED
        case _:
            return TaskStatus.COMPLETED


class OwnedTask(Record, frozen=True, kw_only=True):
    """What the owner's state remembers of a task, until its end was told."""

    task_id: str
    name: str | None = None
    description: str = ""
    fate: TaskFate = TaskFate.CASCADE
    run_id: str = ""
    """The run that started it."""


class TaskStarted(Record, frozen=True, kw_only=True, tag_field="type", tag="started"):
    """A task was started."""

    task: OwnedTask


class TaskTold(Record, frozen=True, kw_only=True, tag_field="type", tag="told"):
    """The end of a task is in the transcript."""

    task_id: str


def _tasks_after(
    value: Mapping[str, OwnedTask], update: TaskStarted | TaskTold
) -> Mapping[str, OwnedTask]:
    if isinstance(update, TaskStarted):
        return {**value, update.task.task_id: update.task}
    return {name: kept for name, kept in value.items() if name != update.task_id}


BACKGROUND_TASKS: StateKey[Mapping[str, OwnedTask], TaskStarted | TaskTold] = StateKey(
    "background_task_state",
    default={},
    type=dict[str, OwnedTask],
    apply=_tasks_after,
    merge=MergeStrategy.COMMUTATIVE,
    scope=StateScope.THREAD,
)
"""The tasks of a thread whose end it has not heard of."""


class TaskContext(Protocol):
    """What a task's function can see and do."""

    @property
    def task_id(self) -> str:
        """The task's id."""
        ...

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody cancelled the task; for code that cannot await."""
        ...

    async def emit(self, event_type: str, payload: Any = None) -> bool:
        """Tell the owner something while the task goes on; False when it could not be told.

        Best effort: only the task's end is told exactly once.
        """
        ...


class TaskError(UsageError):
    """A task cannot be started, found or told what was asked."""

    code = "task_error"


class ReservedTaskName(TaskError):
    """The name means something else."""

    code = "reserved_task_name"
    template = "A task cannot be called '{name}': the name is reserved; choose another one."
    name: str


class DuplicateTaskName(TaskError):
    """Another running task of the thread has the name."""

    code = "duplicate_task_name"
    template = "A task called '{name}' is running already; choose another name or wait for it."
    name: str


class TaskLimitReached(TaskError):
    """Too many tasks are running."""

    code = "task_limit_reached"
    retryable = True
    template = "{count} tasks of this {scope} are running, the limit; wait until one has ended."
    count: int
    scope: str


class ParentRunCancelled(TaskError):
    """The run was cancelled and starts nothing any more."""

    code = "parent_run_cancelled"
    template = "Run '{run_id}' was cancelled; it starts nothing any more."
    run_id: str


class TaskIdTaken(TaskError):
    """Somebody else's run has the id that the task would have."""

    code = "task_id_taken"
    template = "Task '{task_id}' cannot be started: its id is taken by another run."
    task_id: str


class TaskNotFound(TaskError):
    """There is no such task."""

    code = "task_not_found"
    template = "There is no task '{task_id}'."
    task_id: str


class TaskNotOwned(TaskError):
    """The task belongs to another thread."""

    code = "task_not_owned"
    template = "Task '{task_id}' belongs to another thread."
    task_id: str


class TaskTerminated(TaskError):
    """The task has ended."""

    code = "task_terminated"
    template = "Task '{task_id}' has ended ({status})."
    task_id: str
    status: str


class TooManyHops(TaskError):
    """Agents write to each other, one because of the other, and no end is in sight."""

    code = "too_many_hops"
    template = (
        "{hops} messages between agents in a row, the limit is {limit}; "
        "a person's message starts anew."
    )
    hops: int
    limit: int


class TaskHasNoInbox(TaskError):
    """The task is a function and takes no messages, or it takes none now."""

    code = "task_has_no_inbox"
    template = "Task '{task_id}' takes no messages."
    task_id: str
