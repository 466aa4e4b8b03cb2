"""Asks the questions of tickets in the terminal: a permission, an answer, or a form by field.

An unclear answer is asked again. The end of the input declines.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from awaken.contracts.suspension.permissions import PermissionScope, Remember
from awaken.contracts.suspension.tickets import Asks, DecisionAction, Ticket, ToolCallResume
from awaken.contracts.suspension.verdicts import read_text

Read = Callable[[str], str | None]
"""Shows a prompt and returns a line; None at the end of the input."""
Say = Callable[[str], None]

_ALWAYS = ("a", "always")


def ask_ticket(ticket: Ticket, read: Read, say: Say) -> ToolCallResume:
    """Ask a person to decide on a ticket."""
    schema = ticket.suspension.response_schema
    match ticket.question_kind:
        case Asks.PERMISSION:
            return _ask_permission(ticket, read, say)
        case Asks.ANSWER if schema is not None and schema.get("type") == "object":
            return _ask_form(schema, read, say)
        case Asks.ANSWER:
            return _ask_answer(schema or {}, read, say)
        case Asks.EITHER | Asks.EVENT:
            return _ask_either(read, say)


def offers_always(ticket: Ticket) -> bool:
    """Whether the plugin that asks can remember an answer for the thread."""
    asked = ticket.suspension.parameters
    remember = asked.get("remember") if isinstance(asked, Mapping) else None
    scopes = remember.get("scopes") if isinstance(remember, Mapping) else None
    return isinstance(scopes, list | tuple) and PermissionScope.THREAD in scopes


def read_permission(text: str, *, has_always: bool) -> ToolCallResume | None:
    """Read a line as the answer to a permission question; None when it is not clear."""
    if has_always and text.strip().casefold() in _ALWAYS:
        remember = Remember(scope=PermissionScope.THREAD)
        return ToolCallResume(decision_id="", remember=remember)
    verdict = read_text(text)
    if verdict is None:
        return None
    return ToolCallResume(decision_id="") if verdict else decline()


def _ask_permission(ticket: Ticket, read: Read, say: Say) -> ToolCallResume:
    has_always = offers_always(ticket)
    choices = "[y]es / [n]o" + (" / [a]lways" if has_always else "")
    while (line := read(f"{choices}> ")) is not None:
        decision = read_permission(line, has_always=has_always)
        if decision is not None:
            return decision
        say("That is neither a yes nor a no.")
    return decline()


def _ask_either(read: Read, say: Say) -> ToolCallResume:
    while (line := read("[y]es / [n]o, or an answer> ")) is not None:
        verdict = read_text(line)
        if verdict is not None:
            return ToolCallResume(decision_id="", result=line.strip()) if verdict else decline()
        if line.strip():
            return ToolCallResume(decision_id="", result=line.strip())
        say("Say something, or no.")
    return decline()


def _ask_answer(schema: Mapping[str, Any], read: Read, say: Say) -> ToolCallResume:
    while (line := read("answer (empty declines)> ")) is not None:
        if not line.strip():
            return decline()
        try:
            return ToolCallResume(decision_id="", result=_value(schema, line.strip()))
        except ValueError as error:
            say(str(error))
    return decline()


def _ask_form(schema: Mapping[str, Any], read: Read, say: Say) -> ToolCallResume:
    fields = schema.get("properties") or {}
    required = schema.get("required") or ()
    if not all(isinstance(it, Mapping) for it in fields.values()):
        return _ask_answer({}, read, say)
    if ask_form_wanted(read, say) is False:
        return decline()
    given: dict[str, Any] = {}
    for name, field in fields.items():
        value = _ask_field(name, field, name in required, read, say)
        if value is _END:
            return decline()
        if value is not None:
            given[name] = value
    return ToolCallResume(decision_id="", result=given)


def ask_form_wanted(read: Read, say: Say) -> bool:
    """Ask whether the person wants to fill in the form."""
    while (line := read("fill in the form? [y]es / [n]o> ")) is not None:
        verdict = read_text(line)
        if verdict is not None:
            return verdict
        say("That is neither a yes nor a no.")
    return False


_END: Any = object()


def _ask_field(name: str, field: Mapping[str, Any], is_needed: bool, read: Read, say: Say) -> Any:  # noqa: FBT001
    choices = field.get("enum")
    kind = " / ".join(map(str, choices)) if choices else field.get("type", "JSON")
    if not is_needed:
        default = _format_value(field["default"]) if "default" in field else "nothing"
        kind = f"{kind}, empty for {default}"
    label = field.get("title") or name
    if field.get("description"):
        say(f"{label}: {field['description']}")
    while (line := read(f"{label} ({kind})> ")) is not None:
        if not line.strip() and not is_needed:
            return field.get("default")
        try:
            return _value(field, line.strip())
        except ValueError as error:
            say(str(error))
    return _END


def _value(schema: Mapping[str, Any], text: str) -> Any:
    """Convert a line to the schema's type.

    Raises:
        ValueError: It does not fit.
    """
    kind, choices = schema.get("type"), schema.get("enum")
    if kind == "boolean":
        verdict = read_text(text)
        if verdict is None:
            raise ValueError("Say yes or no.")
        return verdict
    value: Any = text
    if kind in ("integer", "number", "array", "object"):
        try:
            value = msgspec.json.decode(text)
        except msgspec.DecodeError:
            raise ValueError(f"That is no {kind}.") from None
        types: Any = {"integer": int, "number": (int, float), "array": list, "object": dict}[kind]
        if not isinstance(value, types) or isinstance(value, bool):
            raise ValueError(f"That is no {kind}.")
    if choices and value not in choices:
        raise ValueError(f"Say one of {', '.join(map(str, choices))}.")
    return value


def decline() -> ToolCallResume:
    """The decision of a person who says no, or who ends before the question is answered."""
    return ToolCallResume(decision_id="", action=DecisionAction.CANCEL)


def _format_value(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
