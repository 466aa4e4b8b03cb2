"""Logins of the host: who a cookie or a header stands for, and what happens when that fails."""

import asyncio
import contextlib
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from awaken import Access, Agent, AgentRuntime, InvalidInput
from awaken.errors import UnsafeExposure
from awaken.server import AuthRequest, Principal, RateLimit, ServerConfig, ServerLimits
from awaken.server.addresses import check_exposure
from awaken.testing import ScriptedModel

from .in_process import Answer, ask, bearer, token

READ, RUNS = "/v1/runs", "/v1/runs"
BODY = {"agentId": "a", "threadId": "t", "messages": [{"content": "Hi!"}]}
USER = frozenset({Access.READ, Access.INVOKE})
HOST = "agents.example:8080"
OWN = {"host": HOST, "origin": f"https://{HOST}"}


class Site:
    """A server with its own logins: the session `s1` is that of ann, of the tenant acme."""

    def __init__(self, authenticate: Any = None, **config: Any) -> None:
        self.seen: list[AuthRequest] = []
        self.model = ScriptedModel(["Hello."], cycle=True)
        self.runtime = AgentRuntime([Agent("a", model=self.model)])
        self.config = ServerConfig(authenticate=authenticate or self.log_in, **config)
        self.app = self.runtime.asgi(self.config)

    async def log_in(self, request: AuthRequest) -> Principal | None:
        self.seen.append(request)
        if request.cookies.get("session") == "s1" or request.bearer == "own-token":
            return Principal(id="ann", access=USER, tenant_id="acme")
        return None

    async def post(self, **headers: str) -> Answer:
        return await ask(self.app, "POST", RUNS, body=BODY, headers={"host": HOST, **headers})

    async def get(self, **headers: str) -> Answer:
        return await ask(self.app, "GET", READ, headers={"host": HOST, **headers})


def play(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await scenario()

    asyncio.run(bounded())


def test_a_login_is_a_caller_with_its_tenant_and_scopes() -> None:
    async def scenario() -> None:
        site = Site()
        started = await site.post(cookie="theme=dark; session=s1", origin=f"https://{HOST}")
        assert started.status == 200
        assert (await site.get(cookie="session=s1")).status == 200
        record = (await site.runtime.list_runs())[0]
        assert (record.user_id, record.tenant_id) == ("ann", "acme")
        refused = await ask(site.app, "GET", "/v1/config/head", headers={"cookie": "session=s1"})
        assert refused.status == 403

    play(scenario)


def test_the_request_shows_headers_cookies_path_and_address() -> None:
    async def scenario() -> None:
        site = Site()
        await site.get(cookie='session="s1"; a=b=c; session=s2; broken', **{"x-team": "blue"})
        (request,) = site.seen
        assert (request.method, request.path, request.client) == ("GET", READ, "127.0.0.1")
        assert request.headers["x-team"] == "blue"
        assert request.cookies == {"session": "s1", "a": "b=c"}
        assert request.bearer is None

    play(scenario)


def test_an_unknown_caller_is_told_where_to_log_in() -> None:
    async def scenario() -> None:
        site = Site(login_url="/login?next=/console")
        for answer in (await site.get(), await site.post(cookie="session=no", **OWN)):
            assert answer.status == 401
            assert answer.json["code"] == "unauthorized"
            assert answer.json["login_url"] == "/login?next=/console"
            assert answer.headers["link"] == '</login?next=/console>; rel="login"'
        assert site.model.requests == []

    play(scenario)


def test_open_routes_need_no_login() -> None:
    async def scenario() -> None:
        site = Site()
        assert (await ask(site.app, "GET", "/health")).status == 200
        assert site.seen == []

    play(scenario)


def test_configured_tokens_count_beside_the_logins() -> None:
    async def scenario() -> None:
        site = Site(tokens=(token("robot"),))
        # A token is sent on purpose: what cookies come with it does not matter.
        sticky = {"cookie": "balancer=7"}
        assert (await site.post(**sticky, **bearer("robot"))).status == 200
        assert site.seen == []
        assert (await site.post(**sticky, authorization="Bearer own-token")).status == 200
        for forged in ("Basic czE6", "Bearer ", "bearer"):
            refused = await site.post(cookie="session=s1", authorization=forged)
            assert (refused.status, refused.json["code"]) == (403, "forbidden_origin")
        assert (await site.post(authorization="Bearer own-token")).status == 200
        assert (await site.post(authorization="Bearer wrong")).status == 401

    play(scenario)


def test_wrong_tokens_are_limited_as_without_logins() -> None:
    async def scenario() -> None:
        limits = ServerLimits(login_failures=RateLimit(per_s=0.001, burst=3))
        site = Site(tokens=(token("robot"),), limits=limits)
        wrong = [(await site.post(authorization="Bearer guess")).status for _ in range(5)]
        assert wrong == [401, 401, 401, 429, 429]
        # Other callers of the address are known all the same.
        assert (await site.post(**bearer("robot"))).status == 200
        assert (await site.post(authorization="Bearer own-token")).status == 200

    play(scenario)


@pytest.mark.parametrize(
    "origin",
    [
        None,
        "null",
        "https://evil.example",
        "http://localhost:3002",
        "http://127.0.0.1:3002",
        "http://localhost",
        f"https://evil.{HOST}",
        "https://agents.example",
        "https://agents.example:8081",
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_change_with_a_cookie_comes_from_a_page_of_this_host(
    origin: str | None, method: str
) -> None:
    async def scenario() -> None:
        site = Site()
        headers = {"host": HOST, "cookie": "session=s1"}
        if origin is not None:
            headers["origin"] = origin
        path = RUNS if method == "POST" else "/v1/threads/t"
        answer = await ask(site.app, method, path, body=BODY, headers=headers)
        if answer.status != 405:
            assert (answer.status, answer.json["code"]) == (403, "forbidden_origin")
        assert (site.seen, site.model.requests) == ([], [])

    play(scenario)


def test_on_this_machine_another_port_is_another_page() -> None:
    async def scenario() -> None:
        site = Site()
        local = {"host": "localhost:8080", "cookie": "session=s1"}
        answer = await ask(
            site.app, "POST", RUNS, body=BODY, headers={**local, "origin": "http://localhost:3000"}
        )
        assert (answer.status, answer.json["code"]) == (403, "forbidden_origin")
        answer = await ask(
            site.app, "POST", RUNS, body=BODY, headers={**local, "origin": "http://localhost:8080"}
        )
        assert answer.status == 200

    play(scenario)


async def raises(_: AuthRequest) -> Principal:
    raise RuntimeError("the database of sessions at db.internal is down")


async def swallows(_: AuthRequest) -> Principal:
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    # The request does not wait for this; the end of the loop cancels it again.
    await asyncio.Event().wait()
    raise AssertionError


class Refusal(Exception):
    """An exception as web frameworks have it."""

    def __init__(self, status_code: int) -> None:
        self.status_code = status_code


def exits(_: AuthRequest) -> Principal:
    sys.exit(3)


async def exits_later(_: AuthRequest) -> Principal:
    sys.exit(3)


def finds_nothing(_: AuthRequest) -> Principal:
    found: list[Principal] = []
    return next(iter(found))


async def is_cancelled(_: AuthRequest) -> Principal:
    raise asyncio.CancelledError


def interrupts(_: AuthRequest) -> Principal:
    raise KeyboardInterrupt


async def refuses(_: AuthRequest) -> Principal:
    raise Refusal(401)


async def forbids(_: AuthRequest) -> Principal:
    raise Refusal(403)


def principal(**changes: Any) -> Any:
    return lambda _: Principal(**{"id": "ann", "access": USER, **changes})


@pytest.mark.parametrize(
    ("authenticate", "status", "code"),
    [
        (raises, 503, "authentication_failed"),
        (lambda _: 1 / 0, 503, "authentication_failed"),
        (swallows, 503, "authentication_timeout"),
        (exits, 503, "authentication_failed"),
        (exits_later, 503, "authentication_failed"),
        (finds_nothing, 503, "authentication_failed"),
        (is_cancelled, 503, "authentication_failed"),
        (interrupts, 503, "authentication_failed"),
        (refuses, 401, "unauthorized"),
        (forbids, 403, "forbidden"),
        (lambda _: None, 401, "unauthorized"),
        (lambda _: "ann", 503, "authentication_failed"),
        (lambda _: True, 503, "authentication_failed"),
        (principal(id=""), 503, "authentication_failed"),
        (principal(id=7), 503, "authentication_failed"),
        (principal(tenant_id=" "), 503, "authentication_failed"),
        (principal(tenant_id="acme "), 503, "authentication_failed"),
        (principal(tenant_id="(nobody)"), 503, "authentication_failed"),
        (principal(tenant_id=7), 503, "authentication_failed"),
        (principal(access=7), 503, "authentication_failed"),
        (principal(access="read"), 503, "authentication_failed"),
        (principal(access=frozenset({"everything"})), 503, "authentication_failed"),
        (principal(access=frozenset({Access.OPEN})), 503, "authentication_failed"),
        (principal(access=frozenset()), 403, "forbidden"),
    ],
)
def test_a_login_that_fails_executes_nothing(authenticate: Any, status: int, code: str) -> None:
    async def scenario() -> None:
        site = Site(authenticate, limits=ServerLimits(login_ms=50))
        answer = await site.post()
        assert (answer.status, answer.json["code"]) == (status, code)
        assert "db.internal" not in answer.body.decode()
        assert (site.model.requests, await site.runtime.list_runs()) == ([], ())

    play(scenario)


def test_a_plain_function_may_block_and_is_bounded_as_well() -> None:
    async def scenario() -> None:
        free = threading.Event()

        def blocks(_: AuthRequest) -> Principal:
            free.wait(20)
            return Principal(id="ann", access=USER)

        site = Site(blocks, limits=ServerLimits(login_ms=50))
        answer = await site.post()
        free.set()
        assert (answer.status, answer.json["code"]) == (503, "authentication_timeout")
        assert site.model.requests == []

    play(scenario)


def test_waiting_logins_are_limited() -> None:
    async def scenario() -> None:
        free = asyncio.Event()

        async def waits(_: AuthRequest) -> Principal:
            await free.wait()
            return Principal(id="ann", access=USER)

        site = Site(waits, limits=ServerLimits(logins=1))
        first = asyncio.create_task(site.post())
        await asyncio.sleep(0)
        while site.app.context.logins._permits.in_use == 0:  # type: ignore[union-attr]
            await asyncio.sleep(0)
        second = await site.post()
        assert (second.status, second.json["code"]) == (503, "overloaded")
        free.set()
        assert (await first).status == 200
        assert (await site.post()).status == 200

    play(scenario)


def test_a_server_with_logins_may_be_exposed() -> None:
    check_exposure("0.0.0.0", ServerConfig(authenticate=lambda _: None))
    with pytest.raises(UnsafeExposure):
        check_exposure("0.0.0.0", ServerConfig(login_url="/login"))


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "//evil.example", "login", "/a b", '/"', "/\\evil", "https://"]
)
def test_a_login_url_is_a_path_or_a_whole_address(url: str) -> None:
    with pytest.raises(InvalidInput, match="login_url"):
        ServerConfig(login_url=url)


def test_authenticate_is_a_function() -> None:
    with pytest.raises(InvalidInput, match="authenticate"):
        ServerConfig(authenticate="me")  # type: ignore[arg-type]
