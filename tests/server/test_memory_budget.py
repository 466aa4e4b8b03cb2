"""What requests hold is counted in one place, given back on every way out, and has a limit."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

import pytest

from awaken import Access, AgentRuntime, InvalidInput
from awaken.bootstrap.server_app import build_server_context
from awaken.server import ServerApp, ServerConfig, ServerLimits
from awaken.testing import FakeClock
from awaken.transport.asgi import Bytes, Reply, Scope
from awaken.transport.problems import HttpError
from awaken.transport.routes import ApiRoute, RouteCall, WireProtocol

from .in_process import ask

KB = 1024
LARGE = b'{"a": "' + b"x" * 200 * KB + b'"}'


class Handlers:
    """Routes that end in every way there is."""

    def __init__(self) -> None:
        self.held: list[int] = []
        self.entered = asyncio.Event()
        self.go = asyncio.Event()
        self.budget: Any = None

    async def fine(self, call: RouteCall) -> Reply:
        self.held.append(self.budget.used)
        return Bytes(200, b"ok")

    async def refused(self, call: RouteCall) -> Reply:
        raise HttpError(409, "no", "no")

    async def invalid(self, call: RouteCall) -> Reply:
        raise InvalidInput(what="it", problem="wrong")

    async def broken(self, call: RouteCall) -> Reply:
        raise RuntimeError

    async def waiting(self, call: RouteCall) -> Reply:
        self.held.append(self.budget.used)
        self.entered.set()
        await self.go.wait()
        return Bytes(200, b"ok")

    async def stream(self, call: RouteCall) -> Reply:
        return self._write

    async def _write(self, scope: Scope, receive: Any, send: Any) -> None:
        self.held.append(self.budget.used)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x"})

    async def page(self, call: RouteCall) -> Reply:
        return Bytes(200, b"x" * 300 * KB)

    def routes(self) -> list[ApiRoute]:
        found = [("POST", name, dict) for name in ("fine", "refused", "invalid", "broken")]
        found += [("POST", "waiting", dict), ("POST", "stream", dict), ("POST", "raw", bytes)]
        found += [("GET", "page", None), ("POST", "page", dict)]
        return [
            ApiRoute(
                method=method,
                path=f"/{name}",
                handle=getattr(self, "fine" if name == "raw" else name),
                access=Access.INVOKE,
                summary="",
                body=body,
            )
            for method, name, body in found
        ]


Scenario = Callable[[ServerApp, Handlers], Coroutine[Any, Any, None]]


def served(scenario: Scenario, **limits: Any) -> None:
    async def opened(_: AsyncExitStack) -> None:
        pass

    async def run() -> None:
        handlers = Handlers()
        config = ServerConfig(limits=ServerLimits(**limits))
        premises = build_server_context(AgentRuntime(clock=FakeClock())._services, config)
        handlers.budget = premises.memory
        protocols = [WireProtocol(name="test", routes=handlers.routes())]
        await scenario(ServerApp(premises, protocols, opened), handlers)
        assert premises.memory.used == 0

    asyncio.run(run())


async def send(
    app: ServerApp, path: str, receive: Callable[[], Awaitable[Any]], answer: Any, method: str
) -> None:
    scope = {
        "type": "http", "method": method, "path": path, "query_string": b"",
        "headers": [(b"host", b"127.0.0.1")], "client": ("127.0.0.1", 1), "scheme": "http",
    }  # fmt: skip
    await app(scope, receive, answer)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        *(("/fine", 200), ("/refused", 409), ("/invalid", 400), ("/broken", 500)),
        *(("/stream", 200), ("/raw", 200), ("/page", 200)),
    ],
)
@pytest.mark.parametrize(
    "body", [b"{}", LARGE, b"[" + b"1," * 50_000 + b"1]", b"{", b'{"a":"\xff"}']
)
def test_whatever_happens_everything_is_given_back(path: str, status: int, body: bytes) -> None:
    async def scenario(app: ServerApp, handlers: Handlers) -> None:
        answer = await ask(app, "POST", path, body=body)
        assert answer.status in (status, 400, 422)
        assert app.context.memory.used == 0

    served(scenario)


def test_a_body_is_held_as_large_as_it_becomes_until_it_is_handled() -> None:
    values = b'{"a": [' + b"{}," * 10_000 + b"{}]}"

    async def scenario(app: ServerApp, handlers: Handlers) -> None:
        for body in (b"{}", LARGE, values):
            await ask(app, "POST", "/fine", body=body)
        small, large, many = handlers.held
        assert small < KB
        assert large > 400 * KB
        assert many > 10_000 * 64
        # What a stream is made from is not held any more.
        await ask(app, "POST", "/stream", body=LARGE)
        assert handlers.held[-1] == 0

    served(scenario)


def test_when_all_is_held_others_come_again_later() -> None:
    async def scenario(app: ServerApp, handlers: Handlers) -> None:
        first = asyncio.create_task(ask(app, "POST", "/waiting", body=LARGE))
        await handlers.entered.wait()
        refused = await ask(app, "POST", "/fine", body=LARGE)
        assert (refused.status, refused.json["code"]) == (503, "memory_used_up")
        assert refused.headers["retry-after"] == "1"
        assert "try again later" in refused.error
        assert (await ask(app, "POST", "/fine", body=b"{}")).status == 200
        handlers.go.set()
        assert (await first).status == 200
        assert (await ask(app, "POST", "/fine", body=LARGE)).status == 200

    served(scenario, held_bytes=1000 * KB)


def test_a_large_page_waits_for_room_but_what_was_done_is_told() -> None:
    async def scenario(app: ServerApp, handlers: Handlers) -> None:
        refused = await ask(app, "GET", "/page")
        assert (refused.status, refused.json["code"]) == (503, "memory_used_up")
        assert (await ask(app, "POST", "/page", body=b"{}")).status == 200

    served(scenario, held_bytes=200 * KB)


def test_a_reply_that_is_not_read_counts_until_the_reader_is_gone() -> None:
    async def scenario(app: ServerApp, handlers: Handlers) -> None:
        stuck, never = asyncio.Event(), asyncio.Event()

        async def unread(message: Any) -> None:
            if message["type"] == "http.response.body":
                stuck.set()
                await never.wait()

        async def nothing() -> Any:
            return {"type": "http.request", "body": b""}

        reader = asyncio.create_task(send(app, "/page", nothing, unread, "GET"))
        await stuck.wait()
        assert app.context.memory.used == 300 * KB
        reader.cancel()
        await asyncio.wait({reader})

    served(scenario)


@pytest.mark.parametrize("end", ["gone", "cancelled", "too long"])
def test_half_a_body_is_given_back(end: str) -> None:
    async def scenario(app: ServerApp, handlers: Handlers) -> None:
        waits, pieces = asyncio.Event(), 0
        statuses: list[int] = []

        async def half() -> Any:
            nonlocal pieces
            pieces += 1
            if pieces <= 3 or end == "too long":
                return {"type": "http.request", "body": b" " * 300 * KB, "more_body": True}
            waits.set()
            if end == "gone":
                return {"type": "http.disconnect"}
            await asyncio.Event().wait()

        async def note(message: Any) -> None:
            statuses.append(message.get("status", 0))

        sending = asyncio.create_task(send(app, "/fine", half, note, "POST"))
        if end != "too long":
            await waits.wait()
        if end == "cancelled":
            assert app.context.memory.used >= 900 * KB
            sending.cancel()
        await asyncio.wait({sending})
        assert (statuses[:1] == [413]) is (end == "too long")

    served(scenario)
