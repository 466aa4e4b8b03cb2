"""Converts a remote task to the result of a run, and to progress events."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from awaken.contracts.backend_results import (
    BackendOutputArtifact,
    BackendRunOutput,
    BackendRunStatus,
)
from awaken.contracts.events import ActivitySnapshot
from awaken.contracts.lifecycle import (
    Cancelled,
    Failed,
    NaturalEnd,
    Stopped,
    StoppedReason,
    Suspended,
    Termination,
)
from awaken.wire.a2a import Part, TaskState

from .wire import Artifact, RemoteMessage, Task

ACTIVITY = "a2a-task-progress"
SCHEMA = "a2a-task-progress.v1"
PROGRESS_CHARS = 16 * 1024
PROGRESS_ARTIFACTS = 50
"""How many artifacts a progress event names; the result has them all."""
FAILURE_CHARS = 4096
_DEFAULTS: Mapping[TaskState, str] = {
    TaskState.FAILED: "the remote task failed",
    TaskState.REJECTED: "the remote task was rejected",
    TaskState.INPUT_REQUIRED: "the remote task needs input",
    TaskState.AUTH_REQUIRED: "the remote task needs authorization",
}
_CODES = {TaskState.FAILED: "remote_failed", TaskState.REJECTED: "remote_rejected"}


class RemoteEnding(NamedTuple):
    """How a turn ended, without the identity of its run."""

    status: BackendRunStatus
    termination: Termination
    output: BackendRunOutput
    message: str | None = None
    is_work_left: bool = False


def read_task_end(task: Task, *, is_delegate: bool) -> RemoteEnding:
    """The end of a turn by its task; a delegating run always gets the reason for a wait."""
    state, output = task.status.state, output_of(task)
    said = text_of(task.status.message.parts) if task.status.message else ""
    reason = said[:FAILURE_CHARS] or _DEFAULTS.get(state, "the remote task is not finished")
    match state:
        case TaskState.COMPLETED:
            return RemoteEnding(BackendRunStatus.COMPLETED, NaturalEnd(), output)
        case TaskState.CANCELED:
            return RemoteEnding(BackendRunStatus.CANCELLED, Cancelled(cause="remote"), output)
        case TaskState.INPUT_REQUIRED | TaskState.AUTH_REQUIRED:
            is_input = state is TaskState.INPUT_REQUIRED
            status = BackendRunStatus.WAITING_INPUT if is_input else BackendRunStatus.WAITING_AUTH
            question = reason if is_delegate else said[:FAILURE_CHARS]
            return RemoteEnding(status, Suspended(), output, question or None)
        case _:
            termination = Failed(message=reason, code=_CODES.get(state, "remote_unfinished"))
            return RemoteEnding(BackendRunStatus.FAILED, termination, output, reason)


def read_message_end(message: RemoteMessage) -> RemoteEnding:
    """The end of a turn that a message answered; parts that are not text become an artifact."""
    text = text_of(message.parts) or None
    has_more = any(part.text is None for part in message.parts)
    made = (Artifact(artifact_id=message.message_id, parts=message.parts),) if has_more else ()
    output = BackendRunOutput(text=text, artifacts=_artifacts(made), raw=_plain(message))
    return RemoteEnding(BackendRunStatus.COMPLETED, NaturalEnd(), output)


def make_timeout_end(task: Task | None, timeout_ms: int, *, is_work_left: bool) -> RemoteEnding:
    """The end of a turn that timed out, with the output so far."""
    detail = f"the remote agent had {timeout_ms} ms"
    termination = Stopped(reason=StoppedReason(code="timeout", detail=detail))
    output = output_of(task) if task is not None else BackendRunOutput()
    return RemoteEnding(BackendRunStatus.TIMEOUT, termination, output, detail, is_work_left)


def output_of(task: Task) -> BackendRunOutput:
    """The output of a task."""
    artifacts = _artifacts(task.artifacts)
    return BackendRunOutput(text=answer_of(task) or None, artifacts=artifacts, raw=_plain(task))


def answer_of(task: Task) -> str:
    """The first artifact with a text, else the status message, else the agent's last message."""
    said = [it.parts for it in reversed(task.history) if it.role != "ROLE_USER"]
    status = [task.status.message.parts] if task.status.message else []
    places = (*(it.parts for it in task.artifacts), *status, *said)
    return next(filter(None, map(text_of, places)), "")


def text_of(parts: Iterable[Part]) -> str:
    """The texts of parts, and their data as JSON, with an empty line between them."""
    return "\n\n".join(filter(None, map(_text, parts)))


def progress_of(task: Task, run_id: str) -> ActivitySnapshot:
    """The progress event of a task."""
    message = task.status.message
    is_failure = task.status.state in (TaskState.FAILED, TaskState.REJECTED)
    content = {
        "schema": SCHEMA,
        "task_id": task.id,
        "context_id": task.context_id,
        "state": task.status.state.value,
        "text": answer_of(task)[:PROGRESS_CHARS],
        "artifacts": [
            {"id": it.artifact_id, "name": it.name, "media_type": _media_type(it)}
            for it in task.artifacts[:PROGRESS_ARTIFACTS]
        ],
        "failure_message": text_of(message.parts)[:FAILURE_CHARS]
        if is_failure and message
        else None,
    }
    return ActivitySnapshot(
        message_id=f"{run_id}:{ACTIVITY}", activity_type=ACTIVITY, content=content, replace=True
    )


def _artifacts(made: Iterable[Artifact]) -> tuple[BackendOutputArtifact, ...]:
    return tuple(
        BackendOutputArtifact(
            id=it.artifact_id or None,
            name=it.name,
            media_type=_media_type(it),
            content=_plain(it.parts),
        )
        for it in made
    )


def _media_type(artifact: Artifact) -> str | None:
    found = (part.media_type or ("text/plain" if part.text else None) for part in artifact.parts)
    return next(filter(None, found), None)


def _text(part: Part) -> str:
    if part.text is not None:
        return part.text
    if part.data is not msgspec.UNSET:
        return msgspec.json.encode(part.data).decode()
    return ""


def _plain(value: Any) -> Any:
    """A value as plain JSON, the form in which it is stored."""
    return msgspec.json.decode(msgspec.json.encode(value))
