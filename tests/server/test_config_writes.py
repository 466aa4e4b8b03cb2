"""Writes of the configuration: keys that make them happen once, headers, and hostile bodies."""

import itertools
import json
import random
from typing import Any

import pytest

from awaken.transport.routes import ApiRoute

from .managed_world import World, world
from .test_authorization_matrix import filled

PAUSE = {"state": "paused", "reason": "broken"}
HOSTILE: tuple[Any, ...] = (
    None, True, 0, -1, 2**63, 1e308, "", "x" * 5_000, "\x00", "../../etc/passwd", [], {},
    [[[[]]]], {"id": None}, {"$secret": "env:PATH"}, {"$secret": {"$secret": 1}}, ["a"] * 500,
    {"x" * 300: 1}, {"publication": -1}, "\u202e", {"type": "object", "$ref": "#"},
)  # fmt: skip
FIELDS = (
    "id", "spec", "overrides", "title", "publication", "message", "state", "reason", "value",
    "system_prompt", "model_id", "sections", "plugin_ids", "delegates", "adapter", "api_key",
    "adapter_options", "transport", "command", "args", "url", "base_url", "rules", "provider_id",
    "upstream_model", "members", "endpoint", "hidden", "_clear", "agent", "messages", "canary",
)  # fmt: skip


def test_a_write_under_a_key_happens_once_on_every_route(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWAKEN_SECRET_KEYS", "a:" + "A" * 43 + "=")

    async def scenario(at: World) -> None:
        async def twice(operation: str, body: Any = None, status: int = 200) -> None:
            before = (await at.get("/v1/config/head"))["revision"]
            first = await at.ask(operation, body, idempotency_key=operation)
            assert first.status == status, first.body
            between = (await at.get("/v1/config/head"))["revision"]
            again = await at.ask(operation, body, idempotency_key=operation)
            assert again.status == status, again.body
            assert (await at.get("/v1/config/head"))["revision"] == between, operation
            assert between == before + 1, operation
            assert first.headers["x-awaken-publication"] == again.headers["x-awaken-publication"]

        override = "/v1/config/agents/helper/overrides"
        await twice(f"PATCH {override}", {"max_rounds": 3})
        await twice("PUT /v1/config/switches/agent/helper", PAUSE)
        await twice("DELETE /v1/config/switches/agent/helper", status=204)
        await twice("PUT /v1/config/secrets/own/one/key", {"value": "s3cret"})
        await twice("DELETE /v1/config/secrets/own/one/key", status=204)
        await at.do(f"PATCH {override}", {"max_rounds": 4})
        await twice("POST /v1/config/rollback", {"publication": 1, "expected_head": 2}, 201)
        for ending in ("DELETE /v1/config/canary", "POST /v1/config/canary/promote"):
            draft = await at.draft(helper={"system_prompt": ending})
            plan = {"canary": {"percent": 10}}
            made = await at.do(f"POST /v1/config/drafts/{draft}/publish", plan, 201, if_match="*")
            number = made["publication"]
            if "promote" in ending:
                await twice(ending, {"publication": number})
            else:
                await twice(f"{ending}?publication={number}")
        # A key for something else is refused.
        other = {**PAUSE, "reason": "other"}
        key = "PUT /v1/config/switches/agent/helper"
        answer = await at.ask(key, other, idempotency_key=key)
        assert (answer.status, answer.json["code"]) == (409, "idempotency_conflict")

    world(scenario)


def test_a_draft_and_its_preview_are_made_once_under_a_key() -> None:
    async def scenario(at: World) -> None:
        made = [
            await at.do("POST /v1/config/drafts", {"title": "a"}, 201, idempotency_key="k")
            for _ in range(2)
        ]
        assert made[0]["id"] == made[1]["id"]
        other = await at.ask("POST /v1/config/drafts", {"title": "b"}, idempotency_key="k")
        assert other.status == 409
        path = f"/v1/config/drafts/{made[0]['id']}"
        await at.do(f"PUT {path}/agents/helper", {"overrides": {"max_rounds": 2}})
        numbers = {
            (await at.do(f"POST {path}/preview", status=201, idempotency_key="p"))["publication"]
            for _ in range(2)
        }
        assert len(numbers) == 1
        stale = await at.ask(f"PATCH {path}", {"title": "b"}, if_match='"1"')
        assert (stale.status, stale.json["code"]) == (409, "draft_conflict")
        answer = await at.ask(f"GET {path}")
        assert answer.headers["etag"] == '"2"'

    world(scenario)


def test_a_refusal_lists_at_most_a_hundred_problems_and_their_count() -> None:
    async def scenario(at: World) -> None:
        spec = {"model_id": "fast", "delegates": [f"none-{n}" for n in range(150)]}
        for operation in ("PUT /v1/config/agents/x", "PUT /v1/config/agents/x?dry_run=true"):
            answer = await at.ask(operation, spec)
            assert answer.status == 400
            assert len(answer.json["problems"]) == 100
            assert answer.json["problem_count"] == 150
            assert answer.json["problems"][7]["path"] == "agents/x/delegates/7"
        made = await at.do("POST /v1/config/drafts", {}, 201)
        path = f"/v1/config/drafts/{made['id']}"
        await at.do(f"PUT {path}/agents/x", {"spec": spec})
        reply = await at.do(f"POST {path}/validate")
        assert (len(reply["problems"]), reply["problem_count"]) == (100, 150)
        assert (await at.ask(f"POST {path}/publish", {}, if_match="*")).json["problem_count"] == 150

    world(scenario)


def make_bodies(rng: random.Random, count: int) -> list[Any]:
    bodies: list[Any] = list(HOSTILE)
    while len(bodies) < count:
        names = rng.sample(FIELDS, rng.randint(1, 5))
        bodies.append({name: rng.choice(HOSTILE) for name in names})
    return bodies


def is_config(route: ApiRoute) -> bool:
    marks = ("/v1/config", "/v1/providers", "/v1/mcp-servers", "/v1/a2a", "agent-previews", "repin")
    return route.body is not None and any(it in route.path for it in marks)


@pytest.mark.timeout(170)
def test_hostile_bodies_are_refused_and_leave_nothing_half_written() -> None:
    async def scenario(at: World) -> None:
        await at.draft(helper={"max_rounds": 2})
        rng, sent, failed = random.Random(7), 0, list[str]()
        routes = [it for it in at.app.routes if is_config(it) and "/v1/a2a/" not in it.path]
        assert len(routes) >= 15
        namespaces = ("agents", "models", "providers", "mcp-servers", "rulesets", "nothing")
        for route in routes:
            for body, namespace in zip(
                make_bodies(rng, 230), itertools.cycle(namespaces), strict=False
            ):
                path = filled(route.path.replace("{namespace}", namespace), "some-id")
                data = json.dumps(body).encode()
                answer = await at.ask(f"{route.method} {path}", data)
                sent += 1
                if answer.status >= 500:
                    failed.append(f"{route.method} {path} {data[:200]!r}: {answer.body[:200]!r}")
        assert failed == []
        assert sent >= 4_000
        # What was accepted is whole: every live record can be read, and the chain is intact.
        for namespace in namespaces[:-1]:
            assert (await at.ask(f"GET /v1/config/{namespace}")).status == 200
        assert (await at.get("/v1/audit-log/verify"))["is_intact"] is True

    world(scenario)
