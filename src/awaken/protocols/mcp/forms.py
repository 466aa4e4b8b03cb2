"""Converts tickets to forms that a client shows to its user, and answers to decisions."""

from collections.abc import Mapping, Sequence
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ElicitRequestFormParams, ElicitResult
from msgspec.structs import replace
from pydantic import ValidationError

from awaken.contracts.suspension.errors import InvalidDecision
from awaken.contracts.suspension.permissions import PermissionScope, Remember
from awaken.contracts.suspension.tickets import Asks, DecisionAction, Ticket, ToolCallResume
from awaken.contracts.suspension.verdicts import read_text
from awaken.transport.routes import Access

from .callers import Context, caller_of

_PRIMITIVES = ("string", "number", "integer", "boolean")
_MESSAGE = {"type": "string", "minLength": 1}
_DECISION = {"type": "string", "title": "Decision", "enum": ["approve", "deny"]}
_MALFORMED = "it must be {'action': 'accept' | 'decline' | 'cancel', 'content': {…}}"
_SCOPES = tuple(PermissionScope)
_REMEMBER = {"type": "string", "title": "For how long", "enum": list(_SCOPES), "default": "once"}


def select_askable(ctx: Context, tickets: Sequence[Ticket]) -> dict[str, Ticket]:
    """Select the tickets that the client's user can decide on, by name.

    A question has its own name. A permission is named by its ticket's id, so that a repeated
    answer means the same ticket.
    """
    found: dict[str, Ticket] = {}
    if not may_ask(ctx):
        return found
    decider = caller_of(ctx).view.principal_id
    for ticket in tickets:
        if _schema(ticket) is not None and decider in (ticket.deciders or (decider,)):
            name = ticket.question[2] if ticket.question_kind is Asks.ANSWER else ""
            found[name if name and name not in found else ticket.ticket_id] = ticket
    return found


def form_of(ticket: Ticket) -> ElicitRequestFormParams:
    """Build the form of a ticket."""
    message = ticket.suspension.message or f"Allow the call of tool '{ticket.tool_name}'?"
    return ElicitRequestFormParams(message=message, requested_schema=_schema(ticket) or {})


def decisions_of(
    forms: Mapping[str, Ticket], answers: Mapping[str, Any]
) -> dict[str, ToolCallResume]:
    """Read the decisions from a client's answers; unknown or incomplete ones are ignored.

    Raises:
        MCPError: An answer has an unknown action, or is neither yes nor no.
    """
    found = {}
    for name, ticket in forms.items():
        if answers.get(name) is None:
            continue
        try:
            decision = _decision(ticket, answers[name])
        except (InvalidDecision, ValidationError) as error:
            why = str(error) if isinstance(error, InvalidDecision) else _MALFORMED
            raise MCPError(INVALID_PARAMS, f"Answer '{name}': {why}") from error
        if decision is not None:
            found[ticket.ticket_id] = decision
    return found


def _decision(ticket: Ticket, answer: Any) -> ToolCallResume | None:
    given = ElicitResult.model_validate(answer, from_attributes=True)
    content: Mapping[str, Any] = given.content or {}
    refused = ToolCallResume(decision_id="", action=DecisionAction.CANCEL, reason="declined")
    if given.action == "decline":
        return refused
    fields = (_schema(ticket) or {}).get("required", ())
    if given.action != "accept" or any(name not in content for name in fields):
        return None
    wanted = _answer_schema(ticket)
    if wanted is None:
        scope = content.get("remember")
        remember = Remember(scope=PermissionScope(scope)) if scope in _SCOPES else None
        verdict = read_text(str(content["decision"]))
        if verdict is None:
            problem = "'decision' must be 'approve' or 'deny'"
            raise InvalidDecision(what=f"The decision on '{ticket.ticket_id}'", problem=problem)
        approved = ToolCallResume(decision_id="", result={"approved": True})
        return replace(approved if verdict else refused, remember=remember)
    result = content["answer"] if wanted.get("type") in _PRIMITIVES else dict(content)
    return ToolCallResume(decision_id="", result=result)


def message_form(question: str) -> ElicitRequestFormParams:
    """Build the form for a run that waits for a message."""
    return ElicitRequestFormParams(message=question, requested_schema=_object(message=_MESSAGE))


def message_in(answer: Any) -> str:
    """Read the message from a client's answer to that form; empty if it has none."""
    try:
        given = ElicitResult.model_validate(answer)
    except ValidationError:
        return ""
    said = (given.content or {}).get("message") if given.action == "accept" else None
    return said.strip() if isinstance(said, str) else ""


def may_ask(ctx: Context) -> bool:
    """Whether the client can show forms, and the caller may decide."""
    capabilities = ctx.session.client_capabilities
    shown = capabilities.elicitation if capabilities is not None else None
    # A client that names no mode supports forms; older clients declare it so.
    is_shown = shown is not None and (shown.form is not None or shown.url is None)
    return is_shown and Access.DECIDE in caller_of(ctx).access


def _schema(ticket: Ticket) -> dict[str, Any] | None:
    """The form's schema; None when the ticket needs more than a form can express."""
    wanted = _answer_schema(ticket)
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


def _answer_schema(ticket: Ticket) -> dict[str, Any] | None:
    """The schema of the answer; None when the ticket asks for a yes or no."""
    is_permission = ticket.question_kind is Asks.PERMISSION
    return None if is_permission else ticket.suspension.response_schema


def _object(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields)}


def _is_flat(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    items = schema.get("items")
    is_choice = isinstance(items, dict) and ("enum" in items or "anyOf" in items)
    return schema.get("type") in _PRIMITIVES or (schema.get("type") == "array" and is_choice)
