"""Where a server stands: its states, which of them follow each other, and what is told of it."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

from awaken.contracts.record import Record, always


class ServerState(StrEnum):
    """What a server is to us."""

    CONNECTING = "connecting"
    """It is tried for the first time since it was enabled."""
    CONNECTED = "connected"
    RECONNECTING = "reconnecting"
    """It failed, and is being tried again."""
    LOGIN_REQUIRED = "login_required"
    """Nobody is logged in to it; `last_error` names the command, and it goes on by itself then."""
    DISABLED = "disabled"
    FAILED = "failed"
    """It was given up; enabling it tries again."""


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
    """A tool that is not what it was when it was pinned."""

    tool: str
    pinned: str
    offered: str


class McpToolStatus(Record, frozen=True, kw_only=True):
    """One tool of a server; `hash` is what `pins` takes."""

    id: str
    name: str
    hash: str
    state: Literal["offered", "drifted"] = always("offered")


class ServerStatus(Record, frozen=True, kw_only=True):
    """Where one server stands."""

    name: str
    transport: str = always("")
    state: ServerState
    since_ms: int = always(0)
    generation: int = always(0)
    """Connections so far; what belongs to an earlier one is dropped."""
    protocol_version: str | None = None
    tools: tuple[McpToolStatus, ...] = always(())
    prompts: int = 0
    problems: tuple[str, ...] = always(())
    """What it offers and cannot be used, and why."""
    drift: tuple[Drift, ...] = always(())
    last_error: str | None = None
    attempts: int = 0
    """Tries in a row that failed."""
