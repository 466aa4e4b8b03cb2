"""An AG-UI client in Python: the SDK's types, the order that its verifier asks for, its reducer."""

from copy import deepcopy
from typing import Any

from ag_ui.core import Event
from pydantic import BaseModel, TypeAdapter

from .serving import Frame

_EVENT: TypeAdapter[Any] = TypeAdapter(Event)
_OPENS = {
    "TEXT_MESSAGE_START": ("text", "messageId"),
    "TOOL_CALL_START": ("call", "toolCallId"),
    "REASONING_START": ("span", "messageId"),
    "REASONING_MESSAGE_START": ("thought", "messageId"),
    "STEP_STARTED": ("step", "stepName"),
}
_NEEDS = {
    "TEXT_MESSAGE_CONTENT": ("text", "messageId"),
    "TEXT_MESSAGE_END": ("text", "messageId"),
    "TOOL_CALL_ARGS": ("call", "toolCallId"),
    "TOOL_CALL_END": ("call", "toolCallId"),
    "REASONING_MESSAGE_CONTENT": ("thought", "messageId"),
    "REASONING_MESSAGE_END": ("thought", "messageId"),
    "REASONING_END": ("span", "messageId"),
    "STEP_FINISHED": ("step", "stepName"),
}


class Client:
    """Takes events as the official client does: wrong form or order is an error."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.state: Any = None
        self.kinds: list[str] = []
        self.finished: list[dict[str, Any]] = []
        self._open: set[tuple[str, str]] = set()
        self._is_running = False

    def read(self, frames: list[Frame]) -> "Client":
        """Take a stream from its first event."""
        assert frames
        assert frames[0].data["type"] in ("RUN_STARTED", "RUN_ERROR")
        self._open.clear()
        self._is_running = False
        for frame in frames:
            self.take(frame.data)
        return self

    def take(self, event: dict[str, Any]) -> None:
        """Check an event and do what it says."""
        event = deepcopy(event)
        check_form(event)
        kind = event["type"]
        self.kinds.append(kind)
        self._check_order(kind, event)
        reduce = getattr(self, f"_{kind.lower()}", None)
        if reduce is not None:
            reduce(event)

    def message(self, id_: str) -> dict[str, Any]:
        return next(it for it in self.messages if it["id"] == id_)

    @property
    def texts(self) -> list[tuple[str, Any]]:
        """Who said what."""
        return [(it["role"], it.get("content")) for it in self.messages]

    def _check_order(self, kind: str, event: dict[str, Any]) -> None:
        if kind == "RUN_STARTED":
            assert not self._is_running
            self._is_running = True
            self._open.clear()
            return
        assert self._is_running or kind == "RUN_ERROR", f"{kind} outside a run"
        if kind in _OPENS:
            what, name = _OPENS[kind]
            assert (what, event[name]) not in self._open, f"{kind} again"
            self._open.add((what, event[name]))
        if kind in _NEEDS:
            what, name = _NEEDS[kind]
            assert (what, event[name]) in self._open, f"{kind} of what is not open"
            if kind.endswith(("_END", "_FINISHED")):
                self._open.discard((what, event[name]))
        if kind in ("RUN_FINISHED", "RUN_ERROR"):
            assert kind == "RUN_ERROR" or not self._open, self._open
            self._is_running = False

    def _text_message_start(self, event: dict[str, Any]) -> None:
        if not any(it["id"] == event["messageId"] for it in self.messages):
            self.messages.append({"id": event["messageId"], "role": event["role"], "content": ""})

    def _text_message_content(self, event: dict[str, Any]) -> None:
        message = self.message(event["messageId"])
        message["content"] = (message.get("content") or "") + event["delta"]

    def _reasoning_message_start(self, event: dict[str, Any]) -> None:
        self.messages.append({"id": event["messageId"], "role": "reasoning", "content": ""})

    _reasoning_message_content = _text_message_content

    def _reasoning_encrypted_value(self, event: dict[str, Any]) -> None:
        self.message(event["entityId"])["encryptedValue"] = event["encryptedValue"]

    def _tool_call_start(self, event: dict[str, Any]) -> None:
        owner = next((it for it in self.messages if it["id"] == event["parentMessageId"]), None)
        if owner is None:
            owner = {"id": event["parentMessageId"], "role": "assistant"}
            self.messages.append(owner)
        calls = owner.setdefault("toolCalls", [])
        if not any(it["id"] == event["toolCallId"] for it in calls):
            function = {"name": event["toolCallName"], "arguments": ""}
            calls.append({"id": event["toolCallId"], "type": "function", "function": function})

    def _tool_call_args(self, event: dict[str, Any]) -> None:
        self.call(event["toolCallId"])["function"]["arguments"] += event["delta"]

    def call(self, id_: str) -> dict[str, Any]:
        calls = (call for it in self.messages for call in it.get("toolCalls", ()))
        return next(it for it in calls if it["id"] == id_)

    def _tool_call_result(self, event: dict[str, Any]) -> None:
        told = {"id": event["messageId"], "role": "tool", "toolCallId": event["toolCallId"]}
        self.messages.append(told | {"content": event["content"]})

    def _messages_snapshot(self, event: dict[str, Any]) -> None:
        told = {it["id"]: it for it in event["messages"]}
        roles = {it["role"] for it in event["messages"]}
        kept = [
            it
            for it in self.messages
            if it["id"] in told or (it["role"] == "reasoning" and "reasoning" not in roles)
        ]
        known = {it["id"] for it in kept}
        self.messages = [told.get(it["id"], it) for it in kept]
        self.messages += [it for id_, it in told.items() if id_ not in known]

    def _state_snapshot(self, event: dict[str, Any]) -> None:
        self.state = event["snapshot"]

    def _state_delta(self, event: dict[str, Any]) -> None:
        self.state = patched(self.state, event["delta"])

    def _run_finished(self, event: dict[str, Any]) -> None:
        self.finished.append(event)


def check_form(event: dict[str, Any]) -> None:
    """Decode an event with the SDK; what the SDK does not know is an error, as is a null."""
    _check_known(_EVENT.validate_python(event), event["type"])
    nulls = [name for name, it in event.items() if it is None]
    assert not nulls, (event["type"], nulls)


def patched(document: Any, operations: list[dict[str, Any]]) -> Any:
    """Apply a JSON Patch of add, remove and replace."""
    for it in operations:
        *way, last = [""] + [
            name.replace("~1", "/").replace("~0", "~") for name in it["path"].split("/")[1:]
        ]
        root = {"": document}
        place: Any = root
        for name in way:
            place = place[name]
        if it["op"] == "remove":
            del place[last]
        else:
            assert (last in place) == (it["op"] == "replace"), it
            place[last] = it["value"]
        document = root[""]
    return document


def _check_known(value: Any, where: str) -> None:
    if isinstance(value, BaseModel):
        assert not value.model_extra, f"{where}: {value.model_extra}"
        for name in type(value).model_fields:
            _check_known(getattr(value, name), f"{where}.{name}")
    elif isinstance(value, list):
        for it in value:
            _check_known(it, where)
