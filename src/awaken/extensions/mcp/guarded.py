"""The way to servers over HTTP: one origin, checked addresses, counted bytes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout
from yarl import URL

from awaken.contracts.errors import InvalidInput
from awaken.contracts.tracing import CURRENT_TRACE
from awaken.outbound.guard import WEB_PORTS, Outbound

from .config import Http, McpServer
from .exchange import CURRENT_EXCHANGE

_OWN = {"accept-encoding", "connection", "content-encoding", "content-length", "host"}
_GOODBYE_S = 2
_CHUNK = 16 * 1024
_STREAM_MESSAGES = 4
"""How many messages of the largest size one stream of events may be as long as."""


@asynccontextmanager
async def guarded_client(server: McpServer, target: Http) -> AsyncIterator[httpx2.AsyncClient]:
    """A client that calls one server only, and only where the guard lets it.

    Raises:
        InvalidInput: The address is refused.
    """
    origin = URL(target.url)
    hosts = (origin.raw_host or "",) if target.allow_private else ()
    outbound = Outbound(hosts, (*WEB_PORTS, origin.port or 0))
    outbound.check(target.url)
    async with outbound.session(0, connections=0, keeps_alive=True) as session:
        transport = _Guarded(server, target, outbound, session)
        async with httpx2.AsyncClient(transport=transport, timeout=None, trust_env=False) as client:
            yield client


class _Guarded(httpx2.AsyncBaseTransport):
    """Carries requests over a guarded session; credentials are added here, after the check."""

    def __init__(
        self, server: McpServer, target: Http, outbound: Outbound, session: ClientSession
    ) -> None:
        self._server, self._outbound, self._session = server, outbound, session
        self._origin = URL(target.url).origin()
        self._secrets = {name: value.reveal() for name, value in target.headers.items()}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request to the server.

        Raises:
            httpx2.TransportError: It goes elsewhere, or the server cannot be reached.
        """
        trace = CURRENT_TRACE.get()
        headers = {name: it for name, it in request.headers.items() if name not in _OWN}
        headers |= {"accept-encoding": "identity", **(trace.headers if trace is not None else {})}
        # Nobody waits for an answer to the last request; the others have their own deadlines.
        total_s = _GOODBYE_S if request.method == "DELETE" else None
        timeout = ClientTimeout(total=total_s, sock_connect=self._server.connect_ms / 1000)
        try:
            url = self._outbound.check(str(request.url))
            if url.origin() != self._origin:
                raise httpx2.ConnectError("the server sends us to another origin")
            reply = await self._session.request(
                request.method, url, data=await request.aread(), allow_redirects=False,
                headers={**headers, **self._secrets}, timeout=timeout,
            )  # fmt: skip
        except (ClientError, OSError, TimeoutError, InvalidInput) as error:
            # What failed may name addresses that are nobody's business.
            problem = f"the server could not be reached ({type(error).__name__})"
            raise httpx2.ConnectError(problem) from None
        told = [(name, it) for name, it in reply.headers.items() if name.lower() not in _OWN]
        # An event has a limit of its own; a stream that is cut here can be opened again.
        many = _STREAM_MESSAGES if reply.content_type == "text/event-stream" else 1
        body = _Body(reply, many * self._server.limits.message_bytes)
        return httpx2.Response(reply.status, headers=told, stream=body)


class _Body(httpx2.AsyncByteStream):
    """An answer's bytes, up to a limit, for as long as somebody waits for the call."""

    def __init__(self, reply: ClientResponse, limit: int) -> None:
        self._reply, self._limit = reply, limit
        self._call = CURRENT_EXCHANGE.get()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for chunk in self._reply.content.iter_chunked(_CHUNK):
                size += len(chunk)
                if size > self._limit or (self._call is not None and self._call.task.done()):
                    raise httpx2.StreamError("the answer is too long, or nobody waits for it")
                yield chunk
                await asyncio.sleep(0)  # A flood keeps nobody else waiting.
        except (ClientError, OSError) as error:
            raise httpx2.ReadError(f"the answer broke off ({type(error).__name__})") from None

    async def aclose(self) -> None:
        """Let the connection go."""
        self._reply.close()
