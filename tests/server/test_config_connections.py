"""Capabilities, agents with their specs, providers, servers, usage, health and hints."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from awaken.contracts.config.audit import AuditAction

from .in_process import Request, bearer
from .managed_world import World, world

SERVER = """
from mcp.server import MCPServer
server = MCPServer("tiny")

@server.tool()
def echo(text: str) -> str:
    "Say it again."
    return text

server.run()
"""


def test_capabilities_name_everything_that_an_agent_may_use() -> None:
    async def scenario(at: World) -> None:
        found = await at.get("/v1/capabilities")
        assert found["agents"] == ["asker", "helper"]
        tools = {it["id"]: it["source"] for it in found["tools"]}
        assert tools["look"] == {"kind": "builtin"}
        assert tools["ask_first"] == {"kind": "builtin", "id": "asker"}
        (look,) = (it for it in found["tools"] if it["id"] == "look")
        assert (look["effect"], look["parameters_schema"]["type"]) == ("none", "object")
        plugins = {
            it["id"]: [one["key"] for one in it["config_schemas"]] for it in found["plugins"]
        }
        assert plugins["permission"] == ["permission"]
        assert plugins["ext-deferred-tools"] == plugins["deferred_tools"] == ["deferred_tools"]
        assert {it["id"] for it in found["models"]} == {"best", "fast"}
        assert {"id": "own"} in found["providers"]
        assert "anthropic" in found["supported_adapters"]
        names = {it["namespace"] for it in found["namespaces"]}
        assert {"agents", "models", "providers", "mcp-servers"} <= names
        await at.do("PUT /v1/config/agents/new", {"model_id": "fast"})
        assert "new" in (await at.get("/v1/capabilities"))["agents"]
        for who in ("reader", "tenant"):
            assert (await at.ask("GET /v1/capabilities", who=who)).status == 403

    world(scenario)


def test_agents_show_their_specs_only_to_those_who_may_read_the_configuration() -> None:
    async def scenario(at: World) -> None:
        page = await at.get("/v1/agents?offset=0&limit=1")
        assert (page["namespace"], page["offset"], page["limit"]) == ("agents", 0, 1)
        (helper,) = page["items"]
        assert (helper["id"], helper["system_prompt"]) == ("helper", "Help.")
        assert helper["tools"] == ["change", "look", "wipe"]
        assert (await at.get("/v1/agents/helper"))["sections"]["permission"]["rules"]
        for who in ("reader", "tenant"):
            seen = json.dumps(
                [await at.get("/v1/agents", who), await at.get("/v1/agents/helper", who)]
            )
            assert "Help." not in seen
            assert "rules" not in seen
        first = await at.get("/v1/agents?limit=1", "reader")
        assert first["has_more"] is True

    world(scenario)


def test_a_provider_is_tested_without_a_call_unless_one_is_asked_for() -> None:
    async def scenario(at: World) -> None:
        reply = await at.do("POST /v1/providers/own/test")
        assert (reply["ok"], reply["network_tested"]) == (True, False)
        model: Any = at.runtime.registry.snapshot().registries.providers["own"]
        assert model.requests == []
        reply = await at.do("POST /v1/providers/own/test?call=true")
        assert (reply["ok"], reply["network_tested"]) == (True, True)
        assert len(model.requests) == 1
        spec = {"adapter": "openai", "api_key": {"$secret": "env:NOT_SET_ANYWHERE"}}
        await at.do("PUT /v1/config/providers/keyless", spec)
        reply = await at.do("POST /v1/providers/keyless/test")
        assert reply["ok"] is False
        assert "NOT_SET_ANYWHERE" in reply["error"]
        assert (await at.ask("POST /v1/providers/none/test")).status == 404
        assert (await at.ask("POST /v1/providers/own/test", who="reader")).status == 403

    world(scenario)


def test_a_server_shows_its_state_and_is_restarted_after_the_audit(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(SERVER)

    async def scenario(at: World) -> None:
        spec = {"transport": "stdio", "command": sys.executable, "args": [str(script)]}
        await at.do("PUT /v1/config/mcp-servers/tiny", spec)
        async with asyncio.timeout(30):
            while not (state := await at.get("/v1/mcp-servers/tiny/status"))["connected"]:
                await asyncio.sleep(0.05)
        assert [it["name"] for it in state["tools"]] == ["echo"]
        assert state["session_generation"] == 1
        shown = await at.get("/v1/mcp-servers/tiny/inventory")
        assert shown["tools"] == [{"name": "echo", "description": "Say it again."}]
        assert (shown["prompts"], shown["resources"]) == ([], [])
        await at.do("POST /v1/mcp-servers/tiny/restart", status=202)
        async with asyncio.timeout(30):
            while not (state := await at.get("/v1/mcp-servers/tiny/status"))["connected"]:
                await asyncio.sleep(0.05)
        assert state["session_generation"] == 2
        log = await at.get(f"/v1/audit-log?action={AuditAction.RESTART.value}")
        assert [it["resource"] for it in log["items"]] == ["mcp-servers/tiny"]
        for path in ("status", "inventory"):
            assert (await at.ask(f"GET /v1/mcp-servers/none/{path}")).status == 404
        assert (await at.ask("POST /v1/mcp-servers/none/restart")).status == 404
        assert (await at.ask("POST /v1/mcp-servers/tiny/restart", who="reader")).status == 403

    world(scenario)


def test_a_strict_write_of_a_server_needs_a_connection() -> None:
    async def scenario(at: World) -> None:
        spec = {"transport": "stdio", "command": "/nonexistent/server", "args": []}
        answer = await at.ask("PUT /v1/config/mcp-servers/away?strict=true", spec)
        assert answer.status == 400, answer.body
        assert answer.json["problems"][0]["code"] == "not_connected"
        assert (await at.get("/v1/config/head"))["publication"] is None
        await at.do("PUT /v1/config/mcp-servers/away", spec)
        other = await at.ask("PUT /v1/config/agents/x?strict=true", {"model_id": "fast"})
        assert other.json["problems"][0]["code"] == "unsupported"

    world(scenario)


def test_a_remote_registry_shows_what_its_last_read_gave() -> None:
    async def scenario(at: World) -> None:
        spec = {"base_url": "http://127.0.0.1:9", "timeout_ms": 500}
        await at.do("PUT /v1/config/a2a-servers/far", spec)
        async with asyncio.timeout(20):
            while (seen := await at.get("/v1/a2a-servers/far/status")).get("last_error") is None:
                await asyncio.sleep(0.05)
        assert seen["connected"] is False
        assert seen["card_url"].startswith("http://127.0.0.1:9/")
        assert (await at.ask("GET /v1/a2a-servers/none/status")).status == 404

    world(scenario)


def test_runs_are_summed_up_and_usage_is_grouped() -> None:
    async def scenario(at: World) -> None:
        await at.run("asker", "t")
        await at.run("asker", "theirs", "tenant")
        summary = await at.get("/v1/runs/summary", "reader")
        assert summary == {"running": 0, "waiting": 2, "created": 0}
        assert (await at.get("/v1/runs/summary", "tenant"))["waiting"] == 1
        empty = await at.get("/v1/usage?by=day,agent,model,tenant", "reader")
        assert empty["rows"] == []
        for query in ("by=colour", "from=999999999999&to=1", "from=0&to=99999999999999", "from=x"):
            assert (await at.ask(f"GET /v1/usage?{query}")).status == 400, query

    world(scenario)


def test_health_says_partial_when_an_agent_cannot_be_used_here() -> None:
    async def scenario(at: World) -> None:
        assert (await at.get("/health"))["components"]["config"] == "ok"
        snapshot = at.runtime.registry.snapshot()
        snapshot.unusable = {"helper": ValueError("broken")}  # type: ignore[assignment]
        answer = await at.ask("GET /health")
        assert (answer.status, answer.json["components"]["config"]) == (200, "partial")
        metrics = (await at.ask("GET /metrics")).body
        assert b"awaken_config_unusable_agents 1" in metrics

    world(scenario)


def test_readers_of_the_activity_hear_of_publications_and_switches() -> None:
    async def scenario(at: World) -> None:
        request = Request(at.app, "GET", "/v1/activity/stream", headers=bearer("boss"))
        await request.begun()
        await at.do("PATCH /v1/config/agents/helper/overrides", {"max_rounds": 3})
        stop = {"state": "paused", "reason": "broken"}
        await at.do("PUT /v1/config/switches/agent/helper", stop)
        async with asyncio.timeout(10):
            while b'"switch"' not in request.answer.body or b'"config"' not in request.answer.body:
                await asyncio.sleep(0.02)
        assert b'"status":"paused"' in request.answer.body
        await request.leave()

    world(scenario)
