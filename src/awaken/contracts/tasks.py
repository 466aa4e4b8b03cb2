"""Background tasks: work that continues beside the run that started it, owned by its thread.

A task is a run of its own, on a child thread of the owner's thread. Its id is that run's id. Its
result is delivered to the owner's thread exactly once, as a message.
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
"""The type of a task that runs an agent."""
ORPHANED = "task_orphaned"
"""The error code of a task whose process died."""
PARENT = "parent"
"""The cancel cause of a run that is cancelled with its parent run."""
OWNER = "owner"
"""The cancel cause of a task that its owner cancelled."""


class TaskStatus(StrEnum):
    """The state of a task; all states but `running` are final."""

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
    """What happens to a task if the run that started it is cancelled."""

    CASCADE = "cascade"
    """It is cancelled as well."""
    DETACH = "detach"
    """It continues, and the cancelled run does not wait for it."""
    AWAIT = "await"
    """It continues, and the cancelled run ends after it."""


class TaskInfo(Record, frozen=True, kw_only=True):
    """The task fields of a run, stored in the run's record."""

    name: str | None = None
    """The name that the model uses; unique among the running tasks of its owner."""
    description: str = ""
    task_type: str = "task"
    fate: TaskFate = TaskFate.CASCADE
    parent_task_id: str | None = None
    """The task that started it, if a task did."""


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
    """The status of a task, derived from the termination of its run."""
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
    """A task in the owner's state, until its result is delivered."""

    task_id: str
    name: str | None = None
    description: str = ""
    fate: TaskFate = TaskFate.CASCADE
    run_id: str = ""
    """The run that started it."""


class TaskStarted(Record, frozen=True, kw_only=True, tag_field="type", tag="started"):
    """A task was started."""

    task: OwnedTask


class TaskEndDelivered(Record, frozen=True, kw_only=True, tag_field="type", tag="told"):
    """The result of a task is in the transcript."""

    task_id: str


def _tasks_after(
    value: Mapping[str, OwnedTask], update: TaskStarted | TaskEndDelivered
) -> Mapping[str, OwnedTask]:
    if isinstance(update, TaskStarted):
        return {**value, update.task.task_id: update.task}
    return {name: kept for name, kept in value.items() if name != update.task_id}


BACKGROUND_TASKS: StateKey[Mapping[str, OwnedTask], TaskStarted | TaskEndDelivered] = StateKey(
    "background_task_state",
    default={},
    type=dict[str, OwnedTask],
    apply=_tasks_after,
    merge=MergeStrategy.COMMUTATIVE,
    scope=StateScope.THREAD,
)
"""The tasks of a thread whose results are not delivered yet."""


class TaskContext(Protocol):
    """The interface of a task's function to its task."""

    @property
    def task_id(self) -> str:
        """The task's id."""
        ...

    @property
    def is_cancelled(self) -> bool:
        """Whether the task was cancelled; for code that cannot await."""
        ...

    async def emit(self, event_type: str, payload: Any = None) -> bool:
        """Send an event to the owner while the task is running; False if it was not sent.

        Best effort: only the task's result is delivered exactly once.
        """
        ...


class TaskError(UsageError):
    """A task cannot be started, found or sent a message."""

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
    """Another run already has the id that the task would have."""

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
    """Agents keep sending messages in response to each other's messages."""

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
