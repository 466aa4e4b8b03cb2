"""Which bus a process takes for a store."""

import asyncio

import pytest
from tests.postgres.server import server

from awaken.bootstrap.node import resolve_bus
from awaken.contracts.errors import InvalidInput
from awaken.contracts.storage.bus import Signal, SignalKind
from awaken.stores.memory import MemoryStore
from awaken.stores.postgres import PostgresStore


@pytest.mark.parametrize("url", ["nats://u:secret@127.0.0.1:4222", "tls://u:secret@127.0.0.1:4222"])
def test_a_store_that_no_other_process_sees_takes_no_bus_between_processes(url: str) -> None:
    with pytest.raises(InvalidInput, match="leave out --bus and AWAKEN_BUS") as refused:
        resolve_bus(url, MemoryStore())
    assert "secret" not in str(refused.value)
    assert resolve_bus("none", MemoryStore()) is not None


def test_installations_in_two_schemas_of_one_database_do_not_hear_each_other() -> None:
    async def check() -> None:
        heard: dict[str, list[str]] = {}
        long = "x" * 62
        buses = {
            name: resolve_bus(None, PostgresStore(server().url, schema=name))
            for name in ("blue", "green", long, f"{long}y")
        }
        for name, bus in buses.items():
            heard[name] = []
            await bus.open()
            bus.subscribe(lambda signal, name=name: heard[name].append(signal.thread_id))
        try:
            for name, bus in buses.items():
                bus.tell(Signal(kind=SignalKind.DISPATCH_QUEUED, thread_id=name))
            async with asyncio.timeout(20):
                while not all(heard.values()):
                    await asyncio.sleep(0.01)
        finally:
            for bus in buses.values():
                await bus.close()
        assert heard == {name: [name] for name in buses}

    asyncio.run(check())
