"""A vendor on this machine: answers every wire format with what a test scripted."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Self

import msgspec

from awaken.contracts.models.errors import InvalidRequest
from awaken.contracts.models.inference import TokenUsage
from awaken.testing.scripted_model import DEFAULT_USAGE, Answer, ScriptExhausted

from .answers import ModelRequest, Said, split_answer
from .failures import ScriptedRefusal, is_break, refusal_of
from .faults import (
    HttpAnswer,
    Sent,
    Silence,
    cut_short,
    gzip_pieces,
    resize_pieces,
    spoil_event,
    without_last,
)
from .http import Connection
from .wires import ServedWire, wire_of

Reply = Answer | Said | Sent | HttpAnswer | Silence
Entry = Reply | Callable[[ModelRequest], Reply]

_JSON = {"content-type": "application/json"}
_STREAM = {"content-type": "text/event-stream; charset=utf-8"}


class FakeModelServer:
    """Answers its n-th request with its n-th entry, or all of them with one callable.

    An exception as an entry is answered with the vendor's status and body for it; a `Turn` with
    an `error` fails in the middle of its stream. It listens on the loopback while it is entered.
    """

    def __init__(
        self,
        answers: Iterable[Entry] | Callable[[ModelRequest], Reply],
        *,
        usage: TokenUsage | None = DEFAULT_USAGE,
    ) -> None:
        self.requests: list[ModelRequest] = []
        """Every request so far."""
        self.open_connections = 0
        """Connections that are not closed yet."""
        self._answers = answers if callable(answers) else iter(answers)
        self._usage = usage
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._mistakes: list[Exception] = []
        self._closing = asyncio.Condition()

    @property
    def url(self) -> str:
        """Where it listens, without a path; formats are found by how a path ends."""
        if self._server is None:
            raise RuntimeError("the server listens only while it is entered: async with server")
        host, port = self._server.sockets[0].getsockname()
        return f"http://{host}:{port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await server.wait_closed()
        if self._mistakes and error is None:
            raise self._mistakes[0]

    async def all_closed(self) -> None:
        """Wait until every connection is closed."""
        async with self._closing:
            await self._closing.wait_for(lambda: not self.open_connections)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._exchanges(Connection(reader, writer)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _exchanges(self, connection: Connection) -> None:
        self.open_connections += 1
        try:
            # Clients may leave whenever they like, and some are thrown out.
            with suppress(ConnectionError):
                while (request := await connection.request()) is not None:
                    self.requests.append(request)
                    await self._reply(request, connection)
        except Exception as error:  # noqa: BLE001 - a mistake in the script, raised on leaving
            self._mistakes.append(error)
        finally:
            connection.close()
            self.open_connections -= 1
            async with self._closing:
                self._closing.notify_all()

    async def _reply(self, request: ModelRequest, connection: Connection) -> None:
        wire = wire_of(request.path)
        if wire is None or not (request.body.get("stream") or ":stream" in request.path):
            await connection.send(
                HttpAnswer(404, b"nothing is streamed at %b" % request.path.encode())
            )
            return
        match self._entry(request):
            case Silence():
                await connection.wait_for_disconnect()
            case HttpAnswer() as answer:
                await connection.send(answer)
            case BaseException() | type() as failure:
                if is_break(failure):
                    connection.reset()
                await connection.send(_build_refusal(wire, refusal_of(failure)))
            case Sent() as sent:
                await self._send(sent, wire, request, connection)
            case answer:
                await self._send(Sent(answer), wire, request, connection)

    def _entry(self, request: ModelRequest) -> Reply:
        if callable(self._answers):
            return self._answers(request)
        try:
            entry = next(self._answers)
        except StopIteration:
            # Not to be retried: the test must see the error, not wait.
            return InvalidRequest(str(ScriptExhausted.after(len(self.requests) - 1)))
        return entry(request) if callable(entry) and not isinstance(entry, type) else entry

    async def _send(
        self, sent: Sent, wire: ServedWire, request: ModelRequest, connection: Connection
    ) -> None:
        answer, body = sent.answer, request.body
        made = answer(request) if callable(answer) and not isinstance(answer, type) else answer
        said = split_answer(made, self._usage)
        events, ending = wire.stream(said, body), sent.body_end
        if said.error is not None and is_break(said.error):
            events, ending = without_last(events), "abort"
        await connection.begin(200, {**_STREAM, **sent.headers})
        for piece in _pieces(sent, events):
            if sent.pause is not None:
                await connection.wait(sent.pause)
            await connection.piece(piece)
        await connection.end(ending)


def _build_refusal(wire: ServedWire, refusal: ScriptedRefusal) -> HttpAnswer:
    headers = dict(_JSON)
    if refusal.retry_after_ms is not None:
        headers["retry-after"] = f"{refusal.retry_after_ms / 1000:g}"
    return HttpAnswer(refusal.status, msgspec.json.encode(wire.failure(refusal)), headers)


def _pieces(sent: Sent, events: Iterator[bytes]) -> Iterator[bytes]:
    pieces = events
    if sent.spoil is not None:
        pieces = spoil_event(pieces, sent.spoil, sent.spoil_at)
    if sent.is_gzip:
        pieces = gzip_pieces(pieces)
    if sent.chunk_bytes is not None:
        pieces = resize_pieces(pieces, sent.chunk_bytes)
    return pieces if sent.cut_after is None else cut_short(pieces, sent.cut_after)
