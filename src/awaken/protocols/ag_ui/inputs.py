"""Requests of AG-UI clients: the SDK's RunAgentInput, and the shorter bodies of older clients."""

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from awaken.contracts.messages import content as stored
from awaken.contracts.messages.message import Message, Role, Visibility, as_blocks, user
from awaken.contracts.record import Record
from awaken.contracts.suspension.errors import InvalidDecision
from awaken.contracts.suspension.permissions import remember_of
from awaken.contracts.suspension.tickets import DecisionAction, Ticket, ToolCallResume
from awaken.contracts.tools.tool import EMPTY_PARAMETERS, ToolDescriptor
from awaken.services.request_limits import HISTORY_MAX, ITEMS_MAX, check_context
from awaken.transport.json_bodies import decode_text
from awaken.transport.media import content_from_base64, content_from_url

from .endings import is_client_call

_ROLES = {"user": Role.USER, "system": Role.SYSTEM, "developer": Role.SYSTEM}
_ACTIONS = {"resolved": DecisionAction.RESUME, "cancelled": DecisionAction.CANCEL}
_SERVERS_OWN = {"revision", "extensions"}
"""The fields of a STATE_SNAPSHOT; clients send them back with the next run."""


class PartSource(Record, frozen=True, kw_only=True, rename="camel"):
    """Where the bytes of a part are; files at a model provider are not supported."""

    type: Literal["data", "url", "file"]
    value: str
    mime_type: str = "application/octet-stream"


class ContentPart(Record, frozen=True, kw_only=True, rename="camel"):
    """A part of a message; clients before 1.0 send every file as `binary`."""

    type: Literal["text", "image", "audio", "video", "document", "binary"]
    text: str = ""
    source: PartSource | None = None
    mime_type: str = "application/octet-stream"
    data: str | None = None
    url: str | None = None
    filename: str | None = None


class ClientMessage(Record, frozen=True, kw_only=True, rename="camel"):
    """A message of a client, new or from the history."""

    role: str
    id: str | None = None
    content: str | tuple[ContentPart, ...] | dict[str, Any] | None = None
    tool_call_id: str | None = None
    error: str | None = None

    @property
    def blocks(self) -> tuple[stored.ContentBlock, ...]:
        """The content as it is stored."""
        if isinstance(self.content, tuple):
            return tuple(block for part in self.content for block in _blocks(part))
        return as_blocks(self.content) if isinstance(self.content, str) else ()


class ClientTool(Record, frozen=True, kw_only=True):
    """A tool that the client runs."""

    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None


class ResumeEntry(Record, frozen=True, kw_only=True, rename="camel"):
    """An answer to an interrupt."""

    interrupt_id: str
    status: Annotated[str, Meta(extra_json_schema={"enum": ["resolved", "cancelled"]})] = "resolved"
    payload: Any = None


Answers = Annotated[tuple[ResumeEntry, ...], Meta(max_length=ITEMS_MAX)]


class RunAgentInput(Record, frozen=True, kw_only=True, rename="camel"):
    """A request to run an agent; `resume` may also be a single answer."""

    thread_id: str | None = None
    run_id: str | None = None
    protocol_version: Any = None
    """Absent: a client before 1.0, or one that does not send its version."""
    agent_id: str | None = None
    messages: Annotated[tuple[ClientMessage, ...], Meta(max_length=HISTORY_MAX)] = ()
    state: Any = None
    context: Any = None
    tools: Annotated[tuple[ClientTool, ...], Meta(max_length=ITEMS_MAX)] | None = None
    resume: ResumeEntry | Answers | None = None
    forwarded_props: Any = None
    """Its `context` is the context of a new run; the other fields are for other servers."""

    @property
    def is_strict(self) -> bool:
        """Whether the client may be one that refuses the fields that 1.0 added."""
        return is_before_first(self.protocol_version)

    @property
    def answers(self) -> tuple[ResumeEntry, ...]:
        """The answers to interrupts."""
        return (self.resume,) if isinstance(self.resume, ResumeEntry) else self.resume or ()

    @property
    def results(self) -> dict[str | None, ClientMessage]:
        """The results of tools, by call."""
        return {it.tool_call_id: it for it in self.messages if it.role == "tool"}

    @property
    def frontend_tools(self) -> tuple[ToolDescriptor, ...]:
        """The client's tools as descriptors for the model."""
        return tuple(
            ToolDescriptor(
                id=it.name,
                description=it.description or "Frontend tool",
                parameters=it.parameters or EMPTY_PARAMETERS,
            )
            for it in self.tools or ()
        )


def is_before_first(version: Any) -> bool:
    """Whether a protocol version is absent or before 1.0; only clients of 1.0 send theirs."""
    major = str(version or "").partition(".")[0]
    return not (major.isascii() and major.isdecimal() and len(major) < 10 and int(major) >= 1)


def frontend_context(body: RunAgentInput) -> tuple[Message, ...]:
    """One message for the model with the client's state and context, if there are any."""
    state, context = body.state, body.context
    if isinstance(state, dict) and state.keys() >= _SERVERS_OWN:
        state = {name: it for name, it in state.items() if name not in _SERVERS_OWN}
    if isinstance(context, list):
        context = _by_description(it for it in context if isinstance(it, dict))
    if isinstance(state, dict) and isinstance(context, dict):
        state = state | context
    data = msgspec.json.encode(state or context) if state or context else b""
    shown = check_context(data).decode()
    text = as_blocks(f"<frontend-context>\n{shown}\n</frontend-context>")
    message = Message(role=Role.SYSTEM, content=text, visibility=Visibility.INTERNAL)
    return (message,) if shown else ()


def decisions(body: RunAgentInput, tickets: Iterable[Ticket]) -> dict[str, ToolCallResume]:
    """Read the client's decisions: results of its own tools by ticket, answers to interrupts.

    Raises:
        InvalidDecision: An answer has an unknown status, or contradicts another one.
    """
    waiting = [it for it in tickets if is_client_call(it, it.tool_name)]
    results = body.results
    found = {it.ticket_id: _result(results[it.call_id]) for it in waiting if it.call_id in results}
    for entry in body.answers:
        given = _answer(entry)
        if found.setdefault(entry.interrupt_id, given) != given:
            what = f"The answer to interrupt '{entry.interrupt_id}'"
            raise InvalidDecision(what=what, problem="there are two, which differ")
    return found


def build_answer_messages(body: RunAgentInput, run_id: str) -> tuple[Message, ...]:
    """Convert answers to a run that asked without a ticket into messages."""
    answers = [it.payload or it.status for it in body.answers if it.interrupt_id == run_id]
    texts = (it if isinstance(it, str) else msgspec.json.encode(it).decode() for it in answers)
    return tuple(map(user, texts))


def new_messages(body: RunAgentInput, known: Collection[str] | None) -> tuple[Message, ...]:
    """The client's messages that the thread does not have yet; `known` None: it has none.

    The server owns the history: messages before a known one are history, and so are messages
    without an id before an answer. Answers and tool results are never accepted from clients.
    """
    messages = list(enumerate(body.messages))
    latest = max((i for i, it in messages if known and it.id in known), default=-1)
    answered = max(
        (i for i, it in messages if known is not None and it.role not in _ROLES), default=-1
    )
    fresh = {
        it.id or f"#{i}": input_of(it)
        for i, it in messages
        if it.role in _ROLES and i > (latest if it.id else max(latest, answered)) and it.blocks
    }
    return tuple(fresh.values())


def input_of(message: ClientMessage) -> Message:
    """Convert a client's message to input for a run."""
    return Message(role=_ROLES[message.role], content=message.blocks, id=message.id or None)


def is_input(message: ClientMessage) -> bool:
    """Whether a message is input for the agent."""
    return message.role in _ROLES


def _by_description(entries: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Map descriptions to values; a repeated description has a list."""
    found: dict[str, list[Any]] = {}
    for it in entries:
        found.setdefault(str(it.get("description", "")), []).append(it.get("value"))
    return {name: it if len(it) > 1 else it[0] for name, it in found.items()}


def _answer(entry: ResumeEntry) -> ToolCallResume:
    given = entry.payload if isinstance(entry.payload, dict) else {}
    if entry.status not in _ACTIONS:
        what = f"The answer to interrupt '{entry.interrupt_id}'"
        raise InvalidDecision(what=what, problem="its status is neither resolved nor cancelled")
    action = _ACTIONS[entry.status]
    why = str(given["reason"]) if "reason" in given else None
    decision = ToolCallResume(decision_id="", action=action, result=entry.payload, reason=why)
    return msgspec.structs.replace(
        decision, arguments=given.get("editedArgs"), remember=remember_of(given.get("remember"))
    )


def _result(message: ClientMessage) -> ToolCallResume:
    """Read the result of a client's tool: the value of a JSON text, else the text itself."""
    value: Any = stored.text_of(message.blocks)
    is_text = True
    with suppress(msgspec.DecodeError):
        value, is_text = decode_text(value), False
    if message.error is not None:
        value = {"error": message.error, "content": value}
    return ToolCallResume(decision_id="", result=value, is_text=is_text)


def _blocks(part: ContentPart) -> Iterator[stored.ContentBlock]:
    source = part.source
    if part.type == "text":
        yield stored.Text(text=part.text)
    elif part.type == "binary":
        # A reference to a file at a model provider is not supported.
        if part.data is not None:
            yield content_from_base64(part.data, part.mime_type, part.filename)
        elif part.url is not None:
            yield content_from_url(part.url, part.mime_type, part.filename)
    elif source is not None and source.type != "file":
        make = content_from_url if source.type == "url" else content_from_base64
        yield make(source.value, source.mime_type, kind=part.type)
