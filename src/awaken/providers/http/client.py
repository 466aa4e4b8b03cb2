"""A model behind HTTP: encode, post, decode the stream. All state is in the pool."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import aiohttp

from awaken.contracts.models.addresses import server_of
from awaken.contracts.models.errors import (
    AnswerTooLarge,
    ModelError,
    StreamInterrupted,
    Unauthorized,
)
from awaken.contracts.models.inference import Alive, InferenceRequest, ModelEvent
from awaken.contracts.models.model_specs import ProviderSpec
from awaken.contracts.secrets import RedactedString
from awaken.contracts.tracing import CURRENT_TRACE
from awaken.outbound.pool import CONNECT_S, HttpPool
from awaken.outbound.sse import SseDecoder

from .codec import Codec, StreamDecoder
from .transport import Address, check_answer, classify_connection_error, count_bytes, scrub_secrets

if TYPE_CHECKING:
    from aiohttp.client import _RequestContextManager

_REST_S = 0.1
"""How long to wait for the end of the body once the answer is complete."""
_ALIVE = Alive()
_HEADERS = {
    "content-type": "application/json",
    "accept": "text/event-stream",
    "accept-encoding": "identity",
}


class HttpModelClient:
    """Speaks one wire format to one provider.

    The key is looked up for every call, so that a new key is used at once. `setting` names the
    setting that people must change if the address is wrong.
    """

    __slots__ = ("_address", "_codec", "_find_key", "_pool", "_spec", "_timeout", "name", "server")

    def __init__(
        self,
        spec: ProviderSpec,
        codec: Codec,
        pool: HttpPool,
        find_key: Callable[[], RedactedString | None],
        setting: str = "base_url",
    ) -> None:
        self.name = spec.id
        self._spec = spec
        self._codec = codec
        self._pool = pool
        self._find_key = find_key
        self._timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_S, sock_read=spec.timeout_ms / 1000
        )
        url = (spec.base_url or codec.base_url).rstrip("/")
        self._address = Address(url=url, setting=setting, idle_ms=spec.timeout_ms)
        self.server = server_of(url)

    def __repr__(self) -> str:
        return f"HttpModelClient({self.name!r})"

    async def stream(self, request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        """Ask the model and yield its answer as it comes.

        Raises:
            ModelError: The call failed; neither the error nor its cause contains the key.
        """
        key = _clean_key(self._find_key(), self.name)
        decoder = self._codec.decoder()
        sse, received = SseDecoder(too_large=AnswerTooLarge), 0
        broken: ModelError | None = None
        try:
            try:
                async with self._post(request, key) as response:
                    await check_answer(response, self._address)
                    content = response.content
                    while not decoder.is_over and (chunk := await content.readany()):
                        received = count_bytes(received, chunk)
                        is_silent = True
                        for data in sse.feed(chunk):
                            for event in decoder.take(data):
                                is_silent = False
                                yield event
                        if is_silent:
                            yield _ALIVE
                    if not content.at_eof():
                        await _drain(content)
            except (aiohttp.ClientError, OSError, ValueError) as error:
                broken = classify_connection_error(error, self._address, received)
            # A complete answer is valid, however its connection ended.
            for event in _read_end(sse, decoder):
                yield event
        except ModelError as error:
            failure = broken if broken and isinstance(error, StreamInterrupted) else error
        else:
            return
        # Raised here, so that it has no cause: errors of the connection hold its headers.
        try:
            raise scrub_secrets(failure, (key,) if key is not None else ())
        finally:
            del failure, broken

    def _post(
        self, request: InferenceRequest, key: RedactedString | None
    ) -> "_RequestContextManager":
        wire, trace = self._codec.encode(request), CURRENT_TRACE.get()
        traced = {} if trace is None else trace.headers
        url = self._address.url + wire.path
        return self._pool.session().post(
            url,
            data=wire.body,
            headers={**_HEADERS, **traced, **self._codec.headers(key)},
            timeout=self._timeout,
            allow_redirects=False,
            proxy=self._pool.proxy_of(url),
        )


def _read_end(sse: SseDecoder, decoder: StreamDecoder) -> Iterator[ModelEvent]:
    """The events at the end of a stream, and the vendor's name of the answer."""
    for data in sse.end():
        yield from decoder.take(data)
    yield from decoder.end()
    if decoder.vendor is not None:
        yield decoder.vendor


async def _drain(content: aiohttp.StreamReader) -> None:
    """Wait a moment for the end of the body: only then can the connection be reused."""
    with suppress(TimeoutError, OSError, aiohttp.ClientError):
        async with asyncio.timeout(_REST_S):
            while await content.readany():
                pass


def _clean_key(key: RedactedString | None, provider: str) -> RedactedString | None:
    """Return the key without white space: keys read from files end with a newline.

    Raises:
        Unauthorized: It has characters that a header cannot contain.
    """
    text = key.reveal().strip() if key is not None else ""
    if not text.isprintable():
        message = f"the key of provider '{provider}' has characters that a header cannot contain"
        raise Unauthorized(message)
    return RedactedString(text) if text else None
