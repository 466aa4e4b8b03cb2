"""The HTTP transport: one origin per server, checked addresses, bounded answers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout
from aiohttp.client_exceptions import ClientConnectorDNSError
from mcp.client.auth.utils import extract_scope_from_www_auth
from yarl import URL

from awaken.contracts.errors import InvalidInput
from awaken.contracts.secrets import SecretUnresolved
from awaken.contracts.tracing import CURRENT_TRACE
from awaken.outbound.credentials import is_confidential
from awaken.outbound.guard import WEB_PORTS, Outbound
from awaken.outbound.oauth import Authorized, Person

from .config import Http, McpServer
from .exchange import CURRENT_EXCHANGE

_LOGIN = "no user is logged in to MCP server '{0}': run `awaken mcp-login APP {0}`"
_WAY_OUT = "if it is meant to be private, give its Http allow_private=True"
_REFUSED = -32000
_SCOPE_CHARS = 200
_OWN = {"accept-encoding", "connection", "content-encoding", "content-length", "host"}
_GOODBYE_S = 2
_CHUNK = 16 * 1024
_ASIDE_BYTES = 256 * 1024
_STREAM_MESSAGES = 4
"""The size limit of an event stream, in messages of the maximum size."""


@asynccontextmanager
async def open_guarded_client(
    server: McpServer, target: Http, person: Person | None = None
) -> AsyncIterator[httpx2.AsyncClient]:
    """A client that calls one server and its authorization server, if the guard allows it.

    Raises:
        InvalidInput: The address is refused.
    """
    issuer = target.oauth.issuer if target.oauth is not None else None
    named = [URL(it) for it in (target.url, issuer) if it is not None]
    hosts = [it.raw_host or "" for it in named] if target.allow_private else []
    outbound = Outbound(hosts, (*WEB_PORTS, *(it.port or 0 for it in named)))
    try:
        outbound.check(target.url)
    except InvalidInput as error:
        way_out = f"; {_WAY_OUT}" if "not public" in error.problem else ""
        raise InvalidInput(what="The URL", problem=f"{error.problem}{way_out}") from None
    async with outbound.session(0, connections=0, keeps_alive=True) as session:
        transport = _Guarded(server, target, outbound, session, person)
        async with httpx2.AsyncClient(transport=transport, timeout=None, trust_env=False) as client:
            yield client


class _Guarded(httpx2.AsyncBaseTransport):
    """Sends requests over a guarded session; adds credentials after the address is checked."""

    def __init__(
        self,
        server: McpServer,
        target: Http,
        outbound: Outbound,
        session: ClientSession,
        person: Person | None,
    ) -> None:
        self._server, self._outbound, self._session = server, outbound, session
        self._origin, self._is_private = URL(target.url).origin(), target.allow_private
        self._headers = target.headers
        self._authorized = None
        if target.oauth is not None:
            way_out = _LOGIN.format(server.name)
            given = (target.url, target.oauth, self._send)
            self._authorized = Authorized(*given, person=person, way_out=way_out)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request to the server, with authorization if it is configured.

        Raises:
            httpx2.TransportError: Its origin is another one, or the server is unreachable.
            LoginRequired, AuthorizationFailed: There is no valid authorization.
        """
        if self._authorized is not None:
            return await self._authorized.send(request)
        return await self._send(request, is_aside=False)

    async def _send(self, request: httpx2.Request, is_aside: bool) -> httpx2.Response:  # noqa: FBT001
        trace, server = CURRENT_TRACE.get(), self._server
        headers = {name: it for name, it in request.headers.items() if name not in _OWN}
        headers["accept-encoding"] = "identity"
        # The closing request must not delay the close; other requests have their own deadlines.
        patience_s = server.connect_ms / 1000
        others_s = patience_s if is_aside else None
        total_s = _GOODBYE_S if request.method == "DELETE" else others_s
        timeout = ClientTimeout(total=total_s, sock_connect=patience_s)
        try:
            url = self._outbound.check(str(request.url))
            if url.origin() == self._origin:
                headers |= {
                    **(trace.headers if trace is not None else {}),
                    **self._reveal_headers(),
                }
            elif not (is_aside and is_confidential(str(url))):
                raise httpx2.ConnectError("the server redirects to another origin")
            reply = await self._session.request(
                request.method, url, data=await request.aread(), allow_redirects=False,
                headers=headers, timeout=timeout,
            )  # fmt: skip
        except (ClientError, OSError, TimeoutError, InvalidInput) as error:
            # The text of the error may reveal internal addresses.
            what = "the authorization server" if is_aside else "the server"
            problem = f"{what} could not be reached ({type(error).__name__})"
            is_unknown = isinstance(error, ClientConnectorDNSError) and not self._is_private
            raise httpx2.ConnectError(f"{problem}; {_WAY_OUT}" if is_unknown else problem) from None
        passed = [(name, it) for name, it in reply.headers.items() if name.lower() not in _OWN]
        is_challenge = reply.status == 403 and "www-authenticate" in reply.headers
        if not is_aside and (reply.status == 401 or is_challenge):
            reply.close()
            return _refusal(reply.status, passed)
        # Events have their own limit; a stream that is cut here can be opened again.
        many = _STREAM_MESSAGES if reply.content_type == "text/event-stream" else 1
        limit = _ASIDE_BYTES if is_aside else many * server.limits.message_bytes
        return httpx2.Response(reply.status, headers=passed, stream=_Body(reply, limit))

    def _reveal_headers(self) -> dict[str, str]:
        """Read the secrets for one request: those that are references may have changed."""
        try:
            return {name: value.reveal() for name, value in self._headers.items()}
        except SecretUnresolved as error:
            problem = str(error)
        raise httpx2.ConnectError(problem)


def _refusal(status: int, headers: list[tuple[str, str]]) -> httpx2.Response:
    """An answer that tells the session why the server refuses the credentials."""
    scopes = extract_scope_from_www_auth(httpx2.Response(status, headers=headers))
    wanted = f", and wants the scopes '{scopes[:_SCOPE_CHARS]}'" if scopes else ""
    problem = f"it refuses the credentials with status {status}{wanted}"
    error = {"code": _REFUSED, "message": problem}
    kept = [(name, it) for name, it in headers if name.lower() != "content-type"]
    body = {"jsonrpc": "2.0", "id": 0, "error": error}
    return httpx2.Response(status, headers=kept, json=body)


class _Body(httpx2.AsyncByteStream):
    """An answer's bytes, up to a limit, and only while its call is under way."""

    def __init__(self, reply: ClientResponse, limit: int) -> None:
        self._reply, self._limit = reply, limit
        self._call = CURRENT_EXCHANGE.get()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for chunk in self._reply.content.iter_chunked(_CHUNK):
                size += len(chunk)
                if size > self._limit or (self._call is not None and self._call.task.done()):
                    raise httpx2.StreamError("the answer is too long, or its call has ended")
                yield chunk
                await asyncio.sleep(0)  # A flood of data must not block other tasks.
        except (ClientError, OSError) as error:
            raise httpx2.ReadError(f"the answer broke off ({type(error).__name__})") from None

    async def aclose(self) -> None:
        """Close the connection."""
        self._reply.close()
