"""The fields of client requests that are read, and the conversion of a prompt to a message."""

from collections.abc import Iterable
from typing import Any

import msgspec

from awaken.contracts.errors import InvalidInput
from awaken.contracts.messages.content import ContentBlock, Text
from awaken.contracts.messages.message import Message, user
from awaken.contracts.record import Record
from awaken.contracts.secrets import RedactedString
from awaken.contracts.tools.session_tools import SessionServer
from awaken.transport.media import content_from_base64, content_from_url


class Resource(Record, frozen=True, kw_only=True, rename="camel"):
    """The contents of a file that is embedded in a prompt."""

    uri: str = ""
    text: str | None = None
    blob: str | None = None
    mime_type: str | None = None


class PromptBlock(Resource, frozen=True, kw_only=True, rename="camel"):
    """A part of a prompt."""

    type: str
    text: str = ""
    data: str = ""
    name: str = ""
    resource: Resource | None = None


class Setting(Record, frozen=True, kw_only=True):
    """An environment variable of a server, or a header."""

    name: str
    value: str


class ServerOfSession(Record, frozen=True, kw_only=True):
    """An MCP server that a client adds to its session; without a type it is a stdio server."""

    name: str
    type: str = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[Setting, ...] = ()
    url: str = ""
    headers: tuple[Setting, ...] = ()


class OpenSession(Record, frozen=True, kw_only=True, rename="camel"):
    """The parameters of `session/new` and `session/load`."""

    cwd: str
    mcp_servers: tuple[ServerOfSession, ...] = ()
    session_id: str = ""


class Prompt(Record, frozen=True, kw_only=True, rename="camel"):
    """The parameters of `session/prompt` and `session/cancel`."""

    session_id: str
    prompt: tuple[PromptBlock, ...] = ()
    meta: Any = msgspec.field(default=None, name="_meta")
    """Metadata, such as the trace that the prompt belongs to."""


def session_server(server: ServerOfSession, cwd: str) -> SessionServer:
    """Convert a server of a client to a session server.

    Raises:
        InvalidInput: Its type is not supported, or it lacks a field that its type needs.
    """
    what = f"mcpServers: '{server.name}'"
    match server.type:
        case "stdio" if server.command.strip():
            return SessionServer(
                name=server.name,
                command=server.command,
                args=server.args,
                env=_secret(server.env),
                cwd=cwd,
            )
        case "http" if server.url.strip():
            return SessionServer(name=server.name, url=server.url, headers=_secret(server.headers))
        case "stdio" | "http" as kind:
            lacks = "command" if kind == "stdio" else "url"
            raise InvalidInput(what=what, problem=f"it has no {lacks}")
        case kind:
            problem = f"servers of type '{kind}' are not supported; use stdio or http"
            raise InvalidInput(what=what, problem=problem)


def _secret(settings: Iterable[Setting]) -> tuple[tuple[str, RedactedString], ...]:
    return tuple((it.name, RedactedString(it.value)) for it in settings)


def message_of(prompt: Iterable[PromptBlock]) -> Message:
    """Convert a prompt to the user's message.

    Raises:
        InvalidInput: It is empty, or has a block of an unsupported type.
        HttpError: A file in it is malformed.
    """
    content = tuple(map(_block, prompt))
    if not content:
        raise InvalidInput(what="The prompt", problem="it is empty")
    return user(content)


def _block(block: PromptBlock) -> ContentBlock:
    match block.type:
        case "text":
            return Text(text=block.text)
        case "image" if block.data:
            return content_from_base64(block.data, block.mime_type or "image/png", kind="image")
        case "resource_link" if block.uri:
            if block.uri.startswith(("https://", "http://")):
                return content_from_url(block.uri, block.mime_type, block.name or None)
            # Only the client's machine has the file; the agent gets its location.
            return Text(text=f"[{block.name}]({block.uri})")
        case "resource" if (file := block.resource) is not None:
            if file.text is not None:
                return Text(text=f'<resource uri="{file.uri}">\n{file.text}\n</resource>')
            return content_from_base64(file.blob or "", file.mime_type, file.uri)
        case _:
            raise InvalidInput(what="The prompt", problem=f"it has a block of type '{block.type}'")
