"""What is known of one task, put together from everything that is told of it.

The first end that is told stands: whatever is told later changes nothing. A task never goes back
from working to submitted, and what is told of other tasks is not ours.
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

    Pieces of artifacts are kept as they come and put together when somebody looks, so that an
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
        artifacts = tuple(map(_joined, self._pieces.values()))
        return msgspec.structs.replace(self._task, status=self._status, artifacts=artifacts)

    @property
    def target(self) -> RemoteTarget:
        """What has to be kept to find it again."""
        return RemoteTarget(
            task_id=self.task_id,
            context_id=self._context_id,
            last_state=self.state.value,
            question_id=self._status.question_id,
        )

    @property
    def state(self) -> TaskState:
        """Where it is."""
        return self._status.state

    @property
    def is_over(self) -> bool:
        """Whether it has ended or waits for us."""
        return not self.state.is_active

    def replace(self, task: Task) -> None:
        """Take the whole task as it was told on request.

        Raises:
            RemoteMalformed: It went to another context.
        """
        if not self.is_over or task.status.state is self.state:
            self._adopt(task, _forward(self._status, task.status))

    def take(self, event: A2aAnswer) -> None:
        """Take an event of a stream.

        Raises:
            RemoteTooLarge: The artifacts of the task have become too large.
            RemoteMalformed: It went to another context.
        """
        if self.is_over:
            return
        if event.task is not None and event.task.id == self.task_id:
            self._adopt(event.task, _forward(self._status, event.task.status))
        elif (update := event.status_update) and update.task_id == self.task_id:
            self._status = _forward(self._status, update.status)
        elif (more := event.artifact_update) and more.task_id == self.task_id:
            self._extend(more)

    def _adopt(self, task: Task, status: Status) -> None:
        known = self._context_id = self._context_id or task.context_id
        if task.context_id not in (None, known):
            raise RemoteMalformed(problem="the task went from its context to another")
        self._task, self._status = task, status
        self._pieces = {it.artifact_id: self._as_cut(it) for it in task.artifacts}

    def _as_cut(self, whole: Artifact) -> list[Artifact]:
        """An artifact in the pieces in which it came: only they tell that its texts are one."""
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


def _forward(before: Status, after: Status) -> Status:
    is_back = before.state is TaskState.WORKING and after.state is TaskState.SUBMITTED
    return before if is_back else after


def _joined(pieces: Sequence[Artifact]) -> Artifact:
    """The artifact that came in pieces; texts that were cut are whole again."""
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
