"""HTTP requests to one server: every request goes to its origin only, with its token.

Answers are bounded while they are read, and redirects are never followed.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp
from yarl import URL

from awaken.contracts.backends.errors import (
    RemoteError,
    RemoteMalformed,
    RemoteRefused,
    RemoteTooLarge,
    RemoteUnreachable,
    RemoteUnsupported,
)
from awaken.contracts.errors import InvalidInput
from awaken.contracts.secrets import RedactedString, SecretUnresolved
from awaken.contracts.tracing import CURRENT_TRACE
from awaken.outbound.guard import Outbound
from awaken.outbound.sse import SseDecoder

from .config import A2AConfig, is_header_text, origin_of
from .failures import RemoteNotReached, failure_of_status, shorten_text
from .outgoing import Payload

BODY_BYTES_MAX = 8 * 1024 * 1024
EVENT_BYTES_MAX = 1024 * 1024
ERROR_BYTES_MAX = 64 * 1024
CALL_S = 30.0
"""How long one call may take, unless the caller waits for the end of a task."""
UNREAD_BYTES_MAX = 2 * EVENT_BYTES_MAX
"""How many bytes of a stream may arrive without an event, as comments do."""
SECRET_LENGTH_MIN = 8
"""A shorter token may be part of an ordinary word and is not replaced."""
IDLE_S = 60.0
"""How long a stream may be silent before it counts as broken."""
CONNECT_S = 10.0
VERSION = "1.0"
_UNCONNECTED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)


class Channel:
    """Calls to one server. The first call opens connections; `close` closes them."""

    def __init__(self, config: A2AConfig, guard: Outbound) -> None:
        self.config = config
        host = URL(config.base_url).raw_host or ""
        # The operator configured this host, so its address may be private. Every other host has
        # to be public, and no other host is called.
        self._guard = guard.with_trusted_host(host)
        self._token: str | None = None
        """The token as it was last sent; a reference to a secret may change."""
        self._echo: re.Pattern[bytes] | None = None
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def call(
        self,
        method: str,
        url: str,
        body: Payload | None = None,
        timeout_s: float | None = CALL_S,
        most: int = BODY_BYTES_MAX,
    ) -> bytes:
        """Send a request and read the whole answer. Without a timeout the caller bounds it.

        Raises:
            RemoteError: There is no answer, it is an error, or it is too large.
        """
        async with self._request(method, url, body, timeout_s) as response:
            return self._clean(await _read_body(response, most))

    async def call_public(self, url: str, most: int, timeout_s: float) -> bytes:
        """Fetch a public document, without the token.

        Raises:
            RemoteError: The document does not exist, or is too large.
        """
        async with self._request("GET", url, None, timeout_s, is_public=True) as response:
            return await _read_body(response, most)

    async def stream(
        self, method: str, url: str, body: Payload | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Send a request and yield the data of every event until the stream ends.

        Raises:
            RemoteError: The stream breaks off, is refused, is silent for too long, or too large.
        """
        async with self._request(method, url, body, None, accept="text/event-stream") as response:
            if response.content_type != "text/event-stream":
                # A refusal over JSON-RPC is not a stream either.
                raise RemoteUnsupported(
                    problem=f"a stream of '{shorten_text(response.content_type)}'"
                )
            decoder = SseDecoder(EVENT_BYTES_MAX, lambda text: RemoteTooLarge(problem=text))
            unread = 0
            async for chunk in response.content.iter_any():
                found = decoder.feed(chunk)
                unread = 0 if found else unread + len(chunk)
                if unread > UNREAD_BYTES_MAX:
                    raise RemoteTooLarge(problem="a stream of comments, without an event")
                for data in found:
                    yield self._clean(_check_event_size(data))
            for data in decoder.end():
                yield self._clean(_check_event_size(data))

    @property
    def is_closed(self) -> bool:
        """Whether it holds no connection."""
        return self._session is None

    async def close(self) -> None:
        """Close all connections; a later call opens them again."""
        session, self._session = self._session, None
        if session is not None and self._loop is asyncio.get_running_loop():
            await session.close()

    def describe_failure(self, failure: RemoteError) -> RemoteError:
        """Add the origin to an error of the server, and remove the token if it repeats it."""
        return type(failure)(problem=self._scrub(f"{self.config.origin}: {failure.problem}"))

    @asynccontextmanager
    async def _request(
        self,
        method: str,
        url: str,
        body: Payload | None,
        timeout_s: float | None,
        accept: str = "application/json",
        *,
        is_public: bool = False,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Open a successful answer; failures while it is read become `RemoteError`."""
        self._check_origin(url)
        idle_s = IDLE_S if accept == "text/event-stream" else None
        timeout = aiohttp.ClientTimeout(timeout_s, sock_connect=CONNECT_S, sock_read=idle_s)
        try:
            async with self._get_session().request(
                method,
                self._guard.check(url),
                json=body,
                headers=self._headers(accept, is_public=is_public),
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                await self._check(response)
                yield response
        except (aiohttp.ClientError, OSError, InvalidInput, ValueError) as error:
            raise self._translate_error(error) from error

    def _get_session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        if self._session is None or self._session.closed or self._loop is not loop:
            self._session = self._guard.session(CALL_S, connections=0, keeps_alive=True)
            self._loop = loop
        return self._session

    def _headers(self, accept: str, *, is_public: bool) -> Mapping[str, str]:
        headers = {"A2A-Version": VERSION, "Accept": accept, "Accept-Encoding": "identity"}
        if self.config.token is not None and not is_public:
            headers["Authorization"] = f"Bearer {self._read_token(self.config.token)}"
        trace = CURRENT_TRACE.get()
        return headers if trace is None else {**headers, **trace.headers}

    def _read_token(self, token: RedactedString) -> str:
        """Return the token as it is now.

        Raises:
            RemoteRefused: It refers to a secret that cannot be read or sent; names the reference.
        """
        try:
            text = token.reveal().strip()
        except SecretUnresolved as error:
            raise RemoteRefused(problem=str(error)) from None
        if not is_header_text(text):
            problem = f"the token for {self.config.origin} has characters no header can contain"
            raise RemoteRefused(problem=problem)
        if text != self._token:
            self._token, self._echo = text, _echo_of(text)
        return text

    def _check_origin(self, url: str) -> None:
        if origin_of(url) != self.config.origin:
            problem = f"{origin_of(url)} is not {self.config.origin}, where the agent is configured"
            raise RemoteRefused(problem=problem)

    async def _check(self, response: aiohttp.ClientResponse) -> None:
        origin, status = self.config.origin, response.status
        if 300 <= status < 400:
            problem = f"{origin} answered with a redirect ({status}), which is never followed"
            raise RemoteRefused(problem=problem)
        if not 200 <= status < 300:
            said = self._clean(await _read_start(response))
            is_delayed = "Retry-After" in response.headers
            raise self.describe_failure(failure_of_status(status, said, is_delayed=is_delayed))
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise RemoteMalformed(problem="the answer is compressed, which was not requested")

    def _translate_error(self, error: Exception) -> RemoteError:
        """The `RemoteError` of a failed connection; its text does not repeat the token."""
        text, origin = shorten_text(self._scrub(str(error))), self.config.origin
        if isinstance(error, InvalidInput):
            return RemoteRefused(problem=text)
        if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
            return RemoteRefused(problem=f"{origin} has a certificate that is not trusted")
        if isinstance(error, aiohttp.ClientResponseError | ValueError):
            return RemoteMalformed(problem=f"{origin} does not speak HTTP: {text}")
        said = f"{type(error).__name__}: {text}" if text else type(error).__name__
        kind = RemoteNotReached if isinstance(error, _UNCONNECTED) else RemoteUnreachable
        return kind(problem=f"{origin}: {said}")

    def _clean(self, data: bytes) -> bytes:
        """The data without the token, if it repeats it: users and models read answers."""
        return data if self._echo is None else self._echo.sub(b"***", data)

    def _scrub(self, text: str) -> str:
        return text.replace(self._token, "***") if self._token else text


def _echo_of(token: str) -> re.Pattern[bytes] | None:
    """A pattern that finds the token in JSON, however its characters are escaped."""
    if len(token) < SECRET_LENGTH_MIN:
        return None
    forms = (rf"(?:\\?{re.escape(it)}|\\u(?i:{ord(it):04x}))" for it in token)
    return re.compile("".join(forms).encode())


async def _read_body(response: aiohttp.ClientResponse, most: int) -> bytes:
    if (response.content_length or 0) > most:
        raise _too_large(most)
    chunks: list[bytes] = []
    received = 0
    async for chunk in response.content.iter_any():
        received += len(chunk)
        if received > most:
            raise _too_large(most)
        chunks.append(chunk)
    return b"".join(chunks)


async def _read_start(response: aiohttp.ClientResponse) -> bytes:
    """Read the body of an error answer, up to a limit."""
    found = bytearray()
    async for chunk in response.content.iter_any():
        found += chunk
        if len(found) >= ERROR_BYTES_MAX:
            break
    return bytes(found[:ERROR_BYTES_MAX])


def _check_event_size(data: bytes) -> bytes:
    if len(data) > EVENT_BYTES_MAX:
        raise RemoteTooLarge(problem=f"one event of the stream exceeds {EVENT_BYTES_MAX} bytes")
    return data


def _too_large(most: int) -> RemoteTooLarge:
    return RemoteTooLarge(problem=f"the answer exceeds {most} bytes")
