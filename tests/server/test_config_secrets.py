"""A canary in every secret field of every kind, looked for everywhere the server writes."""

import asyncio
import base64
import json
import logging
import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.sqlite_dump import dump_sqlite

from awaken.bootstrap.config_kinds import config_kinds
from awaken.protocols.config.routes import config_protocol
from awaken.stores import SqliteStore

from .in_process import Answer, Request, bearer
from .managed_world import World, world

CANARY = "canary-"
"""How each secret begins: not even the first letters of one may be shown."""
HIDDEN = (CANARY.encode(), base64.b64encode(CANARY.encode() + b"##")[:9])
MARK = "a text that is no secret"
RECEIVED: list[bytes] = []
"""The heads of the requests that the peer got."""
numbers = count(1)


def canary() -> str:
    return f"{CANARY}{next(numbers):04}-of-a-secret"


def bodies(peer: str) -> dict[str, dict[str, Any]]:
    """A record for each secret field, by its place, with new canaries."""
    bearer_auth = {"type": "bearer", "token": canary()}
    web = {"transport": "http", "url": f"{peer}/mcp", "allow_private": True}
    oauth = {"type": "client_credentials", "client_id": "us", "issuer": peer}
    return {
        "providers/p": {
            "adapter": "openai_chat",
            "base_url": f"{peer}/v1",
            "api_key": canary(),
        },
        "models/m": {"provider_id": "p", "upstream_model": "m"},
        "mcp-servers/program": {
            "transport": "stdio",
            "command": "/nonexistent/server",
            "env": {"TOKEN": canary()},
        },
        "mcp-servers/web": {**web, "headers": {"X-Key": canary()}},
        "mcp-servers/issued": {**web, "oauth": {**oauth, "secret": canary()}},
        "mcp-servers/signed": {**web, "oauth": {**oauth, "private_key": canary()}},
        "a2a-servers/far": {"base_url": peer, "timeout_ms": 200, "auth": dict(bearer_auth)},
        "agents/caller": {"model_id": "m", "system_prompt": MARK, "allowed_tools": []},
        "agents/remote": {
            "model_id": "m",
            "endpoint": {
                "base_url": peer,
                "timeout_ms": 2_000,
                "auth": {**bearer_auth, "token": canary()},
            },
        },
        "agents/older": {
            "model_id": "m",
            "endpoint": {"base_url": peer, "bearer_token": canary()},
        },
        "agents/program": {
            "model_id": "m",
            "endpoint": {
                "backend": "acp",
                "base_url": "stdio:",
                "options": {"command": ["/none"], "cwd": "/", "env": {"TOKEN": canary()}},
            },
        },
    }


async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Refuse a request as a careless peer does: the answer repeats the headers."""
    head = await reader.readuntil(b"\r\n\r\n")
    body = json.dumps({"error": {"message": f"Not allowed: {head.decode()}"}}).encode()
    RECEIVED.append(head)
    lines = f"HTTP/1.1 401 No\r\nContent-Length: {len(body)}\r\nConnection: close"
    writer.write(f"{lines}\r\nContent-Type: application/json\r\n\r\n".encode() + body)
    await writer.drain()
    writer.close()


class Watch:
    """Everything that was answered, by what was asked."""

    def __init__(self, at: World, peer: str) -> None:
        self.at, self.peer = at, peer
        self.told: dict[str, bytes] = {}
        self.statuses: dict[str, int] = {}

    async def ask(self, operation: str, body: Any = None, **headers: str) -> Answer:
        answer = await self.at.ask(operation, body, **headers)
        shown = answer.body + json.dumps(answer.headers).encode()
        self.told[operation] = self.told.get(operation, b"") + shown
        self.statuses[operation] = answer.status
        assert answer.status < 500, (operation, answer.body)
        return answer

    async def do(self, operation: str, body: Any = None, **headers: str) -> Any:
        answer = await self.ask(operation, body, **headers)
        assert answer.status < 300, (operation, answer.status, answer.body)
        return answer.json if answer.body else None

    def hits(self) -> list[str]:
        return [name for name, text in self.told.items() if is_leak(text)]


def is_leak(text: bytes) -> bool:
    return any(it in text for it in HIDDEN)


async def write(watch: Watch) -> str:
    """Write secrets in every way there is; returns a draft that has some."""
    for _ in range(2):
        for place, body in bodies(watch.peer).items():
            await watch.do(f"PUT /v1/config/{place}", body)
    draft = (await watch.do("POST /v1/config/drafts", {"title": "secrets"}))["id"]
    for place, body in bodies(watch.peer).items():
        namespace, record_id = place.split("/")
        await watch.do(f"PUT /v1/config/{place}?dry_run=true", body)
        await watch.do(f"POST /v1/config/{namespace}/validate?id={record_id}", body)
        await watch.do(f"PUT /v1/config/drafts/{draft}/{place}", {"spec": body})
    await write_headers(watch)
    for way in ("validate", "rebase", "preview"):
        await watch.do(f"POST /v1/config/drafts/{draft}/{way}", {} if way == "rebase" else None)
    await watch.do("PUT /v1/config/secrets/providers/p/api_key", {"value": canary()})
    return str(draft)


async def write_headers(watch: Watch) -> None:
    """Write headers of a provider, which no adapter takes: they are kept in a draft only."""
    headers = {"adapter_options": {"headers": {"X-Key": canary()}}}
    body = {"adapter": "openai_chat", "base_url": f"{watch.peer}/v1", **headers}
    answer = await watch.ask("PUT /v1/config/providers/headed", body)
    assert answer.status == 400, answer.body
    draft = (await watch.do("POST /v1/config/drafts", {"title": "headers"}))["id"]
    await watch.ask(f"PUT /v1/config/drafts/{draft}/providers/headed", {"spec": body})
    for way in ("", "/diff", "/impact"):
        await watch.ask(f"GET /v1/config/drafts/{draft}{way}")
    for way in ("validate", "preview", "publish"):
        given = {} if way == "publish" else None
        await watch.ask(f"POST /v1/config/drafts/{draft}/{way}", given)


async def write_badly(watch: Watch) -> None:
    """Send secrets in requests that are refused."""
    for place, body in bodies(watch.peer).items():
        namespace, record_id = place.split("/")
        files = {"origin": "conf", "records": {namespace: {record_id: body}}}
        await watch.ask(f"PUT /v1/config/{place}", {**body, "surprise": 1})
        await watch.ask("POST /v1/config/plan", {"files": files})
    for odd in ([canary()], {"$secret": canary()}, {"$secret": "env:X", "more": canary()}):
        answer = await watch.ask(
            "PUT /v1/config/providers/p", {"adapter": "openai", "api_key": odd}
        )
        assert answer.status == 400, answer.body
    for value in ([canary()], {"a": canary()}):
        answer = await watch.ask("PUT /v1/config/secrets/providers/p/api_key", {"value": value})
        assert answer.status == 422, answer.body
    assert (await watch.ask("PUT /v1/config/secrets/BAD", {"value": canary()})).status >= 400


async def use(watch: Watch) -> None:
    """Use the secrets: every call is refused."""
    await watch.ask("POST /v1/providers/p/test?call=true")
    for agent_id in ("caller", "remote"):
        message = {"role": "user", "content": "go"}
        body = {"agent_id": agent_id, "thread_id": agent_id, "messages": [message]}
        request = Request(watch.at.app, "POST", "/v1/runs", headers=bearer("boss"), body=body)
        await asyncio.wait_for(request.task, 20)
        watch.told[f"the run of {agent_id}"] = request.answer.body


def read_paths(at: World, peer: str, draft: str, last: int) -> Iterator[str]:
    """The path of every GET route of the configuration, for every record that has a secret."""
    for route in config_protocol(at.runtime.managed).routes:
        if route.method != "GET":
            continue
        for place in bodies(peer):
            namespace, record_id = place.split("/")
            names = {
                "namespace": namespace, "record_id": record_id, "draft_id": draft,
                "no": str(last), "range": f"1..{last}", "ref:path": "providers/p/api_key",
                "server_id": "web", "registry_id": "far",
            }  # fmt: skip
            yield re.sub(r"\{([^}]+)\}", lambda it, names=names: names[it[1]], route.path)
    yield from ("/v1/config/export?publication=1", "/v1/audit-log?limit=1000", "/v1/agents")
    yield from ("/v1/agents/remote", "/v1/runs", "/metrics", "/health")
    yield from (f"/v1/threads/{it}/messages" for it in ("caller", "remote"))


def test_a_secret_is_shown_by_no_reply_no_log_and_no_table(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    path = tmp_path / "store.db"

    async def scenario(at: World) -> None:
        async with await asyncio.start_server(refuse, "127.0.0.1") as server:
            port = server.sockets[0].getsockname()[1]
            await look(at, f"http://127.0.0.1:{port}")

    async def look(at: World, peer: str) -> None:
        watch = Watch(at, peer)
        activity = Request(at.app, "GET", "/v1/activity/stream", headers=bearer("boss"))
        await activity.begun()
        draft = await write(watch)
        await write_badly(watch)
        await use(watch)
        head = await watch.do("GET /v1/config/head")
        for operation in dict.fromkeys(read_paths(at, peer, draft, head["publication"])):
            await watch.ask(f"GET {operation}")
        stored = [it["ref"] for it in (await at.get("/v1/config/secrets"))["items"]]
        await watch.do(f"POST /v1/config/drafts/{draft}/publish", {}, if_match="*")
        live = (await at.get("/v1/config/head"))["publication"]
        await watch.do("POST /v1/config/rollback", {"publication": 1, "expected_head": live})
        await watch.ask("GET /v1/audit-log?limit=1000")
        watch.told["activity"] = (await activity.leave()).body
        watch.told["logs"] = caplog.text.encode()
        watch.told["tables"] = dump_sqlite(path)
        check_coverage(watch, stored)
        assert watch.hits() == []

    world(scenario, store=SqliteStore(path))


def check_coverage(watch: Watch, stored: list[str]) -> None:
    """Every secret field of every kind was written, and the search finds what is no secret."""
    for name, kind in config_kinds().items():
        for field in kind.secrets:
            shape = re.escape(f"{name}/ID/{field}").replace("ID", "[^/]+").replace(r"\*", "[^/]+")
            shape = re.sub(r"\\?!type", "(?!type)[^/]+", shape)
            assert any(re.fullmatch(f"(store:)?{shape}(/[^/]+)?", it) for it in stored), (
                shape,
                stored,
            )
    assert any(is_leak(it) for it in RECEIVED), "the secrets were used"
    read = [name for name in watch.told if name.startswith("GET ")]
    missing = [it for it in read if watch.statuses[it] != 200]
    print(f"{len(watch.told)} replies, {len(read)} reads, not found: {missing}")
    for name in ("tables", "GET /v1/config/export", "GET /v1/config/agents/caller"):
        assert MARK.encode() in watch.told[name], name
