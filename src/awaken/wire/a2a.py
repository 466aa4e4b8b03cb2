"""A2A 1.0: what our server says to its clients, and our backend to other servers."""

from enum import StrEnum
from typing import Any

import msgspec

from awaken.contracts.record import Record

CARD_BYTES_MAX = 256 * 1024
"""The largest card that is read."""


class A2aRecord(Record, frozen=True, kw_only=True, rename="camel"):
    """A value whose fields are written in camelCase."""


class TaskState(StrEnum):
    """Where a task is in its life."""

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
        """Whether the server works on it; all others are ends, or wait for the client."""
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
