"""The A2A operations, independent of the transport."""

import base64
import binascii
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from awaken.contracts.errors import InvalidResume, UnknownAgent
from awaken.contracts.identity import Adapter, derive_id, normalize_id
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.runs.records import LISTED_KINDS, RunRecord, RunRequest, context_in
from awaken.contracts.storage.keysets import key_at, run_key
from awaken.contracts.storage.queries import LIMIT_MAX, ListKey, Order, RunQuery
from awaken.services.event_streams import EventStream
from awaken.services.view import StartedRun, TenantView
from awaken.transport.problems import HttpError
from awaken.wire.a2a import TaskState

from . import wire
from .configs import check_room, config_violations, save_config
from .decode import decisions_of, message_violations, user_message
from .projection import TaskProjection
from .states import Payload, history, is_unanswered, open_tickets, task_of
from .wire import Ask, ListTasks, SendMessage, TaskRequest, WireMessage, find_violations

SEND_WAIT_MS = 300_000
CANCEL_WAIT_MS = 10_000
PAGE_SIZE = 50
PAGE_SIZE_MAX = 100
_OPEN = {
    TaskState.SUBMITTED: RunStatus.CREATED, TaskState.WORKING: None,
    TaskState.INPUT_REQUIRED: RunStatus.WAITING, TaskState.AUTH_REQUIRED: RunStatus.WAITING,
}  # fmt: skip
"""The run status to query for a task state; a task is also working while its run waits."""


class TaskStream(NamedTuple):
    """A streaming answer: the current task, and the updates that follow."""

    opening: Payload
    stream: EventStream
    projection: TaskProjection


async def send_message(ask: Ask[SendMessage]) -> Payload:
    """Send a message to an agent; answers when its task ends or waits, or at once."""
    _, wanted, begun = await _begin(ask)
    begun.stream.close()
    if not wanted.return_immediately:
        with suppress(TimeoutError):
            await ask.view.wait(begun.run_id, SEND_WAIT_MS)
    return {
        "task": await task_of(ask.view, await ask.view.run(begun.run_id), wanted.history_length)
    }


async def stream_message(ask: Ask[SendMessage]) -> TaskStream:
    """Send a message to an agent and stream its task until it ends or waits."""
    message, wanted, begun = await _begin(ask)
    if normalize_id(message.task_id) is not None:
        # Whatever the task asked, the message was taken: what follows says what becomes of it.
        length = wanted.history_length
        return await _open_stream(ask, begun.run_id, begun.stream, length, is_asking=False)
    shown = TaskProjection(begun.run_id, begun.thread_id, ask.view.outputs.decode)
    task = shown.snapshot()
    if wanted.history_length != 0:
        task["history"] = [msgspec.to_builtins(message) | shown.names]
    return TaskStream({"task": task}, begun.stream, shown)


async def get_task(ask: Ask[TaskRequest]) -> Payload:
    """Get a task."""
    return await task_of(ask.view, await ask.record(ask.params.id), ask.params.history_length)


async def cancel_task(ask: Ask[TaskRequest]) -> Payload:
    """Cancel a task; answers when it has ended."""
    record = await ask.record(ask.params.id)
    if not await ask.view.cancel_run(record.run_id):
        raise HttpError(409, "TASK_NOT_CANCELABLE", f"Task '{record.run_id}' has ended already.")
    with suppress(TimeoutError):
        await ask.view.wait(record.run_id, CANCEL_WAIT_MS)
    return await task_of(ask.view, await ask.view.run(record.run_id))


async def list_tasks(ask: Ask[ListTasks]) -> Payload:
    """A page of tasks, newest first."""
    params = ask.params
    state = None if params.status in (None, "", "TASK_STATE_UNSPECIFIED") else params.status
    size = PAGE_SIZE if params.page_size is None else params.page_size
    after_ms = _milliseconds(params.status_timestamp_after)
    after = _parse_token(params.page_token)
    is_token = not params.page_token or after is not None
    checks = [
        ("status", state is None or state in [*TaskState], f"is none of {', '.join(TaskState)}"),
        ("pageSize", 1 <= size <= PAGE_SIZE_MAX, f"must be from 1 to {PAGE_SIZE_MAX}"),
        ("pageToken", is_token, "is none of ours"),
        ("statusTimestampAfter", after_ms is not None, "must be like 2026-01-31T12:00:00Z"),
    ]
    await ask.check(find_violations(checks))
    found = _TaskFilter(TaskState(state) if state else None, after_ms or 0, after)
    return await _page(ask, found, size)


async def subscribe(ask: Ask[TaskRequest]) -> TaskStream:
    """Stream a task from now on, or from a cursor, to its end; a question does not end it."""
    record = await ask.record(ask.params.id)
    cursor = ask.call.cursor()
    if cursor is None:
        if record.status is RunStatus.DONE:
            message_text = f"Task '{record.run_id}' has ended; get it, or send a Last-Event-ID."
            raise HttpError(409, "UNSUPPORTED_OPERATION", message_text)
        cursor = await ask.latest(record)
    stream = await ask.view.follow_run(record.run_id, cursor)
    stream.is_open_ended = True
    is_asking = await is_unanswered(ask.view, await ask.view.run(record.run_id))
    length = ask.params.history_length
    return await _open_stream(ask, record.run_id, stream, length, is_asking=is_asking)


async def _begin(ask: Ask[SendMessage]) -> tuple[WireMessage, wire.Configuration, StartedRun]:
    """Start a task for a message, or continue the task that it names."""
    message = ask.params.message or WireMessage()
    wanted = ask.params.configuration or wire.Configuration()
    push = wanted.task_push_notification_config
    modes = wanted.accepted_output_modes
    is_text = not modes or not {"text/plain", "text/*", "*/*"}.isdisjoint(modes)
    checks = [
        ("acceptedOutputModes", is_text, "must include text/plain"),
        ("historyLength", (wanted.history_length or 0) >= 0, "must not be negative"),
    ]
    violations = message_violations(ask.params.message, ask.outbound)
    violations += find_violations(checks, "configuration.")
    if push is not None:
        path = "configuration.taskPushNotificationConfig."
        violations += await config_violations(push, ask.outbound, path)
    await ask.check(violations)
    if push is not None:
        # Checked before a run starts whose updates could not be delivered.
        await check_room(ask.view)
    cursor = 0
    if normalize_id(message.task_id) is None:
        begun = await _start(ask, message)
    else:
        record = await ask.record(message.task_id)
        cursor = await ask.latest(record)
        begun = await _continue(ask, message, record)
    if push is not None:
        await save_config(ask.view, begun.run_id, push, cursor)
    return message, wanted, begun


async def _start(ask: Ask[SendMessage], message: WireMessage) -> StartedRun:
    context, agent_id = normalize_id(message.context_id), ask.agent_id
    thread = None if context is None else await ask.view.find_thread(context)
    if agent_id is None and (thread is None or thread.latest_run_id is None):
        agent_id = await _usual_agent(ask.view)
    task_id = _task_id(ask, message)
    request = RunRequest(
        thread_id=context,
        agent_id=agent_id,
        messages=(user_message(message),),
        run_id_hint=task_id,
        adapter=Adapter.A2A,
        context=context_in(message.metadata) or context_in(ask.params.metadata),
    )
    try:
        return await ask.view.start(request)
    except InvalidResume:
        if task_id is None:
            raise
        # The message came before: the run that it started is the answer.
        record = await ask.view.run(task_id)
        stream = await ask.view.follow_run(task_id)
        return StartedRun(run_id=record.run_id, thread_id=record.thread_id, stream=stream)


async def _usual_agent(view: TenantView) -> str | None:
    """The agent of a new context for which none was named: `default`, else the first one.

    A resolver that cannot list its agents must not prevent calls to the default one.
    """
    with suppress(UnknownAgent):
        return (await view.agent("default")).spec.id
    return next(iter(await view.agents()), None)


def _task_id(ask: Ask[SendMessage], message: WireMessage) -> str | None:
    """The id of a message's task: the same for every repeat, if it names its context."""
    context = normalize_id(message.context_id)
    if context is None:
        return None
    return derive_id(ask.view.tenant_id or "", "a2a", context, message.message_id or "")


async def _continue(ask: Ask[SendMessage], message: WireMessage, record: RunRecord) -> StartedRun:
    thread_id = record.thread_id
    tickets = await open_tickets(ask.view, record)
    ask.call.check_may_answer(tickets, ())
    is_here = normalize_id(message.context_id) in (None, thread_id)
    done = f"the task waits for nothing; begin a new one with contextId '{thread_id}'"
    checks = [
        ("contextId", is_here, f"the task is in the context '{thread_id}'"),
        ("taskId", bool(tickets) or record.awaits_message or record.awaits_tasks, done),
    ]
    await ask.check(find_violations(checks, "message."))
    message_text = RunRequest(messages=() if tickets else (user_message(message),))
    decisions = decisions_of(message, tickets) if tickets else {}
    ask.call.check_may_answer(tickets, decisions.values())
    # With the message's id the answer can be found in the history.
    answer_id = message.message_id or ""
    decisions = {name: replace(it, decision_id=answer_id) for name, it in decisions.items()}
    stream = await ask.view.decide_and_follow(record, decisions, message_text)
    return StartedRun(run_id=record.run_id, thread_id=thread_id, stream=stream)


async def _open_stream(
    ask: Ask[Any], run_id: str, stream: EventStream, length: int | None, *, is_asking: bool
) -> TaskStream:
    """Begin with the task at the stream's cursor; it asks only what is still unanswered."""
    shown = TaskProjection(run_id, stream.thread_id, ask.view.outputs.decode)
    for event in stream.before:
        shown.project(event)
    stream.before = []
    task = shown.snapshot()
    if not is_asking and task["status"]["state"].is_waiting:
        task["status"] = {"state": TaskState.WORKING}
    return TaskStream({"task": task | await history(ask.view, shown.names, length)}, stream, shown)


class _TaskFilter(NamedTuple):
    """Which tasks are wanted, and behind which one the page begins."""

    state: TaskState | None
    after_ms: float
    after: ListKey | None


async def _page(ask: Ask[ListTasks], wanted: _TaskFilter, size: int) -> Payload:
    """Read a page of tasks, newest first; it may be short and yet have a next page.

    A page token names the last task that was looked at, so that new tasks do not shift pages.
    """
    params = ask.params
    query = RunQuery(
        thread_id=normalize_id(params.context_id),
        status=None if wanted.state is None else _OPEN.get(wanted.state, RunStatus.DONE),
        kinds=LISTED_KINDS,
        order=Order.DESC,
        after=wanted.after,
        limit=LIMIT_MAX,
        with_total=True,
    )
    page = await ask.view.runs(query)
    last = None if page.next_cursor is None else key_at(page.next_cursor)
    tasks: list[Payload] = []
    for place, record in enumerate(page.items):
        if len(tasks) == size:
            last = run_key(page.items[place - 1])
            break
        if ask.agent_id in (None, record.agent_id) and record.updated_at > wanted.after_ms:
            task = await task_of(ask.view, record, params.history_length or 0)
            if not params.include_artifacts:
                task.pop("artifacts", None)
            if wanted.state in (None, task["status"]["state"]):
                tasks.append(task)
    token = "" if last is None else _format_token(last)
    shown = {"tasks": tasks, "nextPageToken": token, "pageSize": size}
    return shown | {"totalSize": page.total or 0}


def _format_token(key: ListKey) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(key)).decode().rstrip("=")


def _parse_token(token: str | None) -> ListKey | None:
    """Parse a page token; None when it is absent or malformed."""
    try:
        data = base64.urlsafe_b64decode((token or "").encode() + b"===")
        key: ListKey = msgspec.json.decode(data, type=ListKey)
    except (ValueError, binascii.Error, msgspec.MsgspecError, RecursionError):
        return None
    return key


def _milliseconds(text: str | None) -> float | None:
    """Parse a time; -1 when it is absent, None when it is malformed."""
    try:
        return datetime.fromisoformat(text).timestamp() * 1000 if text else -1
    except (ValueError, OverflowError):
        return None
