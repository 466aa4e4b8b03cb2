"""Decodes messages of clients into messages of a thread, and into decisions on a waiting task.

The status message of a waiting task has a data part `{"questions": [...]}`. Each question names its
`ticketId`, its `callId` and its kind: a `permission` is granted or denied, an `input` is answered.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from awaken.contracts.errors import InvalidInput, UnknownTicket
from awaken.contracts.messages.content import ContentBlock, Text
from awaken.contracts.messages.message import Message, Role
from awaken.contracts.suspension.errors import InvalidDecision
from awaken.contracts.suspension.permissions import remember_of
from awaken.contracts.suspension.ticket_names import find_by_id, find_ticket
from awaken.contracts.suspension.tickets import DecisionAction, Ticket, ToolCallResume
from awaken.contracts.suspension.verdicts import read_decision, read_text
from awaken.outbound.guard import Outbound
from awaken.transport.asgi import encode_json
from awaken.transport.media import content_from_base64, content_from_url
from awaken.transport.problems import HttpError
from awaken.wire.a2a import Part

from .states import is_permission
from .wire import Violation, Violations, WireMessage, find_violations

ID_LENGTH_MAX = 256
_NAMES = ("callId", "ticketId", "remember")
_IDS = ("messageId", "contextId", "taskId")
_TOO_LONG = f"may have {ID_LENGTH_MAX} characters"


def message_violations(message: WireMessage | None, outbound: Outbound) -> list[Violation]:
    """List everything that is wrong with a message."""
    if message is None:
        return [("message", "is required")]
    given: dict[str, Any] = msgspec.to_builtins(message)
    checks = [
        ("role", message.role == "ROLE_USER", "must be ROLE_USER"),
        ("messageId", bool((message.message_id or "").strip()), "must not be blank"),
        *((it, len(given.get(it) or "") <= ID_LENGTH_MAX, _TOO_LONG) for it in _IDS),
        ("parts", bool(message.parts), "must have at least one part"),
    ]
    found = find_violations(checks, "message.")
    for index, part in enumerate(message.parts or ()):
        try:
            if part.url is not None:
                outbound.check(part.url)
            _block(part)
        except (InvalidInput, HttpError) as error:
            found.append((f"message.parts[{index}]", str(error)))
    return found


def user_message(message: WireMessage) -> Message:
    """Convert a checked message to a message of the thread."""
    content = tuple(_block(part) for part in message.parts or ())
    return Message(role=Role.USER, id=message.message_id, content=content)


def decisions_of(message: WireMessage, tickets: Sequence[Ticket]) -> dict[str, ToolCallResume]:
    """Read the decisions of a checked message on open tickets, by ticket id.

    A permission takes a data part `{"approved": bool}` with an optional `reason`, or a text that
    is a yes or a no, such as "approve" or "deny". An input takes a text, or a data part whose
    `result`, or which itself, is the answer; `{"approved": false}` cancels the call. With several
    open questions a data part names the one that it answers with `ticketId` or `callId`, and
    questions without an answer stay open.

    Raises:
        Violations: It answers none of them, or it is not clear which.
        AmbiguousTicket: Its name may mean several.
    """
    parts = list(message.parts or ())
    forms = {
        f"message.parts[{index}].data": part.data
        for index, part in enumerate(parts)
        if isinstance(part.data, dict)
    }
    text = "".join(it.text or "" for it in parts).strip()
    if not forms:
        forms = {"message.parts": _form(text, tickets)}
    found: dict[str, ToolCallResume] = {}
    for path, form in forms.items():
        ticket = _find_ticket(path, form, tickets)
        decision = _decision(path, form, ticket)
        if is_permission(ticket) and read_text(text) is (decision.action is DecisionAction.CANCEL):
            raise Violations((path, "contradicts the text beside it"))
        if found.setdefault(ticket.ticket_id, decision) != decision:
            raise Violations((path, "contradicts another part"))
    return found


def _block(part: Part) -> ContentBlock:
    if [part.text, part.raw, part.url].count(None) != 2 + (part.data is not msgspec.UNSET):
        raise HttpError(400, "invalid_part", "It must have exactly one of text, raw, url and data.")
    if part.text is not None:
        return Text(text=part.text)
    if part.url is not None:
        return content_from_url(part.url, part.media_type, part.filename)
    if part.raw is not None:
        return content_from_base64(part.raw, part.media_type, part.filename)
    return Text(text=encode_json(part.data).decode())


def _form(text: str, tickets: Sequence[Ticket]) -> dict[str, Any]:
    """Convert a text to the equivalent data part."""
    if all(map(is_permission, tickets)):
        verdict = read_text(text)
        if verdict is None:
            raise Violations(("message.parts", 'say "approve" or "deny", or send data'))
        return {"approved": verdict}
    if not text:
        raise Violations(("message.parts", "must have a text or data that answers"))
    return {"result": text}


def _find_ticket(path: str, form: dict[str, Any], tickets: Sequence[Ticket]) -> Ticket:
    """Find the ticket that a data part answers."""
    for field, find in (("ticketId", find_by_id), ("callId", find_ticket)):
        if (name := form.get(field)) is None:
            continue
        try:
            ticket = find(tickets, str(name))
        except UnknownTicket:
            raise Violations((f"{path}.{field}", "names no open question of the task")) from None
        if form.get("callId") not in (None, ticket.call_id, ticket.ticket_id):
            raise Violations((f"{path}.callId", "is not the call of the ticket"))
        return ticket
    if len(tickets) > 1:
        ids = ", ".join(f"{it.ticket_id} ({it.tool_name})" for it in tickets)
        raise Violations((path, f"name the question that it answers with a ticketId: {ids}"))
    return tickets[0]


def _decision(path: str, form: dict[str, Any], ticket: Ticket) -> ToolCallResume:
    approved, reason = form.get("approved"), form.get("reason")
    remember = remember_of(form.get("remember"))
    content = {key: value for key, value in form.items() if key not in _NAMES}
    given = ToolCallResume(decision_id="", result=content, remember=remember)
    if is_permission(ticket):
        try:
            # An empty data part decides nothing: a message has no action of its own.
            read = read_decision(ticket, given) if content else None
        except InvalidDecision as error:
            raise Violations((path, error.problem)) from error
        if read is None:
            raise Violations((f"{path}.approved", "must be true or false"))
        return read
    if approved is False:
        why = reason if isinstance(reason, str) else None
        refused = DecisionAction.CANCEL
        return ToolCallResume(decision_id="", action=refused, reason=why, remember=remember)
    return replace(given, result=form.get("result", content))
