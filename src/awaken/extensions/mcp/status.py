"""The status of a server: its states, their transitions, and its report."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

from awaken.contracts.record import Record, always


class ServerState(StrEnum):
    """The state of the connection to a server."""

    CONNECTING = "connecting"
    """The first try since it was enabled."""
    CONNECTED = "connected"
    RECONNECTING = "reconnecting"
    """It failed, and the client tries again."""
    LOGIN_REQUIRED = "login_required"
    """No user is logged in; `last_error` names the command, after which it connects by itself."""
    DISABLED = "disabled"
    FAILED = "failed"
    """The client has given up; enabling the server tries again."""


_S = ServerState
_AFTER_FAILURE = (_S.RECONNECTING, _S.LOGIN_REQUIRED, _S.FAILED, _S.DISABLED)
TRANSITIONS: Mapping[ServerState, frozenset[ServerState]] = {
    _S.CONNECTING: frozenset([_S.CONNECTED, *_AFTER_FAILURE]),
    _S.CONNECTED: frozenset([_S.RECONNECTING, _S.DISABLED]),
    _S.RECONNECTING: frozenset([_S.CONNECTED, *_AFTER_FAILURE]),
    _S.LOGIN_REQUIRED: frozenset([_S.CONNECTED, *_AFTER_FAILURE]),
    _S.DISABLED: frozenset([_S.CONNECTING]),
    _S.FAILED: frozenset([_S.CONNECTING, _S.DISABLED]),
}


class Drift(Record, frozen=True, kw_only=True):
    """A tool that differs from its pinned version."""

    tool: str
    pinned: str
    offered: str


class McpToolStatus(Record, frozen=True, kw_only=True):
    """One tool of a server; `hash` is the value for `pins`."""

    id: str
    name: str
    hash: str
    state: Literal["offered", "drifted"] = always("offered")


class ServerStatus(Record, frozen=True, kw_only=True):
    """The status of one server."""

    name: str
    transport: str = always("")
    state: ServerState
    since_ms: int = always(0)
    generation: int = always(0)
    """The number of connections so far."""
    protocol_version: str | None = None
    tools: tuple[McpToolStatus, ...] = always(())
    prompts: int = 0
    problems: tuple[str, ...] = always(())
    """Which of its tools cannot be used, and why."""
    drift: tuple[Drift, ...] = always(())
    last_error: str | None = None
    attempts: int = 0
    """Consecutive failed tries."""
