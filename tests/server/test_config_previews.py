"""A preview runs what is not live, on a thread of its own, and asks before anything happens."""

import asyncio
from typing import Any

from awaken.testing import ToolCalls

from .in_process import Request, bearer
from .managed_world import World, world

CALLS = [ToolCalls([("look", {}), ("change", {})]), "Done."]


async def make_preview(at: World, **changes: Any) -> int:
    draft = await at.draft(**changes)
    made = await at.do(f"POST /v1/config/drafts/{draft}/preview", status=201)
    return int(made["publication"])


def test_a_preview_runs_the_draft_and_moves_no_head() -> None:
    async def scenario(at: World) -> None:
        no = await make_preview(at, helper={"system_prompt": "Draft."})
        run = await at.run("helper", "p", publication=no)
        assert run["status"] == "done"
        record = await at.runtime.get_run(run["run_id"])
        assert (record.publication, record.kind.value) == (no, "preview")
        # Nothing of it is live, and lists do not show it unless they are asked to.
        assert (await at.get("/v1/config/head"))["publication"] is None
        assert (await at.get("/v1/runs"))["items"] == []
        assert len((await at.get("/v1/runs?kind=preview"))["items"]) == 1
        live = await at.run("helper", "live")
        assert (await at.runtime.get_run(live["run_id"])).publication is None

    world(scenario)


def test_a_tool_with_an_effect_asks_in_a_preview_and_runs_after_the_approval() -> None:
    async def scenario(at: World) -> None:
        no = await make_preview(at, helper={"system_prompt": "Draft."})
        run = await at.run("helper", "p", publication=no)
        assert run["status"] == "waiting"
        (ticket,) = (await at.get(f"/v1/runs/{run['run_id']}/tickets"))["items"]
        # `look` has no effect, and did not ask.
        assert ticket["tool_name"] == "change"
        assert "preview" in ticket["suspension"]["message"]
        decision = {"action": "resume", "ticket_id": ticket["ticket_id"], "payload": True}
        await at.do(f"POST /v1/runs/{run['run_id']}/decision", decision, 202)
        await at.runtime.wait(run["run_id"], timeout_ms=5_000)
        assert (await at.get(f"/v1/runs/{run['run_id']}"))["status"] == "done"
        # The same agent asks nothing when it is live.
        assert (await at.run("helper", "live"))["status"] == "done"

    world(scenario, script=CALLS)


def test_rules_and_tools_are_asked_about_on_a_preview_of_a_draft() -> None:
    async def scenario(at: World) -> None:
        section = {"default_behavior": "allow", "rules": [{"tool": "change", "behavior": "deny"}]}
        changes = {"plugin_ids": ["permission"], "sections": {"permission": section}}
        no = await make_preview(at, helper=changes)
        draft = await at.get(f"/v1/agents/helper/permission-preview?publication={no}")
        live = await at.get("/v1/agents/helper/permission-preview")
        assert draft["unconditionally_denied"] == ["change"]
        assert live["unconditionally_denied"] == ["wipe"]
        body = {"agent": "helper", "publication": no, "calls": [{"tool": "change"}]}
        tried = await at.do("POST /v1/policy/preview", body)
        assert [it["behavior"] for it in tried["calls"]] == ["deny"]
        missing = await at.ask("POST /v1/policy/preview", {**body, "publication": 999})
        assert missing.status == 404

    world(scenario)


def test_a_rule_that_denies_a_call_denies_it_in_a_preview_too() -> None:
    async def scenario(at: World) -> None:
        no = await make_preview(at, helper={"system_prompt": "Draft."})
        run = await at.run("helper", "p", publication=no)
        assert run["status"] == "done"

    world(scenario, script=[ToolCalls([("wipe", {})]), "Done."])


def test_a_preview_may_spend_little_unless_it_brings_a_budget() -> None:
    async def scenario(at: World) -> None:
        no = await make_preview(at, helper={"system_prompt": "Draft."})
        await at.run("helper", "p", publication=no)
        await at.run("helper", "q", publication=no, budget={"tokens": 1})
        limits = {}
        for thread in ("p", "q"):
            run = await at.get(f"/v1/threads/{thread}/runs/latest")
            limits[thread] = run
        assert limits["p"]["status"] == "done"
        assert limits["q"]["termination"]["type"] != "natural_end"

    world(scenario)


def test_a_preview_goes_on_with_no_conversation_of_others() -> None:
    async def scenario(at: World) -> None:
        await at.run("helper", "t")
        no = await make_preview(at, helper={"system_prompt": "Draft."})
        body = {
            "agent_id": "helper", "thread_id": "t", "publication": no,
            "messages": [{"content": "go"}],
        }  # fmt: skip
        answer = await at.ask("POST /v1/runs", body)
        assert (answer.status, answer.json["code"]) == (400, "thread_not_of_preview")

    world(scenario)


def test_a_run_on_the_live_publication_is_a_plain_run() -> None:
    async def scenario(at: World) -> None:
        await at.do("PATCH /v1/config/agents/helper/overrides", {"system_prompt": "One."})
        await at.do("PATCH /v1/config/agents/helper/overrides", {"system_prompt": "Two."})
        head = (await at.get("/v1/config/head"))["publication"]
        run = await at.run("helper", "t", publication=head)
        record = await at.runtime.get_run(run["run_id"])
        assert (record.publication, record.kind.value) == (head, "chat")

    world(scenario)


def test_who_may_not_read_the_configuration_cannot_name_a_publication() -> None:
    async def scenario(at: World) -> None:
        no = await make_preview(at, helper={"system_prompt": "Draft."})
        body = {"agent_id": "helper", "publication": no, "messages": [{"content": "go"}]}
        for who in ("caller", "tenant"):
            assert (await at.ask("POST /v1/runs", body, who=who)).status == 403
        unknown = await at.ask("POST /v1/runs", {**body, "publication": 999})
        assert (unknown.status, unknown.json["code"]) == (404, "unknown_publication")
        other = await at.ask("POST /v1/runs", {**body, "agent_id": "none"})
        assert other.status == 404
        under_key = await at.ask("POST /v1/runs", body, idempotency_key="k")
        assert under_key.status == 200
        runs = (await at.get("/v1/runs?kind=preview"))["items"]
        assert len(runs) == 1

    world(scenario)


def test_an_agent_that_is_not_saved_answers_over_the_ai_sdk() -> None:
    async def scenario(at: World) -> None:
        agent = {"id": "unsaved", "model_id": "fast", "system_prompt": "New."}
        messages = [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "hi"}]}]
        path = "/v1/ai-sdk/agent-previews/runs"
        body = {"agent": agent, "messages": messages, "id": "chat"}
        request = Request(at.app, "POST", path, headers=bearer("boss"), body=body)
        await asyncio.wait_for(request.task, 10)
        assert request.answer.status == 200, request.answer.body
        assert b"Hello." in request.answer.body
        (run,) = (await at.get("/v1/runs?kind=preview"))["items"]
        assert run["agent_id"] == "unsaved"
        assert (await at.ask("GET /v1/agents/unsaved")).status == 404
        # An agent of the code is tried with its own tools.
        changed = {**(await at.get("/v1/config/agents/helper")), "system_prompt": "Other."}
        body = {"agent": changed, "messages": messages, "id": "chat2"}
        request = Request(at.app, "POST", path, headers=bearer("boss"), body=body)
        await asyncio.wait_for(request.task, 10)
        assert request.answer.status == 200, request.answer.body
        broken = {"agent": {**agent, "model_id": "none"}, "messages": messages}
        answer = await at.ask(f"POST {path}", broken)
        assert (answer.status, answer.json["code"]) == (400, "invalid_config")
        assert answer.json["problems"][0]["path"] == "agents/unsaved/model_id"
        secret = {"base_url": "http://127.0.0.1:9", "auth": {"type": "bearer", "token": "s3cret"}}
        leaking = {"agent": {**agent, "endpoint": secret}, "messages": messages}
        answer = await at.ask(f"POST {path}", leaking)
        assert answer.status == 400
        assert b"s3cret" not in answer.body
        for who in ("caller", "tenant"):
            assert (await at.ask(f"POST {path}", broken, who=who)).status == 403

    world(scenario)
