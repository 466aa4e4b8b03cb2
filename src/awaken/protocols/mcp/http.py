"""Streamable HTTP: sessions for clients that initialize one, stateless requests for others."""

import asyncio
import logging
import secrets
from typing import Any

from mcp.server.runner import serve_loop
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER, StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from awaken.transport.asgi import Message, Receive, Reply, Scope, Send
from awaken.transport.problems import HttpError
from awaken.transport.routes import Principal, RouteCall

from .agents import agent_server
from .callers import SCOPE_KEY, Caller, Link
from .protocol import McpSettings, refuse

logger = logging.getLogger(__name__)

_ID_BYTES = 32
_END_S = 5.0


class McpHttpSession:
    """One client's session; only its owner may use it."""

    def __init__(self, owner: Principal, idle_s: float) -> None:
        self.id = secrets.token_urlsafe(_ID_BYTES)
        self.owner = (owner.id, owner.tenant_id)
        self.link = Link()
        self.transport = StreamableHTTPServerTransport(self.id, idle_timeout=idle_s)
        self.is_ready = asyncio.Event()
        self.task: asyncio.Task[None] | None = None


class HttpHost:
    """Answers MCP requests over HTTP; limits the number of sessions and ends idle ones."""

    def __init__(self, settings: McpSettings) -> None:
        self.sessions: dict[str, McpHttpSession] = {}
        self._settings = settings
        self._server = server = agent_server(settings)
        # The endpoint has limited the size of bodies already.
        self._stateless = StreamableHTTPSessionManager(
            server, stateless=True, max_request_body_size=2**63
        )
        self._is_ready, self._is_closing = asyncio.Event(), asyncio.Event()
        self._task = asyncio.create_task(self._live(), name="mcp host")

    async def reply(self, call: RouteCall) -> Reply:
        """Choose the reply to a request.

        Raises:
            HttpError: 404, it names a session that the caller does not have.
        """
        await self._is_ready.wait()
        version = call.headers.get(MCP_PROTOCOL_VERSION_HEADER)
        if version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            return _SdkReply(call, Link(), self._stateless.handle_request)
        session = self._session(call.headers.get(MCP_SESSION_ID_HEADER), call.principal)

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            await self._serve(session, scope, receive, send)

        return _SdkReply(call, session.link, serve)

    async def close(self) -> None:
        """End every session."""
        await asyncio.gather(*map(self._end, tuple(self.sessions.values())))
        self._is_closing.set()
        await self._task

    def _session(self, name: str | None, caller: Principal) -> McpHttpSession:
        """Find the session that a request names; without a name a new one to initialize."""
        if name is None:
            return McpHttpSession(caller, self._settings.idle_ms / 1000)
        session = self.sessions.get(name)
        if session is None or session.owner != (caller.id, caller.tenant_id):
            raise HttpError(404, "unknown_session", "Session not found; initialize a new one.")
        return session

    async def _serve(
        self, session: McpHttpSession, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer one request of a session; a new session that is refused is removed."""
        is_new, status = session.task is None, 500
        if is_new and self._is_full(session.owner):
            wait = ((b"retry-after", b"5"),)
            problem = HttpError(503, "too_many_sessions", "Too many sessions are open.", wait)
            await refuse(problem)(scope, receive, send)
            return

        async def send_and_note_status(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            if is_new:
                self.sessions[session.id] = session
                session.task = asyncio.create_task(self._listen(session), name="mcp session")
                await session.is_ready.wait()
            await session.transport.handle_request(scope, receive, send_and_note_status)
        finally:
            if session.transport.is_terminated or (is_new and status >= 400):
                await self._end(session)

    def _is_full(self, owner: tuple[str, str | None]) -> bool:
        own = sum(it.owner == owner for it in self.sessions.values())
        limits = self._settings
        return own >= limits.max_sessions_each or len(self.sessions) >= limits.max_sessions

    async def _listen(self, session: McpHttpSession) -> None:
        transport = session.transport
        try:
            async with transport.connect() as (read, write):
                session.is_ready.set()
                assert transport.idle_scope is not None
                with transport.idle_scope:
                    await serve_loop(self._server, read, write, lifespan_state=None)
        except Exception:
            logger.exception("An MCP session broke")
        finally:
            self.sessions.pop(session.id, None)
            session.is_ready.set()
            await transport.terminate()

    async def _end(self, session: McpHttpSession) -> None:
        self.sessions.pop(session.id, None)
        await session.transport.terminate()
        if session.task is not None:
            await asyncio.wait((session.task,), timeout=_END_S)

    async def _live(self) -> None:
        # The manager must be opened and closed by the same task.
        async with self._stateless.run():
            self._is_ready.set()
            await self._is_closing.wait()


class _SdkReply:
    """A reply that the SDK writes; passes the authenticated caller to it."""

    def __init__(self, call: RouteCall, link: Link, answer: Any) -> None:
        self._caller = Caller(call.view, call.principal.access, link)
        self._body: bytes | None = call.body
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Events are not stored for replay: a client reads missed ones from the thread.
        kept = [it for it in scope["headers"] if it[0] != b"last-event-id"]
        headers = [(name, value.strip(b" \t")) for name, value in kept]
        whole = {"type": "http.request", "body": self._body or b"", "more_body": False}
        pending: list[Message] = [whole] if self._body is not None else []

        async def receive_body() -> Message:
            return pending.pop() if pending else await receive()

        known = {**scope, "headers": headers, SCOPE_KEY: self._caller}
        await self._answer(known, receive_body, send)
