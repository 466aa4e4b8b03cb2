"""Background tasks that are functions of this process.

A function's task is a run on a thread of its own. One commit records its start, under a lease; one
records its end, together with the message to its owner. If the process dies, the lease expires,
and the process that finds the run ends it as orphaned.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from awaken.authoring.functions import is_interruption
from awaken.authoring.results import to_json_form
from awaken.contracts.errors import AwakenError, StorageError
from awaken.contracts.events import AgentEvent, RunFinish, RunStart
from awaken.contracts.lifecycle import (
    Cancelled,
    Failed,
    NaturalEnd,
    RunStatus,
    Stopped,
    StoppedReason,
    Termination,
    reason_text,
)
from awaken.contracts.messages.content import replace_surrogates
from awaken.contracts.messages.inbox import TaskUpdate
from awaken.contracts.runs.records import RunRecord, RunRequest
from awaken.contracts.storage.dispatch import Release
from awaken.contracts.storage.store import Commit, Store
from awaken.contracts.tasks import PARENT
from awaken.contracts.tools.sub_runs import TaskFunction
from awaken.redaction import describe_error
from awaken.runtime.journal.leases import Lease, LeaseBook, RuntimeClosing
from awaken.runtime.outbox import list_commands_at_end
from awaken.runtime.primitives.signals import WakeSignal
from awaken.runtime.run import Services

logger = logging.getLogger(__name__)

TRIES = 5
"""How often to try to write the end of a task if the store is not shared."""
_FIRST_PAUSE_S = 0.2
_PAUSE_CAP_S = 2.0
ERROR_CHARS = 10_000
"""The longest error text that is kept."""


class FunctionTasks:
    """The functions that run in this process."""

    def __init__(self, store: Store, services: Services, leases: LeaseBook | None) -> None:
        self._store = store
        self._services = services
        self._leases = leases
        self._running: dict[str, FunctionTask] = {}
        self._is_closing = False

    def __len__(self) -> int:
        return len(self._running)

    async def start(
        self,
        request: RunRequest,
        work: TaskFunction,
        tell: "Tell",
        timeout_ms: int | None,
    ) -> RunRecord:
        """Make the task durable and start it; return its record.

        Raises:
            RuntimeClosing: The process is being closed; nothing was started.
        """
        if self._is_closing:
            raise RuntimeClosing(run_id=request.run_id_hint or "")
        task = FunctionTask(self._store, self._services, request, tell)
        if self._leases is not None:
            task.lease = self._leases.open(task.record.thread_id)
        await task.open()
        if self._leases is not None and task.lease is not None:
            self._leases.watch(task.lease, task)
        self._running[task.record.run_id] = task
        task.begin(work, timeout_ms, lambda: self._over(task))
        if self._is_closing:
            # `close` did not see the task: it was still being made durable.
            await self._stop([task])
        return task.record

    def cancel(self, run_id: str, cause: str) -> bool:
        """Cancel a function that runs here; False when there is none of that id."""
        task = self._running.get(run_id)
        return task is not None and task.cancel(cause)

    async def close(self) -> None:
        """Cancel everything that still runs here, start nothing more, and wait for the ends.

        A function that does not stop within the grace period is abandoned: its lease expires.
        """
        self._is_closing = True
        await self._stop(list(self._running.values()))

    async def _stop(self, tasks: "list[FunctionTask]") -> None:
        for task in tasks:
            task.cancel("shutdown")
        if tasks:
            grace_s = self._services.limits.cancel_grace_ms / 1000
            await asyncio.wait([task.execution for task in tasks], timeout=grace_s)
        for task in tasks:
            if not task.execution.done():
                logger.error("Task '%s' did not stop in time and is abandoned.", task.task_id)
                task.lease_lost()

    def _over(self, task: "FunctionTask") -> None:
        self._running.pop(task.record.run_id, None)
        if self._leases is not None and task.lease is not None:
            self._leases.forget(task.lease)


Tell = Callable[[TaskUpdate], Any]
"""Sends an update to the owner; returns an awaitable of whether it was accepted."""


class FunctionTask:
    """One function from its first commit to its last; also the handle passed to the function."""

    def __init__(self, store: Store, services: Services, request: RunRequest, tell: Tell) -> None:
        self._store = store
        self._services = services
        self._tell = tell
        self._version = 0
        self._cause: str | None = None
        self._is_lost = False
        self._has_begun = False
        self._is_ending = False
        self._lost = WakeSignal()
        self.lease: Lease | None = None
        self.execution: asyncio.Task[None]
        self.record = _open_record(request, services.clock.now_ms())

    @property
    def task_id(self) -> str:
        """The task's id."""
        return self.record.run_id

    @property
    def is_cancelled(self) -> bool:
        """Whether the task was cancelled."""
        return self._cause is not None

    async def emit(self, event_type: str, payload: Any = None) -> bool:
        """Send an update to the owner while the task runs; False when it was not delivered."""
        if self._cause == PARENT:
            # The owner was cancelled, and nothing may wake it.
            return False
        update = TaskUpdate(task_id=self.task_id, event_type=event_type, payload=payload)
        try:
            return bool(await self._tell(update))
        except AwakenError as error:
            # A failed update never changes the outcome of the task.
            logger.warning("Task '%s' could not send '%s': %s", self.task_id, event_type, error)
            return False

    async def open(self) -> None:
        """Write the record that the task is running."""
        identity = self.record.identity
        start = RunStart(
            thread_id=identity.thread_id,
            run_id=identity.run_id,
            parent_run_id=identity.parent_run_id,
            identity=identity,
        )
        await self._commit(self.record, (start,))

    def begin(self, work: TaskFunction, timeout_ms: int | None, over: Callable[[], None]) -> None:
        """Run the function in a task of its own."""
        name = f"task {self.task_id}"
        self.execution = asyncio.create_task(self._execute_function(work, timeout_ms), name=name)
        self.execution.add_done_callback(lambda _: over())

    def cancel(self, cause: str) -> bool:
        """Cancel the function, which may still return a value."""
        if self._is_ending:
            return False
        if self._cause is None:
            self._cause = cause
            if self._has_begun:
                self.execution.cancel()
        return True

    def lease_lost(self) -> None:
        """Stop at once and write nothing more: another process has ended the task, or will."""
        self._is_lost = True
        self._lost.ring()
        if not self._is_ending:
            self.execution.cancel()

    def notify_input(self) -> None:
        """A function takes no input."""

    async def _execute_function(self, work: TaskFunction, timeout_ms: int | None) -> None:
        self._has_begun = True
        try:
            self._check_cancelled()
            termination, output = await self._outcome(work, timeout_ms)
        except asyncio.CancelledError:
            if self._is_lost:
                raise
            termination, output = self._cut_off(), None
        except BaseException as error:
            if is_interruption(error):
                raise
            termination, output = _to_failure(error), None
        self._is_ending = True
        if not self._is_lost:
            await self._end(termination, output)

    def _check_cancelled(self) -> None:
        if self._cause is not None:
            # Raised inside the task: one cancelled before its first step never writes its end.
            raise asyncio.CancelledError

    def _cut_off(self) -> Termination:
        if self._cause is not None:
            return Cancelled(cause=self._cause)
        execution = asyncio.current_task()
        if execution is not None and execution.cancelling():
            # The task was cancelled only by the shutdown of the event loop.
            return Cancelled(cause="shutdown")
        return Failed(message="the function cancelled itself", code="task_failed")

    async def _outcome(
        self, work: TaskFunction, timeout_ms: int | None
    ) -> tuple[Termination, str | None]:
        """Return the outcome of the function; a value counts even if the task was cancelled."""
        timer = asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000)
        try:
            async with timer:
                value = await work(self)
        except TimeoutError:
            if not timer.expired():
                raise
            detail = f"no result within {timeout_ms} ms"
            return Stopped(reason=StoppedReason(code="timeout", detail=detail)), None
        return NaturalEnd(), self._encode_value(value)

    def _encode_value(self, value: Any) -> str:
        text = msgspec.json.encode(to_json_form(value)).decode()
        limit = self._services.limits.tool_output_chars
        if len(text) > limit:
            message = f"the result has {len(text)} characters, the limit is {limit}"
            raise ValueError(message)
        return text

    async def _end(self, termination: Termination, output: str | None) -> None:
        """Write how the task ended, with the message to its owner; retry if the store fails.

        On a shared store it retries until the store answers, the lease is lost or this closes.
        """
        now = self._services.clock.now_ms()
        self.record = msgspec.structs.replace(
            self.record,
            status=RunStatus.DONE,
            termination=termination,
            final_output=output,
            finished_at=now,
            updated_at=now,
        )
        finish = RunFinish(
            thread_id=self.record.thread_id,
            run_id=self.record.run_id,
            identity=self.record.identity,
            result={"status": "done", "status_reason": reason_text(termination)},
            termination=termination,
        )
        await self._write_end(finish)

    async def _write_end(self, finish: RunFinish) -> None:
        pause_s, tries = _FIRST_PAUSE_S, 0
        while not self._is_lost:
            try:
                return await self._commit(self.record, (finish,), is_last=True)
            except StorageError as error:
                tries += 1
                is_given_up = tries == TRIES and not self._store.is_shared
                if is_given_up or not error.retryable:
                    logger.exception("The end of task '%s' was not written.", self.task_id)
                    return None
                await self._lost.wait(pause_s)
                pause_s = min(pause_s * 2, _PAUSE_CAP_S)
        return None

    async def _commit(
        self, record: RunRecord, events: tuple[AgentEvent, ...], *, is_last: bool = False
    ) -> None:
        lease = self.lease
        orders = list_commands_at_end(record, may_have_children=False) if is_last else []
        commit = Commit(
            commit_id=f"{record.run_id}:{self._version + 1}",
            thread_id=record.thread_id,
            expected_version=self._version,
            committed_at=record.updated_at,
            fencing_token=lease.token if lease is not None else None,
            claim=lease.claim if lease is not None and not is_last else None,
            release=Release() if lease is not None and is_last else None,
            run=record,
            events=events,
            outbox=tuple(orders),
        )
        receipt = await self._store.commit(commit)
        self._version = receipt.version
        if lease is not None:
            lease.claim = None
        self._services.watchers.notify(commit)


def _open_record(request: RunRequest, now_ms: int) -> RunRecord:
    assert request.task is not None
    return RunRecord(
        run_id=request.run_id_hint or "",
        thread_id=request.thread_id or "",
        agent_id=request.agent_id or "",
        status=RunStatus.RUNNING,
        parent_run_id=request.parent_run_id,
        parent_thread_id=request.parent_thread_id,
        parent_tool_call_id=request.parent_tool_call_id,
        lineage=request.lineage,
        task=request.task,
        origin=request.origin,
        run_mode=request.run_mode,
        adapter=request.adapter,
        tenant_id=request.tenant_id,
        user_id=request.user_id,
        trace=request.trace,
        created_at=now_ms,
        started_at=now_ms,
        updated_at=now_ms,
    )


def _to_failure(error: BaseException) -> Failed:
    return Failed(
        message=replace_surrogates(describe_error(error))[:ERROR_CHARS], code="task_failed"
    )
