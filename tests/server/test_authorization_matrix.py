"""Every route against every kind of caller and every kind of id, generated from the router.

A caller that is not known gets 401 and one that may not gets 403, before its body is read and
before anything is looked up. What belongs to another tenant is answered like what does not exist.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

from awaken import Access, Agent, AgentRuntime, RedactedString, ToolContext, tool
from awaken.server import JwtConfig, RateLimit, ServerApp, ServerConfig, ServerLimits
from awaken.stores import MemoryStore
from awaken.testing import FakeClock, ScriptedModel, ToolCalls
from awaken.transport.asgi import Bytes
from awaken.transport.routes import ApiRoute, RouteCall, WireProtocol

from .in_process import EVERYTHING, Answer, Request, ask, bearer, config, token
from .test_auth import AUDIENCE, ISSUER, SECRET, none_signed, signed

OWNERS_WORDS = "only-the-owner-may-read-this"
CANNOT_BE_KNOWN = 401
ENOUGH = {
    Access.KNOWN: {
        "read", "invoke", "decide", "config", "publish", "operate", "eval", "admin",
    },
    Access.READ: {"read", "admin"},
    Access.INVOKE: {"invoke"},
    Access.DECIDE: {"decide"},
    Access.CONFIG: {"config", "admin"},
    Access.PUBLISH: {"publish", "admin"},
    Access.OPERATE: {"operate", "admin"},
    Access.EVAL: {"eval", "admin"},
    Access.ADMIN: {"admin"},
}  # fmt: skip
OF_THE_DEPLOYMENT = {"config", "publish", "operate", "eval", "admin"}
ALL_SCOPES = "read invoke decide config publish operate eval admin"
CALLS = ("GetTask", "CancelTask", "SubscribeToTask", "tasks/get", "tasks/cancel", "resources/read")
PARAMETER = re.compile(r"\{(\w+)(?::path)?\}")


class Watched(MemoryStore):
    """A store that counts how often it is asked."""

    calls = 0

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if callable(found) and not name.startswith("_"):
            Watched.calls += 1
        return found


@tool
def ask_first(ctx: ToolContext) -> Any:
    """Ask."""
    return ctx.suspend("Sure?")


def server_config() -> ServerConfig:
    often = RateLimit(per_s=1e6, burst=10**6)
    return config(
        *(token(access.value, frozenset({access})) for access in EVERYTHING),
        token("owner", tenant_id="ours"),
        token("stranger", tenant_id="theirs"),
        jwt=JwtConfig(
            issuer=ISSUER, audience=AUDIENCE, algorithms=("HS256",), key=RedactedString(SECRET)
        ),
        limits=ServerLimits(login_failures=often, submits=often, decisions=often),
    )


def unknown_callers(clock: FakeClock) -> dict[str, dict[str, Any]]:
    return {
        "none": {},
        "wrong": {"headers": bearer("nobody")},
        "another scheme": {"headers": {"authorization": "Basic cmVhZC10b2tlbg=="}},
        "empty": {"headers": {"authorization": "Bearer "}},
        "twice": {
            "headers": bearer("owner"),
            "more_headers": [(b"authorization", b"Bearer owner-token")],
        },
        "in the query": {"query": "?access_token=owner-token&token=owner-token"},
        "in a cookie": {"headers": {"cookie": "authorization=Bearer owner-token"}},
        "expired": {"headers": signed(clock, scope=ALL_SCOPES, exp=5)},
        "issuer": {"headers": signed(clock, scope=ALL_SCOPES, iss="x")},
        "audience": {"headers": signed(clock, scope=ALL_SCOPES, aud="x")},
        "key": {"headers": signed(clock, scope=ALL_SCOPES, key="k" * 40)},
        "none signed": {"headers": none_signed(clock)},
    }


def runtime(clock: FakeClock, kind: type[MemoryStore] = MemoryStore) -> AgentRuntime:
    calls = ToolCalls([("ask_first", {})])
    model = ScriptedModel([f"{OWNERS_WORDS}.", *[calls] * 3, *["Again."] * 500])
    agent = Agent("a", model=model, tools=[ask_first])
    return AgentRuntime([agent], store=kind(clock=clock), clock=clock)


def test_every_route_has_a_policy() -> None:
    async def scenario() -> None:
        app = runtime(FakeClock()).asgi()
        assert len(app.routes) > 20
        for route in app.routes:
            assert isinstance(route.access, Access), route.path
        is_open = {f"{it.method} {it.path}" for it in app.routes if it.access is Access.OPEN}
        assert is_open <= OPEN_ROUTES, "a new route that asks nobody is a decision"

    asyncio.run(scenario())


OPEN_ROUTES = {
    "GET /",
    "GET /console",
    "GET /console/",
    "GET /console/{path:path}",
    "GET /health",
    "GET /health/live",
    "GET /openapi.json",
    "GET /.well-known/agent-card.json",
    "GET /v1/a2a/.well-known/agent-card.json",
    "GET /v1/a2a/{tenant}/.well-known/agent-card.json",
    # Its signature says who asks.
    "POST /v1/triggers/{trigger_id}",
}


def test_who_may_not_is_refused_before_anything_is_read() -> None:
    async def scenario() -> int:
        clock = FakeClock()
        async with runtime(clock, Watched) as opened:
            app = opened.asgi(server_config())
            await app.open()
            wrong, cells = [], 0
            Watched.calls = 0
            for route in guarded(app):
                path = filled(route.path, "some-id")
                for name, options in unknown_callers(clock).items():
                    options = dict(options)
                    where = path + options.pop("query", "")
                    answer = await ask(app, route.method, where, body={}, **options)
                    cells += 1
                    if answer.status != CANNOT_BE_KNOWN or answer.has_read_body:
                        wrong.append((route.method, route.path, name, answer.status))
                for access in EVERYTHING:
                    for headers in (bearer(access.value), signed(clock, scope=access.value)):
                        if access.value in enough(route):
                            continue
                        answer = await ask(app, route.method, path, body={}, headers=headers)
                        cells += 1
                        if answer.status != 403 or answer.has_read_body:
                            wrong.append((route.method, route.path, access, answer.status))
            assert wrong == []
            assert Watched.calls == 0
            return cells

    assert asyncio.run(scenario()) >= 500


def test_who_may_is_let_in_by_the_one_scope_that_it_needs() -> None:
    async def scenario() -> None:
        clock = FakeClock()
        async with runtime(clock) as opened:
            app = opened.asgi(server_config())
            wrong = []
            for route in guarded(app):
                for scope in enough(route):
                    for headers in (bearer(scope), signed(clock, scope=scope)):
                        path = filled(route.path, "absent")
                        answer = await ask(app, route.method, path, body={}, headers=headers)
                        if answer.status in (401, 403) or answer.status >= 500:
                            wrong.append((route.method, route.path, scope, answer.status))
            assert wrong == []

    asyncio.run(scenario())


def test_a_caller_with_a_tenant_is_refused_what_all_tenants_share() -> None:
    async def scenario() -> int:
        clock = FakeClock()
        async with runtime(clock, Watched) as opened:
            app = opened.asgi(server_config())
            await app.open()
            shared = [it for it in guarded(app) if needs_deployment(it)]
            Watched.calls = 0
            for route in shared:
                path = filled(route.path, "some-id")
                answer = await ask(app, route.method, path, body={}, headers=bearer("owner"))
                assert answer.status == 403, (route.method, route.path)
                assert b"tenant" in answer.body
                assert not answer.has_read_body
            assert Watched.calls == 0
            return len(shared)

    assert asyncio.run(scenario()) >= 12


def test_a_route_that_needs_two_scopes_accepts_neither_alone() -> None:
    async def handle(_: RouteCall) -> Bytes:
        return Bytes(200)

    route = ApiRoute(
        method="POST", path="/v1/both", handle=handle, access=Access.CONFIG,
        also=(Access.INVOKE,), summary="Both.",
    )  # fmt: skip

    async def scenario() -> dict[str, int]:
        clock = FakeClock()
        async with runtime(clock) as opened:
            context = opened.asgi(server_config()).context
            protocol = WireProtocol(name="both", routes=(route,))
            app = ServerApp(context, [protocol], opened._ensure_open)
            callers = {
                name: signed(clock, scope=name)
                for name in ("config", "invoke", "admin", "config invoke", "admin invoke")
            }
            callers["tenant"] = bearer("owner")
            described = (await ask(app, "GET", "/openapi.json")).json["paths"]["/v1/both"]
            assert described["post"]["security"] == [{"bearer": ["config", "invoke"]}]
            return {
                name: (await ask(app, "POST", "/v1/both", headers=headers)).status
                for name, headers in callers.items()
            }

    assert asyncio.run(scenario()) == {
        "config": 403, "invoke": 403, "admin": 403, "config invoke": 200, "admin invoke": 200,
        "tenant": 403,
    }  # fmt: skip


def test_what_belongs_to_others_is_answered_like_what_does_not_exist() -> None:
    async def scenario() -> tuple[list[Any], int]:
        wrong, cells = [], 0
        for place in range(len([*guarded(runtime(FakeClock()).asgi())])):
            # Each on a server of its own: what one route makes, another would find.
            async with runtime(FakeClock()) as opened:
                app = opened.asgi(server_config())
                ids = await objects_of_the_owner(app)
                before = await everything(app, ids)
                route = [*guarded(app)][place]
                for id_, body in foreign_requests(route, ids):
                    cells += 1
                    nothing = f"absent-{id_}"
                    foreign = await tried(app, route, id_, body)
                    absent = await tried(app, route, nothing, renamed(body, ids, nothing))
                    if not is_like_absent(foreign, absent):
                        told = (foreign.status, absent.status, foreign.body[:200])
                        wrong.append((route.method, route.path, body, *told))
                if await everything(app, ids) != before:
                    wrong.append((route.method, route.path, "changed something"))
        return wrong, cells

    wrong, cells = asyncio.run(scenario())
    assert wrong == []
    assert cells >= 300


def test_a_scope_allows_no_more_when_the_method_is_in_the_body() -> None:
    async def scenario() -> None:
        async with runtime(FakeClock()) as opened:
            app = opened.asgi(server_config())
            message = {"role": "ROLE_USER", "messageId": "m", "parts": [{"text": "go"}]}
            for name, params in (
                ("SendMessage", {"message": message}),
                ("SendStreamingMessage", {"message": message}),
                ("tools/call", {"name": "a", "arguments": {"message": "go"}}),
            ):
                body = {"jsonrpc": "2.0", "id": 1, "method": name, "params": params}
                for route in guarded(app):
                    if route.body is not bytes:
                        continue
                    for who in ALL_SCOPES.replace("invoke", "").split():
                        headers = {**bearer(who), "a2a-version": "1.0"}
                        path = filled(route.path, "a")
                        await ask(app, "POST", path, headers=headers, body=body)
            runs = await ask(app, "GET", "/v1/runs", headers=bearer("read"))
            assert runs.json["items"] == []
            # The same is done for somebody who may.
            body["method"], body["params"] = "SendMessage", {"message": message}
            headers = {**bearer("owner"), "a2a-version": "1.0"}
            await ask(app, "POST", "/v1/a2a", headers=headers, body=body)
            runs = await ask(app, "GET", "/v1/runs", headers=bearer("read"))
            assert len(runs.json["items"]) == 1

    asyncio.run(scenario())


def test_the_owner_finds_everything_of_its_own() -> None:
    async def scenario() -> None:
        async with runtime(FakeClock()) as opened:
            app = opened.asgi(server_config())
            ids = await objects_of_the_owner(app)
            for route in guarded(app):
                is_about_one = route.path.startswith(("/v1/threads/{", "/v1/runs/{"))
                # What only operators of the whole deployment see is no tenant's own.
                is_tenants = not needs_deployment(route)
                if route.method == "GET" and is_about_one and is_tenants:
                    tries = [
                        await ask(app, "GET", filled(route.path, id_), headers=bearer("owner"))
                        for id_ in ids
                    ]
                    assert 200 in {it.status for it in tries}, route.path
            for who, is_seen in (("owner", True), ("read", True), ("stranger", False)):
                listed = await ask(app, "GET", "/v1/threads", headers=bearer(who))
                assert bool(listed.json["items"]) is is_seen

    asyncio.run(scenario())


def guarded(app: ServerApp) -> Iterator[ApiRoute]:
    return (route for route in app.routes if route.access is not Access.OPEN)


def enough(route: ApiRoute) -> set[str]:
    """The scopes of which any single one lets a caller in."""
    return set.intersection(*(ENOUGH[it] for it in (route.access, *route.also)))


def needs_deployment(route: ApiRoute) -> bool:
    return any(it.value in OF_THE_DEPLOYMENT for it in (route.access, *route.also))


def filled(path: str, id_: str) -> str:
    """A path with an id wherever one belongs; agents are known to everybody."""

    def value(match: re.Match[str]) -> str:
        if match[0].endswith(":path}"):
            # A path of one part may be that of another route.
            return f"{id_}/{id_}/{id_}"
        return "a" if "agent" in match[1] else id_

    return PARAMETER.sub(value, path)


async def objects_of_the_owner(app: ServerApp) -> list[str]:
    """A thread that ended, one that waits: their ids, those of their runs and of the ticket."""
    ids = []
    for _ in range(2):
        body = {"agentId": "a", "messages": [{"role": "user", "content": OWNERS_WORDS}]}
        request = Request(app, "POST", "/v1/runs", headers=bearer("owner"), body=body)
        await asyncio.wait_for(request.task, 10)
        assert request.answer.status == 200, request.answer.body
        listed = await ask(app, "GET", "/v1/runs", headers=bearer("owner"))
        for run in listed.json["items"]:
            ids += [run["thread_id"], run["run_id"]]
    tickets = await ask(app, "GET", "/v1/tickets", headers=bearer("owner"))
    ids += [ticket["ticket_id"] for ticket in tickets.json["items"]]
    assert len(set(ids)) == 5, tickets.json
    return sorted(set(ids))


async def everything(app: ServerApp, ids: list[str]) -> list[bytes]:
    """All that the owner can see of its objects."""
    found = []
    for id_ in ids:
        for path in ("threads/{}", "threads/{}/messages", "threads/{}/events", "threads/{}/runs",
                     "threads/{}/mailbox", "runs/{}"):  # fmt: skip
            path = "/v1/" + path.format(id_)
            answer = await ask(app, "GET", path, headers=bearer("owner"))
            found.append(answer.body if answer.status == 200 else b"")
    assert sum(1 for body in found if OWNERS_WORDS.encode() in body) >= 2
    return found


def foreign_requests(route: ApiRoute, ids: list[str]) -> Iterator[tuple[str, Any]]:
    """The path's ids, and bodies that name them wherever protocols look for one."""
    message = {"role": "user", "content": "hi"}
    for named in ids:
        yield named, {
            "agentId": "a", "threadId": named, "messages": [message], "payload": {"text": "x"},
            "toolCallId": named, "action": "resume",
        }  # fmt: skip
        yield named, {
            "thread_id": named, "parent_thread_id": named, "runId": named, "id": named,
            "model": "a", "input": "hi", "previous_response_id": named, "conversation": named,
            "tool_call_id": named, "action": "cancel", "messages": [message],
        }  # fmt: skip
        if route.body is bytes:
            for method in CALLS:
                params = {"id": named, "taskId": named, "uri": f"awaken://threads/{named}"}
                yield named, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def renamed(body: Any, ids: list[str], new: str) -> Any:
    text = json.dumps(body)
    for id_ in ids:
        text = text.replace(id_, new)
    return json.loads(text)


async def tried(app: ServerApp, route: ApiRoute, id_: str, body: Any) -> Answer:
    path = filled(route.path, id_)
    headers = {**bearer("stranger"), "last-event-id": "0"}
    return await ask(app, route.method, path, headers=headers, body=body)


def is_like_absent(foreign: Answer, absent: Answer) -> bool:
    """Nothing of the owner is in it, and it is not found, or answered as anything would be."""
    if OWNERS_WORDS.encode() in foreign.body or foreign.status >= 500:
        return False
    return foreign.status in (404, absent.status)
