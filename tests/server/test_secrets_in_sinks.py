"""Secrets are given to a server in every way there is, and looked for everywhere it writes."""

import asyncio
import io
import json
import logging
import os
import traceback
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.sqlite_dump import dump_sqlite
from typer.testing import CliRunner

from awaken import Access, Agent, AgentRuntime, InvalidInput, ProviderSpec, RedactedString
from awaken.bootstrap.server_app import build_server_context
from awaken.cli.main import app as command_line
from awaken.errors import StoreUnavailable, UnsafeExposure
from awaken.server import JwtConfig, RateLimit, ServerApp, ServerConfig, ServerLimits, TokenSpec
from awaken.server.addresses import check_exposure
from awaken.server.environment import with_environment
from awaken.testing import FakeModelServer, HttpAnswer
from awaken.transport.asgi import Reply
from awaken.transport.routes import ApiRoute, RouteCall, WireProtocol

from .in_process import EVERYTHING, Request, ask

TOKEN = "canary-of-the-token-5b1f"
ADMIN = "canary-of-the-admin-token-77aa"
JWT_KEY = "canary-of-the-signing-key-at-least-32-bytes"
WRONG = "canary-of-a-wrong-token-19c3"
PROVIDER = "sk-canary-of-the-provider-key-e01d"
WEBHOOK = "canary-of-the-webhook-token-2d2d"
STORE = "canary-of-the-store-password-90f0"
CANARIES = (TOKEN, ADMIN, JWT_KEY, WRONG, PROVIDER, WEBHOOK, STORE)
SINKS_MIN = 20


class Sinks:
    """Everything that was written, by where."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def pour(self, name: str, text: Any) -> None:
        shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
        self.texts[name] = self.texts.get(name, "") + shown

    def hits(self) -> list[tuple[str, str]]:
        return [
            (name, canary)
            for name, text in self.texts.items()
            for canary in CANARIES
            if canary in text
        ]


def server_config() -> ServerConfig:
    return with_environment(
        ServerConfig(
            tokens=(TokenSpec(id="caller", access=EVERYTHING, token=RedactedString(TOKEN)),),
            jwt=JwtConfig(
                issuer="i", audience="a", algorithms=("HS256",), key=RedactedString(JWT_KEY)
            ),
            limits=ServerLimits(login_failures=RateLimit(per_s=1, burst=3)),
        ),
        {"AWAKEN_ADMIN_API_BEARER_TOKEN": ADMIN},
    )


def test_no_secret_reaches_any_sink(tmp_path: Path) -> None:
    sinks = Sinks()
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        asyncio.run(used(sinks, tmp_path))
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    sinks.pour("logs", written.getvalue())
    # Whoever delivers notifications must know their token; nobody needs the others.
    kept = dump_sqlite(tmp_path / "store.db")
    assert b"started_at" in kept, "records were not unpacked"
    sinks.pour("store file", kept.replace(WEBHOOK.encode(), b""))
    looked_at(sinks, tmp_path)
    started(sinks, tmp_path)
    assert "/odd failed (request" in sinks.texts["logs"]
    assert sinks.texts["store file"]
    assert len(sinks.texts) >= SINKS_MIN, sorted(sinks.texts)
    assert sinks.hits() == []


async def used(sinks: Sinks, folder: Path) -> None:
    """Use a server with all secrets in all ways."""
    # A vendor that shows the key in its refusal.
    refusal = HttpAnswer(401, json.dumps({"error": {"message": f"bad key {PROVIDER}"}}).encode())
    async with FakeModelServer([refusal] * 20) as vendor:
        spec = ProviderSpec(
            id="vendor",
            adapter="openai_chat",
            api_key=RedactedString(PROVIDER),
            base_url=f"{vendor.url}/v1",
        )
        agent = Agent("a", model="vendor:some-model")
        runtime = AgentRuntime(
            [agent], providers={"vendor": spec}, store=f"sqlite:///{folder}/store.db"
        )
        async with runtime:
            app = runtime.asgi(server_config())
            await served(sinks, app)
            for name, value in (("repr of the app", app), ("repr of the runtime", runtime)):
                sinks.pour(name, f"{value!r} {vars(value)!r}")
            sinks.pour("repr of what endpoints share", repr(app.context))
            sinks.pour("repr of the door", repr(vars(app.context.authenticator)))
    await failing(sinks)


async def served(sinks: Sinks, app: ServerApp) -> None:
    headers = {"authorization": f"Bearer {TOKEN}"}

    async def pour(name: str, method: str, path: str, **options: Any) -> Any:
        answer = await ask(app, method, path, **{"headers": headers, **options})
        sinks.pour(name, answer.body)
        sinks.pour("headers of replies", repr(answer.headers))
        return answer

    body = {"agentId": "a", "messages": [{"role": "user", "content": "hi"}]}
    request = Request(app, "POST", "/v1/runs", headers=headers, body=body)
    await asyncio.wait_for(request.task, 20)
    assert b"run_finish" in request.answer.body
    assert b"error" in request.answer.body
    sinks.pour("stream of events", request.answer.body)
    run = (await pour("runs", "GET", "/v1/runs")).json["items"][0]
    hook = {"url": "https://hooks.example.com/x", "token": WEBHOOK}
    made = f"/v1/a2a/tasks/{run['run_id']}/pushNotificationConfigs"
    await ask(app, "POST", made, headers=headers, body=hook)
    for name, path in {
        "log of events": f"/v1/threads/{run['thread_id']}/events",
        "messages": f"/v1/threads/{run['thread_id']}/messages",
        "health": "/health",
        "liveness": "/health/live",
        "metrics": "/metrics",
        "system info": "/v1/system/info",
        "document": "/openapi.json",
        "agents": "/v1/agents",
        "agent card": "/.well-known/agent-card.json",
        "console": "/console/",
    }.items():
        assert (await pour(name, "GET", path)).status == 200, name
    assert (await pour("404", "GET", "/v1/runs/none")).status == 404
    assert (await pour("405", "PUT", "/v1/runs")).status == 405
    assert (await pour("422", "POST", "/v1/runs", body={"agentId": 5})).status == 422
    assert (await pour("400", "POST", "/v1/runs", body=b"{")).status == 400
    wrong = {"authorization": f"Bearer {WRONG}"}
    for status in (401, 401, 401, 429):
        answer = await pour(str(status), "GET", "/v1/runs", headers=wrong)
        assert answer.status == status
    basic = {"authorization": f"Basic {WRONG}"}
    assert (await pour("401", "GET", "/v1/runs", headers=basic)).status == 401
    spaced = {"authorization": f"Bearer {WRONG} {TOKEN}"}
    assert (await pour("401", "GET", "/v1/runs", headers=spaced)).status == 401


async def failing(sinks: Sinks) -> None:
    """A server whose store fails, and whose handlers do."""
    store_error = StoreUnavailable(
        store="postgresql://db.internal/agents",
        problem=f"SELECT * FROM threads: password {STORE} at /var/lib/data.db",
    )

    async def storing(_: RouteCall) -> Reply:
        raise store_error

    async def breaking(_: RouteCall) -> Reply:
        raise RuntimeError(f"/etc/secret SELECT {STORE}")

    async def odd(call: RouteCall) -> Reply:
        raise RuntimeError(f"Nothing secret for {call.principal}")

    def route(path: str, handle: Any) -> ApiRoute:
        return ApiRoute(method="GET", path=path, handle=handle, access=Access.READ, summary="")

    async def opened(_: AsyncExitStack) -> None:
        pass

    config = ServerConfig()
    desk = AgentRuntime()._services
    routes = (route("/storing", storing), route("/breaking", breaking), route("/odd", odd))
    protocols = [WireProtocol(name="t", routes=routes)]
    app = ServerApp(build_server_context(desk, config), protocols, opened)
    assert (await ask(app, "GET", "/odd", headers={"cookie": TOKEN})).status == 500
    # What is raised is logged for operators; only the bodies are looked at here.
    quiet = logging.getLogger("awaken.server.endpoint")
    quiet.disabled = True
    try:
        for path, status in (("/storing", 503), ("/breaking", 500)):
            answer = await ask(app, "GET", path)
            assert answer.status == status
            assert answer.json["request_id"] == answer.headers["x-request-id"]
            for leak in (b"SELECT", b"/var/lib", b"/etc", b"internal/", b"Traceback", b".py"):
                assert leak not in answer.body
            sinks.pour(str(status), answer.body)
    finally:
        quiet.disabled = False


def looked_at(sinks: Sinks, folder: Path) -> None:
    """What people are shown of configs, errors, and stores."""
    config = server_config()
    sinks.pour("repr of a config", repr(config))
    sinks.pour("text of a config", str(config))
    for token in config.tokens:
        sinks.pour("repr of a token", repr(token))
    sinks.pour("repr of jwt", repr(config.jwt))
    sinks.pour("formatted", f"{config} {config.tokens[0].token:>40} %s" % config.jwt)
    runner = CliRunner()
    store = ["--store", f"sqlite:///{folder}/store.db"]
    for arguments in (["runs", "list"], ["threads", "list"], ["runs", "list", "--json"]):
        result = runner.invoke(command_line, [*arguments, *store])
        assert result.exit_code == 0, result.output
        sinks.pour("command line", result.output)


def started(sinks: Sinks, folder: Path) -> None:
    """What is said when a start is refused."""

    def refused(act: Callable[[], Any], kind: type[Exception]) -> None:
        with pytest.raises(kind) as caught:
            act()
        text = "".join(traceback.format_exception(caught.value))
        sinks.pour("refused start", f"{text} {caught.value!r} {vars(caught.value)!r}")

    refused(lambda: check_exposure("0.0.0.0", ServerConfig()), UnsafeExposure)
    file = folder / "tokens.json"
    for content in (
        [{"id": "a", "token": TOKEN, "access": ["everything"]}],
        [{"id": "a", "token": [TOKEN], "access": ["read"]}],
        [{"id": "a", "token": f"{TOKEN} {TOKEN}", "access": ["read"]}],
        [{"id": "a", "token": TOKEN, "sha256": "0" * 64, "access": ["read"]}],
        [{"id": "a", "token": TOKEN, "access": ["read"]}] * 2,
    ):
        file.write_text(json.dumps(content))
        refused(
            lambda: ServerConfig(
                tokens=(
                    *with_environment(
                        ServerConfig(), {"AWAKEN_TOKENS_FILE": os.fspath(file)}
                    ).tokens,
                    TokenSpec(id="a", access=EVERYTHING, token=RedactedString(TOKEN)),
                )
            ),
            InvalidInput,
        )
