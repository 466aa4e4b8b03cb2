"""Collects the agent's answer and reports its progress."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from awaken.contracts.backends import errors as errors
from awaken.contracts.backends.requests import EventSink
from awaken.contracts.events import ActivitySnapshot
from awaken.contracts.record import Record

from .config import AcpLimits

ACTIVITY = "acp-session-progress"
SCHEMA = f"{ACTIVITY}.v1"
_SHOWN_ITEMS = 50
_SHOWN_CHARS = 200
_SHOWN_TEXT = 2000


class _PlanEntry(Record, frozen=True, kw_only=True):
    content: str = ""
    status: str = ""
    priority: str = ""


class _Plan(Record, frozen=True, kw_only=True):
    entries: tuple[_PlanEntry, ...] = ()


class _Call(Record, frozen=True, kw_only=True, rename="camel"):
    tool_call_id: str
    title: str | None = None
    kind: str | None = None
    status: str | None = None


class SessionUpdate(Record, frozen=True, kw_only=True, rename="camel"):
    """The parameters of `session/update`."""

    session_id: str
    update: dict[str, Any]


class TurnProgress:
    """Collects one answer. Progress events are bounded in size and frequency."""

    def __init__(
        self, sink: EventSink, run_id: str, limits: AcpLimits, redact: Callable[[Any], Any]
    ) -> None:
        self._sink = sink
        self._message_id = f"{run_id}:{ACTIVITY}"
        self._limits = limits
        self._redact = redact
        self._session_id: str | None = None
        self._text: list[str] = []
        self._chars = 0
        self._calls: dict[str, dict[str, str]] = {}
        self._plan: list[dict[str, str]] = []
        self._timer: asyncio.TimerHandle | None = None

    @property
    def text(self) -> str:
        """The agent's answer so far."""
        return str(self._redact("".join(self._text)))

    def begin(self, session_id: str) -> None:
        """Accept updates of a session from now on; earlier ones belong to an earlier turn."""
        self._session_id = session_id

    def apply_update(self, received: SessionUpdate) -> None:
        """Apply an update; unknown kinds are ignored.

        Raises:
            RemoteTooLarge: The answer exceeds the limit.
            ValidationError: The update does not have the form of its kind.
        """
        if received.session_id != self._session_id:
            return
        match received.update.get("sessionUpdate"):
            case "agent_message_chunk":
                self._add_text(received.update.get("content"))
            case "tool_call" | "tool_call_update":
                self._note_call(msgspec.convert(received.update, _Call))
            case "plan":
                entries = msgspec.convert(received.update, _Plan).entries[:_SHOWN_ITEMS]
                shown = (self._redact(msgspec.structs.asdict(entry)) for entry in entries)
                self._plan = [_cut(entry) for entry in shown]
            case _:
                return
        if self._timer is None:
            pause_s = self._limits.progress_ms / 1000
            self._timer = asyncio.get_running_loop().call_later(pause_s, self._show)

    def close(self) -> None:
        """Report what has not been reported yet, and ignore later updates."""
        if self._timer is not None:
            self._timer.cancel()
            self._show()
        self._session_id = None

    def _add_text(self, content: Any) -> None:
        said = content.get("text") if isinstance(content, dict) else None
        if not isinstance(said, str):
            return
        self._chars += len(said)
        if self._chars > self._limits.answer_chars:
            problem = f"the answer is longer than {self._limits.answer_chars} characters"
            raise errors.RemoteTooLarge(problem=problem)
        self._text.append(said)

    def _note_call(self, call: _Call) -> None:
        fields = {"title": call.title, "kind": call.kind, "status": call.status}
        changes = {name: value for name, value in fields.items() if value is not None}
        changes = _cut(self._redact(changes))
        call_id = self._redact(call.tool_call_id)[:_SHOWN_CHARS]
        self._calls[call_id] = {"id": call_id, **self._calls.get(call_id, {}), **changes}
        if len(self._calls) > _SHOWN_ITEMS:
            del self._calls[next(iter(self._calls))]

    def _show(self) -> None:
        self._timer = None
        content = {
            "schema": SCHEMA,
            "session_id": self._session_id,
            "text": self.text[-_SHOWN_TEXT:],
            "tool_calls": list(self._calls.values()),
            "plan": self._plan,
        }
        self._sink.emit(
            ActivitySnapshot(
                message_id=self._message_id,
                activity_type=ACTIVITY,
                content=content,
                replace=True,
            )
        )


def _cut(fields: dict[str, str]) -> dict[str, str]:
    return {name: value[:_SHOWN_CHARS] for name, value in fields.items()}
