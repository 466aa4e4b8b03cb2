"""The checks that every bus passes. Each gets a function that makes an open bus of one process.

Signals and packets may be lost while a bus begins to listen, so the checks say them again until
they are heard; what must not be heard is followed by something that must.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from awaken.contracts.storage.bus import PACKET_MAX, Bus, Signal, SignalKind

OpenBus = Callable[[], Awaitable[Bus]]
"""Opens the bus of another process; all of them reach each other."""

PATIENCE_S = 30
"""Only reached when a bus fails."""


class SignalLog:
    """Keeps what one process hears."""

    def __init__(self, bus: Bus) -> None:
        self.signals: list[Signal] = []
        self.stop = bus.subscribe(self.signals.append)

    @property
    def threads(self) -> list[str]:
        """The threads of the signals, in order."""
        return [it.thread_id for it in self.signals]


class SignalCounts(Counter[tuple[SignalKind, str]]):
    """Counts what becomes of the signals of one process."""

    def __init__(self, bus: Bus) -> None:
        super().__init__()
        bus.watchers.append(self)

    def on_signals(self, kind: SignalKind, result: str, count: int) -> None:
        """Count them."""
        self[kind, result] += count


async def say_until(say: Callable[[], object], is_heard: Callable[[], bool]) -> None:
    """Say something again and again until it is heard."""
    async with asyncio.timeout(PATIENCE_S):
        while not is_heard():
            say()
            await asyncio.sleep(0.01)


async def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait for something that was said once."""
    await say_until(lambda: None, is_so)


def _changed(thread_id: str) -> Signal:
    return Signal(kind=SignalKind.RUN_CHANGED, thread_id=thread_id, node="abc123def456")


def _queued(thread_id: str) -> Signal:
    return Signal(kind=SignalKind.DISPATCH_QUEUED, thread_id=thread_id)


async def a_signal_reaches_every_process(open_bus: OpenBus) -> None:
    """Also the one that told it, once each."""
    here, there = await open_bus(), await open_bus()
    ears = [SignalLog(here), SignalLog(there)]
    await say_until(lambda: here.tell(_queued("t")), lambda: all(it.signals for it in ears))
    assert ears[1].signals[0] == _queued("t")


async def a_changed_thread_is_heard_where_it_is_followed(open_bus: OpenBus) -> None:
    """And no other thread."""
    here, there = await open_bus(), await open_bus()
    ear = SignalLog(there)
    there.follow("t")
    await say_until(lambda: here.tell(_changed("t")), lambda: _changed("t") in ear.signals)
    for number in range(100):
        here.tell(_changed(f"other-{number}"))
    await say_until(lambda: here.tell(_queued("last")), lambda: "last" in ear.threads)
    assert {*ear.threads} == {"t", "last"}


async def who_follows_all_threads_hears_each(open_bus: OpenBus) -> None:
    """Until it stops."""
    here, there = await open_bus(), await open_bus()
    ear = SignalLog(there)
    stop = there.follow(None)
    for number in range(100):
        name = f"t-{number}"
        await say_until(lambda it=name: here.tell(_changed(it)), lambda it=name: it in ear.threads)  # type: ignore[misc]
    stop()
    await _expect_silence(here, ear, "later")


async def follows_are_counted(open_bus: OpenBus) -> None:
    """A thread is heard until the last of them stops; stopping twice is stopping once."""
    here, there = await open_bus(), await open_bus()
    ear = SignalLog(there)
    first, second = there.follow("t"), there.follow("t")
    await say_until(lambda: here.tell(_changed("t")), lambda: "t" in ear.threads)
    first()
    first()
    ear.signals.clear()
    await say_until(lambda: here.tell(_changed("t")), lambda: "t" in ear.threads)
    second()
    await _expect_silence(here, ear, "t")


async def _expect_silence(here: Bus, ear: SignalLog, thread_id: str) -> None:
    """What was followed may be heard for a moment, and then no more."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            ear.signals.clear()
            here.tell(_changed(thread_id))
            await say_until(lambda: here.tell(_queued("last")), lambda: "last" in ear.threads)
            if thread_id not in ear.threads:
                return


async def an_addressed_signal_reaches_its_node_only(open_bus: OpenBus) -> None:
    """A node that does not exist hears nothing, and nobody else does."""
    here, there = await open_bus(), await open_bus()
    ear = SignalLog(there)
    there.receive("node1", lambda _: None)
    control = Signal(kind=SignalKind.CONTROL, thread_id="mine")
    await say_until(lambda: here.tell(control, "node1"), lambda: control in ear.signals)
    here.tell(Signal(kind=SignalKind.CONTROL, thread_id="not mine"), "node2")
    await say_until(lambda: here.tell(_queued("last")), lambda: "last" in ear.threads)
    assert "not mine" not in ear.threads


async def packets_arrive_whole_and_in_order_at_their_node(open_bus: OpenBus) -> None:
    """Of any bytes, small and large."""
    here, there = await open_bus(), await open_bus()
    taken: list[bytes] = []
    others: list[bytes] = []
    there.receive("node1", taken.append)
    there.receive("node2", others.append)
    await say_until(lambda: here.send("node1", b"begin"), lambda: bool(taken))
    await say_until(lambda: here.send("node2", b"begin"), lambda: bool(others))
    sent = [b"", b"\0\xff'\"", b"x" * 6_999, b"y" * 7_001, bytes(range(256)) * 1_200]
    sent += [b"n-%d" % number for number in range(200)]
    for packet in sent:
        assert here.send("node1", packet)
    await wait_until(lambda: bool(taken) and taken[-1] == sent[-1])
    assert [it for it in taken if it != b"begin"] == sent
    assert {*others} == {b"begin"}


async def what_was_accepted_arrives_and_what_was_refused_does_not(open_bus: OpenBus) -> None:
    """A full buffer refuses at once; then there is room again."""
    here, there = await open_bus(), await open_bus()
    taken: list[bytes] = []
    there.receive("node1", taken.append)
    await say_until(lambda: here.send("node1", b"begin"), lambda: bool(taken))
    dropped = here.dropped
    packets = [b"%d " % number + b"x" * (PACKET_MAX // 4) for number in range(12)]
    accepted = [it for it in packets if here.send("node1", it)]
    assert accepted
    assert here.dropped - dropped == len(packets) - len(accepted)
    assert not here.send("node1", b"x" * (PACKET_MAX + 1))
    await wait_until(lambda: taken[-1] == accepted[-1])
    assert [it for it in taken if it != b"begin"] == accepted
    await say_until(lambda: here.send("node1", b"room"), lambda: b"room" in taken)


async def a_callback_that_fails_harms_nobody(open_bus: OpenBus) -> None:
    """Neither the other callbacks nor the sender."""
    here, there = await open_bus(), await open_bus()

    def fail(_: object) -> None:
        raise RuntimeError("deaf")

    taken: list[bytes] = []
    there.subscribe(fail)
    there.receive("node1", fail)
    there.receive("node1", taken.append)
    ear = SignalLog(there)
    await say_until(lambda: here.tell(_queued("t")), lambda: "t" in ear.threads)
    await say_until(lambda: here.send("node1", b"p"), lambda: bool(taken))


async def who_stopped_hears_nothing(open_bus: OpenBus) -> None:
    """Stopping twice is stopping once."""
    here, there = await open_bus(), await open_bus()
    gone, ear = SignalLog(there), SignalLog(there)
    taken: list[bytes] = []
    stop = there.receive("node1", taken.append)
    for leave in (gone.stop, gone.stop, stop, stop):
        leave()
    here.send("node1", b"nobody")
    await say_until(lambda: here.tell(_queued("last")), lambda: "last" in ear.threads)
    assert gone.signals == []
    assert taken == []


async def a_closed_bus_drops_everything_and_raises_nothing(open_bus: OpenBus) -> None:
    """And works again when it is opened."""
    here, there = await open_bus(), await open_bus()
    ear = SignalLog(there)
    await here.close()
    await here.close()
    assert not here.is_up
    here.tell(_queued("closed"))
    assert not here.send("node1", b"closed")
    assert here.dropped
    await here.open()
    await here.open()
    assert here.is_up
    await say_until(lambda: here.tell(_queued("open")), lambda: "open" in ear.threads)
    assert "closed" not in ear.threads


async def what_is_told_before_a_close_is_heard(open_bus: OpenBus) -> None:
    """A command tells its one signal and ends."""
    here, there = await open_bus(), await open_bus()
    ear, taken = SignalLog(there), list[bytes]()
    there.receive("node1", taken.append)
    await say_until(lambda: here.tell(_queued("first")), lambda: "first" in ear.threads)
    await say_until(lambda: here.send("node1", b"first"), lambda: b"first" in taken)
    here.tell(_queued("last"))
    here.send("node1", b"last")
    await here.close()
    await wait_until(lambda: "last" in ear.threads and b"last" in taken)


async def watchers_are_told_what_becomes_of_signals(open_bus: OpenBus) -> None:
    """What was sent, what was heard, and what was dropped, by kind."""
    here, there = await open_bus(), await open_bus()
    told, ear, counts = SignalCounts(here), SignalLog(there), SignalCounts(there)
    control = Signal(kind=SignalKind.CONTROL, thread_id="t")
    await say_until(lambda: here.tell(control), lambda: control in ear.signals)
    for number in range(3):
        here.tell(_queued(f"t-{number}"))
    queued = SignalKind.DISPATCH_QUEUED
    await wait_until(lambda: (told[queued, "sent"], counts[queued, "heard"]) == (3, 3))
    assert told[queued, "dropped"] == counts[queued, "dropped"] == 0
    await here.close()
    here.tell(_queued("closed"))
    assert told[queued, "dropped"] == 1
    assert told[queued, "sent"] == counts[queued, "heard"] == 3


BUS_CHECKS: tuple[Callable[[OpenBus], Awaitable[None]], ...] = (
    a_signal_reaches_every_process,
    a_changed_thread_is_heard_where_it_is_followed,
    who_follows_all_threads_hears_each,
    follows_are_counted,
    an_addressed_signal_reaches_its_node_only,
    packets_arrive_whole_and_in_order_at_their_node,
    what_was_accepted_arrives_and_what_was_refused_does_not,
    a_callback_that_fails_harms_nobody,
    who_stopped_hears_nothing,
    a_closed_bus_drops_everything_and_raises_nothing,
    what_is_told_before_a_close_is_heard,
    watchers_are_told_what_becomes_of_signals,
)
