"""The known state of one task, combined from answers and stream events.

The first end counts: later events change nothing. A question is no end: if the whole task says that
it goes on, it does. A task never goes back from working to submitted, and events of other tasks are
ignored.
"""

from collections.abc import Sequence

import msgspec

from awaken.contracts.backends.errors import RemoteMalformed, RemoteTooLarge
from awaken.contracts.backends.requests import RemoteTarget
from awaken.wire.a2a import Part, TaskState

from .wire import A2aAnswer, Artifact, ArtifactUpdate, Status, Task

ARTIFACT_BYTES_MAX = 8 * 1024 * 1024
"""How much of artifacts is taken from the streams of one task."""


class TaskView:
    """One task as far as it is known.

    Pieces of artifacts are kept as they arrive and joined when the task is read, so that an
    artifact in many pieces costs no more than its size.
    """

    def __init__(self, task: Task) -> None:
        self.task_id = task.id
        self._received = 0
        self._task = task
        self._status: Status = task.status
        self._context_id = task.context_id
        self._pieces: dict[str, list[Artifact]] = {}
        self._adopt(task, task.status)

    @property
    def task(self) -> Task:
        """The whole task."""
        artifacts = tuple(map(_join_pieces, self._pieces.values()))
        return msgspec.structs.replace(self._task, status=self._status, artifacts=artifacts)

    @property
    def target(self) -> RemoteTarget:
        """The checkpoint by which another process finds the task again."""
        return RemoteTarget(
            task_id=self.task_id,
            context_id=self._context_id,
            last_state=self.state.value,
            question_id=self._status.question_id,
        )

    @property
    def state(self) -> TaskState:
        """The state of the task."""
        return self._status.state

    @property
    def is_over(self) -> bool:
        """Whether the task has ended or waits for the client."""
        return not self.state.is_active

    def replace(self, task: Task) -> None:
        """Apply the whole task, as the server returned it.

        Raises:
            RemoteMalformed: The task moved to another context.
        """
        if not self.is_over or self.state.is_waiting or task.status.state is self.state:
            self._adopt(task, _advance_status(self._status, task.status))

    def apply_event(self, event: A2aAnswer) -> None:
        """Apply an event of a stream.

        Raises:
            RemoteTooLarge: The artifacts of the task have become too large.
            RemoteMalformed: The task moved to another context.
        """
        if self.is_over:
            return
        if event.task is not None and event.task.id == self.task_id:
            self._adopt(event.task, _advance_status(self._status, event.task.status))
        elif (update := event.status_update) and update.task_id == self.task_id:
            self._status = _advance_status(self._status, update.status)
        elif (more := event.artifact_update) and more.task_id == self.task_id:
            self._extend(more)

    def _adopt(self, task: Task, status: Status) -> None:
        known = self._context_id = self._context_id or task.context_id
        if task.context_id not in (None, known):
            raise RemoteMalformed(problem="the task moved to another context")
        self._task, self._status = task, status
        self._pieces = {it.artifact_id: self._split_as_received(it) for it in task.artifacts}

    def _split_as_received(self, whole: Artifact) -> list[Artifact]:
        """An artifact in the pieces in which it arrived: they show which texts belong together."""
        pieces = self._pieces.get(whole.artifact_id, [])
        is_same = whole.parts == tuple(part for piece in pieces for part in piece.parts)
        return pieces if is_same and pieces else [whole]

    def _extend(self, update: ArtifactUpdate) -> None:
        self._received += len(msgspec.json.encode(update.artifact))
        if self._received > ARTIFACT_BYTES_MAX:
            raise RemoteTooLarge(problem=f"artifacts of more than {ARTIFACT_BYTES_MAX} bytes")
        pieces = self._pieces.setdefault(update.artifact.artifact_id, [])
        if not update.append:
            pieces.clear()
        pieces.append(update.artifact)


def _advance_status(before: Status, after: Status) -> Status:
    is_back = before.state is TaskState.WORKING and after.state is TaskState.SUBMITTED
    return before if is_back else after


def _join_pieces(pieces: Sequence[Artifact]) -> Artifact:
    """Join the pieces of an artifact; adjacent pieces of text become one text."""
    if len(pieces) == 1:
        return pieces[0]
    parts: list[Part] = []
    texts: list[str] = []
    for part in (part for piece in pieces for part in piece.parts):
        if part.text is not None:
            texts.append(part.text)
            continue
        parts += _text_part(texts)
        texts.clear()
        parts.append(part)
    return msgspec.structs.replace(pieces[0], parts=(*parts, *_text_part(texts)))


def _text_part(texts: Sequence[str]) -> list[Part]:
    return [Part(text="".join(texts))] if texts else []
