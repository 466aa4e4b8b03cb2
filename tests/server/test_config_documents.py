"""What the configuration answers is what the OpenAPI document says of it."""

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs

from .managed_world import World, world
from .test_config_connections import SERVER

OPEN = {
    "/v1/config/{namespace}/$schema",
    "/v1/config/{namespace}",
    "/v1/config/{namespace}/{record_id}",
    "/v1/config/{namespace}/{record_id}/overrides",
    "/v1/config/{namespace}/{record_id}/overrides/{field}",
    "/v1/config/{namespace}/{record_id}/restore",
}
"""Their replies are a record or a schema, whose fields differ by namespace."""


class Documented:
    """Sends requests, and checks each answer against the document."""

    def __init__(self, at: World, document: Any) -> None:
        self._at = at
        self._document = document
        self._checked: set[str] = set()

    async def do(self, operation: str, body: Any = None, status: int = 200, **headers: str) -> Any:
        answer = await self._at.do(operation, body, status, **headers)
        method, path = operation.partition("?")[0].split()
        template = self._find(method, path)
        described = self._document["paths"][template][method.lower()]["responses"][str(status)]
        if "content" in described:
            schema = described["content"]["application/json"]["schema"]
            components = {"components": self._document["components"]}
            found = jsonschema_rs.validator_for({**components, **schema}).iter_errors(answer)
            problems = [f"{it.instance_path}: {it.message}" for it in found]
            assert not problems, (operation, problems)
            assert not list(list_unknown(answer, schema, self._document)), operation
        self._checked.add(f"{method} {template}")
        return answer

    def _find(self, method: str, path: str) -> str:
        fitting = [
            it
            for it, item in self._document["paths"].items()
            if method.lower() in item
            and re.fullmatch(
                re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(it).replace(r"\{ref\}", ".+")), path
            )
        ]
        return min(fitting, key=lambda it: it.count("{"))

    @property
    def checked(self) -> int:
        return len(self._checked)


def list_unknown(value: Any, schema: Any, document: Any) -> Any:
    """Names fields of an answer that a type of the document does not have."""
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for it in value:
            yield from list_unknown(it, schema["items"], document)
    if isinstance(value, dict) and "properties" in schema:
        for name, it in value.items():
            if name not in schema["properties"]:
                yield name
            else:
                yield from list_unknown(it, schema["properties"][name], document)


def test_the_replies_of_the_configuration_are_typed() -> None:
    async def scenario(at: World) -> None:
        document = await at.get("/openapi.json")
        for path, item in document["paths"].items():
            if not path.startswith(("/v1/config", "/v1/capabilities", "/v1/audit-log")):
                continue
            for method, operation in item.items():
                for status, reply in operation["responses"].items():
                    if not status.startswith("2") or "content" not in reply:
                        continue
                    schema = reply["content"]["application/json"]["schema"]
                    is_typed = "$ref" in schema
                    assert is_typed or path in OPEN, (method, path)

    world(scenario)


def test_the_replies_of_the_configuration_are_as_documented() -> None:
    async def scenario(at: World) -> None:
        api = Documented(at, await at.get("/openapi.json"))
        agent = {"model_id": "fast", "system_prompt": "One.\nTwo."}
        await api.do("POST /v1/config/agents", {"id": "a", **agent}, 201)
        await api.do("PUT /v1/config/agents/a", {**agent, "max_rounds": 3})
        await api.do("PATCH /v1/config/agents/helper/overrides", {"system_prompt": "Mine."})
        await api.do("POST /v1/config/agents/helper/overrides", {"max_rounds": 4})
        for path in ("", "/meta", "/a", "/a/meta", "/helper/meta", "/$schema"):
            await api.do(f"GET /v1/config/agents{path}")
        await api.do("POST /v1/config/agents/validate?id=b", {"model_id": "fast"})
        await api.do("POST /v1/config/agents/a/restore", {"version": 1})
        await api.do("DELETE /v1/config/agents/helper/overrides/system_prompt")
        await api.do("GET /v1/config/diagnostics")
        draft = (await api.do("POST /v1/config/drafts", {"title": "try"}, 201))["id"]
        place = f"/v1/config/drafts/{draft}"
        await api.do(f"PUT {place}/agents/a", {"spec": {**agent, "system_prompt": "Three.\nFour."}})
        await api.do(f"PUT {place}/agents/helper", {"overrides": {"max_rounds": 9}})
        await api.do(f"PATCH {place}", {"title": ""})
        for path in ("", "/diff", "/impact"):
            await api.do(f"GET {place}{path}")
        await api.do("GET /v1/config/drafts")
        await api.do(f"POST {place}/validate")
        await api.do(f"POST {place}/preview", status=201)
        await api.do(f"POST {place}/rebase", {})
        await api.do(f"DELETE {place}/agents/helper")
        await api.do(f"POST {place}/publish", {"canary": {"percent": 10}}, 201, if_match="*")
        tried = (await api.do("GET /v1/config/head"))["canary"]["publication"]
        await api.do("POST /v1/config/canary/promote", {"publication": tried})
        await api.do("GET /v1/config/publications?limit=2")
        await api.do("GET /v1/config/publications/2")
        await api.do("GET /v1/config/publications/1..2/diff")
        await api.do("POST /v1/config/rollback", {"publication": 2, "expected_head": tried}, 201)
        await api.do("POST /v1/config/canary", {"publication": 1, "percent": 5})
        await api.do("DELETE /v1/config/canary?publication=1")
        await api.do("PUT /v1/config/switches/tool/look", {"state": "disabled", "reason": "r"})
        await api.do("GET /v1/config/switches")
        await api.do("GET /v1/config/secrets")
        await api.do("GET /v1/config/export")
        files = {"records": {"agents": {"b": {"id": "b", "model_id": "fast"}}}}
        await api.do("POST /v1/config/plan", {"files": files})
        await api.do("POST /v1/config/apply", {"files": files})
        server = {"transport": "stdio", "command": sys.executable}
        await api.do("PUT /v1/config/mcp-servers/tiny", {**server, "args": ["-c", SERVER]})
        await api.do("GET /v1/mcp-servers/tiny/status")
        await api.do("GET /v1/capabilities")
        await api.do("GET /v1/audit-log?limit=3")
        await api.do("GET /v1/audit-log")
        await api.do("GET /v1/audit-log/verify")
        assert api.checked >= 40

    world(scenario)


def test_a_server_shows_which_tools_drifted(tmp_path: Path) -> None:
    program = tmp_path / "server.py"
    program.write_text(SERVER, encoding="utf-8")
    spec = {"transport": "stdio", "command": sys.executable, "args": [str(program)]}

    async def scenario(at: World) -> None:
        await at.do("PUT /v1/config/mcp-servers/tiny", {**spec, "pins": {"echo": "0" * 32}})
        status = await wait_for_connection(at)
        (drift,) = status["drift"]
        assert (drift["tool"], drift["pinned"]) == ("echo", "0" * 32)
        assert status["tools"] == []
        await at.do("PUT /v1/config/mcp-servers/tiny", {**spec, "pins": {"echo": drift["offered"]}})
        status = await wait_for_connection(at)
        assert "drift" not in status
        assert [it["name"] for it in status["tools"]] == ["echo"]

    world(scenario)


async def wait_for_connection(at: World) -> Any:
    plugin = at.runtime.registry.snapshot().registries.plugins["mcp"]
    async with asyncio.timeout(30):
        await plugin.wait_for_state("tiny")
    return await at.get("/v1/mcp-servers/tiny/status")
