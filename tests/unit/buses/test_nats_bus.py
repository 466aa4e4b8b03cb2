"""The bus over core NATS: who hears what, and how it comes back after trouble."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, ParamSpec

import pytest
from nats.aio.client import Client
from tests.nats_servers.cluster import NatsServer, nats_cluster, nats_server, until
from tests.nats_servers.proxy import proxied
from tests.postgres.server import new_schema

from awaken.buses import outgoing
from awaken.buses.nats import NatsBus
from awaken.buses.nats import bus as nats_bus
from awaken.buses.nats.connection import NatsConnection
from awaken.contracts.errors import InvalidInput
from awaken.contracts.storage.bus import PACKET_MAX, Signal, SignalKind

P = ParamSpec("P")


def in_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    @wraps(test)
    def play(*args: P.args, **named: P.kwargs) -> None:
        # Started before anything has a deadline.
        nats_server()
        asyncio.run(test(*args, **named))

    return play


def queued(thread_id: str = "thread-1", **fields: Any) -> Signal:
    return Signal(kind=SignalKind.DISPATCH_QUEUED, thread_id=thread_id, **fields)


def changed(thread_id: str) -> Signal:
    return Signal(kind=SignalKind.RUN_CHANGED, thread_id=thread_id, run_id="run-1")


@asynccontextmanager
async def opened(url: str | None = None, **options: Any) -> AsyncIterator[NatsBus]:
    bus = NatsBus(url or f"{nats_server().url}?namespace={new_schema()}", **options)
    await bus.open()
    try:
        yield bus
    finally:
        async with asyncio.timeout(10):
            await bus.close()


@asynccontextmanager
async def plain_client() -> AsyncIterator[Client]:
    """Another program on the same server."""
    client = Client()
    await client.connect(nats_server().url)
    try:
        yield client
    finally:
        await client.close()


async def until_heard(bus: NatsBus, heard: list[Signal], thread_id: str) -> None:
    """Say it again until it is heard; what is sent while a bus connects is lost."""
    async with asyncio.timeout(30):
        while queued(thread_id) not in heard:
            bus.tell(queued(thread_id))
            await asyncio.sleep(0.01)


@in_loop
async def test_two_installations_on_one_server_do_not_hear_each_other() -> None:
    async with opened() as here, opened() as elsewhere:
        heard, deaf = list[Signal](), list[Signal]()
        packets = list[bytes]()
        here.subscribe(heard.append)
        elsewhere.subscribe(deaf.append)
        elsewhere.receive("node1", packets.append)
        elsewhere.follow(None)
        here.send("node1", b"text")
        here.tell(changed("thread-1"))
        await until_heard(here, heard, "here")
        own = list[Signal]()
        elsewhere.subscribe(own.append)
        await until_heard(elsewhere, own, "elsewhere")
        assert {it.thread_id for it in deaf} == {"elsewhere"}
        assert packets == []


@in_loop
async def test_what_others_publish_is_ignored_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    name = new_schema()
    async with opened(f"{nats_server().url}?namespace={name}") as bus, plain_client() as other:
        heard, packets = list[Signal](), list[bytes]()
        bus.subscribe(heard.append)
        bus.receive("node1", packets.append)
        await until(lambda: not bus._is_changed)
        foreign = [b"", b"hello", b"s", b"s{}", b's{"kind":"unheard of"}', b"\xff" * 100]
        foreign += [b"p", b"p:", b"p1.2.x.1:text", b"p1.2.3:text", b"sNaN", b"s[[[["]
        for subject in ("all", "n.node1"):
            for payload in foreign:
                await other.publish(f"aw.{name}.{subject}", payload)
        # Parts that have no beginning, and a packet that is longer than any.
        await other.publish(f"aw.{name}.n.node1", b"p1.2.1.2:text")
        for at in range(3):
            piece = b"x" * (PACKET_MAX // 2)
            await other.publish(f"aw.{name}.n.node1", b"pff.1.%d.9:" % at + piece)
        await other.flush()
        await until_heard(bus, heard, "last")
        await until(lambda: bus.ignored == 2 * len(foreign) + 1)
        assert {it.thread_id for it in heard} == {"last"}
        assert packets == []
        assert bus.is_up
        assert sum("not from this bus" in it.message for it in caplog.records) == 1


@in_loop
async def test_ids_of_threads_stand_in_no_subject() -> None:
    name = new_schema()
    async with opened(f"{nats_server().url}?namespace={name}") as bus, plain_client() as other:
        seen = list[str]()

        async def take(message: Any) -> None:
            seen.append(message.subject)

        await other.subscribe(f"aw.{name}.>", cb=take)
        await other.flush()
        heard = list[Signal]()
        bus.subscribe(heard.append)
        bus.follow("patient 4711 *.>")
        async with asyncio.timeout(30):
            while changed("patient 4711 *.>") not in heard:
                bus.tell(changed("patient 4711 *.>"))
                await asyncio.sleep(0.01)
        await until(lambda: bool(seen))
        assert all("4711" not in it for it in seen)


@in_loop
async def test_a_node_that_no_subject_can_name_is_dropped_and_not_sent_to_many() -> None:
    async with opened() as bus:
        packets = list[bytes]()
        bus.receive("node1", packets.append)
        for address in ("*", ">", "a b", "", "node1\r\nPUB x 0", "NODE1"):
            assert not bus.send(address, b"text")
            bus.tell(queued(), address)
        assert bus.dropped == 12
        with pytest.raises(InvalidInput, match="lower-case"):
            bus.receive("*", packets.append)
        async with asyncio.timeout(30):
            while b"last" not in packets:
                bus.send("node1", b"last")
                await asyncio.sleep(0.01)
        assert set(packets) == {b"last"}


@in_loop
async def test_of_more_signals_than_can_wait_the_oldest_are_lost() -> None:
    async with opened() as bus:
        heard = list[Signal]()
        bus.subscribe(heard.append)
        for number in range(outgoing.OUTGOING_MAX + 3):
            bus.tell(queued(f"thread-{number}"))
        assert bus.dropped == 3
        await until(lambda: queued(f"thread-{outgoing.OUTGOING_MAX + 2}") in heard)
        assert heard[0] == queued("thread-3")
        bus.tell(queued("x" * nats_bus.SIGNAL_MAX))
        assert bus.dropped == 4


@in_loop
async def test_packets_to_many_nodes_are_bounded_together() -> None:
    async with opened() as bus:
        packet = b"x" * PACKET_MAX
        accepted = sum(bus.send(f"node{number}", packet) for number in range(40))
        assert accepted == outgoing.OUTGOING_BYTES_MAX // PACKET_MAX
        assert bus.dropped == 40 - accepted


@in_loop
async def test_a_server_that_takes_only_small_messages_gets_small_parts() -> None:
    with nats_cluster(1, "max_payload: 4096") as cluster:
        async with opened(cluster.url) as bus:
            packets = list[bytes]()
            bus.receive("node1", packets.append)
            sent = bytes(range(256)) * 400
            async with asyncio.timeout(30):
                while not packets:
                    bus.send("node1", sent)
                    await asyncio.sleep(0.05)
            assert packets[0] == sent
            assert bus.is_up


@in_loop
async def test_a_killed_server_is_left_for_another_and_followers_look_again() -> None:
    with nats_cluster(3) as cluster:
        first, second, _ = cluster.servers
        url = f"{first.url},{second.url.removeprefix('nats://')}"
        async with opened(url) as bus, opened(second.url) as other:
            heard, packets = list[Signal](), list[bytes]()
            bus.subscribe(heard.append)
            bus.receive("node1", packets.append)
            bus.follow("thread-1")
            await until_heard(other, heard, "before")
            here = server_of(bus, cluster.servers)
            heard.clear()
            here.kill()
            # Told by the bus itself: what happened in the outage was not heard.
            hint = Signal(kind=SignalKind.RUN_CHANGED, thread_id="thread-1", is_resting=True)
            if here is second:
                second.start()
            await until(lambda: hint in heard)
            await until_heard(other, heard, "after")
            async with asyncio.timeout(30):
                while not packets:
                    other.send("node1", b"text")
                    await asyncio.sleep(0.01)
            assert bus.is_up


def server_of(bus: NatsBus, servers: list[NatsServer]) -> NatsServer:
    """The server that a bus is connected to."""
    assert bus._connection is not None
    where = bus._connection.connected_url
    assert where is not None
    (found,) = (it for it in servers if it.port == where.port)
    return found


@pytest.mark.parametrize("refused", ["publish", "subscribe"])
@in_loop
async def test_a_bus_whose_user_has_no_right_to_its_subjects_is_not_up_and_says_why(
    refused: str, caplog: pytest.LogCaptureFixture
) -> None:
    rights = f"{{ {refused}: {{ deny: 'aw.>' }} }}"
    users = f"users: [{{ user: ann, password: secret, permissions: {rights} }}]"
    with nats_cluster(1, f"authorization {{ {users} }}") as cluster:
        async with opened(cluster.url.replace("//", "//ann:secret@")) as bus:
            assert not bus.is_up
            await until(lambda: any("permissions violation for" in it for it in caplog.messages))
            assert not bus.send("node1", b"text")


@in_loop
async def test_a_bus_opens_without_a_server_and_works_when_there_is_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with nats_cluster(1) as cluster:
        cluster.servers[0].kill()
        async with opened(cluster.url) as bus:
            assert not bus.is_up
            bus.tell(queued())
            assert not bus.send("node1", b"text")
            assert bus.dropped == 2
            cluster.servers[0].start()
            await until(lambda: bus.is_up)
            heard = list[Signal]()
            bus.subscribe(heard.append)
            await until_heard(bus, heard, "there")
            told = [it for it in caplog.records if "has no connection" in it.message]
            # Once in an outage, however often it tries.
            assert len({it.message for it in told}) == len(told)
            cluster.servers[0].kill()
            await until(lambda: not bus.is_up)


@in_loop
async def test_a_half_open_connection_is_noticed_and_what_it_had_is_counted() -> None:
    async with proxied(nats_server().port) as proxy, opened(proxy.url, probe_ms=200) as bus:
        heard = list[Signal]()
        bus.subscribe(heard.append)
        await until_heard(bus, heard, "before")
        proxy.is_mute = True
        dropped = bus.dropped
        bus.tell(queued("lost"))
        await until(lambda: not bus.is_up)
        assert bus.dropped > dropped
        proxy.is_mute = False
        proxy.abort_all()
        await until_heard(bus, heard, "after")


@in_loop
async def test_a_peer_that_takes_no_bytes_stops_neither_the_sender_nor_the_close() -> None:
    async with proxied(nats_server().port) as proxy, opened(proxy.url, probe_ms=60_000) as bus:
        heard = list[Signal]()
        bus.subscribe(heard.append)
        await until_heard(bus, heard, "before")
        proxy.is_stuck = True
        for _ in range(40):
            for node in range(16):
                bus.send(f"node{node}", b"x" * PACKET_MAX)
            await asyncio.sleep(0)
        assert bus.dropped
        async with asyncio.timeout(10):
            await bus.close()


@pytest.mark.parametrize("way", ["cut", "delay", "drip"])
@in_loop
async def test_signals_and_packets_come_through_a_bad_link(way: str) -> None:
    async with proxied(nats_server().port) as proxy, opened(proxy.url) as bus:
        heard, packets = list[Signal](), list[bytes]()
        bus.subscribe(heard.append)
        bus.receive("node1", packets.append)
        await until_heard(bus, heard, "before")
        if way == "cut":
            proxy.abort_all()
        elif way == "delay":
            proxy.delay_s = 0.05
        else:
            proxy.piece = 1
        await until_heard(bus, heard, "after")
        async with asyncio.timeout(30):
            while b"text" not in packets:
                bus.send("node1", b"text")
                await asyncio.sleep(0.05)


@in_loop
async def test_a_close_that_the_client_swallows_closes_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The client's wait for an answer forgets a cancellation that comes with the answer."""
    waiting, rtt = asyncio.Event(), NatsConnection.rtt

    async def swallow(self: NatsConnection, timeout: int = 10) -> float:
        await rtt(self, timeout)
        try:
            waiting.set()
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            return 0.0
        return 0.0

    async with opened() as bus:
        monkeypatch.setattr(NatsConnection, "rtt", swallow)
        bus.tell(queued())
        await asyncio.wait_for(waiting.wait(), 30)
        async with asyncio.timeout(10):
            await bus.close()
        assert not bus.is_up


@in_loop
async def test_a_server_that_lets_in_and_sends_away_is_not_asked_without_a_pause() -> None:
    asked, enough = list[float](), asyncio.Event()

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(asyncio.get_running_loop().time())
        if len(asked) == 5:
            enough.set()
        writer.write(b'INFO {"max_payload":1048576}\r\n')
        while (line := await reader.readline()) and not line.startswith(b"SUB"):
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")
        # The subscription is answered as well, and then it ends.
        writer.write(b"PONG\r\n")
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(greet, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    place = f"127.0.0.1:{port}"
    async with listening, opened(f"nats://{place},{place},{place}"):
        async with asyncio.timeout(60):
            await enough.wait()
        # At least half of 0.1, 0.2, 0.4 and 0.8 s.
        assert asked[4] - asked[0] >= 0.75


@in_loop
async def test_an_id_that_cannot_be_written_is_dropped_and_raises_nothing() -> None:
    async with opened() as bus:
        bus.tell(queued("half \ud800"))
        assert bus.dropped == 1


@in_loop
async def test_a_closed_bus_calls_nobody() -> None:
    name = new_schema()
    url = f"{nats_server().url}?namespace={name}"
    bus = NatsBus(url)
    await bus.open()
    heard = list[Signal]()
    bus.subscribe(heard.append)
    await until_heard(bus, heard, "before")
    await bus.close()
    bus._take(f"aw.{name}.all", b's{"kind":"dispatch_queued","thread_id":"late"}')
    assert "late" not in {it.thread_id for it in heard}


@in_loop
async def test_an_open_that_is_cancelled_leaves_nothing_behind() -> None:
    async with proxied(nats_server().port) as proxy:
        proxy.is_mute = True
        bus = NatsBus(proxy.url)
        opening = asyncio.create_task(bus.open())
        await until(lambda: bool(proxy.links))
        opening.cancel()
        await asyncio.wait([opening])
        assert bus._task is None
        assert [it for it in asyncio.all_tasks() if it.get_name().startswith("bus ")] == []
