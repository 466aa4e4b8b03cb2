"""Files over HTTP: planned, applied and exported by those who may; nothing half-written."""

import asyncio
import functools
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from awaken import Access, Agent, AgentRuntime
from awaken.bootstrap.managed_config import ManagedOptions
from awaken.server import AdminConfig, PublishRules, ServerConfig
from awaken.testing import ScriptedModel

from .in_process import Answer, ask, bearer, config, token

SECRET = "sk-canary-0123456789"
FILES = {"origin": "repo", "records": {"agents": {"support": {"model_id": "scripted"}}}}


def in_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def scenario() -> None:
            await test(*args, **kwargs)

        asyncio.run(scenario())

    return run


def runtime(**options: Any) -> AgentRuntime:
    agent = Agent("greeter", model=ScriptedModel(["Hi."]))
    return AgentRuntime([agent], **{"managed": True, **options})


async def send(app: Any, path: str, files: Any, **options: Any) -> Answer:
    headers = {"content-type": "application/json"}
    body = {"files": files, "options": options}
    return await ask(app, "POST", f"/v1/config/{path}", body=body, headers=headers)


@in_loop
async def test_files_are_planned_applied_and_exported() -> None:
    async with runtime() as opened:
        app = opened.asgi()
        planned = await send(app, "plan", FILES)
        assert (planned.status, planned.json["creates"]) == (
            200,
            [{"ns": "agents", "id": "support"}],
        )
        applied = await send(app, "apply", FILES, message="first")
        assert (applied.status, applied.json["publication"]) == (200, 1)
        assert applied.headers["x-awaken-publication"] == "1"
        again = await send(app, "apply", FILES)
        assert (again.json["publication"], again.json["is_changed"]) == (1, False)
        exported = await ask(app, "GET", "/v1/config/export")
        assert exported.json == {
            "publication": 1,
            "records": {"agents": {"support": {"id": "support", "model_id": "scripted"}}},
            "overrides": {},
        }
        assert (await ask(app, "GET", "/v1/config/export?kind=models")).json["records"] == {}
        assert (await ask(app, "GET", "/v1/config/export?kind=x")).status == 400
        assert (await ask(app, "GET", "/v1/config/export?publication=9")).status == 404


@in_loop
async def test_a_refused_apply_lists_its_problems_and_no_secret() -> None:
    async with runtime() as opened:
        app = opened.asgi()
        provider = {"adapter": "openai_chat", "api_key": SECRET}
        bad = {"records": {"providers": {f"p{it}": provider for it in range(150)}}}
        planned, refused = await send(app, "plan", bad), await send(app, "apply", bad)
        assert (planned.status, refused.status) == (200, 400)
        for answer in (planned, refused):
            assert (len(answer.json["problems"]), answer.json["problem_count"]) == (100, 150)
            assert answer.json["problems"][0]["path"] == "providers/p0/api_key"
            assert SECRET.encode() not in answer.body
        assert (await ask(app, "GET", "/v1/config/publications")).json["items"] == []


@in_loop
async def test_hostile_files_are_refused_and_nothing_is_written() -> None:
    chance = random.Random(17)
    values: list[Any] = [
        None,
        True,
        0,
        -1,
        1e300,
        "",
        "x" * 300,
        "\x00",
        "🦊",
        [],
        [[]],
        {},
        {"a": 1},
    ]
    values += [{"$secret": "env:A"}, {"$secret": 3}, {"id": "../x"}, {"hidden": "no"}]

    def make(depth: int) -> Any:
        if depth == 0 or chance.random() < 0.2:
            return chance.choice(values)
        keys = ("agents", "providers", "tools", "skills", "mcp-servers", "a", "b/c", "id", "name")
        return {chance.choice(keys): make(depth - 1) for _ in range(3)}

    async with runtime() as opened:
        app = opened.asgi()
        for _ in range(400):
            files = {"origin": "repo", "records": make(4), "overrides": make(3)}
            if chance.random() < 0.1:
                files["origin"] = chance.choice(values)
            for path in ("plan", "apply"):
                answer = await send(app, path, files, prune=chance.choice([True, False]))
                assert answer.status < 500, (files, answer.body)
        items = (await ask(app, "GET", "/v1/config/publications")).json["items"]
        assert items == []


@pytest.mark.parametrize(
    ("scope", "statuses"),
    [(Access.READ, (403, 403, 403)), (Access.CONFIG, (200, 403, 200)),
     (Access.PUBLISH, (403, 200, 403)), (Access.ADMIN, (200, 200, 200))],
)  # fmt: skip
@in_loop
async def test_each_route_needs_its_scope(scope: Access, statuses: tuple[int, ...]) -> None:
    async with runtime() as opened:
        app = opened.asgi(config(token("ann", frozenset({scope}))))
        headers = {**bearer("ann"), "content-type": "application/json"}
        body = {"files": FILES}
        found = [
            (await ask(app, "POST", "/v1/config/plan", body=body, headers=headers)).status,
            (await ask(app, "POST", "/v1/config/apply", body=body, headers=headers)).status,
            (await ask(app, "GET", "/v1/config/export", headers=headers)).status,
        ]
        assert tuple(found) == statuses


@in_loop
async def test_a_server_may_leave_out_the_routes() -> None:
    async with runtime() as opened:
        app = opened.asgi(ServerConfig(admin=AdminConfig(config_routes=False)))
        assert (await ask(app, "GET", "/v1/config/export")).status == 404
        assert (await send(app, "plan", FILES)).status == 404


@in_loop
async def test_the_rules_of_a_server_hold_for_what_comes_over_http() -> None:
    rules = PublishRules(requires_message=True)
    async with runtime() as opened:
        app = opened.asgi(ServerConfig(admin=AdminConfig(publish=rules)))
        refused = await send(app, "apply", {**FILES})
        # Files bring a message of their own; a single record does not.
        assert refused.status == 200
        body = {"id": "b", "model_id": "scripted"}
        headers = {"content-type": "application/json"}
        answer = await ask(app, "PUT", "/v1/config/agents/b", body=body, headers=headers)
        assert (answer.status, answer.json["unmet"]) == (409, ["a message is required"])


@in_loop
async def test_a_process_that_stays_on_a_publication_publishes_nothing() -> None:
    first = runtime()
    async with first as opened:
        await send(opened.asgi(), "apply", FILES)
        pinned = runtime(store=opened.store, managed=ManagedOptions(publication=1))
        app = pinned.asgi()
        await pinned.managed.open()  # type: ignore[union-attr]
        changed = {**FILES, "records": {"agents": {"b": {"model_id": "scripted"}}}}
        refused = await send(app, "apply", changed)
        assert (refused.status, refused.json["code"]) == (409, "publish_refused")
        assert "stays on publication 1" in refused.json["error"]
        await pinned.managed.close()  # type: ignore[union-attr]
