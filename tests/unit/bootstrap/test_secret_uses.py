"""Where secrets are used: each use reads a reference anew, and an error names it, not its value."""

from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from awaken.backends.a2a.channel import Channel
from awaken.backends.a2a.config import config_of
from awaken.backends.acp.config import program_of
from awaken.bootstrap.providers import find_key
from awaken.bootstrap.registries import check_remotes, check_spec
from awaken.contracts.errors import AwakenError
from awaken.contracts.models.model_specs import ProviderSpec
from awaken.contracts.secrets import RedactedString, SecretReference
from awaken.contracts.specs.agents import AgentSpec, RemoteEndpoint
from awaken.contracts.specs.remote_registries import RemoteRegistry
from awaken.extensions.mcp.config import Http, McpServer, Stdio
from awaken.extensions.mcp.http_transport import _Guarded
from awaken.extensions.mcp.pipes import _environment
from awaken.managed.secrets import SecretResolver
from awaken.outbound.credentials import ClientCredentials
from awaken.outbound.guard import Outbound
from awaken.outbound.oauth import _read_secrets

CANARY = "canary-0123456789"
URL = "https://remote.example"
Use = Callable[[], Any]


def use_provider(key: SecretReference) -> Use:
    spec = check_spec("provider", ProviderSpec(id="p", adapter="openai_chat", api_key=key))
    return lambda: getattr(find_key(spec), "reveal", str)()


def use_a2a(key: SecretReference) -> Use:
    auth = {"type": "bearer", "token": key}
    agent = AgentSpec(id="a", endpoint=RemoteEndpoint(base_url=URL, auth=auth))
    endpoint = check_spec("agent", agent).endpoint
    assert endpoint is not None
    channel = Channel(config_of(endpoint), Outbound())
    return lambda: channel._headers("x", is_public=False)["Authorization"]


def use_registry(key: SecretReference) -> Use:
    given = RemoteRegistry(name="r", base_url=URL, auth={"type": "bearer", "token": key})
    (found,) = check_remotes([given])
    assert found.auth is not None
    channel = Channel(config_of(RemoteEndpoint(base_url=URL, auth=found.auth)), Outbound())
    return lambda: channel._headers("x", is_public=False)["Authorization"]


def use_acp(key: SecretReference) -> Use:
    options = {"command": ["coder"], "cwd": "/", "env": {"API_KEY": key}}
    endpoint = RemoteEndpoint(backend="acp", base_url="stdio:", options=options)
    program = program_of(endpoint)
    return lambda: program.environment({})["API_KEY"]


def use_mcp_program(key: SecretReference) -> Use:
    return lambda: _environment(Stdio(command="c", env={"API_KEY": key}))["API_KEY"]


def use_mcp_headers(key: SecretReference) -> Use:
    http = Http(url=URL, headers={"x-key": key})
    sender = _Guarded(McpServer(name="s", transport=http), http, None, None, None)  # type: ignore[arg-type]
    return lambda: sender._reveal_headers()["x-key"]


def use_oauth(key: SecretReference) -> Use:
    oauth = ClientCredentials(client_id="c", issuer=URL, secret=key)
    return lambda: _read_secrets(oauth)[0].reveal()


USES = [
    use_provider, use_a2a, use_registry, use_acp, use_mcp_program, use_mcp_headers, use_oauth,
]  # fmt: skip


@pytest.mark.parametrize("make_use", USES)
def test_a_use_reads_the_secret_as_it_is_now(make_use: Callable[[SecretReference], Use]) -> None:
    environment = {"KEY": "one"}
    use = make_use(SecretResolver(None, environment).bind("env:KEY"))
    assert use() in ("one", "Bearer one")
    environment["KEY"] = "two"
    assert use() in ("two", "Bearer two")
    environment["KEY"] = CANARY
    use()
    environment.clear()
    with pytest.raises((AwakenError, httpx2.TransportError), match="'env:KEY'") as raised:
        use()
    assert CANARY not in str(raised.value)
    assert raised.value.__cause__ is None


def test_a_spec_that_is_checked_keeps_the_objects_of_its_secrets() -> None:
    reference, text = SecretReference("env:A", str), RedactedString(CANARY)
    for key in (reference, text):
        spec = check_spec("provider", ProviderSpec(id="p", adapter="x", api_key=key))
        assert spec.api_key is key
