"""A key is in the request and nowhere else: no log, no error, no repr shows it."""

import asyncio
import logging
import traceback
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from awaken.contracts.messages.message import user
from awaken.contracts.models.errors import ModelError, ProviderFailed, RateLimited, Unauthorized
from awaken.contracts.models.model_specs import ProviderSpec
from awaken.contracts.secrets import RedactedString
from awaken.providers.http.failures import MESSAGE_CHARS
from awaken.testing import Turn
from awaken.testing.model_server import (
    FakeModelServer,
    HttpAnswer,
    Sent,
    Silence,
    break_json,
    redirect,
)

from .formats import CODECS, asking, client_of, listen, outcome, play
from .test_hostile import NO_HTTP, sending

EVERY_WIRE = pytest.mark.parametrize("wire", CODECS)
CANARY = "sk-canary-f81d4fae7dec11d0a76500a0c91e6bf6"
BEGINNING = CANARY[:16]
"""What is told of a key when it is cut must be too little to be of use."""


@pytest.fixture(autouse=True)
def nothing_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """All that any library logs, down to the smallest detail."""
    caplog.set_level(logging.DEBUG)
    for name in ("aiohttp", "aiohttp.client", "asyncio", "awaken"):
        caplog.set_level(logging.DEBUG, logger=name)
    yield
    for record in caplog.records:
        assert BEGINNING not in record.getMessage()
        assert BEGINNING not in repr(record.args)
        assert BEGINNING not in str(record.exc_info)


def shown(error: BaseException) -> str:
    """Everything that somebody may print of an error and of what led to it."""
    texts = traceback.format_exception(error)
    seen: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or one in seen:
            continue
        seen.append(one)
        texts += [str(one), repr(one), repr(one.args)]
        waiting += [one.__cause__, one.__context__]
    return "\n".join(texts)


def asked(wire: str, *answers: Any, key: str = CANARY, timeout_ms: int = 10_000) -> ModelError:
    async def ask() -> ModelError:
        async with (
            FakeModelServer(answers) as server,
            client_of(server.url, wire, key=key, timeout_ms=timeout_ms) as client,
        ):
            _, error = await outcome(client, asking())
            assert key.strip() in str(server.requests[0].headers)
            assert error is not None
            return error

    return play(ask())


ECHOES = {
    "status": Unauthorized(f"Incorrect API key provided: {CANARY}."),
    "status and wait": RateLimited(f"{CANARY} asks too often", retry_after_ms=5),
    "stream": Turn("so far", error=ProviderFailed(f"key {CANARY} failed")),
    "plain text": HttpAnswer(401, f"bad key {CANARY}".encode()),
    "headers": HttpAnswer(400, b"no", {"x-key": CANARY, "www-authenticate": CANARY}),
    "redirect": redirect(f"http://127.0.0.1:1/?key={CANARY}"),
    "bad json": HttpAnswer(200, b'data: {"key": "%b"\n\n' % CANARY.encode()),
    "bad type": HttpAnswer(200, b'data: "%b"\n\n' % CANARY.encode()),
    "packed": HttpAnswer(200, b"", {"content-encoding": CANARY}),
    "malformed": Sent(f"you are {CANARY}", spoil=break_json),
    "long text": HttpAnswer(500, b"x" * (MESSAGE_CHARS - len(CANARY) + 1) + CANARY.encode()),
    "twice": HttpAnswer(500, f"{CANARY}{CANARY}".encode()),
}


@EVERY_WIRE
@pytest.mark.parametrize("kind", ECHOES)
def test_a_key_that_the_vendor_repeats_is_not_shown(wire: str, kind: str) -> None:
    assert BEGINNING not in shown(asked(wire, ECHOES[kind]))


@EVERY_WIRE
def test_a_waiting_time_survives_the_removal_of_a_key(wire: str) -> None:
    error = asked(wire, ECHOES["status and wait"])
    assert isinstance(error, RateLimited)
    assert error.retry_after_ms == 5
    assert "*** asks too often" in str(error)


@EVERY_WIRE
def test_silence_does_not_show_the_key(wire: str) -> None:
    assert BEGINNING not in shown(asked(wire, Silence(), timeout_ms=50))


@EVERY_WIRE
@pytest.mark.parametrize("kind", NO_HTTP)
def test_a_broken_connection_does_not_show_the_key(wire: str, kind: str) -> None:
    """The errors of the HTTP library know the request with its headers; ours must not."""

    async def ask() -> ModelError | None:
        async with sending(NO_HTTP[kind]) as url, client_of(url, wire, key=CANARY) as client:
            return (await outcome(client, asking()))[1]

    error = play(ask())
    assert error is not None
    assert BEGINNING not in shown(error)


@EVERY_WIRE
def test_a_key_that_is_no_header_is_a_typed_error(wire: str) -> None:
    async def ask() -> ModelError | None:
        async with (
            FakeModelServer(["ok"]) as server,
            client_of(server.url, wire, key=f"{CANARY}\r\nx: y") as client,
        ):
            return (await outcome(client, asking()))[1]

    error = play(ask())
    assert isinstance(error, Unauthorized)
    assert BEGINNING not in shown(error)


@EVERY_WIRE
def test_a_key_with_a_line_end_is_used_and_hidden(wire: str) -> None:
    """Keys are read from files, and files end with a line end."""
    assert BEGINNING not in shown(asked(wire, ECHOES["status"], key=f"{CANARY}\n"))


@EVERY_WIRE
def test_an_address_that_nobody_has_does_not_show_the_key(wire: str) -> None:
    async def ask() -> ModelError | None:
        async with client_of("http://127.0.0.1:1", wire, key=CANARY) as client:
            return (await outcome(client, asking()))[1]

    assert BEGINNING not in shown(play(ask()))


@EVERY_WIRE
def test_nothing_that_holds_a_key_shows_it(wire: str) -> None:
    async def ask() -> str:
        async with (
            FakeModelServer(["fine"]) as server,
            client_of(server.url, wire, key=CANARY) as client,
        ):
            request = asking(user("hi"))
            stream = client.stream(request)
            texts = [repr(one) for one in (client, stream, request, client._codec, client._spec)]
            texts += [str(client._spec), f"{client._spec}", repr(vars(type(client)))]
            texts += [repr(event) for event in await listen(client, request)]
            texts += [repr(task) for task in asyncio.all_tasks()]
            texts.append(repr(client._codec.encode(request)))
            await stream.aclose()
            return "\n".join(texts)

    assert BEGINNING not in play(ask())


@EVERY_WIRE
def test_a_spec_shows_no_key_however_it_is_printed(wire: str) -> None:
    spec = ProviderSpec(id="a", adapter=wire, api_key=RedactedString(CANARY))
    for text in (repr(spec), str(spec), f"{spec.api_key}", repr({"k": spec}), repr([spec.key])):
        assert BEGINNING not in text


def test_the_fixture_sees_what_libraries_log(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("aiohttp.client").debug("hello")
    assert "hello" in caplog.text
    assert aiohttp.__version__
