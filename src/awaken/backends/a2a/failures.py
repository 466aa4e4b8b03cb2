"""Translates error answers of the server to typed errors."""

from collections.abc import Mapping
from typing import Any

import msgspec

from awaken.contracts.backends.errors import (
    RemoteError,
    RemoteMalformed,
    RemoteRefused,
    RemoteUnreachable,
    RemoteUnsupported,
)

TEXT_MAX = 500
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})


class RemoteNotReached(RemoteUnreachable):
    """The request has certainly not been processed."""


class RemoteOutcomeUnknown(RemoteError):
    """A message may have arrived, and the server cannot tell whether it has."""

    code = "remote_outcome_unknown"


class RemoteTaskUnknown(RemoteRefused):
    """The server does not know the task."""

    code = "remote_task_unknown"


class RemoteNotFound(RemoteUnsupported):
    """There is nothing at the address."""

    code = "remote_not_found"


class RemoteTaskEnded(RemoteRefused):
    """The task has ended and cannot be stopped or continued."""

    code = "remote_task_ended"


_REASONS: Mapping[str, type[RemoteError]] = {
    "TASK_NOT_FOUND": RemoteTaskUnknown, "TASK_NOT_CANCELABLE": RemoteTaskEnded,
    "UNSUPPORTED_OPERATION": RemoteUnsupported, "CONTENT_TYPE_NOT_SUPPORTED": RemoteUnsupported,
    "VERSION_NOT_SUPPORTED": RemoteUnsupported, "METHOD_NOT_FOUND": RemoteUnsupported,
}  # fmt: skip
_RPC_CODES: Mapping[int, type[RemoteError]] = {
    -32001: RemoteTaskUnknown, -32002: RemoteTaskEnded, -32004: RemoteUnsupported,
    -32005: RemoteUnsupported, -32009: RemoteUnsupported, -32600: RemoteRefused,
    -32601: RemoteUnsupported, -32602: RemoteRefused, -32603: RemoteUnreachable,
}  # fmt: skip


def failure_of_status(status: int, body: bytes, *, is_delayed: bool = False) -> RemoteError:
    """The error of an HTTP answer that is neither a success nor a redirect.

    `is_delayed` says that the server named a time to try again.
    """
    reason, text = _read_refusal(body)
    said = f"status {status}" + (f", {text}" if text else "")
    if kind := _REASONS.get(reason):
        return kind(problem=said)
    if status in (401, 403):
        return RemoteRefused(problem=f"the credentials were refused: {said}")
    if status == 404:
        return RemoteNotFound(problem=said)
    if status in (405, 501):
        return RemoteUnsupported(problem=said)
    if status in _TRANSIENT:
        is_rejected = status == 429 or (status == 503 and is_delayed)
        return (RemoteNotReached if is_rejected else RemoteUnreachable)(problem=said)
    return RemoteRefused(problem=said) if status < 500 else RemoteError(problem=said)


def failure_of_error(error: Any) -> RemoteError:
    """The error of a JSON-RPC error object."""
    if not isinstance(error, dict):
        return RemoteMalformed(problem="an error that is not an object")
    code, text = error.get("code"), _message(error)
    kind = _REASONS.get(_reason(error))
    if kind is None and isinstance(code, int):
        kind = _RPC_CODES.get(code)
    return (kind or RemoteError)(
        problem=f"error {shorten_text(code)}" + (f", {text}" if text else "")
    )


def shorten_text(text: Any) -> str:
    """Make text of the server fit for an error message: short and on one line."""
    if text is None:
        return ""
    line = " ".join(str(text)[: 4 * TEXT_MAX].split())
    return "".join(it for it in line if it.isprintable())[:TEXT_MAX]


def _read_refusal(body: bytes) -> tuple[str, str]:
    """Read the reason and the text of an error answer; empty where it has none."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "", shorten_text(body.decode("utf-8", "replace"))
    error = document.get("error") if isinstance(document, dict) else None
    if not isinstance(error, dict):
        return "", ""
    return _reason(error), _message(error)


def _message(error: dict[str, Any]) -> str:
    message = error.get("message")
    return shorten_text(message) if isinstance(message, str) else ""


def _reason(error: dict[str, Any]) -> str:
    details = error.get("details") or error.get("data")
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, dict) and isinstance(detail.get("reason"), str):
            return str(detail["reason"])
    return ""
