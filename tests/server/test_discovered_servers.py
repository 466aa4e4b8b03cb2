"""A real server's card: read over HTTP, made an agent, and kept when the server is gone."""

import asyncio
from dataclasses import replace
from typing import Any

from awaken import Agent, AgentRuntime, RemoteRegistry
from awaken.backends import A2ABackendFactory
from awaken.backends.a2a.cards import A2ACards
from awaken.bootstrap.registries import registry_set
from awaken.contracts.clock import SystemClock
from awaken.outbound.guard import Outbound
from awaken.runtime.resolution.registry import RegistryHandle
from awaken.services.discovery import Discovery, with_remotes
from awaken.testing import ScriptedModel

from .serving import serving, serving_app

TOKEN = "tok-1234567890-secret"


def discovering(url: str) -> tuple[RegistryHandle, Discovery]:
    remotes = (
        RemoteRegistry(name="open", base_url=f"{url}/v1/a2a"),
        RemoteRegistry(name="partner", base_url=url, auth={"type": "bearer", "token": TOKEN}),
    )
    clock, guard = SystemClock(), Outbound()
    base = registry_set([], [], [], {}, {})
    factory = A2ABackendFactory(guard, clock)
    known = replace(base, backends={**base.backends, "a2a": factory})
    handle = RegistryHandle(with_remotes(known, remotes))
    return handle, Discovery(handle, remotes, A2ACards(guard), clock)


def test_our_own_servers_card_is_an_agent_and_stays_one_when_it_is_gone() -> None:
    async def scenario() -> None:
        runtime = AgentRuntime([Agent("a", model=ScriptedModel(["hello"]))])
        async with serving(runtime) as url:
            handle, discovery = discovering(url)
            await discovery.refresh()
            for name in ("open", "partner"):
                spec = handle.snapshot().resolve(f"{name}/awaken").spec
                assert spec.endpoint is not None
                assert spec.endpoint.base_url == f"{url}/v1/a2a"
                assert (spec.endpoint.auth is None) is (name == "open")
        gone = await discovery.refresh()
        assert [it.agent_id for it in gone] == ["open/awaken", "partner/awaken"]
        for status in gone:
            assert status.problem is not None
            assert status.problem.startswith(f"Remote registry '{status.name}' ({url}): remote err")
            assert status.problem.endswith("; check base_url.")
        assert handle.version == 3

    asyncio.run(scenario())


def test_the_token_goes_to_the_card_and_along_with_no_redirect() -> None:
    asked: list[tuple[str, bytes | None]] = []

    async def redirecting(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for step in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{step}.complete"})
            return
        asked.append((scope["path"], dict(scope["headers"]).get(b"authorization")))
        headers = [(b"location", b"/elsewhere"), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 302, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    async def scenario() -> None:
        async with serving_app(redirecting) as url:
            _, discovery = discovering(url)
            statuses = await discovery.refresh()
        assert all("redirect (302)" in (it.problem or "") for it in statuses)
        assert TOKEN not in repr(statuses)

    asyncio.run(scenario())
    path = "/.well-known/agent-card.json"
    assert sorted(asked, key=str) == [(path, None), (path, f"Bearer {TOKEN}".encode())]
