"""Reads input and decisions from UI messages. The server's stored messages are authoritative.

A client sends all of its messages each time. Only messages of the user or the system that are not
stored yet are new, and only decisions on calls that wait now are accepted. New messages are found
with the thread's newest messages alone, so that a long chat costs no more than a short one.
"""

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from awaken.contracts.errors import UnknownTicket
from awaken.contracts.identity import normalize_id
from awaken.contracts.messages import content
from awaken.contracts.messages.message import Message, Role, Visibility, as_blocks
from awaken.contracts.suspension.errors import InvalidDecision
from awaken.contracts.suspension.permissions import remember_of
from awaken.contracts.suspension.ticket_names import find_by_call, find_by_id
from awaken.contracts.suspension.tickets import Asks, DecisionAction, Ticket, ToolCallResume
from awaken.contracts.tools.tool import EMPTY_PARAMETERS, ToolDescriptor
from awaken.services.request_limits import check_context
from awaken.transport.media import content_from_url

from .wire import UiMessage, UiPart, UiTools

_ANSWERED = "approval-responded"


def find_unseen(
    messages: Sequence[UiMessage], stored: Collection[str], *, is_all: bool
) -> Sequence[UiMessage]:
    """Find the client's messages that are not stored yet, by the newest stored messages.

    Messages before a stored one are old. If no message is among the newest stored ones, all are
    new on a thread without other messages (`is_all`); on a longer thread those after the last
    answer are new.
    """
    known = [place for place, it in enumerate(messages) if normalize_id(it.id) in stored]
    if not known and not is_all:
        known = [place for place, it in enumerate(messages) if it.role == "assistant"]
    return messages[known[-1] + 1 :] if known else messages


def input_messages(messages: Sequence[UiMessage]) -> dict[str, Message]:
    """The messages of the user and the system, by id, without empty ones.

    Raises:
        HttpError: A file is malformed.
    """
    found: dict[str, Message] = {}
    for place, it in enumerate(messages):
        blocks = tuple(block for part in it.parts for block in _blocks(part))
        if blocks and it.role != "assistant":
            id_ = normalize_id(it.id)
            # A message without an id cannot be stored already.
            found[id_ or f"\0{place}"] = Message(role=Role(it.role), id=id_, content=blocks)
    return found


def context_messages(state: Any) -> tuple[Message, ...]:
    """The client's state as an internal message for the agent."""
    if state is None or state == {}:
        return ()
    state_text = check_context(msgspec.json.encode(state)).decode()
    text = f"<frontend-context>\n{state_text}\n</frontend-context>"
    hidden = Visibility.INTERNAL
    return (Message(role=Role.SYSTEM, content=as_blocks(text), visibility=hidden),)


def decisions_of(
    messages: Iterable[UiMessage], waiting: Iterable[Ticket], remember: Any = None
) -> dict[str, ToolCallResume]:
    """Read the decisions on waiting tickets, by ticket id; of one call the latest part counts.

    An approval names its ticket, and must belong to the call of its part. An output names its
    call, and does not answer a permission. `remember` holds for all decisions of the request: the
    parts have no field for it.

    Raises:
        AmbiguousTicket: A call has several open tickets.
        InvalidDecision: An approval neither approves nor denies, or is not of its call.
    """
    tickets = tuple(waiting)
    found: dict[str, ToolCallResume | None] = {}
    for part in (part for it in messages if it.role == "assistant" for part in it.parts):
        is_call = part.type.startswith("tool-") or part.type == "dynamic-tool"
        if is_call and not _is_ours(part) and (ticket := _ticket(part, tickets)) is not None:
            found[ticket.ticket_id] = _decision(part, ticket)
    held = remember_of(remember)
    return {
        ticket_id: msgspec.structs.replace(it, remember=held)
        for ticket_id, it in found.items()
        if it is not None
    }


def tool_descriptors(tools: UiTools) -> tuple[ToolDescriptor, ...]:
    """The tools that the client executes."""
    named = tools.items() if isinstance(tools, dict) else [(it.name, it) for it in tools]
    texts = [(name, it.description, it.parameters or EMPTY_PARAMETERS) for name, it in named]
    return tuple(
        ToolDescriptor(id=name, name=name, description=text, parameters=parameters)
        for name, text, parameters in texts
    )


def _is_ours(part: UiPart) -> bool:
    """Whether a part only repeats the server's final or preliminary output of the call."""
    is_output = (part.state or "").startswith("output-")
    return is_output and bool(part.provider_executed or part.preliminary)


def _ticket(part: UiPart, tickets: Sequence[Ticket]) -> Ticket | None:
    """Find the waiting ticket that a part is about."""
    asked = part.approval.get("id") if part.approval and part.state == _ANSWERED else None
    with suppress(UnknownTicket):
        if not isinstance(asked, str):
            return find_by_call(tickets, part.tool_call_id or "")
        ticket = find_by_id(tickets, asked)
        if part.tool_call_id in (None, ticket.call_id):
            return ticket
        what, problem = f"Approval '{asked}'", f"it is not of call '{part.tool_call_id}'"
        raise InvalidDecision(what=what, problem=problem)
    return None


def _decision(part: UiPart, ticket: Ticket) -> ToolCallResume | None:
    is_permission = ticket.question_kind is Asks.PERMISSION
    match part.state:
        case "output-available" if not is_permission:
            return ToolCallResume(decision_id="", result=part.output)
        case "output-error" if not is_permission:
            return ToolCallResume(decision_id="", result={"error": part.error_text or "error"})
        case "output-denied":
            return _read_answer(ticket, {"approved": False})
        case "approval-responded":
            return _read_answer(ticket, part.approval or {})
        case _:
            return None


def _read_answer(ticket: Ticket, answer: dict[str, Any]) -> ToolCallResume:
    if ticket.question_kind is not Asks.ANSWER:
        return ToolCallResume(decision_id="", result=answer)
    if not isinstance(answer.get("approved"), bool):
        what = f"The approval of ticket '{ticket.ticket_id}'"
        raise InvalidDecision(what=what, problem="'approved' must be true or false")
    action = DecisionAction.RESUME if answer["approved"] else DecisionAction.CANCEL
    return ToolCallResume(decision_id="", action=action, result=answer)


def _blocks(part: UiPart) -> tuple[content.ContentBlock, ...]:
    if part.type == "text" and part.text:
        return (content.Text(text=part.text),)
    if part.type == "file" and part.url is not None:
        return (content_from_url(part.url, part.media_type, part.filename),)
    return ()
