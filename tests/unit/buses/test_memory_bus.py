"""The bus inside one process."""

import asyncio

from awaken.buses.memory import MemoryBus
from awaken.contracts.storage.bus import Signal, SignalKind

QUEUED = Signal(kind=SignalKind.DISPATCH_QUEUED, thread_id="t", run_id="r")


def test_everybody_who_listens_hears_a_signal_until_they_stop() -> None:
    async def scenario() -> tuple[list[Signal], list[Signal]]:
        bus, first, second = MemoryBus(), list[Signal](), list[Signal]()
        await bus.open()
        stop = bus.subscribe(first.append)
        bus.subscribe(second.append)
        bus.tell(QUEUED)
        stop()
        stop()
        bus.tell(QUEUED)
        return first, second

    assert asyncio.run(scenario()) == ([QUEUED], [QUEUED, QUEUED])


def test_a_listener_that_fails_does_not_keep_others_from_hearing() -> None:
    async def scenario() -> list[Signal]:
        bus, heard = MemoryBus(), list[Signal]()

        def fails(_: Signal) -> None:
            raise RuntimeError("deaf")

        await bus.open()
        bus.subscribe(fails)
        bus.subscribe(heard.append)
        bus.tell(QUEUED)
        return heard

    assert asyncio.run(scenario()) == [QUEUED]


def test_one_listener_may_listen_twice_and_stop_once() -> None:
    async def scenario() -> list[Signal]:
        bus, heard = MemoryBus(), list[Signal]()
        await bus.open()
        stop = bus.subscribe(heard.append)
        bus.subscribe(heard.append)
        stop()
        bus.tell(QUEUED)
        return heard

    assert asyncio.run(scenario()) == [QUEUED]


def test_a_closed_bus_carries_nothing_and_can_be_opened_again() -> None:
    async def scenario() -> list[Signal]:
        bus, heard = MemoryBus(), list[Signal]()
        bus.subscribe(heard.append)
        bus.tell(QUEUED)
        await bus.open()
        await bus.open()
        await bus.close()
        bus.tell(QUEUED)
        assert heard == []
        await bus.open()
        bus.tell(QUEUED)
        return heard

    assert asyncio.run(scenario()) == [QUEUED]


def test_a_signal_about_the_configuration_has_no_thread() -> None:
    async def scenario() -> list[Signal]:
        bus, heard = MemoryBus(), list[Signal]()
        await bus.open()
        bus.subscribe(heard.append)
        bus.tell(Signal(kind=SignalKind.CONFIG_CHANGED))
        return heard

    assert [(it.kind, it.thread_id) for it in asyncio.run(scenario())] == [
        (SignalKind.CONFIG_CHANGED, "")
    ]
