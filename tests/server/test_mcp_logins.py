"""Logins to MCP servers from the console: begun and completed by one caller, in one browser."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.extensions.mcp_servers.authority import Authority

from awaken import Access
from awaken.bootstrap import mcp_logins
from awaken.contracts.config.audit import AuditAction
from awaken.extensions.mcp import ServerState

from .in_process import EVERYTHING, config, token
from .managed_world import World, make_runtime

LOGIN = "POST /v1/mcp-servers/vault/login"
REPLY = f"{LOGIN}/reply"
ORIGIN = "http://127.0.0.1"


@asynccontextmanager
async def vault(folder: Path) -> AsyncIterator[tuple[World, Authority]]:
    """A server whose configuration names an MCP server that wants a login."""
    authority = Authority()
    async with asyncio.timeout(60), authority.serving() as url, make_runtime() as runtime:
        editor = token("editor", frozenset({Access.CONFIG, Access.READ, Access.OPERATE}))
        tenant = token("tenant", EVERYTHING, tenant_id="ours")
        app = runtime.asgi(config(token("boss"), token("other"), editor, tenant))
        await app.open()
        at = World(runtime, app)
        oauth = {"type": "login", "file": str(folder / "login.json")}
        spec = {
            "transport": "http",
            "url": url,
            "allow_private": True,
            "oauth": oauth,
            "protocol": "legacy",
        }
        await at.do("PUT /v1/config/mcp-servers/vault", spec)
        try:
            yield at, authority
        finally:
            await app.close()


async def wait_for(at: World, state: ServerState) -> None:
    while (await at.get("/v1/mcp-servers/vault/status"))["state"] != state:
        await asyncio.sleep(0.01)


def test_a_caller_logs_in_from_the_console_and_the_server_is_connected(tmp_path: Path) -> None:
    async def main() -> None:
        async with vault(tmp_path) as (at, authority):
            await wait_for(at, ServerState.LOGIN_REQUIRED)
            address = (await at.do(LOGIN, origin=ORIGIN))["address"]
            asked = {name: it for name, (it,) in parse_qs(urlsplit(address).query).items()}
            assert address.startswith(f"{authority.url}/authorize?")
            assert asked["redirect_uri"] == "http://127.0.0.1/console/mcp-login"
            assert asked["code_challenge_method"] == "S256"
            assert not (tmp_path / "login.json").exists()
            reply = await authority.person(address)
            assert await at.do(REPLY, reply, 204) is None
            await wait_for(at, ServerState.CONNECTED)
            kept = json.loads((tmp_path / "login.json").read_text())
            assert kept["client"]["redirect_uris"] == ["http://127.0.0.1/console/mcp-login"]
            audit = await at.get("/v1/audit-log?limit=5")
            found = [it for it in audit["items"] if it["action"] == AuditAction.LOGIN]
            assert [(it["resource"], it["actor"]) for it in found] == [
                ("mcp-servers/vault", "boss")
            ]
            assert "canary" not in json.dumps(audit)
            # A reply works once.
            assert (await at.ask(REPLY, reply)).status == 400

    asyncio.run(main())


def test_a_login_from_the_console_is_refreshed_by_a_process_with_another_redirect(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with vault(tmp_path) as (at, authority):
            address = (await at.do(LOGIN, origin=ORIGIN))["address"]
            await at.do(REPLY, await authority.person(address), 204)
            await wait_for(at, ServerState.CONNECTED)
            authority.valid.clear()
            authority.asked.clear()
            await at.do("POST /v1/mcp-servers/vault/restart", status=202)
            await wait_for(at, ServerState.CONNECTED)
            assert [form["grant_type"] for form in authority.forms("/token")] == ["refresh_token"]

    asyncio.run(main())


def test_a_login_is_completed_only_by_its_caller_and_only_with_its_state(tmp_path: Path) -> None:
    async def main() -> None:
        async with vault(tmp_path) as (at, authority):
            address = (await at.do(LOGIN, origin=ORIGIN))["address"]
            reply = await authority.person(address)
            for body, who in ((reply, "other"), ({**reply, "state": "x"}, "boss")):
                answer = await at.ask(REPLY, body, who)
                assert (answer.status, answer.json["code"]) == (400, "invalid_input")
            assert authority.forms("/token") == []
            # Another attempt takes the place of the first: its reply is worth nothing.
            again = (await at.do(LOGIN, who="other", origin=ORIGIN))["address"]
            assert (await at.ask(REPLY, reply)).status == 400
            assert (await at.ask(REPLY, await authority.person(again))).status == 400
            await at.do(REPLY, await authority.person(again), 204, who="other")
            await wait_for(at, ServerState.CONNECTED)

    asyncio.run(main())


def test_the_redirect_leads_to_the_own_console_and_nowhere_else(tmp_path: Path) -> None:
    async def main() -> None:
        async with vault(tmp_path) as (at, authority):
            for origin in (None, "http://elsewhere.example", "null", "http://127.0.0.1:1"):
                given = {} if origin is None else {"origin": origin}
                assert (await at.ask(LOGIN, **given)).status in (400, 403), origin
            # Not over plain http on another machine.
            answer = await at.ask(LOGIN, origin="http://agents.example", host="agents.example")
            assert answer.status in (400, 403)
            assert authority.forms("/authorize") == authority.forms("/register") == []

    asyncio.run(main())


@pytest.mark.parametrize("who", ["editor", "tenant"])
def test_a_login_needs_the_scope_of_secrets(who: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with vault(tmp_path) as (at, _):
            for operation, body in ((LOGIN, None), (REPLY, {"state": "x"})):
                assert (await at.ask(operation, body, who, origin=ORIGIN)).status == 403

    asyncio.run(main())


def test_a_login_that_fails_says_why_without_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_logins, "ADDRESS_S", 0.3)

    async def main() -> None:
        async with vault(tmp_path) as (at, authority):
            address = (await at.do(LOGIN, origin=ORIGIN))["address"]
            (state,) = parse_qs(urlsplit(address).query)["state"]
            answer = await at.ask(REPLY, {"state": state, "error": "access_denied"})
            assert (answer.status, answer.json["code"]) == (502, "login_failed")
            assert "access_denied" in answer.json["error"]
            authority.gone.add("/.well-known/oauth-authorization-server")
            answer = await at.ask(LOGIN, origin=ORIGIN)
            assert (answer.status, answer.json["code"]) == (400, "invalid_input")
            assert "named no page" in answer.json["error"]
            assert (await at.ask(LOGIN.replace("vault", "none"), origin=ORIGIN)).status == 404
            assert not (tmp_path / "login.json").exists()

    asyncio.run(main())


def test_a_login_that_waits_ends_with_the_server(tmp_path: Path) -> None:
    async def main() -> None:
        async with vault(tmp_path) as (at, _):
            await at.do(LOGIN, origin=ORIGIN)
        assert [it for it in asyncio.all_tasks() if it.get_name().startswith("mcp-login")] == []

    asyncio.run(main())
