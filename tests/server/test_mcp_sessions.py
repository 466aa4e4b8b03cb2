"""Sessions of MCP clients: whose they are, how many, how long, and what is left of them."""

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from awaken import Access, AgentRuntime, RedactedString
from awaken.bootstrap import server_app as bootstrap
from awaken.protocols.mcp.callers import Link
from awaken.protocols.mcp.protocol import McpEndpoint, McpSettings, mcp_protocol
from awaken.server import ServerConfig, TokenSpec
from awaken.transport.routes import WireProtocol

from .mcp_world import LEGACY, MODERN, RawClient, answering, connected
from .serving import serving

ALL = frozenset({Access.INVOKE, Access.DECIDE, Access.READ})


@asynccontextmanager
async def serving_mcp(
    monkeypatch: pytest.MonkeyPatch, config: ServerConfig | None = None, **settings: int
) -> AsyncIterator[tuple[str, McpEndpoint]]:
    """A server with other limits; yields the URL and the door, to look inside."""
    made: list[WireProtocol] = []

    def protocol() -> WireProtocol:
        made.append(mcp_protocol(McpSettings(**settings)))
        return made[0]

    monkeypatch.setattr(bootstrap, "mcp_protocol", protocol)
    async with serving(AgentRuntime([answering("Hi.")]), config) as url:
        door: Any = made[0].routes[0].handle
        yield url, door.__self__


def test_a_session_has_a_long_random_id_and_ends_with_delete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        async with (
            serving_mcp(monkeypatch) as (url, door),
            RawClient(url, LEGACY) as one,
            RawClient(url, LEGACY) as two,
        ):
            ids = [it.headers["mcp-session-id"] for it in (one, two)]
            assert all(re.fullmatch(r"[\w-]{43}", it) for it in ids)
            assert len(set(ids)) == len(door.host.sessions) == 2
            assert await one.bare("DELETE") == 200
            assert len(door.host.sessions) == 1
            assert (await one.post("ping", {}))[0] == 404
            assert (await two.post("ping", {}))[0] == 200

    asyncio.run(scenario())


def test_a_session_of_somebody_else_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        tokens = (
            TokenSpec(id="ann", token=RedactedString("a"), access=ALL, tenant_id="t"),
            TokenSpec(id="bob", token=RedactedString("b"), access=ALL, tenant_id="t"),
            TokenSpec(id="reader", token=RedactedString("r"), access=frozenset({Access.READ})),
        )
        async with (
            serving_mcp(monkeypatch, ServerConfig(tokens=tokens)) as (url, door),
            RawClient(url, LEGACY, authorization="Bearer a") as ann,
        ):
            for token, status in (("b", 404), ("r", 403), ("x", 401), ("a", 200)):
                named = {"authorization": f"Bearer {token}"}
                assert (await ann.post("tools/list", {}, **named))[0] == status
            for method in ("DELETE", "GET"):
                assert await ann.bare(method, authorization="Bearer b") == 404
            assert len(door.host.sessions) == 1

    asyncio.run(scenario())


def test_so_many_sessions_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with (
            serving_mcp(monkeypatch, max_sessions=1) as (url, _),
            RawClient(url, LEGACY) as one,
            RawClient(url, MODERN) as other,
        ):
            fresh = RawClient(url, LEGACY)
            status, headers, answer = await fresh.hello()
            assert (status, headers["retry-after"]) == (503, "5")
            assert answer["error"]["message"] == "Too many sessions are open."
            # Nobody else is harmed, and there is room again when one ends.
            assert (await one.post("ping", {}))[0] == 200
            assert (await other.post("tools/list", {}))[0] == 200
            await one.bare("DELETE")
            assert (await fresh.hello())[0] == 200
            await fresh.http.close()

    asyncio.run(scenario())


def test_nobody_takes_the_sessions_of_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        tokens = tuple(TokenSpec(id=it, token=RedactedString(it), access=ALL) for it in "ab")
        async with (
            serving_mcp(monkeypatch, ServerConfig(tokens=tokens), max_sessions_each=1) as (url, _),
            RawClient(url, LEGACY, authorization="Bearer a"),
            RawClient(url, LEGACY, authorization="Bearer b"),
        ):
            greedy = RawClient(url, LEGACY, authorization="Bearer a")
            assert (await greedy.hello())[0] == 503
            await greedy.http.close()

    asyncio.run(scenario())


def test_a_link_remembers_only_so_many_calls_that_were_cut_off() -> None:
    link = Link()
    for number in range(5000):
        latest = link.open_call(str(number))
    assert len(link.calls) == 1000
    assert link.calls["4999"] is latest


def test_many_that_say_hello_at_once_do_not_get_past_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        async with serving_mcp(monkeypatch, max_sessions=3) as (url, door):
            clients = [RawClient(url, LEGACY) for _ in range(12)]
            replies = await asyncio.gather(*(client.hello() for client in clients))
            assert sorted(reply[0] for reply in replies) == [200] * 3 + [503] * 9
            assert len(door.host.sessions) == 3
            await asyncio.gather(*(client.http.close() for client in clients))

    asyncio.run(scenario())


def test_a_session_that_nobody_uses_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with (
            serving_mcp(monkeypatch, idle_ms=50) as (url, door),
            asyncio.timeout(30),
            RawClient(url, LEGACY) as client,
        ):
            assert "mcp-session-id" in client.headers
            # It may be over already where everything is slow.
            for session in list(door.host.sessions.values()):
                await session.task
            assert len(door.host.sessions) == 0
            assert (await client.post("ping", {}))[0] == 404

    asyncio.run(scenario())


def test_who_does_not_say_hello_properly_leaves_no_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        listing = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
        async with serving_mcp(monkeypatch) as (url, door):
            client = RawClient(url, LEGACY, **{"content-type": "application/json"})
            for body in (b"", b"{", b"[]", b"null", listing):
                assert await client.bare("POST", body) == 400
                assert len(door.host.sessions) == 0
            await client.http.close()

    asyncio.run(scenario())


def test_a_stream_cannot_be_replayed_but_can_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with serving_mcp(monkeypatch) as (url, _), RawClient(url, LEGACY) as client:
            headers = {**client.headers, "last-event-id": "7"}
            async with client.http.get(f"{url}/v1/mcp", headers=headers) as reply:
                assert (reply.status, reply.content_type) == (200, "text/event-stream")

    asyncio.run(scenario())


def test_only_pages_of_this_machine_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    near = ("http://localhost:3000", "http://127.0.0.1:1", "http://[::1]:9")
    far = (
        "https://evil.example",
        "http://localhost.evil.example",
        "http://127.0.0.1.evil.example",
        "null",
        "http://[",
        "",
    )

    async def scenario() -> None:
        async with serving_mcp(monkeypatch) as (url, _), RawClient(url, MODERN) as client:
            for origin in (*near, *far):
                status, _, _ = await client.post("tools/list", {}, origin=origin)
                assert (origin, status) == (origin, 200 if origin in near else 403)

    asyncio.run(scenario())


def test_many_clients_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with serving_mcp(monkeypatch) as (url, door):
            async with connected(url, LEGACY) as client:
                await client.list_tools()
            before = asyncio.all_tasks()
            slots = asyncio.Semaphore(20)

            async def visit(number: int) -> None:
                async with slots, connected(url, LEGACY if number % 2 else MODERN) as client:
                    await client.list_tools()

            await asyncio.gather(*(visit(number) for number in range(60)))
            assert len(door.host.sessions) == 0
            # What is left of the connections themselves goes by itself.
            left = asyncio.all_tasks() - before
            if left:
                _, stuck = await asyncio.wait(left, timeout=10)
                assert not stuck

    asyncio.run(scenario())


def test_without_the_extra_the_route_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        monkeypatch.setitem(sys.modules, "awaken.protocols.mcp.http", None)
        async with serving_mcp(monkeypatch) as (url, _), RawClient(url, MODERN) as client:
            status, _, answer = await client.post("tools/list", {})
        assert (status, "pip install 'awaken[mcp]'" in answer["error"]["message"]) == (501, True)

    asyncio.run(scenario())


def test_nothing_of_the_sdk_is_loaded_before_the_first_request() -> None:
    code = "import sys, awaken, awaken.bootstrap.server_app; print('mcp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=50, check=True)
    assert done.stdout == b"False\n"
