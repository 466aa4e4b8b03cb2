"""Connections through the SDK: the only module that speaks MCP. Needs the extra `mcp`."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any

import mcp_types as types
import msgspec
from mcp import Client
from mcp.client import advertise
from mcp.client.session import IncomingMessage
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, TypeAdapter, ValidationError

from awaken.contracts.tools.tool import ToolError
from awaken.contracts.tracing import CURRENT_TRACE
from awaken.outbound.oauth import Person

from .catalog import Listing, OfferedPrompt, OfferedTool
from .config import Http, InProcess, McpServer, Stdio
from .errors import EXPIRED, ServerFailed, ServerUnavailable
from .exchange import Ask, Json, Kind
from .http_transport import open_guarded_client
from .pipes import run_program

_RELISTEN_S = 5.0
_SHOWN = 500
_TERMINATED = "Session terminated"
_CLIENT = types.Implementation(name="awaken-mcp", version="1")
_APPS = advertise("io.modelcontextprotocol/ui", {"mimeTypes": ["text/html;profile=mcp-app"]})
_Reply: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)
_Responses: TypeAdapter[types.InputResponses] = TypeAdapter(types.InputResponses)
_CHANGES = (types.ToolListChangedNotification, types.PromptListChangedNotification)


@asynccontextmanager
async def open_session(
    server: McpServer, ask: Ask, person: Person | None = None
) -> AsyncIterator["SdkSession"]:
    """Connect to a server; the connection is closed completely when the context exits.

    With a person it begins with a login, if the server requires one.

    Raises:
        Exception: Any error of the transport or the handshake.
    """
    session = SdkSession(server)
    async with AsyncExitStack() as stack:
        client = Client(
            await _target(server, session, stack, person),
            cache=None,
            mode="legacy" if server.protocol == "legacy" else "auto",
            read_timeout_seconds=server.connect_ms / 1000,
            client_info=_CLIENT,
            extensions=[_APPS],
            message_handler=session.handle_message,
            sampling_callback=_make_callback(ask, "sampling") if server.sampling else None,
            elicitation_callback=_make_callback(ask, "elicitation") if server.elicitation else None,
            list_roots_callback=_make_roots_callback(server) if server.roots else None,
        )
        session.client = await stack.enter_async_context(client)
        yield session


async def _target(
    server: McpServer, session: "SdkSession", stack: AsyncExitStack, person: Person | None
) -> Any:
    match server.transport:
        case Stdio() as program:
            return run_program(program, server.limits, session.end)
        case Http() as http:
            client = await stack.enter_async_context(open_guarded_client(server, http, person))
            size = server.limits.message_bytes
            return streamable_http_client(http.url, http_client=client, max_sse_event_size=size)
        case InProcess() as local:
            return local.server


class SdkSession:
    """A connection of the SDK; converts its answers and errors.

    Raises:
        ToolError: By every request that fails.
    """

    client: Client

    def __init__(self, server: McpServer) -> None:
        self.ended = asyncio.Event()
        """Set when the connection has ended, with the reason in `why`."""
        self.changed = asyncio.Event()
        """Set when the server reports that its lists have changed."""
        self.why = ""
        self._server = server

    def end(self, why: str) -> None:
        """End the connection; only the first reason counts."""
        if not self.ended.is_set():
            self.why = why
            self.ended.set()

    async def handle_message(self, message: IncomingMessage) -> None:
        """Handle a notification of the server."""
        if isinstance(message, _CHANGES):
            self.changed.set()

    async def read_listing(self) -> Listing:
        """Read all lists completely, up to the limits."""
        offers, problems = self.client.server_capabilities, list[str]()
        tools = await self._pages("tools", problems) if offers.tools else []
        prompts = await self._pages("prompts", problems) if offers.prompts else []
        return Listing(
            tools=msgspec.convert(tools, tuple[OfferedTool, ...]),
            prompts=msgspec.convert(prompts, tuple[OfferedPrompt, ...]),
            has_resources=offers.resources is not None,
            problems=tuple(problems),
            protocol_version=self.client.protocol_version,
        )

    async def listen_for_changes(self) -> None:
        """Listen for list changes as long as the server reports them."""
        offers = self.client.server_capabilities
        tools = bool(offers.tools and offers.tools.list_changed)
        prompts = bool(offers.prompts and offers.prompts.list_changed)
        is_modern = self.client.protocol_version in MODERN_PROTOCOL_VERSIONS
        while is_modern and (tools or prompts):
            try:
                subscription = self.client.listen(
                    tools_list_changed=tools, prompts_list_changed=prompts
                )
                # However the subscription ends, it is opened again.
                with suppress(SubscriptionLost, TimeoutError):
                    async with subscription as events:
                        async for _ in events:
                            self.changed.set()
            except MCPError as error:
                if error.code == types.METHOD_NOT_FOUND:
                    return
            await asyncio.sleep(_RELISTEN_S)
            self.changed.set()

    async def call(
        self, tool: str, arguments: Json, answers: Json | None, state: str | None, tell: ProgressFnT
    ) -> Json:
        """Call a tool; returns the result, or the server's questions in the protocol's form.

        `answers` are the answers to its earlier questions, and `state` is the state it sent with
        them.
        """
        is_modern = self.client.protocol_version in MODERN_PROTOCOL_VERSIONS
        # The older era has no field for them: the user has already visited the page.
        answers = answers if is_modern else None
        params = types.CallToolRequestParams(
            name=tool,
            arguments=arguments,
            input_responses=None if answers is None else _Responses.validate_python(answers),
            request_state=state,
            _meta=_meta(),
        )
        # The waiting tool call has its own deadline; this one bounds a held call.
        last_s = (self._server.limits.held_ms + self._server.call_ms) / 1000
        with self._translate_errors():
            try:
                # Not `call_tool`: it would match the result against regexes of the server.
                reply = await self.client.session.send_request(
                    types.CallToolRequest(params=params), _Reply, last_s, None, tell
                )
            except MCPError as error:
                if error.code != types.URL_ELICITATION_REQUIRED:
                    raise
                return _pages_to_visit(error)
        return _plain(reply)

    async def resources(self) -> list[Json]:
        """The resources that the server lists, up to the limits."""
        return await self._pages("resources", [])

    async def read(self, uri: str) -> list[Json]:
        """The contents of a resource."""
        with self._translate_errors():
            reply = await self.client.session.read_resource(uri, meta=_meta())
        return [_plain(it) for it in reply.contents]

    async def prompt(self, name: str, arguments: dict[str, str]) -> list[Json]:
        """The messages of a prompt."""
        with self._translate_errors():
            reply = await self.client.session.get_prompt(name, arguments, meta=_meta())
        return [_plain(it) for it in reply.messages]

    async def _pages(self, kind: str, problems: list[str]) -> list[Json]:
        """All entries of a list, up to the limits; omissions are added to `problems`."""
        limits, size, found = self._server.limits, 0, list[Json]()
        read, cursor = getattr(self.client.session, f"list_{kind}"), None
        for _ in range(limits.pages):
            with self._translate_errors():
                page = await read(params=types.PaginatedRequestParams(cursor=cursor))
            for it in map(_plain, getattr(page, kind)):
                size += len(msgspec.json.encode(it))
                if len(found) >= limits.tools or size > limits.catalog_bytes:
                    problems.append(f"{kind} after the first {len(found)} are left out")
                    return found
                found.append(it)
            cursor = page.next_cursor
            if cursor is None:
                return found
        problems.append(f"{kind} after page {limits.pages} are left out")
        return found

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        name = self._server.name
        try:
            yield
        except MCPError as error:
            said = str(error.message)[:_SHOWN]
            if error.code in (types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT):
                raise ServerUnavailable(f"MCP server '{name}': {said}") from error
            if error.code == types.INVALID_REQUEST and said == _TERMINATED:
                self.end(EXPIRED)
                raise ServerUnavailable(f"MCP server '{name}': {EXPIRED}; try again") from error
            if error.code == types.HEADER_MISMATCH:
                self.changed.set()  # The listed tools are out of date.
            problem = f"MCP server '{name}' answered with error {error.code}: {said}"
            raise ServerFailed(problem) from error
        except (ValidationError, RuntimeError, RecursionError) as error:
            problem = f"MCP server '{name}' gave a malformed answer ({type(error).__name__})"
            raise ServerFailed(problem) from error


def _pages_to_visit(error: MCPError) -> Json:
    """Convert the error by which an older server asks people to the newer protocol's form."""
    asked = UrlElicitationRequiredError.from_error(error.error).elicitations
    method = "elicitation/create"
    requests = {it.elicitation_id: {"method": method, "params": _plain(it)} for it in asked}
    return {"resultType": "input_required", "inputRequests": requests}


def _make_callback(ask: Ask, kind: Kind) -> Any:
    reply = types.CreateMessageResult if kind == "sampling" else types.ElicitResult

    async def answer(_context: Any, params: BaseModel) -> BaseModel:
        try:
            return reply.model_validate(await ask(kind, _plain(params)))
        except ToolError as error:
            return types.ErrorData(code=types.INVALID_REQUEST, message=str(error))

    return answer


def _make_roots_callback(server: McpServer) -> Any:
    async def answer(_context: Any) -> types.ListRootsResult:
        return types.ListRootsResult.model_validate(server.roots_result)

    return answer


def _meta() -> Any:
    trace = CURRENT_TRACE.get()
    return None if trace is None else dict(trace.headers)


def _plain(model: BaseModel) -> Json:
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)
