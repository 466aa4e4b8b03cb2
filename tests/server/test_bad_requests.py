"""Whatever is sent to any route, the answer is quick, well formed, and never the server's fault.

The requests are made from the routes of the whole app, so that a new protocol is tried as well.
"""

import asyncio
import itertools
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time
from typing import Any
from urllib.parse import quote, unquote_to_bytes

import pytest

from awaken import AgentRuntime
from awaken.server import ServerApp
from awaken.stores import DispatchQuery, RunQuery, Store, ThreadQuery
from awaken.transport.routes import ApiRoute

from .native_client import talking

REQUESTS_MIN = 4_000
SLOWEST_S = 1.0
"""How long a request may compute. How long it waits for a processor says nothing about it."""
THREADS = ("t", "t2")
PARALLEL = 8
FOREIGN = ("/v1/mcp", "/mcp")

TRAVERSALS = tuple(
    f"{prefix}{step * depth}{target}"
    for prefix in ("", "/", "x/")
    for step in ("../", "..\\", "..%2f", "%2e%2e/", "%252e%252e%252f", "....//", "..;/", "%c0%ae/")
    for depth, target in ((1, "etc/passwd"), (6, "etc/passwd"), (3, "windows/win.ini"))
)
ODD_IDS = (
    "",
    " ",
    "%20",
    "%00",
    "a%00b",
    "%0a",
    "a%0d%0aSet-Cookie:x=1",
    "%ff%fe",
    "%ed%a0%80",
    "%e2%80%ae",
    "%F0%9F%92%A9",
    "x" * 257,
    "x" * 5_000,
    "'; DROP TABLE threads; --",
    "' OR '1'='1",
    "{{7*7}}",
    "${jndi:ldap://127.0.0.1/a}",
    "null",
    "undefined",
    "-1",
    "0",
    str(2**63),
    "NaN",
    "<script>alert(1)</script>",
    "__proto__",
    "summaries",
    "*",
    "?",
    "#",
    ";",
)
QUERIES = (
    "limit=x",
    "limit=",
    "limit=1e9",
    f"limit={10**40}",
    f"limit=-{10**40}",
    "limit=NaN",
    "limit=1&limit=x",
    f"offset={2**63}",
    f"offset=-{2**63}",
    "offset=0x10",
    "cursor=x",
    "cursor=AAAA",
    "cursor=%00",
    "cursor=%ff",
    "cursor=-1",
    f"cursor={10**30}",
    f"cursor={'A' * 5_000}",
    "cursor=eyJxdWVyeSI6InRocmVhZHMiLCJvZmZzZXQiOjFlMzB9",
    "cursor=eyJxdWVyeSI6Im1lc3NhZ2VzIn0",
    "status=odd",
    "order=up",
    "visibility=none",
    "root=maybe",
    "root=true&parent_thread_id=x",
    "after=x",
    f"before={2**70}",
    "child_strategy=eat",
    "resource_id=%00",
    f"resource_id={'x' * 1_000}",
    "&".join(f"a{n}=1" for n in range(200)),
    "%",
    "=",
    "%zz=%zz",
    "a[b][c]=1",
)
VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    2**63,
    -(2**70),
    10**400,
    1e308,
    "",
    " ",
    "x" * 300,
    "\u0000",
    "\u202e",
    [],
    [None],
    [[[]]],
    {},
    {"": ""},
    {"a": {"b": None}},
    "../../etc/passwd",
)
RAW = (
    b"",
    b" ",
    b"{",
    b"}",
    b"[",
    b"null",
    b"true",
    b"0",
    b'"x"',
    b"[]",
    b"[{}]",
    b"{}",
    b"NaN",
    b'{"a": NaN}',
    b'{"a": Infinity}',
    b'{"a": 1e999}',
    b'{"a": -0}',
    b'{"a": 01}',
    b'{"a": 1,}',
    b"{'a': 1}",
    b'{"a": "\xff"}',
    b'\xef\xbb\xbf{"a": 1}',
    b'{"a": "\\ud800"}',
    b'{"a": "\\u0000"}',
    b'{"a": "\x00"}',
    b"\x00" * 100,
    b"\x80\x81",
    '{"a": 1}'.encode("utf-16"),
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b"[" * 900 + b"]" * 900,
    b'{"messages":' + b"[" * 900 + b"]" * 900 + b"}",
    b'{"custom": {"n": ' + b"9" * 400 + b"}}",
    b'{"payload": ' + b"[" * 400 + b"]" * 400 + b"}",
    b'{"payload": ' + b"9" * 30 + b"}",
    b"a=1&b=2",
    b"<?xml version='1.0'?><a/>",
    b'{"a": 1}{"b": 2}',
)
NO_JSON = tuple(raw for raw in RAW if raw[:1] in (b"N", b"<", b"\x00", b"\x80") or b"NaN" in raw)
CONTENT_TYPES = (
    "text/plain",
    "text/html",
    "application/xml",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/json; charset=utf-16",
    "application/octet-stream",
    "/",
    ";",
    "json",
    "application/" + "x" * 500,
)
HEADERS = (
    ("last-event-id", "x"),
    ("last-event-id", "-1"),
    ("last-event-id", "9" * 40),
    ("last-event-id", "\u00b2"),
    ("idempotency-key", " "),
    ("idempotency-key", "x" * 1_000),
    ("idempotency-key", "ticket:x"),
    ("idempotency-key", "\u00ff\u0080"),
    ("content-length", "x"),
    ("content-length", "-5"),
    ("accept", "\u00ff"),
    ("authorization", "Bearer"),
    ("cookie", "x" * 2_000),
)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW", "get")
NAMES = (
    "agentId", "agent_id", "threadId", "thread_id", "messages", "mode", "title", "custom",
    "resource_id", "parentThreadId", "payload", "toolCallId", "ticket_id", "action", "arguments",
    "id", "input", "model", "method", "params", "jsonrpc", "state", "tools", "context", "resume",
    "message", "trigger", "runId", "stream",
)  # fmt: skip


@dataclass(frozen=True)
class Request:
    """One request, as a server gets it."""

    method: str
    path: str
    """As it was sent, with escapes."""
    query: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    is_refused: bool = False
    """Whether nothing of it can be accepted."""


@dataclass
class Answer:
    """What came back, as far as it is looked at."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    took_s: float = 0.0


@pytest.mark.parametrize(("store", "every"), [("memory", 1), ("sqlite", 4)])
def test_no_request_is_the_servers_fault_or_slow_or_answered_with_an_inside_view(
    store: str, every: int, tmp_path: Path
) -> None:
    counts: Counter[int] = Counter()
    slow: list[Request] = []

    async def main() -> None:
        runtime = talking(store=None if store == "memory" else f"sqlite:///{tmp_path}/a.db")
        app = runtime.asgi()
        await app.open()
        try:
            ids = await known_ids(runtime)
            requests = list(bad_requests(app.routes, ids))
            assert len(requests) >= REQUESTS_MIN
            for route in app.routes:
                # What is only loaded when it is needed is not timed.
                await asked(
                    app,
                    Request(
                        "TRACE" if route.method == "DELETE" else route.method,
                        _filled(route, "nobody"),
                        body=b"{}",
                    ),
                )
            todo = iter(requests[::every])

            async def work() -> None:
                for request in todo:
                    answer = await asked(app, request)
                    counts[answer.status] += 1
                    check(request, answer)
                    if answer.took_s >= SLOWEST_S:
                        slow.append(request)
                    # Most are answered without a pause: streams of the others get their turn.
                    await asyncio.sleep(0)

            async with asyncio.TaskGroup() as group:
                for _ in range(PARALLEL):
                    group.create_task(work())
            for request in slow:
                # Others were answered at the same time: what it takes shows when it is alone.
                took_s = (await asked(app, request)).took_s
                assert took_s < SLOWEST_S, (request, took_s)
        finally:
            await app.close()

    asyncio.run(main())
    # Not all the same: otherwise something refused them all before they got anywhere.
    assert {400, 404, 405, 415, 422} <= set(counts)


def test_what_is_refused_changes_nothing() -> None:
    async def main() -> None:
        runtime = talking()
        app = runtime.asgi()
        await app.open()
        try:
            ids = await known_ids(runtime)
            before = await contents(runtime.store)
            refused = 0
            for request in bad_requests(app.routes, ids):
                if request.is_refused:
                    answer = await asked(app, request)
                    # Some protocols refuse with an error of their own.
                    is_told = answer.status >= 400 or b'"error"' in answer.body
                    assert is_told, (request, answer)
                    refused += 1
            assert refused >= 1_500
            assert await contents(runtime.store) == before
        finally:
            await app.close()

    asyncio.run(main())


def test_paths_lead_nowhere_but_to_routes() -> None:
    assert len(set(TRAVERSALS)) >= 60

    async def main() -> None:
        app = talking().asgi()
        await app.open()
        try:
            for text in TRAVERSALS:
                for place in ("/", "/v1/threads/", "/v1/runs/", "/v1/agents/", "/health/"):
                    answer = await asked(app, Request("GET", place + text))
                    assert answer.status in (400, 404, 405), (place, text, answer)
                    assert b"root:" not in answer.body
                    assert json.loads(answer.body)["error"]
        finally:
            await app.close()

    asyncio.run(main())


def test_a_path_that_is_not_there_and_a_method_that_is_not_known_are_told_as_json() -> None:
    async def main() -> None:
        app = talking().asgi()
        await app.open()
        try:
            for path in ("/nope", "/v1", "/v1/threads/", "//", "/v1/threads/t/nope"):
                answer = await asked(app, Request("GET", path))
                assert (answer.status, json.loads(answer.body)["code"]) == (404, "not_found")
                assert answer.headers["content-type"] == "application/json"
            answer = await asked(app, Request("DELETE", "/v1/threads"))
            assert (answer.status, json.loads(answer.body)["code"]) == (405, "method_not_allowed")
            allowed = {name.strip() for name in answer.headers["allow"].split(",")}
            assert {"GET", "POST"} <= allowed
            assert "DELETE" not in allowed
        finally:
            await app.close()

    asyncio.run(main())


async def known_ids(runtime: AgentRuntime) -> dict[str, str]:
    """What stands for the parameters of a path, after somebody has talked."""
    for thread_id in THREADS:
        result = await runtime.run("a", "hi", thread_id=thread_id)
    return {"run_id": result.run_id, "agent_id": "a"}


def bad_requests(routes: tuple[ApiRoute, ...], ids: dict[str, str]) -> Iterator[Request]:
    """Every kind of bad request for every route, about things that are there."""
    dice = random.Random(5)
    # What deletes comes last: until then everything is there.
    for route in sorted(routes, key=lambda route: route.method == "DELETE"):
        yield from _bad_paths(route)
        yield from _bad_methods(route, routes)
        known = _filled(route, "t", ids)
        for query in QUERIES:
            yield Request(route.method, known, query, body=b"{}")
        for name, value in HEADERS:
            yield Request(route.method, known, headers=((name, value),), body=b"{}")
        if route.body is None:
            yield Request(route.method, known, body=b"\xff" * 100)
            continue
        for raw in RAW:
            yield Request(route.method, known, body=raw, is_refused=raw in NO_JSON)
        for kind in CONTENT_TYPES:
            body = b'{"title": "x"}'
            yield Request(route.method, known, headers=(("content-type", kind),), body=body)
        for value in VALUES:
            yield Request(route.method, known, body=_json(value))
            some = dice.sample(NAMES, 3)
            yield Request(route.method, known, body=_json(dict.fromkeys(some, value)))
            yield Request(route.method, known, body=_json(dict.fromkeys(NAMES, value)))
        for name in NAMES:
            yield Request(route.method, known, body=_json({name: dice.choice(VALUES)}))


def _bad_paths(route: ApiRoute) -> Iterator[Request]:
    if "{" not in route.path:
        return
    for text in (*ODD_IDS, *TRAVERSALS[:: len(TRAVERSALS) // 12]):
        is_there = route.method == "GET"
        path = _filled(route, text if "%" in text else quote(text))
        yield Request(route.method, path, body=b"{}", is_refused=not is_there)


def _bad_methods(route: ApiRoute, routes: tuple[ApiRoute, ...]) -> Iterator[Request]:
    known = {it.method for it in routes if it.path == route.path}
    for method in METHODS:
        if method not in known and method not in ("HEAD", "OPTIONS"):
            yield Request(method, _filled(route, "t"), body=b"{}", is_refused=True)


def _filled(route: ApiRoute, value: str, ids: dict[str, str] | None = None) -> str:
    def known(parameter: re.Match[str]) -> str:
        return (ids or {}).get(parameter[1], value)

    return re.sub(r"\{(\w+)(?::path)?\}", known, route.path)


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


async def asked(app: ServerApp, request: Request) -> Answer:
    """Send a request, read the answer, and leave a stream at its first bytes."""
    answer = Answer()
    is_stream = asyncio.Event()
    parts = iter([{"type": "http.request", "body": request.body, "more_body": False}])

    async def receive() -> dict[str, Any]:
        for part in parts:
            return part
        await is_stream.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {k.decode(): v.decode("latin-1") for k, v in message["headers"]}
            if answer.headers.get("content-type", "").startswith("text/event-stream"):
                is_stream.set()
        else:
            answer.body += message.get("body", b"")

    started = process_time()
    async with asyncio.timeout(20):
        await app(_scope(request), receive, send)
    answer.took_s = process_time() - started
    return answer


def _scope(request: Request) -> dict[str, Any]:
    named = {name for name, _ in request.headers}
    headers = [("host", "127.0.0.1"), *request.headers]
    if "content-type" not in named:
        headers.append(("content-type", "application/json"))
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        # As servers do it: what is not UTF-8 is replaced.
        "path": unquote_to_bytes(request.path).decode("utf-8", "replace"),
        "raw_path": request.path.encode(),
        "query_string": request.query.encode(),
        "root_path": "",
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }


def check(request: Request, answer: Answer) -> None:
    told = (
        f"{request.method} {request.path}?{request.query} {request.headers} {request.body[:80]!r}"
    )
    assert 100 <= answer.status < 500, (told, answer.status, answer.body[:500])
    for inside in (b"Traceback", b'File "', b"site-packages", b"awaken/"):
        assert inside not in answer.body, (told, answer.body[:500])
    kind = answer.headers.get("content-type", "")
    if answer.status >= 400 and answer.body and request.method != "HEAD":
        # A protocol with a library of its own may refuse in its own way.
        assert "json" in kind or request.path.startswith(FOREIGN), (told, answer.headers)
    if "json" in kind and request.method != "HEAD":
        for document in answer.body.splitlines() if "ndjson" in kind else [answer.body]:
            assert json.loads(document), told


async def contents(store: Store) -> list[Any]:
    """Everything that can be listed."""
    threads = await store.list_threads(ThreadQuery(limit=200))
    runs = await store.list_runs(RunQuery(limit=200))
    dispatches = await store.list_dispatches(DispatchQuery(limit=200))
    events = [await store.list_events(thread_id) for thread_id in THREADS]
    return list(itertools.chain((threads, runs, dispatches, await store.list_tickets()), events))
