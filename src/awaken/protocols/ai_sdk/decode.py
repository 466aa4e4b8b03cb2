"""From UI messages to input and decisions. What the server has stored is what counts.

A client sends all of its messages each time. Of those, only messages of the user or the system
that are not stored yet are new, and only decisions on calls that wait now are taken. What is new
is told by the thread's newest messages alone, so that a long chat costs no more than a short one.
"""

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from awaken.contracts.errors import UnknownTicket
from awaken.contracts.identity import present
from awaken.contracts.messages import content
from awaken.contracts.messages.message import Message, Role, Visibility, as_blocks
from awaken.contracts.suspension.errors import InvalidDecision
from awaken.contracts.suspension.permissions import remember_of
from awaken.contracts.suspension.ticket_names import find_by_call, find_by_id
from awaken.contracts.suspension.tickets import Asks, DecisionAction, Ticket, ToolCallResume
from awaken.contracts.tools.tool import EMPTY_PARAMETERS, ToolDescriptor
from awaken.services.request_limits import check_context
from awaken.transport.media import linked

from .wire import UiMessage, UiPart, UiTools

_ANSWERED = "approval-responded"


def unseen(
    messages: Sequence[UiMessage], stored: Collection[str], *, is_all: bool
) -> Sequence[UiMessage]:
    """The client's messages that the server cannot have seen, by what it has stored lately.

    Whatever is before a stored message came with it. When none of them is stored lately, they
    are all new to a thread of which that `is_all`; on a longer one, those are new that nobody
    has answered.
    """
    known = [place for place, it in enumerate(messages) if present(it.id) in stored]
    if not known and not is_all:
        known = [place for place, it in enumerate(messages) if it.role == "assistant"]
    return messages[known[-1] + 1 :] if known else messages


def input_messages(messages: Sequence[UiMessage]) -> dict[str, Message]:
    """What the user and the system say, by message id; messages without content say nothing.

    Raises:
        Problem: A file is malformed.
    """
    found: dict[str, Message] = {}
    for place, it in enumerate(messages):
        blocks = tuple(block for part in it.parts for block in _blocks(part))
        if blocks and it.role != "assistant":
            id_ = present(it.id)
            # A message without an id cannot be known already.
            found[id_ or f"\0{place}"] = Message(role=Role(it.role), id=id_, content=blocks)
    return found


def context_messages(state: Any) -> tuple[Message, ...]:
    """What the agent should know of the client, hidden from everybody else."""
    if state is None or state == {}:
        return ()
    told = check_context(msgspec.json.encode(state)).decode()
    text = f"<frontend-context>\n{told}\n</frontend-context>"
    hidden = Visibility.INTERNAL
    return (Message(role=Role.SYSTEM, content=as_blocks(text), visibility=hidden),)


def decisions_of(
    messages: Iterable[UiMessage], waiting: Iterable[Ticket], remember: Any = None
) -> dict[str, ToolCallResume]:
    """The decisions on tickets that wait, by ticket id; of one call the latest part counts.

    An approval names its ticket, and belongs to the call of its part. An output names its call,
    and answers nothing that asks for permission. What the request says about later calls holds
    for all its decisions: the client's own parts have no place for it.

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
    """Whether a part only repeats what the server said of the call, finally or so far."""
    is_output = (part.state or "").startswith("output-")
    return is_output and bool(part.provider_executed or part.preliminary)


def _ticket(part: UiPart, tickets: Sequence[Ticket]) -> Ticket | None:
    """The ticket that a part is about, if that waits."""
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
    is_permission = ticket.asked is Asks.PERMISSION
    match part.state:
        case "output-available" if not is_permission:
            return ToolCallResume(decision_id="", result=part.output)
        case "output-error" if not is_permission:
            return ToolCallResume(decision_id="", result={"error": part.error_text or "error"})
        case "output-denied":
            return _answered(ticket, {"approved": False})
        case "approval-responded":
            return _answered(ticket, part.approval or {})
        case _:
            return None


def _answered(ticket: Ticket, answer: dict[str, Any]) -> ToolCallResume:
    if ticket.asked is not Asks.ANSWER:
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
        return (linked(part.url, part.media_type, part.filename),)
    return ()
