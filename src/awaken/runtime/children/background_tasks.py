"""The background tasks of threads: start, find, message and cancel them with the runs below them.

A task is a durable run of its own. A task that executes here is reached directly, any other through
the mailbox, if the application has connected one.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Protocol

import msgspec

from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.messages.inbox import AgentMessage, TaskUpdate, inbox_messages
from awaken.contracts.runs.records import RunRecord, RunRequest
from awaken.contracts.storage.outbox import ThreadMessage
from awaken.contracts.storage.store import Store
from awaken.contracts.tasks import (
    OWNER,
    PARENT,
    SUB_AGENT,
    TaskHasNoInbox,
    TaskNotFound,
    TaskNotOwned,
    TaskRecord,
    TaskTerminated,
)
from awaken.contracts.tools.sub_runs import TaskFunction
from awaken.runtime.admission.active_runs import ActiveRun, ActiveRuns
from awaken.runtime.admission.handles import RunHandle
from awaken.runtime.journal.leases import LeaseBook
from awaken.runtime.journal.streams import EventReader
from awaken.runtime.resolution.registry import RegistryHandle
from awaken.runtime.run import Run, Services

from .child_threads import threads_below
from .function_tasks import FunctionTasks
from .task_records import task_record


class TaskRuns(Protocol):
    """The engine, as far as tasks need it."""

    store: Store
    services: Services
    active: ActiveRuns
    registry: RegistryHandle

    async def start(self, request: RunRequest, reader: EventReader | None = None) -> RunHandle:
        """Start a request and return once the run is durable."""
        ...

    async def cancel_active(self, active: ActiveRun, cause: str = "user") -> bool:
        """Cancel what executes in a slot."""
        ...


class TaskMailbox(Protocol):
    """The mailbox, as far as tasks need it."""

    async def deliver_message(self, message: ThreadMessage, message_id: str) -> bool:
        """Deliver a message under an id, durably; returns whether that was possible."""
        ...

    async def cancel_run(self, run_id: str, cause: str) -> bool:
        """Cancel a run, in whichever process it is; False when there is nothing to cancel."""
        ...

    def wake(self) -> None:
        """Notify the relay that the outbox has a new command."""
        ...


class BackgroundTasks:
    """The tasks that runs of this process have started, and on request those of other processes."""

    def __init__(
        self, runs: TaskRuns, leases: LeaseBook | None, mailbox: TaskMailbox | None
    ) -> None:
        self._mailbox = mailbox
        """Absent: only runs that execute in this process are reached."""
        self._runs = runs
        self._store = runs.store
        self._functions = FunctionTasks(runs.store, runs.services, leases)
        self._agents: set[str] = set()
        self._starting = 0

    @property
    def count(self) -> int:
        """How many background tasks run in this process."""
        return len(self._functions) + len(self._agents) + self._starting

    async def close(self) -> None:
        """Cancel the functions that run here and wait until they have ended."""
        await self._functions.close()

    async def start(self, run: Run, request: RunRequest) -> RunRecord:
        """Start an agent as a task; it is durable when this returns."""
        run.has_children = True
        with self._count_start():
            handle = await self._runs.start(request)
            active = self._runs.active.of_run(handle.run_id)
            if active is not None and active.task is not None:
                self._agents.add(handle.run_id)
                active.task.add_done_callback(lambda _: self._agents.discard(handle.run_id))
        record = await self._store.load_run(handle.run_id)
        assert record is not None
        return record

    async def start_function(
        self, run: Run, request: RunRequest, work: TaskFunction, timeout_ms: int | None
    ) -> RunRecord:
        """Start a function as a task; it is durable when this returns."""
        run.has_children = True
        tell = partial(self._tell_owner, request)
        with self._count_start():
            return await self._functions.start(request, work, tell, timeout_ms)

    @contextmanager
    def _count_start(self) -> Iterator[None]:
        """Count a task that is being started, so that no other task takes its place meanwhile."""
        self._starting += 1
        try:
            yield
        finally:
            self._starting -= 1

    async def tasks_of(self, thread_id: str) -> tuple[TaskRecord, ...]:
        """Return the tasks of a thread, newest first."""
        found = [
            task_record(record)
            async for record in self._below(thread_id)
            if record.task is not None
        ]
        return tuple(sorted(found, key=lambda it: (-it.created_at, it.task_id)))

    async def find_task(self, thread_id: str, name_or_id: str) -> TaskRecord | None:
        """Return a task of a thread by its id, else the running task of that name.

        A running task whose name equals the id takes precedence over an ended task.
        """
        if not name_or_id.strip():
            return None
        record, ended = await self._store.load_run(name_or_id), None
        if record is not None and record.task is not None and record.parent_thread_id == thread_id:
            if not record.status.is_terminal:
                return task_record(record)
            ended = task_record(record)
        for task in await self.tasks_of(thread_id):
            if task.name == name_or_id and not task.status.is_terminal:
                return task
        return ended

    async def load_task_run(self, thread_id: str, task_id: str) -> RunRecord:
        """Return the run of a task of a thread.

        Raises:
            TaskNotFound: There is none.
            TaskNotOwned: The task belongs to another thread.
        """
        record = await self._store.load_run(task_id)
        if record is None or record.task is None:
            raise TaskNotFound(task_id=task_id)
        if record.parent_thread_id != thread_id:
            raise TaskNotOwned(task_id=task_id)
        return record

    async def cancel_tree(self, run_id: str) -> int:
        """Cancel a run and every run below it; return how many cancel requests were accepted."""
        record = await self._store.load_run(run_id)
        if record is None:
            return 0
        count = await self.cancel_below(record.thread_id, run_id)
        return count + await self.cancel(run_id, OWNER)

    async def cancel_below(self, thread_id: str, run_id: str) -> int:
        """Cancel every run below a run; return how many cancel requests were accepted."""
        count = 0
        async for record in self._below(thread_id):
            if record.parent_run_id == run_id and not record.status.is_terminal:
                count += await self.cancel_below(record.thread_id, record.run_id)
                count += await self.cancel(record.run_id, PARENT)
        return count

    async def cancel(self, run_id: str, cause: str = "user") -> bool:
        """Cancel a run in any process if a mailbox is connected, else only in this process.

        Returns False when there is nothing to cancel.
        """
        if self._mailbox is not None:
            return await self._mailbox.cancel_run(run_id, cause)
        active = self._runs.active.of_run(run_id)
        if active is not None:
            return await self._runs.cancel_active(active, cause)
        return self._functions.cancel(run_id, cause)

    def cancel_function(self, run_id: str, cause: str) -> bool:
        """Cancel a function that runs here; False when there is none of that id."""
        return self._functions.cancel(run_id, cause)

    async def tell(self, record: RunRecord, message: AgentMessage, message_id: str) -> str:
        """Send a durable message to an agent's task; the task reads it once, unless it ends first.

        Raises:
            TaskTerminated: It has ended.
            TaskHasNoInbox: It takes no messages.
        """
        task_id = record.run_id
        if record.status is RunStatus.DONE:
            raise TaskTerminated(task_id=task_id, status=task_record(record).status.value)
        if not await self._takes_messages(record):
            raise TaskHasNoInbox(task_id=task_id)
        command = ThreadMessage(
            thread_id=record.thread_id,
            run_id=task_id,
            tenant_id=record.tenant_id,
            sender_thread_id=message.thread_id,
            payload=msgspec.to_builtins(message),
        )
        mailbox = self._mailbox
        if mailbox is None or not await mailbox.deliver_message(command, message_id):
            raise TaskHasNoInbox(task_id=task_id)
        return message_id

    async def _takes_messages(self, record: RunRecord) -> bool:
        """Whether the task is a run of a local agent, not of a remote one."""
        if record.task is None or record.task.task_type != SUB_AGENT:
            return False
        agent_id = record.active_agent_id or record.agent_id
        pinned = await self._runs.registry.pin(agent_id, record.publication)
        registries = pinned.registries
        agent = registries.agents.get(registries.name_of(agent_id))
        return agent is None or agent.spec.endpoint is None

    async def _tell_owner(self, request: RunRequest, update: TaskUpdate) -> bool:
        """Send an update to a task's owner: to its inbox if it executes here, else as a message."""
        thread_id = request.parent_thread_id or ""
        active = self._runs.active.of_thread(thread_id)
        if active is not None and active.run is not None:
            ids = self._runs.services.ids
            sent = [msgspec.structs.replace(it, id=ids.new_id()) for it in inbox_messages(update)]
            if active.run.inbox.put(sent):
                return True
        if self._mailbox is None:
            return False
        command = ThreadMessage(
            thread_id=thread_id,
            tenant_id=request.tenant_id,
            user_id=request.user_id,
            sender_thread_id=request.thread_id,
            # As for the end of a task: what is below a world begins no run in reality.
            run_id=None if request.world is None else request.parent_run_id,
            payload=msgspec.to_builtins(update),
        )
        return await self._mailbox.deliver_message(command, self._runs.services.ids.new_id())

    def wake_relay(self) -> None:
        """Notify the relay that a command was put into the outbox beside a commit."""
        if self._mailbox is not None:
            self._mailbox.wake()

    async def _below(self, thread_id: str) -> AsyncIterator[RunRecord]:
        """Yield the runs of the threads below a thread."""
        for thread in await threads_below(self._store, thread_id):
            # The run that the thread was created for, not a later run of the thread.
            record = await self._store.load_run(thread.id)
            if record is not None:
                yield record
