"""How much one caller, and all together, may ask for, and from where."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest

from awaken import Access, Agent, AgentRuntime
from awaken.bootstrap.server_app import build_server_context
from awaken.plugins import Record
from awaken.server import RateLimit, ServerApp, ServerConfig, ServerLimits
from awaken.testing import FakeClock, ScriptedModel
from awaken.transport.asgi import Bytes, Receive, Reply, Scope, Send, as_json
from awaken.transport.routes import ApiRoute, RouteCall, WireProtocol

from .in_process import Request, ask, bearer, config, token


class Note(Record, frozen=True, kw_only=True):
    """A body."""

    text: str = ""


class Waiting:
    """Handlers and streams that stay until they are let go."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.calls = 0

    async def slow(self, _: RouteCall) -> Reply:
        self.calls += 1
        await self.go.wait()
        return Bytes(200, b"done")

    async def stream(self, _: RouteCall) -> Reply:
        self.calls += 1
        return self._write

    async def _write(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        await self.go.wait()
        await send({"type": "http.response.body", "body": b"last"})

    async def echo(self, call: RouteCall) -> Reply:
        self.calls += 1
        return as_json({"path": dict(call.path), "body": call.body})

    def routes(self) -> Sequence[ApiRoute]:
        def route(method: str, path: str, handle: Any, access: Access, **more: Any) -> ApiRoute:
            return ApiRoute(
                method=method, path=path, handle=handle, access=access, summary="", **more
            )

        return (
            route("GET", "/slow", self.slow, Access.READ),
            route("GET", "/stream", self.stream, Access.READ, reply=bytes),
            route("POST", "/submit", self.echo, Access.INVOKE, body=Note),
            route("POST", "/decide", self.echo, Access.DECIDE, body=Note),
            route("GET", "/things/{id}", self.echo, Access.READ),
        )


Scenario = Callable[[ServerApp, Waiting, FakeClock], Coroutine[Any, Any, None]]


def served(config: ServerConfig, scenario: Scenario) -> None:
    async def opened(_: AsyncExitStack) -> None:
        pass

    async def run() -> None:
        clock, waiting = FakeClock(), Waiting()
        desk = AgentRuntime(clock=clock)._services
        protocols = [WireProtocol(name="test", routes=waiting.routes())]
        app = ServerApp(build_server_context(desk, config), protocols, opened)
        await scenario(app, waiting, clock)

    asyncio.run(run())


TWO = (token("a"), token("b"))


def test_one_caller_cannot_take_what_others_need() -> None:
    async def scenario(app: ServerApp, waiting: Waiting, _: FakeClock) -> None:
        busy = [Request(app, "GET", "/slow", headers=bearer("a")) for _ in range(2)]
        await until(lambda: waiting.calls == 2)
        third = await ask(app, "GET", "/slow", headers=bearer("a"))
        assert third.status == 429
        assert third.headers["retry-after"] == "1"
        other = Request(app, "GET", "/slow", headers=bearer("b"))
        await until(lambda: waiting.calls == 3)
        waiting.go.set()
        assert [(await it.leave()).status for it in [*busy, other]] == [200] * 3
        assert (await ask(app, "GET", "/slow", headers=bearer("a"))).status == 200
        assert app.context.requests.in_use == 0

    served(config(*TWO, limits=ServerLimits(requests_per_caller=2)), scenario)


def test_a_full_server_sheds_and_stays_alive() -> None:
    async def scenario(app: ServerApp, waiting: Waiting, _: FakeClock) -> None:
        busy = [Request(app, "GET", "/slow") for _ in range(3)]
        await until(lambda: waiting.calls == 3)
        for _ in range(20):
            shed = await ask(app, "GET", "/slow")
            assert (shed.status, shed.json["code"]) == (503, "overloaded")
            assert shed.headers["retry-after"] == "1"
            assert (await ask(app, "GET", "/health/live")).status == 200
            assert (await ask(app, "GET", "/health")).status == 200
        assert waiting.calls == 3
        waiting.go.set()
        assert {(await it.leave()).status for it in busy} == {200}
        assert (await ask(app, "GET", "/slow")).status == 200

    served(ServerConfig(limits=ServerLimits(requests=3)), scenario)


def test_a_stream_counts_until_its_last_byte_and_not_as_a_request() -> None:
    async def scenario(app: ServerApp, waiting: Waiting, _: FakeClock) -> None:
        reading = [Request(app, "GET", "/stream") for _ in range(2)]
        for it in reading:
            assert (await it.begun()).status == 200
        assert (app.context.streams.in_use, app.context.requests.in_use) == (2, 0)
        assert (await ask(app, "GET", "/stream")).status == 503
        assert waiting.calls == 2
        assert (await ask(app, "GET", "/things/1")).status == 200
        waiting.go.set()
        for it in reading:
            assert (await it.leave()).body == b"firstlast"
        assert app.context.streams.in_use == 0
        assert (await ask(app, "GET", "/stream")).status == 200

    served(ServerConfig(limits=ServerLimits(streams=2, requests=1)), scenario)


def test_one_caller_has_so_many_streams() -> None:
    async def scenario(app: ServerApp, waiting: Waiting, _: FakeClock) -> None:
        reading = Request(app, "GET", "/stream", headers=bearer("a"))
        await reading.begun()
        assert (await ask(app, "GET", "/stream", headers=bearer("a"))).status == 429
        other = Request(app, "GET", "/stream", headers=bearer("b"))
        assert (await other.begun()).status == 200
        waiting.go.set()
        await reading.leave()
        await other.leave()

    served(config(*TWO, limits=ServerLimits(streams_per_caller=1)), scenario)


@pytest.mark.parametrize(("path", "limit"), [("/submit", "submits"), ("/decide", "decisions")])
def test_a_caller_that_asks_too_often_is_told_when_to_come_again(path: str, limit: str) -> None:
    async def scenario(app: ServerApp, waiting: Waiting, clock: FakeClock) -> None:
        async def status(who: str) -> int:
            answer = await ask(app, "POST", path, headers=bearer(who), body={"text": "x"})
            if answer.status == 429:
                assert answer.headers["retry-after"] == "1"
                assert not answer.has_read_body
            return answer.status

        assert [await status("a") for _ in range(5)] == [200, 200, 200, 429, 429]
        assert await status("b") == 200
        clock.advance(500)
        assert [await status("a") for _ in range(2)] == [200, 429]
        clock.advance(60_000)
        assert [await status("a") for _ in range(4)] == [200, 200, 200, 429]
        assert (await ask(app, "GET", "/things/1", headers=bearer("a"))).status == 200

    limits = ServerLimits(**{limit: RateLimit(per_s=2, burst=3)})
    served(config(*TWO, limits=limits), scenario)


def test_a_server_that_stops_takes_nothing_more_and_says_so() -> None:
    async def scenario(app: ServerApp, waiting: Waiting, _: FakeClock) -> None:
        begun = Request(app, "GET", "/slow")
        await until(lambda: waiting.calls == 1)
        app.drain()
        refused = await ask(app, "GET", "/slow")
        assert (refused.status, refused.json["code"]) == (503, "server_stopping")
        assert refused.headers["retry-after"] == "1"
        health = await ask(app, "GET", "/health")
        assert (health.status, health.json["components"]["runtime"]) == (503, "draining")
        assert (await ask(app, "GET", "/health/live")).status == 200
        waiting.go.set()
        assert (await begun.leave()).status == 200
        await app.close()
        assert (await ask(app, "GET", "/slow")).status == 503

    served(ServerConfig(), scenario)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([(b"x-a", b"1")] * 90, 200),
        ([(b"x-a", b"1")] * 101, 431),
        ([(b"x-a", b"1" * 20_000)], 200),
        ([(b"x-a", b"1" * 40_000)], 431),
    ],
)
def test_headers_are_few_and_short(headers: list[tuple[bytes, bytes]], status: int) -> None:
    async def scenario(app: ServerApp, _: Waiting, __: FakeClock) -> None:
        answer = await ask(app, "GET", "/things/1", more_headers=headers)
        assert answer.status == status

    served(ServerConfig(), scenario)


@pytest.mark.parametrize(
    ("id_", "status"),
    [
        ("a" * 256, 200),
        ("ä b", 200),
        ("a" * 257, 400),
        ("a\x00b", 400),
        ("a\nb", 400),
        ("\ud800", 400),
        ("\x1b[2J", 400),
    ],
)
def test_an_id_in_a_path_is_short_and_printable(id_: str, status: int) -> None:
    async def scenario(app: ServerApp, waiting: Waiting, _: FakeClock) -> None:
        answer = await ask(app, "GET", f"/things/{id_}")
        assert answer.status == status
        assert waiting.calls == (status == 200)

    served(ServerConfig(), scenario)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"text": "x"}', 200),
        (b'{"text": "' + b"x" * 1000 + b'"}', 413),
        (b"[" * 900, 400),
        (b'{"a":' * 150, 400),
        (b'{"text": "a\\u0000b"}', 400),
        (b'{"text": "a\\\\u0000b"}', 200),
        (b'{"text": "a\\\\\\u0000b"}', 400),
        (b'{"text": "\\ud800"}', 400),
        (b'{"text": "\xff"}', 400),
        (b'{"text": 5}', 422),
        (b'{"text": NaN}', 400),
        (b'{"n": 1e999}', 200),
        (b"", 400),
    ],
)
def test_a_body_that_cannot_be_taken_is_the_clients_fault(body: bytes, status: int) -> None:
    async def scenario(app: ServerApp, _: Waiting, __: FakeClock) -> None:
        answer = await ask(app, "POST", "/submit", body=body)
        assert answer.status == status, answer.body

    served(ServerConfig(body_bytes=1000), scenario)


@pytest.mark.parametrize("path", ["/v1/runs", "/v1/threads/t/messages"])
def test_a_request_brings_so_many_messages(path: str) -> None:
    async def scenario() -> None:
        async with AgentRuntime([Agent("a", model=ScriptedModel(["Yes."]))]) as runtime:
            app = runtime.asgi()
            await runtime.run("a", "hi", thread_id="t")
            for count, status in ((1001, 413), (1, 202 if "threads" in path else 200)):
                messages = [{"role": "user", "content": "x"}] * count
                body = {"agentId": "a", "messages": messages}
                assert (await ask(app, "POST", path, body=body)).status == status

    asyncio.run(scenario())


def test_nesting_without_end_is_refused() -> None:
    async def scenario(app: ServerApp, _: Waiting, __: FakeClock) -> None:
        body = b'{"x":' + b"[" * 100_000
        assert (await ask(app, "POST", "/submit", body=body)).status == 400

    served(ServerConfig(), scenario)


def test_a_body_that_never_comes_is_not_waited_for() -> None:
    async def scenario(app: ServerApp, waiting: Waiting, _: FakeClock) -> None:
        sent: list[Any] = []
        scope = {
            "type": "http", "method": "POST", "path": "/submit", "query_string": b"",
            "headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 1),
            "scheme": "http",
        }  # fmt: skip

        async def receive() -> Any:
            await waiting.go.wait()

        async def send(message: Any) -> None:
            sent.append(message)

        await asyncio.wait_for(app(scope, receive, send), 5)
        assert sent[0]["status"] == 408

    served(ServerConfig(limits=ServerLimits(body_ms=20)), scenario)


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        ("127.0.0.1:38080", True),
        ("localhost", True),
        ("LOCALHOST:1", True),
        ("[::1]:38080", True),
        ("agents.local", True),
        ("Agents.Local:99", True),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("localhost:80.evil.example", False),
        ("localhost@evil.example", False),
        ("[::1].evil.example", False),
        ("[evil.example]:80", False),
        ("10.0.0.1", False),
        ("", False),
    ],
)
def test_an_open_server_answers_only_to_its_own_names(host: str, is_ours: bool) -> None:
    async def scenario(app: ServerApp, _: Waiting, __: FakeClock) -> None:
        answer = await ask(app, "GET", "/things/1", headers={"host": host})
        assert answer.status == (200 if is_ours else 403)

    served(ServerConfig(allowed_hosts=("agents.local",)), scenario)


def test_a_server_that_knows_its_callers_answers_to_any_name() -> None:
    async def scenario(app: ServerApp, _: Waiting, __: FakeClock) -> None:
        headers = {"host": "agents.example.com", **bearer("a")}
        assert (await ask(app, "GET", "/things/1", headers=headers)).status == 200

    served(config(*TWO), scenario)


@pytest.mark.parametrize(
    ("origin", "is_welcome"),
    [
        ("http://api.example:8080", True),
        ("https://api.example:8080", True),
        ("https://app.example", True),
        ("http://localhost:5173", True),
        ("http://127.0.0.1", True),
        ("http://[::1]:3000", True),
        ("null", False),
        ("", False),
        ("https://evil.example", False),
        ("http://api.example", False),
        ("https://app.example.evil.example", False),
        ("https://sub.app.example", False),
        ("http://app.example", False),
        ("https://app.example:444", False),
        ("http://localhost.evil.example", False),
        ("http://127.0.0.1:80@evil.example", False),
        ("file://localhost", False),
        ("chrome-extension://localhost", False),
        ("http://[::1", False),
    ],
)
@pytest.mark.parametrize("path", ["/submit", "/decide"])
def test_pages_of_elsewhere_change_nothing(origin: str, is_welcome: bool, path: str) -> None:
    async def scenario(app: ServerApp, waiting: Waiting, _: FakeClock) -> None:
        headers = {"host": "api.example:8080", "origin": origin, **bearer("a")}
        answer = await ask(app, "POST", path, headers=headers, body={"text": "x"})
        assert answer.status == (200 if is_welcome else 403)
        assert waiting.calls == is_welcome
        is_listed = origin == "https://app.example"
        assert (answer.headers.get("access-control-allow-origin") == origin) == is_listed
        assert "access-control-allow-credentials" not in answer.headers

    served(config(*TWO, cors_origins=("https://app.example",)), scenario)


def test_a_listed_page_may_ask_before_it_asks() -> None:
    async def scenario(app: ServerApp, waiting: Waiting, _: FakeClock) -> None:
        asking = {"access-control-request-method": "POST", "origin": "https://app.example"}
        answer = await ask(app, "OPTIONS", "/submit", headers=asking)
        assert answer.status == 204
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        assert answer.headers["vary"] == "origin"
        assert "POST" in answer.headers["access-control-allow-methods"]
        assert "authorization" in answer.headers["access-control-allow-headers"]
        asking["origin"] = "https://evil.example"
        refused = await ask(app, "OPTIONS", "/submit", headers=asking)
        assert refused.status == 403
        assert "access-control-allow-origin" not in refused.headers
        assert waiting.calls == 0

    served(config(*TWO, cors_origins=("https://app.example",)), scenario)


def test_what_is_not_there_is_told_in_the_native_form() -> None:
    async def scenario(app: ServerApp, _: Waiting, __: FakeClock) -> None:
        missing = await ask(app, "GET", "/nowhere")
        assert (missing.status, missing.json["code"]) == (404, "not_found")
        wrong = await ask(app, "DELETE", "/submit")
        assert (wrong.status, wrong.json["code"]) == (405, "method_not_allowed")
        assert "POST" in wrong.headers["allow"]
        assert (await ask(app, "HEAD", "/things/1")).status == 200
        assert (await ask(app, "HEAD", "/stream")).status == 405
        assert (await ask(app, "GET", "/mounted/things/1", root_path="/mounted")).status == 200
        assert (await ask(app, "GET", "/mountedx/things/1", root_path="/mounted")).status == 404

    served(ServerConfig(), scenario)


@pytest.mark.parametrize(
    ("given", "is_kept"),
    [("abc-1.2_3", True), ("a" * 128, True), ("a" * 129, False), ("a b", False), ("<x>", False)],
)
def test_every_reply_carries_the_id_of_its_request(given: str, is_kept: bool) -> None:
    async def scenario(app: ServerApp, _: Waiting, __: FakeClock) -> None:
        seen = set()
        for path in ("/things/1", "/nowhere", "/things/" + "a" * 300):
            answer = await ask(app, "GET", path, headers={"x-request-id": given})
            id_ = answer.headers["x-request-id"]
            assert (id_ == given) == is_kept
            assert answer.status == 200 or answer.json["request_id"] == id_
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["cache-control"] == "no-store"
            seen.add(id_)
        assert len(seen) == (1 if is_kept else 3)

    served(ServerConfig(), scenario)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0)
