"""What one tool call starts: delegates, tasks and messages, each found again by its id.

The ids of children are derived from the call's idempotency key, so that a call that runs again
after a crash finds what it has started and starts nothing twice.
"""

from collections.abc import Sequence

import msgspec

from awaken.contracts.backend_results import BackendRunResult
from awaken.contracts.identity import derive_id
from awaken.contracts.messages.message import Message
from awaken.contracts.models.inference import InferenceOverride, StreamResult
from awaken.contracts.storage.outbox import ThreadMessage, decode_command, end_message_id
from awaken.contracts.storage.store import OutboxEntry
from awaken.contracts.tasks import (
    SUB_AGENT,
    TaskIdTaken,
    TaskInfo,
    TaskRecord,
    TooManyHops,
)
from awaken.contracts.tenancy import add_namespace, namespace_in
from awaken.contracts.tools.sub_runs import (
    Delegation,
    DurableMessageRequest,
    DurableMessageSink,
    FailedMessage,
    Listener,
    SubRuns,
    TaskFunction,
)
from awaken.runtime.inference.side_calls import side_answer
from awaken.runtime.run import Run

from .background_tasks import BackgroundTasks
from .child_requests import agent_request, child_request, is_child
from .delegates import Children
from .delegation import run_delegate
from .message_sinks import HostMessages, OutboxMessages, build_message
from .progress import ProgressForwarder
from .task_places import check_function, check_task, hold_task_place, own_task
from .task_records import build_deleted_task, task_record


class ChildRuns:
    """Gives each tool call access to the runs below it."""

    __slots__ = ("_children", "_tasks")

    def __init__(self, children: Children, tasks: BackgroundTasks) -> None:
        self._children = children
        self._tasks = tasks

    def below(self, run: Run, call_id: str, idempotency_key: str) -> SubRuns:
        """The runs below one call of a run."""
        return CallRuns(self._children, self._tasks, run, call_id, idempotency_key)


class CallRuns:
    """The runs below one call of a run."""

    __slots__ = ("_call_id", "_children", "_count", "_key", "_run", "_tasks")

    def __init__(
        self, children: Children, tasks: BackgroundTasks, run: Run, call_id: str, key: str
    ) -> None:
        self._children = children
        self._tasks = tasks
        self._run = run
        self._call_id = call_id
        self._key = key
        self._count = 0

    async def delegate(
        self, delegation: Delegation, listen: Listener | None = None
    ) -> BackendRunResult:
        """Let another agent answer, in a run of its own; return when it has ended or waits."""
        self._count += 1
        child_id = self._child_id("delegate", delegation.agent_id)
        forwarder = ProgressForwarder(self._run, child_id, listen)
        return await run_delegate(self._children, self._run, self._call_id, forwarder, delegation)

    async def ask_model(
        self,
        messages: Sequence[Message],
        *,
        system: tuple[str, ...] = (),
        overrides: InferenceOverride | None = None,
    ) -> StreamResult:
        """Call the agent's model on behalf of the call; the run is charged for it."""
        return await side_answer(self._run, messages, system, overrides)

    async def spawn(
        self, work: TaskFunction, task: TaskInfo, *, timeout_ms: int | None = None
    ) -> TaskRecord:
        """Start a function of this process as a task."""
        check_function(work, timeout_ms)
        child_id = self._next_id(task)
        known = await self._find_task(child_id, task)
        if known is not None:
            return known
        task = self._bind_task(task)
        request = child_request(self._run, self._call_id, child_id, f"task:{task.task_type}", task)
        with hold_task_place(self._run, child_id, task, self._tasks.count):
            record = await self._tasks.start_function(self._run, request, work, timeout_ms)
        return task_record(record)

    async def spawn_agent(self, agent_id: str, prompt: str, task: TaskInfo) -> TaskRecord:
        """Start an agent as a task; it outlives this process."""
        task = msgspec.structs.replace(task, task_type=SUB_AGENT)
        child_id = self._next_id(task, agent_id)
        known = await self._find_task(child_id, task)
        if known is not None:
            return known
        task = self._bind_task(task)
        asked = Delegation(agent_id=agent_id, prompt=prompt)
        request = await agent_request(self._run, self._call_id, child_id, asked, task)
        with hold_task_place(self._run, child_id, task, self._tasks.count):
            record = await self._tasks.start(self._run, request)
        return task_record(record)

    async def list_tasks(self) -> tuple[TaskRecord, ...]:
        """Return the tasks of this thread, newest first, including those that have ended."""
        return await self._tasks.tasks_of(self._run.identity.thread_id)

    async def find_task(self, name_or_id: str) -> TaskRecord | None:
        """Return a task of this thread by its id, else the running task of that name."""
        return await self._tasks.find_task(self._run.identity.thread_id, name_or_id)

    async def cancel_task(self, task_id: str) -> int:
        """Cancel a task and every run below it; return how many cancel requests were accepted."""
        await self._tasks.load_task_run(self._run.identity.thread_id, task_id)
        return await self._tasks.cancel_tree(task_id)

    async def cancel_self(self) -> int:
        """Cancel the run of the call and every run below it; return how many were accepted."""
        identity = self._run.identity
        count = await self._tasks.cancel_below(identity.thread_id, identity.run_id)
        return count + self._run.token.cancel("self")

    async def tell_task(self, task_id: str, text: str) -> str:
        """Send a message to an agent's task of this thread; return the message's id."""
        record = await self._tasks.load_task_run(self._run.identity.thread_id, task_id)
        message_id = self._message_id(task_id)
        request = DurableMessageRequest(
            recipient_thread_id=record.thread_id, sender_agent_id="", message=text
        )
        return await self._tasks.tell(record, build_message(self._sign(request)), message_id)

    @property
    def has_own_transport(self) -> bool:
        """Whether messages to other threads are sent by the host's sink."""
        return self._run.services.message_sink is not None

    async def send_agent_message(self, request: DurableMessageRequest) -> str:
        """Send a message to another thread by the host's sink, or with the next commit.

        Raises:
            TooManyHops: Too many agents have written because another one wrote.
            UnknownAgent: The addressed agent does not exist.
            InvalidInput: The thread's id is malformed, or the text is too large.
            MessageNotSent: The host's sink did not accept it.
        """
        services, recipient = self._run.services, request.recipient_thread_id
        if recipient.strip():
            recipient = self._own(recipient)
        signed = msgspec.structs.replace(
            self._sign(request),
            recipient_thread_id=recipient,
            idempotency_key=self._message_id(recipient),
        )
        sink: DurableMessageSink = OutboxMessages(self._run)
        if services.message_sink is not None:
            sink = HostMessages(services.message_sink, services.limits.message_sink_ms)
        return await sink.send_agent_message(signed)

    async def list_failed_messages(self) -> tuple[FailedMessage, ...]:
        """Return messages of this thread whose delivery was given up."""
        dead = await self._run.store.list_dead_outbox(self._run.identity.thread_id)
        return tuple(found for entry in dead if (found := _to_failed_message(entry)) is not None)

    async def resend(self, message_id: str) -> bool:
        """Retry a message whose delivery was given up; False when there is none of that id."""
        store = self._run.store
        for entry in await store.list_dead_outbox(self._run.identity.thread_id):
            if entry.entry_id == message_id and _to_failed_message(entry) is not None:
                again = OutboxEntry(entry_id=message_id, kind=entry.kind, payload=entry.payload)
                is_kept = await store.save_outbox(again)
                self._tasks.wake_relay()
                return is_kept
        return False

    def _next_id(self, task: TaskInfo, agent_id: str = "") -> str:
        check_task(task)
        self._count += 1
        return self._child_id("task", task.name or "", agent_id)

    def _own(self, given: str) -> str:
        """Return the stored form of an id of the run's tenant."""
        return add_namespace(namespace_in(self._run.identity.thread_id), given)

    def _child_id(self, *parts: str) -> str:
        """Return the id of a child run, which is the same whenever the call runs again."""
        key = self._key.removeprefix(namespace_in(self._key))
        return self._own(derive_id(key, *parts, str(self._count)))

    def _message_id(self, recipient: str) -> str:
        self._count += 1
        return derive_id(self._key, "letter", recipient, str(self._count))

    async def _find_task(self, child_id: str, task: TaskInfo) -> TaskRecord | None:
        """Return the task that this call has started before, if any.

        Raises:
            TaskIdTaken: Another run has its id.
        """
        record = await self._run.store.load_run(child_id)
        if record is None:
            return await self._find_deleted_task(child_id, task)
        if not is_child(self._run, record):
            raise TaskIdTaken(task_id=child_id)
        if record.task is not None and not record.status.is_terminal:
            # An ended task's end message is sent already: the run does not wait for it again.
            own_task(self._run, child_id, record.task)
        return task_record(record)

    async def _find_deleted_task(self, child_id: str, task: TaskInfo) -> TaskRecord | None:
        """Return a task that an earlier execution of the run has started, if it was deleted.

        Its end is in the outbox until it is delivered, and then it is a dispatch.
        """
        run, end_id = self._run, end_message_id(child_id)
        if not (run.is_continued or run.recovery is not None):
            return None
        if await run.store.find_outbox(end_id) is None:
            dispatch = await run.store.find_dispatch(end_id)
            if dispatch is None or dispatch.thread_id != run.identity.thread_id:
                return None
        return build_deleted_task(run.identity, self._call_id, child_id, task)

    def _bind_task(self, task: TaskInfo) -> TaskInfo:
        is_in_task = self._run.record.task is not None
        parent = self._run.identity.run_id if is_in_task else None
        return msgspec.structs.replace(task, parent_task_id=task.parent_task_id or parent)

    def _sign(self, request: DurableMessageRequest) -> DurableMessageRequest:
        """Return the message with its sender.

        Raises:
            TooManyHops: Too many agents have written because another one wrote.
        """
        identity = self._run.identity
        hops, limit = 1 + self._hops(), self._run.services.limits.message_hops
        if hops > limit:
            raise TooManyHops(hops=hops, limit=limit)
        speaker = identity.active_agent_id or identity.agent_id
        return msgspec.structs.replace(
            request,
            sender_agent_id=request.sender_agent_id or speaker,
            sender_thread_id=identity.thread_id,
            sender_run_id=identity.run_id,
            tenant_id=identity.tenant_id,
            user_id=identity.user_id,
            hops=hops,
        )

    def _hops(self) -> int:
        """Return how many hops the run is from a person's message, by the farthest one it read."""
        run = self._run
        return max(
            (
                it.sender.hops
                for it in run.messages
                if it.sender is not None
                and it.metadata is not None
                and it.metadata.run_id == run.identity.run_id
            ),
            default=0,
        )


def _to_failed_message(entry: OutboxEntry) -> FailedMessage | None:
    order = decode_command(entry.payload)
    if not isinstance(order, ThreadMessage):
        return None
    payload = order.payload if isinstance(order.payload, dict) else {}
    if payload.get("kind") != "agent_message":
        return None
    return FailedMessage(
        message_id=entry.entry_id,
        recipient_thread_id=order.thread_id,
        message=str(payload.get("content", "")),
        error=entry.error or "",
    )
