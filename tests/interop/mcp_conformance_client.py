"""The client that the MCP conformance suite judges: an agent whose model calls every tool it has.

Questions are answered with what their forms propose. Whoever has to log in does, with a browser
that follows every redirect; scopes that are missing are asked for by another login.
"""

import asyncio
import json
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import ClientSession
from msgspec.structs import replace
from yarl import URL

from awaken import Agent, AgentRuntime, RedactedString, RunResult
from awaken.extensions.mcp import (
    ClientCredentials,
    Http,
    Login,
    McpPlugin,
    McpServer,
    Restart,
    ServerState,
)
from awaken.models import InferenceRequest
from awaken.testing import ScriptedModel, ToolCalls

PREFIX = "mcp__suite__"
MODERN = "2026-07-28"
METADATA = "https://conformance-test.local/client-metadata.json"
WAITING = (ServerState.CONNECTING, ServerState.RECONNECTING)
LOGINS = 3


async def play(url: str, scenario: str, version: str, context: dict[str, Any]) -> None:
    """Play one scenario; raises when the client cannot go on."""
    with tempfile.TemporaryDirectory() as folder:
        server = suite(url, version)
        if not scenario.startswith("auth/"):
            await called(server, context)
        elif "client-credentials" in scenario:
            await called(with_oauth(server, await client_of(url, context)), context)
        else:
            await logged_in(server, login_of(Path(folder), context), context)


def suite(url: str, version: str) -> McpServer:
    """The suite's server, in the era that the scenario is about."""
    return McpServer(
        name="suite",
        transport=Http(url=url, allow_private=True),
        protocol="auto" if version in ("", MODERN) else "legacy",
        sampling=True,
        restart=Restart(max_attempts=0),
    )


def with_oauth(server: McpServer, oauth: Any) -> McpServer:
    return replace(server, transport=replace(server.transport, oauth=oauth))


async def client_of(url: str, context: dict[str, Any]) -> ClientCredentials:
    """What an operator configures, who knows where the client is registered."""
    place = URL(url).with_path("/.well-known/oauth-protected-resource" + URL(url).path)
    async with ClientSession() as http, http.get(place) as reply:
        (issuer,) = (await reply.json())["authorization_servers"]
    secret, key = context.get("client_secret"), context.get("private_key_pem")
    return ClientCredentials(
        client_id=context["client_id"],
        issuer=issuer,
        secret=secret and RedactedString(secret),
        private_key=key and RedactedString(key),
        algorithm=context.get("signing_algorithm", "RS256"),
    )


def login_of(folder: Path, context: dict[str, Any]) -> Login:
    secret = context.get("client_secret")
    return Login(
        file=str(folder / "login.json"),
        client_id=context.get("client_id"),
        issuer=context.get("issuer"),
        secret=secret and RedactedString(secret),
        client_metadata_url=METADATA,
    )


async def logged_in(server: McpServer, login: Login, context: dict[str, Any]) -> None:
    """Log in, and again for whatever is missing afterwards."""
    missing: set[str] = set()
    for _ in range(LOGINS):
        login = replace(login, scopes=tuple(sorted({*login.scopes, *missing})))
        server = with_oauth(server, login)
        await McpPlugin([server]).login("suite", browser)
        with suppress(ConnectionError):
            missing = await called(server, context) - {*login.scopes}
            if not missing:
                return
    raise ConnectionError("it always wants another login")


async def browser(url: str) -> dict[str, str]:
    """The query with which somebody is sent back who agrees to everything."""
    async with ClientSession() as http, http.get(url, allow_redirects=False) as reply:
        return dict(parse_qsl(URL(reply.headers["Location"]).query_string))


async def called(server: McpServer, context: dict[str, Any]) -> set[str]:
    """One run with everything that the server offers; returns the scopes that it lacked."""
    plugin = McpPlugin([server])

    def calls(request: InferenceRequest) -> ToolCalls | str:
        return calls_of_all(request, context.get("toolCalls", []))

    agent = Agent("a", model=ScriptedModel([calls, "done"]), plugins=[plugin])
    async with asyncio.timeout(25), AgentRuntime([agent]) as runtime:
        while plugin.status()[0].state in WAITING:
            await asyncio.sleep(0.01)
        if plugin.status()[0].state is not ServerState.CONNECTED:
            raise ConnectionError(plugin.status()[0].last_error)
        result = await runtime.run("a", "Call everything.")
        while result.is_waiting:
            result = await answered(runtime, result)
        if plugin.status()[0].state is not ServerState.CONNECTED:
            raise ConnectionError(plugin.status()[0].last_error)
        texts = [it.message.text for it in await runtime.messages(result.thread_id)]
    lacks = [text.partition("wants the scopes '")[2].partition("'")[0] for text in texts]
    return {scope for scopes in lacks for scope in scopes.split()}


def calls_of_all(request: InferenceRequest, named: list[Any]) -> ToolCalls | str:
    """A call of every tool, or those that the scenario names."""
    offered = {it.id.removeprefix(PREFIX): it.parameters for it in request.tools}
    if named:
        calls = [(PREFIX + it["name"], it["arguments"]) for it in named]
    else:
        calls = [(PREFIX + name, arguments(offered, name)) for name in offered]
    return ToolCalls(calls) if calls else "nothing to call"


def arguments(offered: dict[str, Any], name: str) -> dict[str, Any]:
    """What a tool needs; the tool that wants a schema gets that of another one."""
    if name == "json_schema_echo":
        others = [it for other, it in offered.items() if other != name]
        return {"schema": others[0]} if others else {}
    schema = offered[name]
    return {it: value_of(schema["properties"][it]) for it in schema.get("required", ())}


def value_of(schema: dict[str, Any]) -> Any:
    """Some value of a simple type."""
    if "enum" in schema:
        return schema["enum"][0]
    return {"number": 3, "integer": 3, "boolean": True, "array": [], "object": {}}.get(
        schema.get("type", ""), "text"
    )


async def answered(runtime: AgentRuntime, result: RunResult) -> RunResult:
    """The run, after every question was answered: yes to what is asked, the rest as proposed."""
    for ticket in result.tickets:
        properties = (ticket.suspension.response_schema or {}).get("properties", {})
        content = {name: True for name, it in properties.items() if "default" not in it}
        await runtime.decide(ticket.ticket_id, result=content)
    return await runtime.wait(result.run_id)


async def playing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Play what `relay.py` asks for, and tell it what went wrong."""
    told = json.loads(await reader.readline())
    context = json.loads(told["CONTEXT"] or "{}")
    try:
        await play(told["URL"], told["SCENARIO"], told["PROTOCOL_VERSION"], context)
    except Exception as error:  # noqa: BLE001 - the suite is told, whatever it is
        writer.write(f"{type(error).__name__}: {error}".encode())
    finally:
        writer.close()
