"""Converts events of a run, and messages of a thread, to session updates."""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from awaken.contracts import events as ev
from awaken.contracts.messages import content, deltas
from awaken.contracts.messages.message import Message, Role
from awaken.contracts.suspension.tickets import ToolCallOutcome

Update = dict[str, Any]

_KINDS = {
    "read": "read cat view", "edit": "edit write patch", "delete": "delete remove rm",
    "move": "move rename mv", "search": "search grep find",
    "execute": "bash exec execute run shell", "think": "think reason plan",
    "fetch": "fetch http curl",
}  # fmt: skip
_PATHS = ("path", "file_path", "filepath", "file", "filename")
_LINES = ("line", "line_number", "start_line")


def event_updates(event: ev.AgentEvent) -> Iterator[Update]:
    """Convert an event to session updates."""
    match event:
        case deltas.TextDelta():
            yield _chunk("agent_message_chunk", event.delta)
        case deltas.ReasoningDelta():
            yield _chunk("agent_thought_chunk", event.delta)
        case ev.ToolCallReady():
            shown = tool_call(event.id, event.name, event.arguments)
            yield {"sessionUpdate": "tool_call", **shown}
        case ev.ToolCallDone(outcome=ToolCallOutcome.FAILED):
            yield _result(event.id, event.result.message or "It failed.", is_failed=True)
        case ev.ToolCallDone(outcome=ToolCallOutcome.SUCCEEDED):
            yield _result(event.id, event.result.data)
        case ev.ToolCallResumed(result=result):
            answer = result if isinstance(result, dict) else {}
            is_denied = event.is_declined or answer.get("approved") is False
            is_failed = "error" in answer or is_denied
            yield _result(event.target_id, result, is_failed=is_failed)
        case ev.ActivitySnapshot(activity_type="plan"):
            yield _plan(event.content)


def history_updates(message: Message) -> Iterator[Update]:
    """Convert a stored message to the updates that the client would have received."""
    if message.role is Role.TOOL:
        yield _result(message.tool_call_id or "", _result_text(message.text))
    elif message.role in (Role.USER, Role.ASSISTANT):
        side = "user" if message.role is Role.USER else "agent"
        for block in message.content:
            if isinstance(block, content.Text):
                yield _chunk(f"{side}_message_chunk", block.text)
            elif isinstance(block, content.Thinking):
                yield _chunk("agent_thought_chunk", block.thinking)
        for call in message.tool_calls or ():
            shown = tool_call(call.id, call.name, call.arguments)
            yield {"sessionUpdate": "tool_call", **shown}


def tool_call(call_id: str, name: str, arguments: Any) -> Update:
    """Convert a tool call to its ACP form."""
    kind, given = kind_of(name), arguments if isinstance(arguments, dict) else {}
    shown = {"toolCallId": call_id, "title": name, "kind": kind, "rawInput": arguments}
    path = next((given[key] for key in _PATHS if isinstance(given.get(key), str)), None)
    if path is not None:
        line = next((given[key] for key in _LINES if type(given.get(key)) is int), -1)
        shown["locations"] = [{"path": path, **({"line": line} if line >= 0 else {})}]
    return {**shown, "status": "pending"}


def kind_of(name: str) -> str:
    """Guess the kind of a tool from the words of its name; the first kind that fits."""
    words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}
    return next(
        (kind for kind, known in _KINDS.items() if words.intersection(known.split())), "other"
    )


def text_content(text: str) -> list[Update]:
    """Text as the content of a call."""
    return [{"type": "content", "content": {"type": "text", "text": text}}]


def _chunk(kind: str, text: str) -> Update:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}}


def _result(call_id: str, result: Any, *, is_failed: bool = False) -> Update:
    text = result if isinstance(result, str) else msgspec.json.encode(result).decode()
    update = {"sessionUpdate": "tool_call_update", "toolCallId": call_id}
    update["status"] = "failed" if is_failed else "completed"
    return {**update, "content": text_content(text), "rawOutput": msgspec.to_builtins(result)}


def _result_text(text: str) -> str:
    """The text of a stored tool result; a JSON string without its quotes."""
    if text[:1] == text[-1:] == '"':
        with suppress(msgspec.DecodeError):
            return msgspec.json.decode(text, type=str)
    return text


def _plan(shown: Any) -> Update:
    steps = shown.get("entries") if isinstance(shown, dict) else shown
    entries = [_entry(it) for it in steps] if isinstance(steps, list | tuple) else []
    return {"sessionUpdate": "plan", "entries": entries}


def _entry(step: Any) -> Update:
    given = step if isinstance(step, dict) else {"content": step}
    status, priority = given.get("status"), given.get("priority")
    return {
        "content": str(given.get("content", "")),
        "status": status if status in ("in_progress", "completed") else "pending",
        "priority": priority if priority in ("high", "low") else "medium",
    }
