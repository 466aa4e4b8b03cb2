"""What all buses share: whom they call, what waits, and packets in parts."""

from typing import Any

import pytest

from awaken.buses.memory import Subscriptions
from awaken.buses.outgoing import OUTGOING_MAX, Outgoing, PacketParts
from awaken.contracts.storage.bus import PACKET_MAX, Signal, SignalKind

QUEUED = SignalKind.DISPATCH_QUEUED


def test_a_carrier_is_told_of_the_first_need_and_of_the_end_of_the_last() -> None:
    told: list[tuple[Any, int]] = []

    def hear(name: Any, more: int) -> None:
        told.append((name, more))

    local = Subscriptions(hear, hear)
    stops = [local.follow("t"), local.follow("t"), local.follow(None)]
    stops += [local.receive("node", lambda _: None), local.receive("node", lambda _: None)]
    assert told == [("t", 1), (None, 1), ("node", 1)]
    told.clear()
    for stop in stops:
        stop()
        stop()
    assert told == [("t", -1), (None, -1), ("node", -1)]
    assert not local.followed
    assert not local.nodes
    local.follow("t")
    assert told[-1] == ("t", 1)


def test_signals_that_wait_are_sent_once_each_and_the_oldest_of_too_many_is_dropped() -> None:
    outgoing = Outgoing(Subscriptions())
    for number in range(OUTGOING_MAX + 2):
        outgoing.add_signal("subject", b"%d" % number, QUEUED)
        outgoing.add_signal("subject", b"%d" % number, QUEUED)
    signals, packets = outgoing.take()
    assert (len(signals), packets, outgoing.dropped) == (OUTGOING_MAX, [], 2)
    assert next(iter(signals)) == ("subject", b"2")
    assert outgoing.is_empty


def test_a_batch_that_is_lost_counts_whole() -> None:
    outgoing = Outgoing(Subscriptions())
    outgoing.add_signal("subject", b"1", QUEUED)
    assert outgoing.add_packet("node", b"x" * PACKET_MAX)
    assert not outgoing.add_packet("node", b"x")
    assert outgoing.add_packet("other", b"x")
    outgoing.drop(outgoing.take())
    assert outgoing.dropped == 4
    # What was taken makes room.
    assert outgoing.add_packet("node", b"x")


@pytest.mark.parametrize("thread_id", ["x" * 200, "half \ud800"])
def test_a_signal_that_no_carrier_could_take_is_dropped(thread_id: str) -> None:
    outgoing = Outgoing(Subscriptions())
    assert outgoing.encode_signal(Signal(kind=QUEUED, thread_id=thread_id), 100) is None
    assert outgoing.dropped == 1


def test_a_packet_is_put_together_from_its_parts_and_lost_with_a_hole() -> None:
    here, there = PacketParts(), PacketParts()
    first, second, third = here.cut(b"abcde", 2)
    assert [there.join("n", it) for it in (first, second, third)] == [None, None, b"abcde"]
    assert [there.join("n", it) for it in (first, third)] == [None, None]
    assert [there.join("n", it) for it in (second, third)] == [None, None]
    assert [there.join("n", it) for it in here.cut(b"", 2)] == [b""]
    # Of two packets on one subject the later one counts; other subjects do not disturb.
    parts = list(here.cut(b"xyz", 2))
    assert there.join("n", parts[0]) is None
    assert there.join("m", first) is None
    assert there.join("n", parts[1]) == b"xyz"


def test_what_is_no_part_and_a_packet_that_is_too_large_are_refused() -> None:
    there = PacketParts(4)
    for part in (b"", b"no part", b"a.b.c:d", b"a.1.x.2:d"):
        with pytest.raises(ValueError):  # noqa: PT011 - that is what it says
            there.join("n", part)
    first, second = PacketParts().cut(b"abcdef", 3)
    assert there.join("n", first) is None
    with pytest.raises(ValueError, match="too large"):
        there.join("n", second)


def test_parts_of_many_senders_do_not_pile_up() -> None:
    there = PacketParts()
    begun = [list(PacketParts().cut(b"ab", 1)) for _ in range(101)]
    for first, _ in begun:
        assert there.join("n", first) is None
    assert there.join("n", begun[0][1]) is None
    assert there.join("n", begun[-1][1]) == b"ab"
    there.forget()
    assert there.join("n", begun[1][1]) is None
