"""The errors of a provider that cannot be reached, or that does not answer with a stream."""

from collections.abc import Iterable

import aiohttp
from yarl import URL

from awaken.contracts.models.errors import (
    AnswerTooLarge,
    MalformedAnswer,
    ModelError,
    ModelTimeout,
    ProviderUnusable,
    StreamInterrupted,
    TransportFailed,
)
from awaken.contracts.record import Record
from awaken.contracts.secrets import RedactedString
from awaken.outbound.pool import CONNECT_S

from .failures import failure_of_body, is_failure

ANSWER_BYTES = 128 * 1024 * 1024
"""The maximum size of one answer."""
_ERROR_BYTES = 64 * 1024
_KEY_CHARS = 12
"""So many characters of a key are more than the common prefix of the vendor's keys."""


class Address(Record, frozen=True, kw_only=True):
    """The address of a provider, and the setting that people change if it is wrong."""

    url: str
    setting: str = "base_url"
    idle_ms: int


def classify_connection_error(error: Exception, address: Address, received: int) -> ModelError:
    """Return the error for a failed connection; never chain its cause, which may hold the key."""
    if isinstance(error, ValueError):
        # Its text may repeat the value, and a proxy has a password.
        return ProviderUnusable(
            f"{address.url} cannot be asked ({type(error).__name__}): is {address.setting} right, "
            "and every variable that names a proxy?"
        )
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return TransportFailed(f"{address.url} could not be reached within {CONNECT_S} s")
    if isinstance(error, TimeoutError):
        return ModelTimeout(f"nothing came for {address.idle_ms} ms")
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else None
    if isinstance(cause, ConnectionRefusedError):
        text = f"nothing listens at {address.url}; is it running, is {address.setting} right?"
    return StreamInterrupted(text) if received else TransportFailed(text)


async def check_answer(response: aiohttp.ClientResponse, address: Address) -> None:
    """Check that the provider answers with a stream of events.

    Raises:
        ModelError: The provider refused, or sends something else.
    """
    status, kind = response.status, response.content_type
    if 300 <= status < 400:
        raise _redirect_error(response, address)
    if status != 200:
        body = await read_beginning(response.content)
        raise failure_of_body(status, response.headers, body, response.url.path)
    if kind == "text/html":
        raise _no_stream_error("a web page", response, address)
    if kind == "application/json":
        body = await read_beginning(response.content)
        if is_failure(body):
            raise failure_of_body(status, response.headers, body)
        raise _no_stream_error("one JSON document", response, address)
    encoding = response.headers.get("content-encoding", "identity")
    if encoding != "identity":
        message = f"the answer is encoded as '{encoding}', which was not requested"
        raise MalformedAnswer(message)


def _redirect_error(response: aiohttp.ClientResponse, address: Address) -> ModelError:
    """Return the error for a redirect: the key is only ever sent to the configured address."""
    try:
        target = str(response.url.join(URL(response.headers.get("location", ""))).origin())
    except ValueError:
        target = "an address that is none"
    return ProviderUnusable(
        f"{address.url} redirects to {target} (HTTP {response.status}), which is not followed: "
        f"is {address.setting} right?"
    )


def _no_stream_error(what: str, response: aiohttp.ClientResponse, address: Address) -> ModelError:
    asked = response.url.with_query(None)
    return ProviderUnusable(
        f"{asked} answers with {what} and no stream of events: is {address.setting} right?"
    )


async def read_beginning(content: aiohttp.StreamReader) -> bytes:
    """Read the part of a body that an error is made from, however many packets it takes."""
    body = bytearray()
    while len(body) < _ERROR_BYTES and (chunk := await content.readany()):
        body += chunk
    return bytes(body[:_ERROR_BYTES])


def count_bytes(received: int, chunk: bytes) -> int:
    """Add a chunk to the number of bytes received.

    Raises:
        AnswerTooLarge: The answer exceeds the maximum size.
    """
    received += len(chunk)
    if received > ANSWER_BYTES:
        message = f"the answer exceeds {ANSWER_BYTES} bytes"
        raise AnswerTooLarge(message)
    return received


def scrub_secrets(error: ModelError, secrets: Iterable[RedactedString]) -> ModelError:
    """Return the error without any secret: some vendors repeat parts of the request."""
    message = str(error)
    for secret in secrets:
        text = secret.reveal()
        if text[:_KEY_CHARS] not in message:
            continue
        # A long message was cut, and may end in the middle of the secret.
        for length in range(len(text), min(_KEY_CHARS, len(text)) - 1, -1):
            message = message.replace(text[:length], str(secret))
    if message == str(error):
        return error
    return type(error)(message, retry_after_ms=error.retry_after_ms)
