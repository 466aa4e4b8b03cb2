"""What an attacker with few rights, or a careless client, tried once and does not get."""

from base64 import b64encode

import pytest

from awaken.bootstrap.providers import list_missing_keys
from awaken.contracts.errors import NotServedHere

from .managed_world import World, world

PROVIDER = {"adapter": "openai", "base_url": "http://127.0.0.1:9/v1"}
SERVER = {"transport": "stdio", "command": "/bin/false", "args": []}


@pytest.fixture(autouse=True)
def _keys_for_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWAKEN_SECRET_KEYS", f"a:{b64encode(bytes(32)).decode()}")


def test_a_preview_contacts_nothing_new_without_the_right_to_publish() -> None:
    async def scenario(at: World) -> None:
        for namespace, spec in (("mcp-servers", SERVER), ("providers", PROVIDER)):
            made = await at.do("POST /v1/config/drafts", {}, 201, who="editor")
            path = f"/v1/config/drafts/{made['id']}"
            await at.do(f"PUT {path}/{namespace}/new", {"spec": spec}, who="editor")
            refused = await at.ask(f"POST {path}/preview", who="editor")
            assert (refused.status, refused.json["code"]) == (403, "forbidden")
        agent = {"id": "x", "endpoint": {"base_url": "http://127.0.0.1:9"}}
        body = {"agent": agent, "messages": [], "id": "c"}
        refused = await at.ask("POST /v1/ai-sdk/agent-previews/runs", body, who="editor")
        assert refused.status == 403
        # A draft of prompts and rules is tried with fewer rights.
        draft = await at.draft(helper={"system_prompt": "Draft."})
        await at.do(f"POST /v1/config/drafts/{draft}/preview", status=201, who="editor")

    world(scenario)


def test_a_key_is_rotated_by_the_record_that_brings_another_one() -> None:
    async def scenario(at: World) -> None:
        assert at.runtime.managed is not None
        resolver = at.runtime.managed.parts.resolver
        for key in ("sk-old", "sk-new"):
            await at.do("PUT /v1/config/providers/vendor", {**PROVIDER, "api_key": key})
            assert resolver.resolve("store:providers/vendor/api_key") == key
        audit = (await at.get("/v1/audit-log"))["items"]
        assert [it["action"] for it in audit].count("secret_set") == 2

    world(scenario)


def test_a_draft_never_writes_a_secret_that_is_live() -> None:
    async def scenario(at: World) -> None:
        assert at.runtime.managed is not None
        for key, is_published in (("sk-good", True), ("sk-evil", False)):
            made = await at.do("POST /v1/config/drafts", {}, 201, idempotency_key="k")
            path = f"/v1/config/drafts/{made['id']}"
            spec = {**PROVIDER, "api_key": key}
            await at.do(f"PUT {path}/providers/vendor", {"spec": spec})
            if is_published:
                await at.do(f"POST {path}/publish", {}, 201, if_match="*")
        ref = (await at.get("/v1/config/providers/vendor"))["api_key_ref"]
        assert at.runtime.managed.parts.resolver.resolve(ref) == "sk-good"

    world(scenario)


def test_a_write_refuses_a_dry_run_that_it_would_not_make() -> None:
    async def scenario(at: World) -> None:
        await at.do("PATCH /v1/config/agents/helper/overrides", {"system_prompt": "One."})
        draft = await at.draft(helper={"system_prompt": "Two."})
        for operation, body in (
            ("POST /v1/config/rollback", {"publication": 1, "expected_head": 1}),
            ("POST /v1/config/agents/helper/restore", {"version": 1}),
            (f"POST /v1/config/drafts/{draft}/publish", {}),
            ("PATCH /v1/config/agents/helper/overrides", {"system_prompt": "Three."}),
            ("DELETE /v1/config/agents/helper/overrides", None),
        ):
            refused = await at.ask(f"{operation}?dry_run=true", body)
            assert (refused.status, refused.json["code"]) == (400, "unknown_field"), operation
        assert (await at.get("/v1/config/head"))["publication"] == 1

    world(scenario)


def test_a_reviewer_publishes_what_was_read_and_nothing_later() -> None:
    async def scenario(at: World) -> None:
        draft = await at.draft(helper={"system_prompt": "Seen."})
        path = f"/v1/config/drafts/{draft}"
        await at.do(f"PUT {path}/agents/helper", {"overrides": {"system_prompt": "Unseen."}})
        for operation in (f"POST {path}/publish", f"DELETE {path}"):
            body = {} if operation.startswith("POST") else None
            refused = await at.ask(operation, body, if_match='"2"')
            assert (refused.status, refused.json["code"]) == (409, "draft_conflict")
        blind = await at.ask(f"POST {path}/publish", {})
        assert (blind.status, blind.json["code"]) == (428, "revision_required")
        # What was compared says of which revision it is.
        seen = (await at.get(f"{path}/diff"))["revision"]
        await at.do(f"POST {path}/publish", {}, 201, if_match=f'"{seen}"')

    world(scenario)


def test_a_decision_names_what_the_caller_saw() -> None:
    async def scenario(at: World) -> None:
        for text in ("One.", "Two.", "Three."):
            await at.do("PATCH /v1/config/agents/helper/overrides", {"system_prompt": text})
        diff = await at.get("/v1/config/publications/3..1/diff")
        assert [it["publication"] for it in diff["undone"]] == [3, 2]
        assert (await at.get("/v1/config/publications/1..3/diff"))["undone"] == []
        back, canary = "POST /v1/config/rollback", "/v1/config/canary"
        plan = {"publication": 1, "percent": 5}
        await at.do(f"POST {canary}", plan)
        await at.do("PUT /v1/config/switches/agent/helper", {"state": "paused", "reason": "slow"})
        for operation, body, status, code in (
            (back, {"publication": 1}, 422, "invalid_body"),
            (back, {"publication": 1, "expected_head": 2}, 409, "live_conflict"),
            (back, {"publication": 1, "expected_head": 3}, 409, "publish_refused"),
            (
                back,
                {"publication": 1, "expected_head": 3, "over_canary": {"publication": 2}},
                409,
                "canary_conflict",
            ),
            (f"POST {canary}/promote", {}, 422, "invalid_body"),
            (f"POST {canary}/promote", {"publication": 2}, 409, "canary_conflict"),
            (f"POST {canary}/promote", {"publication": 1, "since": 1}, 409, "canary_conflict"),
            (f"DELETE {canary}", None, 400, "invalid_query"),
            (f"DELETE {canary}?publication=2", None, 409, "canary_conflict"),
            (f"DELETE {canary}?publication=1&since=1", None, 409, "canary_conflict"),
            ("DELETE /v1/config/switches/agent/helper?set_at=1", None, 409, "switch_conflict"),
            (
                "PUT /v1/config/switches/agent/helper",
                {"state": "paused", "reason": "loops", "set_at": 0},
                409,
                "switch_conflict",
            ),
        ):
            refused = await at.ask(operation, body)
            assert (refused.status, refused.json["code"]) == (status, code), (operation, body)
        head = await at.get("/v1/config/head")
        assert (head["publication"], head["canary"]["publication"]) == (3, 1)
        seen = head["canary"]
        await at.do(f"DELETE {canary}?publication=1&since={seen['since']}")
        assert [it["reason"] for it in head["switches"]] == ["slow"]
        again = {"state": "paused", "reason": "loops", "set_at": head["switches"][0]["at"]}
        at_ms = (await at.do("PUT /v1/config/switches/agent/helper", again))["at"]
        await at.do(f"DELETE /v1/config/switches/agent/helper?set_at={at_ms}", status=204)

    world(scenario)


def test_files_are_applied_to_the_publication_that_their_plan_was_made_for() -> None:
    async def scenario(at: World) -> None:
        files = {"records": {"agents": {"b": {"id": "b", "model_id": "fast"}}}}
        plan = await at.do("POST /v1/config/plan", {"files": files})
        options = {"expected_head": plan["head"] or 0}
        await at.do("PATCH /v1/config/agents/helper/overrides", {"system_prompt": "Two."})
        refused = await at.ask("POST /v1/config/apply", {"files": files, "options": options})
        assert (refused.status, refused.json["code"]) == (409, "live_conflict")
        assert (refused.json["expected"], refused.json["actual"]) == (0, 1)
        await at.do("POST /v1/config/apply", {"files": files, "options": {"expected_head": 1}})

    world(scenario)


def test_an_earlier_publication_is_run_as_a_preview() -> None:
    async def scenario(at: World) -> None:
        for text in ("One.", "Two."):
            await at.do("PATCH /v1/config/agents/helper/overrides", {"system_prompt": text})
        earlier = await at.run("helper", "t1", publication=1)
        assert (await at.runtime.get_run(earlier["run_id"])).kind.value == "preview"
        live = await at.run("helper", "t2", publication=2)
        assert (await at.runtime.get_run(live["run_id"])).kind.value == "chat"

    world(scenario)


def test_a_repeated_write_that_changed_nothing_overwrites_nothing() -> None:
    async def scenario(at: World) -> None:
        path = "PUT /v1/config/agents/new"
        one = {"model_id": "fast", "system_prompt": "One."}
        await at.do(path, one)
        await at.do(path, one, idempotency_key="k")
        await at.do(path, {**one, "system_prompt": "Two."})
        await at.do(path, one, idempotency_key="k")
        assert (await at.get("/v1/config/agents/new"))["system_prompt"] == "Two."

    world(scenario)


def test_a_server_starts_although_one_agent_cannot_be_used() -> None:
    class Broken(NotServedHere):
        template = "It cannot be used."

    async def scenario(at: World) -> None:
        snapshot = at.runtime.registry.snapshot()
        resolve = snapshot.resolve

        class Partial:
            registries = snapshot.registries

            def resolve(self, agent_id: str) -> object:
                if agent_id == "helper":
                    raise Broken
                return resolve(agent_id)

        assert list_missing_keys(Partial()) == []  # type: ignore[arg-type]

    world(scenario)
