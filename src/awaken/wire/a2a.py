"""A2A 1.0: values that both our server and our remote backend send."""

from enum import StrEnum
from typing import Any

import msgspec

from awaken.contracts.record import Record

CARD_BYTES_MAX = 256 * 1024
"""The largest card that is read."""


class A2aRecord(Record, frozen=True, kw_only=True, rename="camel"):
    """A value whose fields have camelCase names on the wire."""


class TaskState(StrEnum):
    """The state of a task."""

    SUBMITTED = "TASK_STATE_SUBMITTED"
    WORKING = "TASK_STATE_WORKING"
    INPUT_REQUIRED = "TASK_STATE_INPUT_REQUIRED"
    AUTH_REQUIRED = "TASK_STATE_AUTH_REQUIRED"
    COMPLETED = "TASK_STATE_COMPLETED"
    FAILED = "TASK_STATE_FAILED"
    CANCELED = "TASK_STATE_CANCELED"
    REJECTED = "TASK_STATE_REJECTED"

    @property
    def is_active(self) -> bool:
        """Whether the server works on it; the other states are final or wait for the client."""
        return self in (TaskState.SUBMITTED, TaskState.WORKING)

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for the client."""
        return self in (TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED)


class Part(A2aRecord, frozen=True, kw_only=True):
    """A piece of a message or an artifact: exactly one of text, raw (base64), url and data."""

    text: str | None = None
    raw: str | None = None
    url: str | None = None
    data: Any = msgspec.UNSET
    media_type: str | None = None
    filename: str | None = None
    metadata: dict[str, Any] | None = None
