"""An authorization server, and an MCP server behind it, on two ports of the loopback.

Both do what the specifications say; a test changes one thing. What was asked is in `asked`.
"""

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlencode

from aiohttp import ClientSession, web
from yarl import URL

CLIENT, SECRET = "client-7", "canary-secret"
Reply = web.StreamResponse


class Authority:
    """Who may do what; every token and code is a canary."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        """Path and form of every request to the authorization server, in order."""
        self.calls: list[tuple[str, str | None]] = []
        """Method and authorization of every request to the MCP server."""
        self.gone: set[str] = set()
        """Paths that never answer."""
        self.instead: dict[str, Any] = {}
        """Replies in place of the real ones, by path."""
        self.is_embedded = False
        """Whether the MCP server gives tokens itself, and publishes nothing about it."""
        self.metadata: dict[str, Any] = {}
        self.resource: dict[str, Any] = {}
        self.back: dict[str, str] = {}
        """What is changed in the query that the browser is sent back with."""
        self.needed = "use"
        """The scope that a call of the tool needs."""
        self.granted: str | None = None
        """The only scopes that are ever granted."""
        self.together: asyncio.Barrier | None = None
        """Calls that are answered when all of them are there."""
        self.late: asyncio.Event | None = None
        """The first call that is refused hears of it only after another token was given."""
        self.expires_in: int | None = 3600
        self.has_refresh = True
        self.valid: dict[str, set[str]] = {}
        """Access tokens and their scopes."""
        self.refreshes: dict[str, str] = {}
        self.url = self.server = ""
        self._codes: dict[str, dict[str, str]] = {}
        self._count = 0
        self._over = asyncio.Event()

    async def person(self, url: str) -> dict[str, str]:
        """A browser whose user says yes to everything."""
        async with ClientSession() as http, http.get(url, allow_redirects=False) as reply:
            return {**dict(parse_qsl(URL(reply.headers["Location"]).query_string)), **self.back}

    def forms(self, path: str) -> list[dict[str, Any]]:
        return [form for at, form in self.asked if at == path]

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Both servers; gives the URL of the MCP server."""
        authority, server = web.Application(), web.Application()
        authority.router.add_route("*", "/{path:.*}", self._authority)
        server.router.add_route("*", "/{path:.*}", self._server)
        runners = [web.AppRunner(it, shutdown_timeout=0) for it in (authority, server)]
        urls = []
        for runner in runners:
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            urls.append(f"http://127.0.0.1:{runner.addresses[0][1]}")
        self.url, self.server = urls
        try:
            yield f"{self.server}/mcp"
        finally:
            self._over.set()
            for runner in runners:
                await runner.cleanup()

    async def _authority(self, request: web.Request) -> Reply:
        form = {**request.query, **dict(await request.post())}
        if request.content_type == "application/json":
            form = await request.json()
        form["header"] = request.headers.get("Authorization")
        self.asked.append((request.path, form))
        if request.path in self.gone:
            await self._over.wait()
        if (instead := self.instead.get(request.path)) is not None:
            return instead() if callable(instead) else web.json_response(**instead)
        match request.path:
            case "/.well-known/oauth-authorization-server":
                return web.json_response(self.described())
            case "/register":
                known = {"client_id": CLIENT, "redirect_uris": form["redirect_uris"]}
                return web.json_response(known, status=201)
            case "/authorize":
                return self._authorize(form)
            case "/token":
                return self._token(form)
        return web.Response(status=404)

    def described(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            **self.metadata,
        }

    def _authorize(self, form: dict[str, Any]) -> Reply:
        self._count += 1
        code = f"canary-code-{self._count}"
        self._codes[code] = form
        query = {"code": code, "state": form["state"], "iss": self.url}
        raise web.HTTPFound(f"{form['redirect_uri']}?{urlencode(query)}")

    def _token(self, form: dict[str, Any]) -> Reply:
        scope = form.get("scope", "use")
        match form["grant_type"]:
            case "authorization_code":
                asked = self._codes.pop(form["code"])
                digest = hashlib.sha256(form["code_verifier"].encode()).digest()
                challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
                assert challenge == asked["code_challenge"]
                assert form["redirect_uri"] == asked["redirect_uri"]
                scope = asked.get("scope", "use")
            case "refresh_token":
                if form["refresh_token"] not in self.refreshes:
                    # Hostile: it repeats what nobody may see.
                    told = {"error": "invalid_grant", "error_description": form["refresh_token"]}
                    return web.json_response(told, status=400)
                scope = self.refreshes.pop(form["refresh_token"])
        return web.json_response(self.issued(scope))

    def issued(self, scope: str) -> dict[str, Any]:
        self._count, scope = self._count + 1, self.granted or scope
        if self.late is not None:
            self.late.set()
        token = {"access_token": f"canary-access-{self._count}", "token_type": "Bearer"}
        self.valid[token["access_token"]] = set(scope.split())
        if self.has_refresh:
            token["refresh_token"] = f"canary-refresh-{self._count}"
            self.refreshes[token["refresh_token"]] = scope
        if self.expires_in is not None:
            token = {**token, "expires_in": self.expires_in}
        return {**token, "scope": scope}

    async def _server(self, request: web.Request) -> Reply:
        if self.is_embedded and request.path != "/mcp":
            is_known = request.path in ("/register", "/authorize", "/token")
            return await self._authority(request) if is_known else web.Response(status=404)
        if request.path.startswith("/.well-known/oauth-protected-resource"):
            described = {"resource": f"{self.server}/mcp", "authorization_servers": [self.url]}
            return web.json_response({**described, **self.resource})
        is_call = request.path == "/mcp" and request.method == "POST"
        return await self._answer(request) if is_call else web.Response(status=405)

    async def _answer(self, request: web.Request) -> Reply:
        message, header = await request.json(), request.headers.get("Authorization")
        method = message.get("method", "")
        self.calls.append((method, header))
        scopes = self.valid.get((header or "").removeprefix("Bearer "))
        if scopes is None:
            if self.late is not None and [it for it, _ in self.calls].count("tools/call") == 1:
                await self.late.wait()
            return _challenge(401, "invalid_token", "use")
        if method == "tools/call" and self.needed not in scopes:
            return _challenge(403, "insufficient_scope", self.needed)
        if method == "tools/call" and self.together is not None:
            await self.together.wait()
        if "id" not in message:
            return web.Response(status=202)
        result = {"jsonrpc": "2.0", "id": message["id"], "result": _answers(method)}
        return web.json_response(result)


def _challenge(status: int, error: str, scope: str) -> web.Response:
    told = f'Bearer error="{error}", scope="{scope}"'
    return web.Response(status=status, headers={"WWW-Authenticate": told}, text="no")


def _answers(method: str) -> dict[str, Any]:
    tool = {"name": "go", "inputSchema": {"type": "object"}}
    about = {"name": "vault", "version": "1"}
    return {
        "initialize": {
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": about,
        },
        "tools/list": {"tools": [tool]},
        "tools/call": {"content": [{"type": "text", "text": "went"}]},
    }[method]  # fmt: skip


def away(url: str) -> Any:
    """Sends everybody elsewhere, with what they came with."""
    return lambda: web.Response(status=307, headers={"Location": url})
