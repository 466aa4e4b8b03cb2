"""Every bus passes the same checks."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable

import pytest
from tests.nats_servers.cluster import nats_server, shared_cluster
from tests.postgres.server import new_schema, server

from awaken.buses.memory import MemoryBus
from awaken.buses.nats import NatsBus
from awaken.buses.postgres import PostgresBus
from awaken.stores import Bus
from awaken.testing import BUS_CHECKS
from awaken.testing.bus_conformance import OpenBus


def memory_buses() -> Callable[[], Bus]:
    shared = MemoryBus()
    return lambda: shared


def postgres_buses() -> Callable[[], Bus]:
    channel = new_schema()
    return lambda: PostgresBus(server().url, channel=channel)


def nats_buses() -> Callable[[], Bus]:
    namespace = new_schema()
    return lambda: NatsBus(f"{nats_server().url}/?namespace={namespace}")


def clustered_nats_buses() -> Callable[[], Bus]:
    """Each bus at another server of three."""
    namespace, servers = new_schema(), itertools.cycle(shared_cluster().servers)
    return lambda: NatsBus(f"{next(servers).url}/?namespace={namespace}")


@pytest.mark.parametrize("buses", [memory_buses, postgres_buses, nats_buses, clustered_nats_buses])
@pytest.mark.parametrize("check", BUS_CHECKS, ids=lambda it: it.__name__)
def test_a_bus_keeps_its_promises(
    check: Callable[[OpenBus], Awaitable[None]], buses: Callable[[], Callable[[], Bus]]
) -> None:
    async def play() -> None:
        make, opened = buses(), list[Bus]()

        async def open_bus() -> Bus:
            bus = make()
            opened.append(bus)
            await bus.open()
            return bus

        try:
            await check(open_bus)
        finally:
            for bus in opened:
                await bus.close()

    asyncio.run(play())
