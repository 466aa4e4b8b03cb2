"""Readers of a run that are level share one encoder, and get what their own would give them."""

import asyncio
import random
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from awaken import Agent, AgentEvent, AgentRuntime, RunRequest, user
from awaken.contracts.events import unwrap_event
from awaken.protocols.native.runs import NativeEncoder
from awaken.runtime.journal import streams
from awaken.runtime.journal.streams import EventFeed, EventReader, ReaderDropped, StreamItem
from awaken.testing import Chunks, ScriptedModel, ToolCalls
from awaken.transport.frames import Encoder, ReaderEncoder, frames

from .in_process import Request
from .serving import Gate
from .test_every_cut import WIRES, agent_of, played, scripts

Make = Callable[[], Encoder]


class Client:
    """A reader of a feed, with the encoder that a reply has and one that is its own."""

    def __init__(self, make: Make, before: Sequence[StreamItem] = ()) -> None:
        self.reader = EventReader(is_attached=False)
        self.encoder = ReaderEncoder(make())
        self.own = make()
        self.got = self.wanted = b""
        self.source: Any = SimpleNamespace(live=self.reader, namespace="")
        for item in before:
            self.own.encode(unwrap_event(item))

    async def catch_up(self, before: Sequence[StreamItem]) -> None:
        await self.encoder.catch_up([unwrap_event(item) for item in before])

    async def read(self) -> None:
        """Read what the feed has for it."""
        if self.reader.is_ready and (batch := self.reader.take()):
            self.take(batch)

    def take(self, batch: list[StreamItem]) -> None:
        self.got += self.encoder.encode(batch, self.source)
        self.wanted += frames(self.own, batch)

    @property
    def is_level(self) -> bool:
        return self.encoder._shared is not None


class Counting:
    """An encoder that counts what it is given."""

    def __init__(self) -> None:
        self.given: list[AgentEvent] = []

    def encode(self, event: AgentEvent) -> Sequence[bytes]:
        self.given.append(event)
        return (b"data: %d" % len(self.given),)

    def state(self) -> object:
        return len(self.given)


async def events_of(name: str) -> list[StreamItem]:
    gate = asyncio.Event()
    async with AgentRuntime([agent_of(name, gate)]) as runtime:
        return await played(runtime._services.view(None), gate)


async def attach(feed: EventFeed, make: Make, before: Sequence[StreamItem] = ()) -> Client:
    client = Client(make, before)
    await client.catch_up(before)
    feed.attach(client.reader)
    return client


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("name", scripts())
def test_readers_get_what_their_own_encoder_gives_wherever_they_attach(
    name: str, wire: str
) -> None:
    async def scenario() -> None:
        items, dice, make = await events_of(name), random.Random(11), WIRES[wire]
        feed, clients = EventFeed(), list[Client]()
        # The rest comes from the log, as when another process goes on with the run.
        live = len(items) - len(items) // 4
        for place, item in enumerate(items[:live]):
            clients += [await attach(feed, make, items[:place]) for _ in range(2)]
            feed.emit(item)
            for client in dice.sample(clients, len(clients) // 4 + 1):
                await client.read()
        feed.close()
        for client in clients:
            await client.read()
        if wire != "a2a":
            assert any(client.is_level for client in clients)
        for client in clients:
            client.source.live = None
            for item in items[live:]:
                client.take([item])
            client.encoder.close()
            assert client.got == client.wanted
        assert not feed.shared

    asyncio.run(scenario())


def test_an_event_is_encoded_once_for_all_readers_that_are_level() -> None:
    async def scenario() -> None:
        items, given = await events_of("calls"), list[Counting]()
        feed = EventFeed()

        def make() -> Counting:
            given.append(Counting())
            return given[-1]

        clients = [Client(make) for _ in range(50)]
        for client in clients:
            client.own = Counting()
            feed.attach(client.reader)
        for item in items:
            feed.emit(item)
            for client in clients:
                await client.read()
        counts = sorted(len(it.given) for it in given)
        # Each encodes the first event itself, and is level after it.
        assert counts == [0] * 50 + [1] * 49 + [len(items)] or counts == [1] * 49 + [len(items)]
        assert {client.got for client in clients} == {clients[0].wanted}

    asyncio.run(scenario())


def test_a_reader_that_attaches_midway_has_its_own_encoder_until_it_is_level() -> None:
    async def scenario() -> None:
        items, feed = await events_of("a text"), EventFeed()
        first, second = [await attach(feed, Counting) for _ in range(2)]
        for item in items[:4]:
            feed.emit(item)
            for client in (first, second):
                await client.read()
        late = await attach(feed, Counting, items[:4])
        behind = await attach(feed, Counting, items[:2])
        assert not late.is_level
        for item in items[4:]:
            feed.emit(item)
            for client in (first, second, late, behind):
                await client.read()
            assert late.is_level
            assert not behind.is_level
        for client in (first, second, late, behind):
            assert client.got == client.wanted

    asyncio.run(scenario())


def test_a_reader_alone_shares_nothing() -> None:
    async def scenario() -> None:
        feed = EventFeed()
        only = await attach(feed, NativeEncoder)
        for item in await events_of("a text"):
            feed.emit(item)
            await only.read()
        assert feed.shared is None
        assert not only.is_level
        assert only.got == only.wanted

    asyncio.run(scenario())


def test_a_slow_reader_is_dropped_and_the_others_get_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        items, feed, dropped = await events_of("calls"), EventFeed(), list[bool]()
        monkeypatch.setattr(streams, "READER_BYTES", 200)
        quick, other, slow = [await attach(feed, WIRES["ai-sdk 6"]) for _ in range(3)]
        slow.reader.on_drop = lambda: dropped.append(True)
        for place, item in enumerate(items):
            feed.emit(item)
            for client in (quick, other, *([slow] if place < 3 else ())):
                await client.read()
        assert dropped == [True]
        with pytest.raises(ReaderDropped):
            slow.reader.take()
        slow.encoder.close()
        assert quick.got == other.got == quick.wanted == other.wanted
        assert quick.got.startswith(slow.got)

    asyncio.run(scenario())


def test_what_comes_to_one_reader_only_needs_the_place_that_the_others_have_reached() -> None:
    async def scenario() -> None:
        items, feed = await events_of("a text"), EventFeed()
        ahead, behind = [await attach(feed, WIRES["ai-sdk 6"]) for _ in range(2)]
        for item in items[:3]:
            feed.emit(item)
            for client in (ahead, behind):
                await client.read()
        feed.emit(items[3])
        await ahead.read()
        behind.source.live = None
        with pytest.raises(ReaderDropped):
            behind.encoder.encode([items[-1]], behind.source)

    asyncio.run(scenario())


def test_readers_of_different_tenants_share_nothing() -> None:
    async def scenario() -> None:
        gate = Gate()
        model = ScriptedModel([ToolCalls([("wait", {})]), Chunks(["a", "b"])])
        async with AgentRuntime([Agent("a", model=model, tools=[gate.tool()])]) as runtime:
            tenant, operator = (runtime._services.view(it) for it in ("acme", None))
            request = RunRequest(agent_id="a", thread_id="t", messages=(user("go"),))
            started = await tenant.start(request)
            stored = tenant.add_namespace(started.run_id)
            await gate.entered.wait()
            sources = [await tenant.follow_run(started.run_id) for _ in range(2)]
            sources += [await operator.follow_run(stored) for _ in range(2)]

            async def read(source: Any) -> bytes:
                encoder, got = ReaderEncoder(NativeEncoder()), b""
                async for batch in source.batches():
                    got += encoder.encode(batch, source)
                return got

            reading = [asyncio.create_task(read(source)) for source in sources]
            await asyncio.sleep(0)
            gate.opened.set()
            ends = [got.split(b"\n\n")[-2] for got in await asyncio.gather(*reading)]
            assert [stored.encode() in end for end in ends] == [False, False, True, True]
            assert all(b"run_finish" in end for end in ends)

    asyncio.run(scenario())


def test_many_clients_of_one_run_have_its_events_encoded_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        gate, given = Gate(), list[AgentEvent]()
        encode = NativeEncoder.encode

        def count(self: NativeEncoder, event: AgentEvent) -> Sequence[bytes]:
            given.append(event)
            return encode(self, event)

        model = ScriptedModel([ToolCalls([("wait", {})]), Chunks([f"{it} " for it in range(40)])])
        runtime = AgentRuntime([Agent("a", model=model, tools=[gate.tool()])])
        app = runtime.asgi()
        async with runtime:
            body = {"agent_id": "a", "messages": [{"role": "user", "content": "go"}]}
            first = Request(app, "POST", "/v1/runs", body=body)
            await gate.entered.wait()
            path = f"/v1/runs/{(await first.begun()).headers['x-run-id']}/events/stream"
            others = [Request(app, "GET", path) for _ in range(20)]
            for other in others:
                await other.got_body.wait()
            monkeypatch.setattr(NativeEncoder, "encode", count)
            gate.opened.set()
            await asyncio.gather(first.task, *(other.task for other in others))
        assert len({other.answer.body for other in others}) == 1
        most = max(given.count(event) for event in given if type(event).__name__ == "RunFinish")
        assert most == 1

    asyncio.run(scenario())
