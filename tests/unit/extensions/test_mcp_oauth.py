"""Servers that want to know who calls: tokens by credentials or by a login, and all the lies."""

import asyncio
import json
import logging
import queue
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from aiohttp import ClientSession
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from msgspec.structs import replace
from tests.extensions.mcp_servers.authority import CLIENT, SECRET, Authority, away
from tests.extensions.mcp_servers.worlds import BOUND_S, calls, playing, results, status

from awaken.cli import mcp_login
from awaken.cli.serve_targets import load_app_target
from awaken.contracts.errors import AwakenError, InvalidSpec
from awaken.contracts.secrets import RedactedString
from awaken.contracts.tools.tool import ToolError
from awaken.extensions.mcp import (
    ClientCredentials,
    Http,
    Login,
    McpPlugin,
    McpServer,
    Restart,
    ServerState,
)
from awaken.extensions.mcp.http_transport import open_guarded_client

NEVER = Restart(max_attempts=0, cap_ms=1)
CALL = calls("mcp__vault__go")
Change = Callable[[Authority], Any]


def vault(url: str, oauth: Any, **more: Any) -> McpServer:
    http = Http(url=url, oauth=oauth, allow_private=True, **more)
    return McpServer(
        name="vault", transport=http, protocol="legacy", restart=NEVER, connect_ms=2000
    )


def credentials(authority: Authority, **more: Any) -> ClientCredentials:
    fields = {"secret": RedactedString(SECRET), "issuer": authority.url, **more}
    return ClientCredentials(client_id=CLIENT, **fields)


def key() -> RedactedString:
    pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return RedactedString(pem.decode())


async def played(plugin: McpPlugin) -> Any:
    """What a run with one call of the tool gets."""
    async with playing(plugin, CALL, "done") as (runtime, _):
        (result,) = await results(runtime)
        return result


@pytest.mark.parametrize("how", ["secret", "private_key"])
def test_a_client_with_credentials_gets_tokens_for_this_server_and_no_other(how: str) -> None:
    async def scenario() -> None:
        authority = Authority()
        async with authority.serving() as url:
            proof = {"secret": None, "private_key": key(), "algorithm": "ES256"}
            oauth = credentials(authority, **(proof if how == "private_key" else {}))
            result = await played(McpPlugin([vault(url, oauth)]))
        assert result.data == "went"
        (form,) = authority.forms("/token")
        assert (form["grant_type"], form["resource"]) == ("client_credentials", url)
        assert ("client_assertion" in form) is (how == "private_key")
        assert [it for it, _ in authority.asked if it in ("/register", "/authorize")] == []
        # Only the very first request had no token.
        assert [it for it, header in authority.calls if header is None] == ["initialize"]

    asyncio.run(scenario())


def test_a_call_that_needs_another_scope_gets_it_and_keeps_the_first() -> None:
    async def scenario() -> None:
        authority = Authority()
        authority.needed = "write"
        async with authority.serving() as url:
            result = await played(McpPlugin([vault(url, credentials(authority))]))
        assert result.data == "went"
        assert [it["scope"] for it in authority.forms("/token")] == ["use", "use write"]

    asyncio.run(scenario())


def test_a_scope_that_is_never_granted_costs_one_call_and_no_loop() -> None:
    async def scenario() -> None:
        authority = Authority()
        authority.needed = "root"
        authority.granted = "use"
        async with authority.serving() as url:
            plugin = McpPlugin([vault(url, credentials(authority))])
            async with playing(plugin, CALL, "done") as (runtime, _):
                (result,) = await results(runtime)
                assert "root" in result.message
                assert status(plugin, "vault").state is ServerState.CONNECTED
        assert len(authority.forms("/token")) <= 3
        assert len([it for it, _ in authority.calls if it == "tools/call"]) <= 3

    asyncio.run(scenario())


def test_calls_with_a_token_do_not_wait_for_each_other() -> None:
    async def scenario() -> None:
        authority = Authority()
        authority.together = asyncio.Barrier(2)
        async with authority.serving() as url:
            plugin = McpPlugin([vault(url, credentials(authority))])
            turn = calls("mcp__vault__go", "mcp__vault__go")
            async with playing(plugin, turn, "done") as (runtime, _):
                assert [it.data for it in await results(runtime)] == ["went", "went"]

    asyncio.run(scenario())


def test_a_token_that_was_revoked_is_replaced_during_the_call() -> None:
    async def scenario() -> None:
        authority = Authority()
        authority.has_refresh = False
        async with authority.serving() as url:
            plugin = McpPlugin([vault(url, credentials(authority))])
            async with playing(plugin, CALL, "done") as (runtime, _):
                authority.valid.clear()
                (result,) = await results(runtime)
                assert (result.data, status(plugin, "vault").generation) == ("went", 1)
        assert len(authority.forms("/token")) == 2

    asyncio.run(scenario())


def test_credentials_are_sent_to_their_issuer_only() -> None:
    async def scenario() -> None:
        authority = Authority()
        async with authority.serving() as url:
            oauth = credentials(authority, issuer="https://login.example.com")
            plugin = McpPlugin([vault(url, oauth)])
            async with playing(plugin, "done"):
                assert status(plugin, "vault").state is ServerState.FAILED
                assert "issuer" in (status(plugin, "vault").last_error or "")
        assert authority.forms("/token") == []

    asyncio.run(scenario())


def test_a_server_that_needs_a_login_says_so_and_goes_on_after_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        authority = Authority()
        async with authority.serving() as url:
            server = vault(url, Login(file=str(tmp_path / "login.json")))
            plugin = McpPlugin([server])
            async with playing(plugin, CALL, "done") as (runtime, _):
                assert status(plugin, "vault").state is ServerState.LOGIN_REQUIRED
                assert "awaken mcp-login" in (status(plugin, "vault").last_error or "")
                assert authority.calls == authority.asked == []
                await McpPlugin([server]).login("vault", authority.person)
                await plugin.wait_for_state("vault")
                (result,) = await results(runtime)
                assert result.data == "went"
        (asked,), (token,) = authority.forms("/authorize"), authority.forms("/token")
        assert asked["code_challenge_method"] == "S256"
        assert asked["redirect_uri"] == token["redirect_uri"] == Login(file="").redirect
        assert asked["resource"] == token["resource"] == url
        assert (tmp_path / "login.json").stat().st_mode & 0o777 == 0o600
        assert [it.name for it in tmp_path.iterdir()] == ["login.json"]

    asyncio.run(scenario())


async def logged_in(authority: Authority, url: str, folder: Path, **more: Any) -> McpServer:
    server = vault(url, Login(file=str(folder / "login.json"), **more))
    await McpPlugin([server]).login("vault", authority.person)
    return server


def kept(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "login.json").read_text())
    return found


@pytest.mark.parametrize("why", ["expired", "revoked"])
def test_a_login_is_refreshed_where_it_was_given_and_kept(why: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        authority = Authority()
        async with authority.serving() as url:
            server = await logged_in(authority, url, tmp_path)
            before = kept(tmp_path)
            authority.valid.clear()
            if why == "expired":
                (tmp_path / "login.json").write_text(json.dumps({**before, "expires_at": 1}))
            authority.asked.clear()
            result = await played(McpPlugin([server]))
        assert result.data == "went"
        # Neither is anybody asked anew where tokens come from, nor is the server told of them.
        ((path, form),) = authority.asked
        assert (path, form["grant_type"], form["resource"]) == ("/token", "refresh_token", url)
        assert form["refresh_token"] == before["tokens"]["refresh_token"]
        assert kept(tmp_path)["tokens"] != before["tokens"]
        assert kept(tmp_path)["client"] == before["client"]

    asyncio.run(scenario())


def test_a_call_does_not_wait_for_a_token_that_never_comes(tmp_path: Path) -> None:
    async def scenario() -> None:
        authority = Authority()
        async with authority.serving() as url:
            server = replace(await logged_in(authority, url, tmp_path), connect_ms=300)
            plugin = McpPlugin([server])
            async with playing(plugin, CALL, "done") as (runtime, _):
                authority.valid.clear()
                authority.gone.add("/token")
                (result,) = await results(runtime)
                assert result.metadata["code"] == "mcp_server_unavailable"

    asyncio.run(scenario())


def test_calls_whose_token_is_refused_together_get_one_new_token(tmp_path: Path) -> None:
    async def scenario() -> None:
        authority = Authority()
        async with authority.serving() as url:
            plugin = McpPlugin([await logged_in(authority, url, tmp_path)])
            turn = calls(*["mcp__vault__go"] * 4)
            async with playing(plugin, turn, "done") as (runtime, _):
                authority.valid.clear()
                authority.asked.clear()
                authority.late = asyncio.Event()
                assert [it.data for it in await results(runtime)] == ["went"] * 4
        assert len(authority.forms("/token")) == 1

    asyncio.run(scenario())


def test_a_login_that_was_revoked_while_connected_ends_in_a_login_and_no_wait(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        authority = Authority()
        async with authority.serving() as url:
            server = await logged_in(authority, url, tmp_path)
            plugin = McpPlugin([server])
            async with playing(plugin, CALL, "done") as (runtime, _):
                authority.valid.clear()
                authority.refreshes.clear()
                (result,) = await results(runtime)
                assert result.metadata["code"] == "mcp_server_unavailable"
                await plugin.wait_for_state("vault", ServerState.LOGIN_REQUIRED)
                await McpPlugin([server]).login("vault", authority.person)
                await plugin.wait_for_state("vault")
        assert len(authority.forms("/register")) == 1

    asyncio.run(scenario())


def test_a_scope_that_the_login_lacks_fails_the_call_alone_and_is_had_by_a_new_login(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        authority = Authority()
        authority.needed = "write"
        async with authority.serving() as url:
            plugin = McpPlugin([await logged_in(authority, url, tmp_path)])
            async with playing(plugin, CALL, "done") as (runtime, _):
                (result,) = await results(runtime)
                assert "write" in result.message
                assert status(plugin, "vault").state is ServerState.CONNECTED
            assert len(authority.forms("/token")) == 1
            server = await logged_in(authority, url, tmp_path, scopes=("write",))
            assert (await played(McpPlugin([server]))).data == "went"

    asyncio.run(scenario())


def other(**fields: Any) -> Change:
    """One thing of the authorization server's metadata is not as it should be."""
    return lambda it: it.metadata.update(fields)


LIES: dict[str, Change] = {
    "metadata of another issuer": other(issuer="https://login.example.com"),
    "an answer of another issuer": lambda it: it.back.update(iss="https://login.example.com"),
    "an answer to another question": lambda it: it.back.update(state="canary-state"),
    "an answer without a code": lambda it: it.back.update(code=""),
    "a refusal": lambda it: it.back.update(error="access_denied"),
    "no PKCE": other(code_challenge_methods_supported=["plain"]),
    "a page that others can read": other(authorization_endpoint="http://login.example.com/"),
    "a token endpoint that others can read": other(token_endpoint="http://login.example.com/"),
    "a token endpoint inside": other(token_endpoint="https://127.0.0.2/token"),
    "metadata service of a cloud": other(token_endpoint="https://169.254.169.254/token"),
    "the resource of somebody else": lambda it: it.resource.update(resource="https://example.com"),
    "no metadata": lambda it: setattr(it, "is_embedded", True),
    "huge metadata": other(padding="x" * 300_000),
    "metadata that never come": lambda it: it.gone.add("/.well-known/oauth-authorization-server"),
    "a token that never comes": lambda it: it.gone.add("/token"),
    "a token from elsewhere": lambda it: it.instead.update({"/token": away(f"{it.server}/mcp")}),
    "a token that is none": lambda it: it.instead.update(
        {"/token": {"data": {"access_token": 7, "refresh_token": "canary-refresh-0"}}}
    ),
    "a client that is none": lambda it: it.instead.update(
        {"/register": {"data": {"client_secret": "canary-0"}, "status": 201}}
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_login_that_is_lied_to_fails_soon_keeps_nothing_and_tells_nothing(
    lie: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        authority = Authority()
        async with authority.serving() as url:
            LIES[lie](authority)
            http = Http(url=url, oauth=Login(file=str(tmp_path / "l.json")), allow_private=True)
            server = McpServer(name="vault", transport=http, protocol="legacy", connect_ms=300)
            shown = []

            async def person(at: str) -> dict[str, str]:
                shown.append(at)
                return await authority.person(at)

            with pytest.raises(ToolError) as refused:
                async with asyncio.timeout(5):
                    await McpPlugin([server]).login("vault", person)
            assert "canary" not in f"{refused.value!r}"
            assert all(it.startswith(authority.url) for it in shown)
        assert not list(tmp_path.iterdir())
        assert {header for _, header in authority.calls} == {None}

    caplog.set_level(logging.DEBUG)
    asyncio.run(scenario())
    assert "canary" not in caplog.text


def test_no_token_or_secret_is_in_a_log_a_status_an_error_or_a_repr(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        authority = Authority()
        async with authority.serving() as url:
            server = await logged_in(authority, url, tmp_path, secret=RedactedString(SECRET))
            plugin = McpPlugin([server])
            async with playing(plugin, CALL, "done", CALL, "done") as (runtime, _):
                first = await results(runtime)
                told = [first, server, plugin.status()]
                authority.valid.clear()
                authority.refreshes.clear()  # The refusal repeats the token.
                told.append(await results(runtime))
                await plugin.wait_for_state("vault", ServerState.LOGIN_REQUIRED)
                told.append(plugin.status())
        assert "canary" not in repr(told)
        assert "canary" in (tmp_path / "login.json").read_text()

    caplog.set_level(logging.DEBUG)
    asyncio.run(scenario())
    assert "canary" not in caplog.text


@pytest.mark.parametrize("what", ["others can read it", "it is of another server", "it is torn"])
def test_a_login_file_is_used_only_as_it_was_kept(what: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        authority = Authority()
        async with authority.serving() as url:
            server, file = await logged_in(authority, url, tmp_path), tmp_path / "login.json"
            authority.calls.clear()
            match what:
                case "others can read it":
                    file.chmod(0o640)
                case "it is of another server":
                    file.write_text(json.dumps({**kept(tmp_path), "server": "https://a.example"}))
                case _:
                    file.write_text(file.read_text()[:50])
            plugin = McpPlugin([server])
            async with playing(plugin, "done"):
                assert status(plugin, "vault").state is not ServerState.CONNECTED
                assert "login" in (status(plugin, "vault").last_error or "")
        assert authority.calls == []

    asyncio.run(scenario())


def test_tokens_are_not_asked_for_at_private_addresses_unless_they_are_allowed() -> None:
    async def scenario() -> None:
        authority = Authority()
        async with authority.serving():
            oauth = credentials(authority)
            http = Http(url="https://mcp.example.com/mcp", oauth=oauth)
            server = McpServer(name="vault", transport=http)
            async with open_guarded_client(server, http) as client:
                transport: Any = client._transport
                request = httpx2.Request("POST", f"{authority.url}/token", data={"a": "b"})
                with pytest.raises(httpx2.ConnectError, match="InvalidInput"):
                    await transport._send(request, is_aside=True)
                readable = httpx2.Request("POST", "http://login.example.com/token")
                with pytest.raises(httpx2.ConnectError, match="another origin"):
                    await transport._send(readable, is_aside=True)
        assert authority.asked == []

    asyncio.run(scenario())


WRONG = {
    "both": ("https://a.example", {}, {"Authorization": RedactedString("x")}),
    "no https": ("http://a.example", {}, {}),
    "an issuer without https": ("https://a.example", {"issuer": "http://b.example"}, {}),
    "no proof": ("https://a.example", {"secret": None}, {}),
    "two proofs": ("https://a.example", {"private_key": RedactedString("k")}, {}),
    "a redirect elsewhere": ("https://a.example", {"redirect": "https://b.example/"}, {}),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_configuration_that_would_show_a_secret_is_refused(case: str) -> None:
    url, fields, headers = WRONG[case]
    secret = {"secret": RedactedString("s"), "issuer": "https://b.example", **fields}
    made: Any = ClientCredentials(client_id="c", **secret) if "redirect" not in fields else None
    oauth = made or Login(file="f", **fields)
    server = McpServer(name="a", transport=Http(url=url, oauth=oauth, headers=headers))
    with pytest.raises(InvalidSpec):
        McpPlugin([server])


APP = """
from awaken import Agent
from awaken.extensions.mcp import Http, Login, McpPlugin, McpServer, Stdio
from awaken.testing import ScriptedModel

login = Login(file={file!r}, redirect={redirect!r})
vault = McpServer(
    name="vault", transport=Http(url={url!r}, oauth=login, allow_private=True), protocol="legacy"
)
files = McpServer(name="files", transport=Stdio(command="none"))
agent = Agent("a", model=ScriptedModel([]), plugins=[McpPlugin([vault, files])])
"""


def test_an_operator_logs_in_with_a_command_and_no_other_redirect_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        authority, file = Authority(), tmp_path / "login.json"
        with socket.create_server(("127.0.0.1", 0)) as free:
            redirect = f"http://127.0.0.1:{free.getsockname()[1]}/back"
        said: queue.Queue[str] = queue.Queue()
        monkeypatch.setattr(mcp_login, "print_stdout", said.put)
        async with authority.serving() as url, ClientSession() as browser:
            app = tmp_path / "app.py"
            app.write_text(APP.format(file=str(file), redirect=redirect, url=url))
            command = asyncio.create_task(
                asyncio.to_thread(mcp_login.mcp_login, str(app), "vault", BOUND_S)
            )
            shown = await asyncio.to_thread(said.get, timeout=BOUND_S)
            async with browser.get(f"{redirect}?code=forged&state=forged") as reply:
                assert reply.status == 400
            async with browser.get(shown.split()[-1]) as reply:
                assert reply.status == 200
            await asyncio.wait_for(command, BOUND_S)
            assert said.get_nowait() == "Logged in to MCP server 'vault'."
            assert "canary" not in shown
            server = vault(url, Login(file=str(file), redirect=redirect))
            assert (await played(McpPlugin([server]))).data == "went"

    asyncio.run(scenario())


def test_the_command_refuses_what_it_cannot_log_in_to_and_does_not_wait_for_ever(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        authority = Authority()
        async with authority.serving() as url:
            app = tmp_path / "app.py"
            fields = {"file": str(tmp_path / "l"), "redirect": "http://127.0.0.1:38081/"}
            app.write_text(APP.format(url=url, **fields))
            runtime = load_app_target(str(app), None).runtime
            with pytest.raises(AwakenError, match="known servers: vault, files"):
                mcp_login._plugin_of(runtime, "nobody")
            plugin = mcp_login._plugin_of(runtime, "vault")
            with pytest.raises(InvalidSpec, match="it has no login"):
                await mcp_login._login(plugin, "files", 1)
            async with asyncio.timeout(5):
                with pytest.raises(AwakenError, match="there was no login within 0"):
                    await mcp_login._login(plugin, "vault", 0)

    asyncio.run(scenario())
