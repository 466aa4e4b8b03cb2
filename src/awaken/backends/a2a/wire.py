"""The server's answers as types. Unknown fields are ignored, malformed ones are refused."""

from typing import Any, TypeVar

import msgspec

from awaken.contracts.backends.errors import RemoteMalformed, RemoteTooLarge
from awaken.contracts.identity import derive_id
from awaken.wire.a2a import A2aRecord, Part, TaskState

from .failures import shorten_text

DEPTH_MAX = 64
VALUES_MAX = 200_000
"""A value of two bytes takes up to a hundred bytes of memory once decoded."""
ID_LENGTH_MAX = 256

T = TypeVar("T")


class RemoteMessage(A2aRecord, frozen=True, kw_only=True):
    """A message of either side."""

    message_id: str = ""
    role: str = ""
    parts: tuple[Part, ...] = ()
    context_id: str | None = None
    task_id: str | None = None


class Status(A2aRecord, frozen=True, kw_only=True):
    """The status of a task."""

    state: TaskState
    message: RemoteMessage | None = None
    timestamp: str | None = None

    @property
    def question_id(self) -> str | None:
        """An id that distinguishes a question from later ones of the task; None if nothing does.

        Its text alone does not: the same question may be asked twice. Some servers give all
        questions of a task the same message id, others send no timestamp.
        """
        message_id = self.message.message_id if self.message is not None else ""
        if not self.state.is_waiting or not (message_id or self.timestamp):
            return None
        parts = self.message.parts if self.message is not None else ()
        words = msgspec.json.encode(parts, order="deterministic").decode()
        return derive_id(self.timestamp or "", message_id, words)


class Artifact(A2aRecord, frozen=True, kw_only=True):
    """An output of a task."""

    artifact_id: str = ""
    name: str | None = None
    description: str | None = None
    parts: tuple[Part, ...] = ()
    metadata: dict[str, Any] | None = None


class Task(A2aRecord, frozen=True, kw_only=True):
    """A task and its current state."""

    id: str
    status: Status
    context_id: str | None = None
    artifacts: tuple[Artifact, ...] = ()
    history: tuple[RemoteMessage, ...] = ()
    metadata: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        for name in (self.id, self.context_id):
            if name is not None and not is_name(name):
                message = "an id of the task is not a valid id"
                raise ValueError(message)

    def has_message(self, message_id: str) -> bool:
        """Whether a message is known to have arrived in it."""
        return any(message.message_id == message_id for message in self.history)


class StatusUpdate(A2aRecord, frozen=True, kw_only=True):
    """The status of a task changed."""

    task_id: str
    status: Status
    context_id: str | None = None


class ArtifactUpdate(A2aRecord, frozen=True, kw_only=True):
    """An artifact arrived, or a further piece of it."""

    task_id: str
    artifact: Artifact
    context_id: str | None = None
    append: bool | None = None
    last_chunk: bool | None = None


class A2aAnswer(A2aRecord, frozen=True, kw_only=True):
    """The answer to a message, or one event of a stream: one of its fields."""

    task: Task | None = None
    message: RemoteMessage | None = None
    status_update: StatusUpdate | None = None
    artifact_update: ArtifactUpdate | None = None


Reply = Task | RemoteMessage
"""The answer to a message."""


class TaskPage(A2aRecord, frozen=True, kw_only=True):
    """Tasks, newest first."""

    tasks: tuple[Task, ...] = ()


class AgentInterface(A2aRecord, frozen=True, kw_only=True):
    """A way to reach an agent."""

    url: str
    protocol_binding: str = ""
    protocol_version: str = ""
    tenant: str | None = None


class CardCapabilities(A2aRecord, frozen=True, kw_only=True):
    """Optional capabilities of an agent."""

    streaming: bool | None = None


class AgentCard(A2aRecord, frozen=True, kw_only=True):
    """How an agent describes itself."""

    supported_interfaces: tuple[AgentInterface, ...] = ()
    capabilities: CardCapabilities = CardCapabilities()


def is_name(text: str) -> bool:
    """Whether a text of the server can be an id: it becomes part of a URL."""
    is_plain = text.isascii() and text.isprintable() and text not in (".", "..")
    return is_plain and 0 < len(text) <= ID_LENGTH_MAX


def parse_json(data: bytes) -> Any:
    """Decode JSON.

    Raises:
        RemoteMalformed: The data is not JSON.
        RemoteTooLarge: The document is nested too deeply, or has too many values.
    """
    try:
        document = msgspec.json.decode(data)
    except RecursionError as error:
        raise _too_deep() from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RemoteMalformed(problem=f"the answer is not JSON: {shorten_text(error)}") from error
    # Few documents have that many: only those are counted exactly.
    brackets = data.count(b"[") + data.count(b"{")
    if brackets > DEPTH_MAX or brackets + data.count(b",") > VALUES_MAX:
        _check_shape(document)
    return document


def read_as(document: Any, kind: type[T]) -> T:
    """Convert JSON to a type.

    Raises:
        RemoteMalformed: The document does not fit the type.
    """
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        problem = f"the answer is not a valid {kind.__name__}: {shorten_text(error)}"
        raise RemoteMalformed(problem=problem) from error


def _check_shape(document: Any) -> None:
    level, values = [document], 0
    for _ in range(DEPTH_MAX + 1):
        level = [
            child
            for value in level
            if isinstance(value, dict | list)
            for child in (value.values() if isinstance(value, dict) else value)
        ]
        values += len(level)
        if values > VALUES_MAX:
            raise RemoteTooLarge(problem=f"the answer has more than {VALUES_MAX} values")
        if not level:
            return
    raise _too_deep()


def _too_deep() -> RemoteTooLarge:
    return RemoteTooLarge(problem=f"the answer is nested more than {DEPTH_MAX} deep")
