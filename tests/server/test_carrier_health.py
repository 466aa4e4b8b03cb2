"""A server whose carrier is away goes on: `/health` says so, and stays 200."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.nats_servers.cluster import nats_cluster, until
from tests.postgres.server import new_schema, server

from awaken import Agent, AgentRuntime
from awaken.errors import InvalidInput
from awaken.stores import PostgresStore
from awaken.testing import ScriptedModel

from .in_process import ask


def agents() -> list[Agent]:
    return [Agent("a", model=ScriptedModel(["hi"], cycle=True))]


def play(bus: str | None, scenario: Callable[[Any, AgentRuntime], Any]) -> None:
    async def main() -> None:
        options: Any = {} if bus is None else {"bus": bus}
        store = PostgresStore(server().url, schema=new_schema())
        async with asyncio.timeout(60), AgentRuntime(agents(), store=store, **options) as runtime:
            await scenario(runtime.asgi(), runtime)

    asyncio.run(main())


async def health(app: Any) -> tuple[int, str, str | None]:
    answer = await ask(app, "GET", "/health")
    return answer.status, answer.json["status"], answer.json["components"].get("carrier")


def test_a_carrier_that_is_down_is_degraded_and_comes_back_by_itself() -> None:
    with nats_cluster(1) as cluster:

        async def scenario(app: Any, runtime: AgentRuntime) -> None:
            assert await health(app) == (200, "healthy", "ok")
            cluster.servers[0].kill()
            bus = runtime._parts.node.bus
            await until(lambda: not bus.is_up)
            assert await health(app) == (200, "degraded", "down")
            assert (await runtime.run("a", "go")).text == "hi"
            cluster.servers[0].start()
            await until(lambda: bus.is_up)
            assert await health(app) == (200, "healthy", "ok")

        play(cluster.url, scenario)


def test_a_server_is_healthy_with_the_carrier_of_its_store_and_without_any() -> None:
    async def own(app: Any, _: AgentRuntime) -> None:
        assert await health(app) == (200, "healthy", "ok")

    async def none(app: Any, runtime: AgentRuntime) -> None:
        assert (await health(app))[:2] == (200, "healthy")
        # Nobody tells this process of a cancel: it looks for one each second.
        assert runtime._parts.node.mailbox.services.config.renew_ms == 1_000
        assert runtime._parts.node.frames is None

    play(None, own)
    play("none", none)


@pytest.mark.parametrize("bus", ["redis://here", "natz", "nats://a:s3cr3t@"])
def test_a_bus_that_nobody_knows_is_refused_without_its_password(bus: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        AgentRuntime(agents(), bus=bus)
    assert "s3cr3t" not in str(caught.value)
