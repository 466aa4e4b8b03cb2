"""Tickets as forms that a client shows to its user, and the answers as decisions."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from mcp_types import ElicitRequestFormParams, ElicitResult
from pydantic import ValidationError

from awaken.contracts.permissions import PermissionScope, Remember
from awaken.contracts.suspension import DecisionAction, Ticket, ToolCallResume
from awaken.transport.routes import Access

from .callers import Context, caller_of

_PRIMITIVES = ("string", "number", "integer", "boolean")
_MESSAGE = {"type": "string", "minLength": 1}
_DECISION = {"type": "string", "title": "Decision", "enum": ["approve", "deny"]}
_SCOPES = tuple(PermissionScope)
_REMEMBER = {"type": "string", "title": "For how long", "enum": list(_SCOPES), "default": "once"}


def keyed(ctx: Context, tickets: Sequence[Ticket]) -> dict[str, Ticket]:
    """The tickets that the client's user can decide on, by their own names where those differ."""
    found: dict[str, Ticket] = {}
    if not may_ask(ctx):
        return found
    decider = caller_of(ctx).view.principal_id
    for ticket in tickets:
        if _schema(ticket) is not None and decider in (ticket.deciders or (decider,)):
            name = ticket.suspension.id
            found[name if name and name not in found else ticket.ticket_id] = ticket
    return found


def form_of(ticket: Ticket) -> ElicitRequestFormParams:
    """The form for a ticket that can be asked."""
    message = ticket.suspension.message or f"Allow the call of tool '{ticket.tool_name}'?"
    return ElicitRequestFormParams(message=message, requested_schema=_schema(ticket) or {})


def decisions_of(
    forms: Mapping[str, Ticket], answers: Mapping[str, Any]
) -> dict[str, ToolCallResume]:
    """The decisions among a client's answers; what is unknown or malformed decides nothing."""
    found = {}
    for name, ticket in forms.items():
        decision = _decision(ticket, answers.get(name))
        if decision is not None:
            found[ticket.ticket_id] = decision
    return found


def _decision(ticket: Ticket, answer: Any) -> ToolCallResume | None:
    try:
        given = ElicitResult.model_validate(answer, from_attributes=True)
    except ValidationError:
        return None
    content: Mapping[str, Any] = given.content or {}
    refused = ToolCallResume(decision_id="", action=DecisionAction.CANCEL, reason="declined")
    if given.action == "decline":
        return refused
    fields = (_schema(ticket) or {}).get("required", ())
    if given.action != "accept" or any(name not in content for name in fields):
        return None
    wanted = ticket.suspension.response_schema
    if wanted is None:
        approved = ToolCallResume(decision_id="", result={"approved": True})
        told = approved if content["decision"] == "approve" else refused
        scope = content.get("remember")
        remember = Remember(scope=PermissionScope(scope)) if scope in _SCOPES else None
        return msgspec.structs.replace(told, remember=remember)
    result = content["answer"] if wanted.get("type") in _PRIMITIVES else dict(content)
    return ToolCallResume(decision_id="", result=result)


def message_form(question: str) -> ElicitRequestFormParams:
    """The form for what a run is told that waits for a message."""
    return ElicitRequestFormParams(message=question, requested_schema=_object(message=_MESSAGE))


def message_in(answer: Any) -> str:
    """The message in a client's answer to that form; nothing if it gives none."""
    try:
        given = ElicitResult.model_validate(answer)
    except ValidationError:
        return ""
    said = (given.content or {}).get("message") if given.action == "accept" else None
    return said.strip() if isinstance(said, str) else ""


def may_ask(ctx: Context) -> bool:
    """Whether the client can show forms, and its answers count as decisions."""
    capabilities = ctx.session.client_capabilities
    shown = capabilities.elicitation if capabilities is not None else None
    # A client that names no mode shows forms; that is how the older ones say it.
    is_shown = shown is not None and (shown.form is not None or shown.url is None)
    return is_shown and Access.DECIDE in caller_of(ctx).access


def _schema(ticket: Ticket) -> dict[str, Any] | None:
    """The form's schema; None when the ticket wants more than a form can hold."""
    wanted = ticket.suspension.response_schema
    if wanted is None:
        schema = _object(decision=_DECISION)
        if ticket.asked_by:
            schema["properties"]["remember"] = _REMEMBER
        return schema
    if wanted.get("type") in _PRIMITIVES:
        return _object(answer=wanted)
    fields = wanted.get("properties")
    if wanted.get("type") != "object" or not isinstance(fields, dict) or not fields:
        return None
    return wanted if all(map(_is_flat, fields.values())) else None


def _object(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields)}


def _is_flat(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    items = schema.get("items")
    is_choice = isinstance(items, dict) and ("enum" in items or "anyOf" in items)
    return schema.get("type") in _PRIMITIVES or (schema.get("type") == "array" and is_choice)
