"""From messages of clients to messages of a thread, and to decisions on a task that waits.

The status message of such a task has a data part `{"questions": [...]}`. Each question names its
`callId` and its kind: a `permission` is given or refused, an `input` is answered.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from awaken.contracts.content import ContentBlock, Text
from awaken.contracts.errors import InvalidInput
from awaken.contracts.messages import Message, Role
from awaken.contracts.permissions import remember_of
from awaken.contracts.suspension import DecisionAction, Ticket, ToolCallResume
from awaken.outbound.guard import Outbound
from awaken.services.decisions import names
from awaken.transport.asgi import encode_json
from awaken.transport.media import inline, linked
from awaken.transport.problems import Problem
from awaken.wire.a2a import Part

from .states import is_permission
from .wire import Violation, Violations, WireMessage, wrong

ID_LENGTH_MAX = 256
_IDS = ("messageId", "contextId", "taskId")
_TOO_LONG = f"may have {ID_LENGTH_MAX} characters"
_VERDICTS = {"approve": True, "yes": True, "deny": False, "no": False}


def message_violations(message: WireMessage | None, outbound: Outbound) -> list[Violation]:
    """Everything that is wrong with a message."""
    if message is None:
        return [("message", "is required")]
    given: dict[str, Any] = msgspec.to_builtins(message)
    checks = [
        ("role", message.role == "ROLE_USER", "must be ROLE_USER"),
        ("messageId", bool((message.message_id or "").strip()), "must not be blank"),
        *((it, len(given.get(it) or "") <= ID_LENGTH_MAX, _TOO_LONG) for it in _IDS),
        ("parts", bool(message.parts), "must have at least one part"),
    ]
    found = wrong(checks, "message.")
    for index, part in enumerate(message.parts or ()):
        try:
            if part.url is not None:
                outbound.check(part.url)
            _block(part)
        except (InvalidInput, Problem) as error:
            found.append((f"message.parts[{index}]", str(error)))
    return found


def user_message(message: WireMessage) -> Message:
    """A checked message as the thread keeps it."""
    content = tuple(_block(part) for part in message.parts or ())
    return Message(role=Role.USER, id=message.message_id, content=content)


def decisions_of(message: WireMessage, tickets: Sequence[Ticket]) -> dict[str, ToolCallResume]:
    """What a checked message decides on open tickets, by ticket id.

    A permission takes a data part `{"approved": bool}` with an optional `reason`, or the text
    "approve" or "deny". An input takes a text, or a data part whose `result`, or which itself, is
    the answer; `{"approved": false}` gives the call up. With several open questions a data part
    names the one that it answers with `callId`, and those that are not answered stay open; a
    verdict without a `callId` holds for all permissions when nothing else is asked.

    Raises:
        Violations: It answers none of them, or it is not clear which.
    """
    parts = list(message.parts or ())
    forms = {
        f"message.parts[{index}].data": part.data
        for index, part in enumerate(parts)
        if isinstance(part.data, dict)
    }
    if not forms:
        forms = {"message.parts": _form("".join(it.text or "" for it in parts).strip(), tickets)}
    return {
        ticket.ticket_id: _decision(path, form, ticket)
        for path, form in forms.items()
        for ticket in _named(path, form, tickets)
    }


def _block(part: Part) -> ContentBlock:
    if [part.text, part.raw, part.url].count(None) != 2 + (part.data is not msgspec.UNSET):
        raise Problem(400, "invalid_part", "It must have exactly one of text, raw, url and data.")
    if part.text is not None:
        return Text(text=part.text)
    if part.url is not None:
        return linked(part.url, part.media_type, part.filename)
    if part.raw is not None:
        return inline(part.raw, part.media_type, part.filename)
    return Text(text=encode_json(part.data).decode())


def _form(text: str, tickets: Sequence[Ticket]) -> dict[str, Any]:
    """A text as the data that says the same."""
    if all(map(is_permission, tickets)):
        verdict = _VERDICTS.get(text.lower().rstrip(".!"))
        if verdict is None:
            raise Violations(("message.parts", 'say "approve" or "deny", or send data'))
        return {"approved": verdict}
    if not text:
        raise Violations(("message.parts", "must have a text or data that answers"))
    return {"result": text}


def _named(path: str, form: dict[str, Any], tickets: Sequence[Ticket]) -> Sequence[Ticket]:
    """The tickets that a form is about."""
    if (name := form.get("callId")) is not None:
        named = [ticket for ticket in tickets if name in names(ticket)]
        if not named:
            raise Violations((f"{path}.callId", "names no open question of the task"))
        return named
    if len(tickets) > 1 and not all(map(is_permission, tickets)):
        calls = ", ".join(ticket.call_id for ticket in tickets)
        raise Violations((path, f"name the question that it answers with a callId: {calls}"))
    return tickets


def _decision(path: str, form: dict[str, Any], ticket: Ticket) -> ToolCallResume:
    approved, reason = form.get("approved"), form.get("reason")
    remember = remember_of(form.get("remember"))
    if is_permission(ticket) and not isinstance(approved, bool):
        raise Violations((f"{path}.approved", "must be true or false"))
    if approved is False:
        why = reason if isinstance(reason, str) else None
        refused = DecisionAction.CANCEL
        return ToolCallResume(decision_id="", action=refused, reason=why, remember=remember)
    content = {key: value for key, value in form.items() if key not in ("callId", "remember")}
    return ToolCallResume(decision_id="", result=form.get("result", content), remember=remember)
