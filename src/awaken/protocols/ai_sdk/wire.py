"""The requests of AI SDK clients."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from awaken.contracts.record import Record
from awaken.services.request_limits import HISTORY_MAX, ITEMS_MAX


class UiPart(Record, frozen=True, kw_only=True, rename="camel"):
    """A part of a UI message: text, a file, the state of a tool call, or data to show."""

    type: str
    text: str | None = None
    url: str | None = None
    media_type: str | None = None
    filename: str | None = None
    tool_call_id: str | None = None
    state: str | None = None
    output: Any = None
    error_text: str | None = None
    approval: dict[str, Any] | None = None
    provider_executed: bool | None = None
    preliminary: bool | None = None


class UiMessage(Record, frozen=True, kw_only=True):
    """A message as the client keeps it."""

    role: Literal["system", "user", "assistant"]
    id: str | None = None
    parts: tuple[UiPart, ...] = ()


class UiTool(Record, frozen=True, kw_only=True):
    """A tool that the client executes."""

    name: str = ""
    description: str = "Frontend tool"
    parameters: dict[str, Any] | None = None


UiTools = Annotated[tuple[UiTool, ...], Meta(max_length=ITEMS_MAX)] | dict[str, UiTool]
"""Tools in a list, or by their names."""


class ChatRequest(Record, frozen=True, kw_only=True, rename="camel"):
    """What `useChat` sends: the chat's id, which is the thread's, and all of its messages."""

    id: str | None = None
    thread_id: str | None = None
    agent_id: str | None = None
    thread_id_alias: str | None = msgspec.field(default=None, name="thread_id")
    agent_id_alias: str | None = msgspec.field(default=None, name="agent_id")
    messages: Annotated[tuple[UiMessage, ...], Meta(max_length=HISTORY_MAX)] = ()
    trigger: str | None = None
    message_id: str | None = None
    """The message that the client has edited, if any."""
    whole_history: bool = False
    """Whether the client always sends all of its messages; then a single one is all it has."""
    state: Any = None
    """The client's state for the agent, for this turn."""
    context: dict[str, Any] | None = None
    """The context of a new run, in the form of the agent's context type."""
    remember: Any = None
    """Whether the approvals in the request hold for later calls as well: a scope."""
    tools: UiTools = ()


class PreviewRequest(ChatRequest, frozen=True, kw_only=True, rename="camel"):
    """A turn of a chat with an agent that is not saved."""

    agent: dict[str, Any]
    """The agent, in the HTTP form of `/v1/config/agents`."""
