"""Servers over HTTP: both eras, whom credentials go to, and addresses that are refused."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from aiohttp import ThreadedResolver
from tests.extensions.mcp_servers.desk import Desk
from tests.extensions.mcp_servers.worlds import BOUND_S, calls, playing, results, status
from tests.sqlite_dump import dump_sqlite

from awaken.contracts.secrets import RedactedString
from awaken.extensions.mcp import Http, McpPlugin, McpServer, Restart, ServerState

TOKEN = "Bearer canary-73"
NEVER = Restart(max_attempts=0)


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    """An ASGI application on a port of the loopback."""
    config = uvicorn.Config(app, port=0, log_level="error", ws="none", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await asyncio.wait_for(task, BOUND_S)


class Watched:
    """An application that notes the headers of every request."""

    def __init__(self, app: Any) -> None:
        self.app, self.seen = app, []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            self.seen.append(dict(scope["headers"]))
        await self.app(scope, receive, send)


async def redirecting(scope: Any, _receive: Any, send: Any) -> None:
    """Sends everybody elsewhere."""
    if scope["type"] == "http":
        where = scope["app_target"].encode() if "app_target" in scope else b"http://localhost:9/mcp"
        headers = [(b"location", where)]
        await send({"type": "http.response.start", "status": 307, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def remote(url: str, **more: Any) -> McpServer:
    http = Http(url=url, headers={"authorization": RedactedString(TOKEN)}, allow_private=True)
    fields = {"transport": http, "restart": NEVER, **more}
    return McpServer(name="desk", **fields)


@pytest.mark.parametrize(("era", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
def test_a_server_is_called_with_its_credentials_in_both_eras(
    era: Any, version: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        path, turn = tmp_path / "a.db", calls("mcp__desk__say", text="hi")
        watched = Watched(Desk().server.streamable_http_app())
        async with serving(watched) as url:
            plugin = McpPlugin([remote(f"{url}/mcp", protocol=era)])
            async with playing(plugin, turn, "done", store=f"sqlite:///{path}") as (runtime, _):
                assert status(plugin).protocol_version == version
                (result,) = await results(runtime)
                assert result.data == "say: hi"
        assert b"say: hi" in dump_sqlite(path)
        assert TOKEN.encode() not in dump_sqlite(path)
        assert {it.get(b"authorization") for it in watched.seen} == {TOKEN.encode()}

    asyncio.run(scenario())


def test_a_redirect_to_another_origin_is_not_followed() -> None:
    async def scenario() -> None:
        target = Watched(Desk().server.streamable_http_app())
        async with serving(target) as other:

            async def app(scope: Any, receive: Any, send: Any) -> None:
                await redirecting({**scope, "app_target": f"{other}/mcp"}, receive, send)

            async with serving(app) as url:
                plugin = McpPlugin([remote(f"{url}/mcp")])
                async with playing(plugin, "done"):
                    assert status(plugin).state is ServerState.FAILED
        assert target.seen == []

    asyncio.run(scenario())


def test_a_private_address_is_refused_unless_it_is_allowed() -> None:
    async def scenario() -> None:
        watched = Watched(Desk().server.streamable_http_app())
        async with serving(watched) as url:
            plugin = McpPlugin([McpServer(name="desk", transport=Http(url=f"{url}/mcp"))])
            async with playing(plugin, "done"):
                # It is not tried again: the address stays what it is.
                assert (status(plugin).state, status(plugin).attempts) == (ServerState.FAILED, 1)
                told = status(plugin).last_error or ""
                assert "its address is not public; if" in told
                assert "allow_private=True" in told
        assert watched.seen == []

    asyncio.run(scenario())


def test_a_name_that_turns_out_to_be_private_names_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def private(_self: Any, host: str, port: int = 0, family: Any = 0) -> Any:
        known = {"hostname": host, "port": port, "family": family, "proto": 0, "flags": 0}
        return [{"host": "10.0.0.1", **known}]

    async def scenario() -> None:
        monkeypatch.setattr(ThreadedResolver, "resolve", private)
        http = Http(url="https://desk.example/mcp")
        plugin = McpPlugin([McpServer(name="desk", transport=http, restart=NEVER)])
        async with playing(plugin, "done"):
            assert "allow_private=True" in (status(plugin).last_error or "")

    asyncio.run(scenario())


def test_a_question_over_http_is_told_to_the_call_that_it_came_with() -> None:
    async def scenario() -> None:
        desk = Desk()
        async with serving(desk.server.streamable_http_app()) as url:
            plugin = McpPlugin([remote(f"{url}/mcp", protocol="legacy")])
            turn = calls("mcp__desk__book", "mcp__desk__visit")
            async with playing(plugin, turn, "done") as (runtime, _):
                waiting = await runtime.run("a", "go", thread_id="t")
                tickets = {it.tool_name: it for it in await runtime.tickets("t")}
                book, visit = tickets["mcp__desk__book"], tickets["mcp__desk__visit"]
                assert "How many" in book.suspension.message
                assert "Log in" in visit.suspension.message
                # Together, so that both calls go on side by side.
                seats = {"result": {"seats": 4}}
                await runtime.decide_all({visit.ticket_id: {}, book.ticket_id: seats})
                ended = await runtime.wait(waiting.run_id, timeout_ms=BOUND_S * 1000)
                assert ended.text == "done"
                messages = [it.message for it in await runtime.messages("t")]
                told = [it.text for it in messages if it.tool_call_id]
                assert told == ["accept {'seats': 4}", "visited accept"]
        assert "booked accept" in desk.done

    asyncio.run(scenario())
