"""The bus over LISTEN and NOTIFY: who hears what, and how it comes back after trouble."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.postgres.proxy import proxied
from tests.postgres.server import begin_test, server

from awaken.buses.outgoing import OUTGOING_MAX
from awaken.buses.postgres import PAYLOAD_MAX, PostgresBus
from awaken.contracts.errors import InvalidInput, StoreUnavailable
from awaken.contracts.storage.bus import Signal, SignalKind

BACK_S = 4.0


def signal(thread_id: str = "thread-1", **fields: Any) -> Signal:
    return Signal(kind=SignalKind.DISPATCH_QUEUED, thread_id=thread_id, **fields)


class Ear:
    """Keeps what was heard."""

    def __init__(self, bus: PostgresBus) -> None:
        self.heard: list[Signal] = []
        self._new = asyncio.Event()
        self.stop = bus.subscribe(self._take)

    def _take(self, signal: Signal) -> None:
        self.heard.append(signal)
        self._new.set()

    async def hears(self, wanted: Signal) -> None:
        async with asyncio.timeout(20):
            while wanted not in self.heard:
                self._new.clear()
                await self._new.wait()


def run(check: Callable[[], Any]) -> None:
    asyncio.run(check())


@asynccontextmanager
async def opened(url: str | None = None, **options: Any) -> AsyncIterator[PostgresBus]:
    bus = PostgresBus(url or server().url, **options)
    await bus.open()
    try:
        yield bus
    finally:
        await bus.close()


def test_every_process_hears_a_signal_its_sender_too() -> None:
    async def check() -> None:
        async with opened() as here, opened() as there, opened(channel="other") as elsewhere:
            ears = [Ear(here), Ear(there)]
            deaf = Ear(elsewhere)
            sent = [signal("thread-1", run_id="run-1"), signal("ä\0\ud7ff"), signal("thread-3")]
            sent.append(Signal(kind=SignalKind.CONFIG_CHANGED))
            for one in (*sent, *sent):
                here.tell(one)
            for ear in ears:
                for one in sent:
                    await ear.hears(one)
                assert len(ear.heard) == 4
            assert deaf.heard == []
        await server().until_alone()

    run(check)


def test_a_session_that_an_earlier_test_left_is_waited_for_by_none() -> None:
    async def check() -> None:
        async with opened():
            begin_test()
            assert await server().sessions() == []
            async with opened():
                assert len(await server().sessions()) == 1
            await server().until_alone()

    run(check)


def test_who_stopped_listening_hears_nothing_and_a_bad_listener_harms_nobody() -> None:
    async def check() -> None:
        async with opened() as bus:
            gone = Ear(bus)
            gone.stop()
            gone.stop()

            def fail(_signal: Signal) -> None:
                raise RuntimeError("boom")

            bus.subscribe(fail)
            ear = Ear(bus)
            await server().sql("SELECT pg_notify('awaken', 'no signal')")
            bus.tell(signal())
            await ear.hears(signal())
            assert gone.heard == []

    run(check)


def test_a_signal_that_is_too_large_is_lost_and_the_bus_goes_on() -> None:
    async def check() -> None:
        async with opened() as bus:
            ear = Ear(bus)
            bus.tell(signal("ä" * (PAYLOAD_MAX // 2)))
            assert bus.dropped == 1
            room = PAYLOAD_MAX - 46
            bus.tell(signal("x" * room))
            await ear.hears(signal("x" * room))
            assert len(ear.heard) == 1

    run(check)


def test_of_more_signals_than_can_wait_the_oldest_are_lost_and_telling_never_waits() -> None:
    async def check() -> None:
        async with opened() as bus:
            ear = Ear(bus)
            for number in range(OUTGOING_MAX + 3):
                bus.tell(signal(f"thread-{number}"))
            assert bus.dropped == 3
            await ear.hears(signal(f"thread-{OUTGOING_MAX + 2}"))
            assert ear.heard[0] == signal("thread-3")

    run(check)


def test_a_bus_may_be_opened_and_closed_twice_and_opened_again() -> None:
    async def check() -> None:
        bus = PostgresBus(server().url)
        bus.tell(signal("before"))
        for _ in range(2):
            await bus.open()
            await bus.open()
            ear = Ear(bus)
            bus.tell(signal())
            await ear.hears(signal())
            await bus.close()
            await bus.close()
            assert ear.heard == [signal()]
        bus.tell(signal("after"))
        assert bus.dropped == 2
        await server().until_alone()

    run(check)


def test_signals_flow_again_after_the_server_crashed_without_a_new_process() -> None:
    async def check() -> None:
        async with opened() as bus, opened() as other:
            ear = Ear(other)
            for number in range(2):
                await asyncio.to_thread(server().restart)
                await both_hear(bus, other, f"back-{number}")
                started = time.perf_counter()
                bus.tell(signal(f"prompt-{number}"))
                await ear.hears(signal(f"prompt-{number}"))
                assert time.perf_counter() - started < BACK_S

    run(check)


def test_packets_and_followed_threads_are_heard_again_after_the_server_crashed() -> None:
    async def check() -> None:
        async with opened() as bus, opened() as other:
            ear, taken = Ear(other), list[bytes]()
            other.receive("node1", taken.append)
            other.follow("thread-1")
            await asyncio.to_thread(server().restart)
            changed = Signal(kind=SignalKind.RUN_CHANGED, thread_id="thread-1", run_id="run-1")
            async with asyncio.timeout(60):
                while not (taken and changed in ear.heard):
                    bus.send("node1", b"packet")
                    bus.tell(changed)
                    await asyncio.sleep(0.05)
            # Told by the bus itself: what happened in the outage was not heard.
            hint = Signal(kind=SignalKind.RUN_CHANGED, thread_id="thread-1", is_resting=True)
            assert hint in ear.heard

    run(check)


def test_a_half_open_connection_is_noticed_by_itself() -> None:
    async def check() -> None:
        async with proxied() as proxy, opened(proxy.url, probe_ms=100) as bus, opened() as other:
            ear = Ear(bus)
            proxy.is_mute = True
            async with asyncio.timeout(10):
                while bus._connection is not None:
                    await asyncio.sleep(0.01)
            bus.tell(signal())
            assert bus.dropped == 1
            proxy.is_mute = False
            proxy.abort_all()
            await both_hear(bus, other, "back")
            other.tell(signal("after"))
            await ear.hears(signal("after"))
            await bus.close()

    run(check)


def test_what_is_told_while_the_connection_breaks_is_counted_as_lost() -> None:
    async def check() -> None:
        async with proxied() as proxy, opened(proxy.url, probe_ms=100) as bus:
            proxy.is_mute = True
            bus.tell(signal())
            async with asyncio.timeout(10):
                while bus.dropped == 0:
                    await asyncio.sleep(0.01)
            proxy.is_mute = False
            await bus.close()

    run(check)


def test_a_server_that_is_not_there_is_named_without_its_password(tmp_path: Path) -> None:
    async def check() -> None:
        bus = PostgresBus(f"postgresql://ann:s3cr3t@/app?host={tmp_path}")
        with pytest.raises(StoreUnavailable) as caught:
            await bus.open()
        assert "postgresql://ann@" in str(caught.value)
        assert "s3cr3t" not in str(caught.value)

    run(check)


@pytest.mark.parametrize("channel", ["", "x" * 64, "a\0b"])
def test_a_channel_that_the_server_cannot_name_is_refused(channel: str) -> None:
    with pytest.raises(InvalidInput):
        PostgresBus("postgresql://db/app", channel=channel)


async def both_hear(bus: PostgresBus, other: PostgresBus, name: str) -> None:
    """Publish until both have heard; what is sent while nobody is connected is lost."""
    ears = [Ear(bus), Ear(other)]
    async with asyncio.timeout(20):
        number = 0
        while not all(ear.heard for ear in ears):
            number += 1
            bus.tell(signal(f"{name}-{number}"))
            await asyncio.sleep(0.01)


def test_an_error_that_no_driver_should_raise_costs_a_connection_and_not_the_bus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def check() -> None:
        async with opened() as bus:
            ear, failures = Ear(bus), iter([RuntimeError("odd"), AttributeError("odder")])
            connect, listen = bus._connect, bus._list_notifies

            def list_badly(_batch: object) -> Any:
                monkeypatch.setattr(bus, "_list_notifies", listen)
                raise next(failures)

            async def connect_badly() -> Any:
                monkeypatch.setattr(bus, "_connect", connect)
                raise next(failures)

            monkeypatch.setattr(bus, "_list_notifies", list_badly)
            monkeypatch.setattr(bus, "_connect", connect_badly)
            bus.tell(signal("lost"))
            async with asyncio.timeout(20):
                while signal("found") not in ear.heard:
                    bus.tell(signal("found"))
                    await asyncio.sleep(0.01)
            assert next(failures, None) is None

    run(check)
