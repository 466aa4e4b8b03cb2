"""A reader of another process' run: frames are lost, doubled, late and of processes that lost it.

Two nodes execute a run, one after the other, and the one that lost it goes on speaking. Readers
are real event streams. The client is a careful one: it drops what it is told to drop.
"""

import asyncio
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awaken.contracts.events import (
    AgentEvent,
    InferenceComplete,
    LoggedEvent,
    RunFinish,
    StepStart,
    StreamReset,
)
from awaken.contracts.lifecycle import NaturalEnd
from awaken.contracts.messages.deltas import TextDelta
from awaken.runtime.admission.active_runs import ActiveRuns
from awaken.runtime.journal.streams import StreamItem
from awaken.runtime.primitives.signals import LoopTurns
from awaken.services import event_streams, live_frames
from awaken.services.event_streams import EventStream, StreamHub
from awaken.services.live_frames import (
    ASK_MS,
    ASLEEP_MS,
    RENEW_MS,
    SILENCE_MS,
    Gone,
    LiveFrame,
    RemoteRun,
    RemoteSource,
    Want,
    WatchRequest,
    encode_items,
)

THREAD, RUN = "t", "r"
NODES = ("a", "b", "c")
TICK_MS = 250
STEPS_EACH = 60
TRIES = 850
"""How many schedules are played, 51,000 steps in all; a planted bug that none notices is missed."""
TURNS = (12, 0, 1, 2, 3)
"""How far readers get between two steps: mostly they catch up, and sometimes they hardly begin."""


class Executor:
    """One process that executes the run, or thinks so."""

    def __init__(self, world: "World", node: str) -> None:
        self.world = world
        self.node = node
        self.seq = len(world.log)
        self.version = world.version
        self.unfinished: list[AgentEvent] = []
        self.pending: list[StreamItem] = []
        self.is_watched = False
        self.stream = self.n = 0

    def show(self) -> None:
        """Show a piece of text; the first one of a step begins it."""
        if not self.unfinished:
            self._show(StepStart(message_id="m"))
        self.world.pieces += 1
        self._show(TextDelta(delta=f"{self.version}:{self.world.pieces} "))

    def _show(self, event: AgentEvent) -> None:
        self.unfinished.append(event)
        self.pending.append(event)

    def commit(self) -> None:
        """Write the step; a process that lost the run is refused."""
        world = self.world
        if world.holder is not self or not self.unfinished:
            return
        text = "".join(it.delta for it in self.unfinished if isinstance(it, TextDelta))
        done = InferenceComplete(model="m", duration_ms=1)
        world.write(StepStart(message_id="m"), TextDelta(delta=text), done)
        world.texts[len(world.log)] = text
        self.pending.append(LoggedEvent(seq=len(world.log), event=done))
        self.seq, self.version, self.unfinished = len(world.log), world.version, []

    def flush(self) -> None:
        """Send what was shown, if a reader asked."""
        if self.is_watched:
            self.n += 1
            self._send(self.n, 0, self.pending)
        self.pending = []

    def take(self, watch: WatchRequest) -> None:
        """Answer a reader."""
        if watch.want == Want.NOTHING:
            self.is_watched = False
        elif watch.want == Want.SNAPSHOT or not self.is_watched:
            self.flush()
            # Every process counts by itself, so that the numbers of two are often equal.
            self.is_watched, self.stream, self.n = True, self.stream + 1, 0
            self._send(0, self.seq, live_frames.join_deltas(self.unfinished))

    def _send(self, n: int, seq: int, items: Any) -> None:
        frame = LiveFrame(THREAD, RUN, self.version, self.stream, n, seq, encode_items(items))
        self.world.net.append((self.node, frame))


class World:
    """The log, the processes and what is on its way between them."""

    def __init__(self) -> None:
        self.log: list[LoggedEvent] = []
        self.texts: dict[int, str] = {}
        """The text of each step, by the place of its last event."""
        self.version = 1
        self.pieces = self.now = 0
        self.net: list[tuple[str, LiveFrame | Gone]] = []
        self.asked: list[tuple[str, WatchRequest]] = []
        self.is_over = False
        self.executors: list[Executor] = []
        self.take_over()
        self.active = ActiveRuns(LoopTurns())
        self.source = RemoteSource(THREAD, lambda *it: self.asked.append(it), self.wake)
        store = SimpleNamespace(is_shared=False, list_events=self.list_events)
        clock = SimpleNamespace(monotonic_ms=lambda: self.now)
        engine: Any = SimpleNamespace(
            active=self.active, store=store, services=SimpleNamespace(clock=clock)
        )
        control: Any = SimpleNamespace(find_resting_run=self.find_resting_run, record=self.record)
        bus: Any = SimpleNamespace(follow=lambda _: lambda: None, subscribe=lambda _: lambda: None)
        self.hub = StreamHub(engine, control, bus, 250, self)

    @property
    def holder(self) -> Executor:
        return self.executors[-1]

    def take_over(self) -> None:
        """Let another process have the run; the earlier ones do not know it."""
        if self.executors:
            self.version += 1
        node = f"{NODES[len(self.executors) % len(NODES)]}{len(self.executors)}"
        self.executors.append(Executor(self, node))

    def write(self, *events: AgentEvent) -> None:
        self.version += 1
        for event in events:
            self.log.append(LoggedEvent(seq=len(self.log) + 1, run_id=RUN, event=event))

    async def list_events(self, _: str, *, after: int = 0, limit: int = 100) -> Any:
        return tuple(self.log[after : after + limit])

    async def find_resting_run(self, _: str) -> str | None:
        return RUN if self.is_over else None

    async def record(self, _: str) -> Any:
        return SimpleNamespace(started_at=1, termination=None)

    def follow(self, _: str) -> Callable[[], None]:
        return lambda: None

    def find_run(self, _: str) -> Any:
        return self.source.run

    def look_again(self, _: str) -> None:
        pass

    def wake(self) -> None:
        for change in tuple(self.active.watchers.get(THREAD, ())):
            change()

    def pick(self, number: int) -> Executor:
        """One of the processes, most of which have lost the run."""
        return self.executors[number % len(self.executors)]

    def executor(self, node: str) -> Executor:
        return next(it for it in self.executors if it.node == node)

    def answer(self) -> None:
        """Let the processes hear what was asked."""
        asked, self.asked = self.asked, []
        for node, watch in asked:
            self.executor(node).take(watch)

    def deliver(self, place: int, *, keep: bool = False) -> None:
        """Deliver one message of those on their way, in any order."""
        if self.net:
            place %= len(self.net)
            sender, message = self.net[place] if keep else self.net.pop(place)
            if isinstance(message, LiveFrame):
                self.source.take_frame(sender, message, self.now)
            else:
                self.source.take_gone(sender)


class Client:
    """Keeps what a careful client keeps, and checks it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.seen: list[int] = []
        self.text = self.kept = ""
        """The text of the open step, and as it was at the latest id."""
        self.version = 0

    async def read(self) -> None:
        stream = EventStream(self.world.hub, THREAD, RUN, 0)
        async for batch in stream.batches():
            for item in batch:
                self.take(item)
            if stream.is_over:
                # Transports send nothing after the batch of which this is said.
                return

    def take(self, item: StreamItem) -> None:
        match item:
            case LoggedEvent(seq=seq, event=event):
                assert seq > (self.seen[-1] if self.seen else 0), "an id came twice"
                self.take(event)
                self.seen.append(seq)
                if isinstance(event, InferenceComplete):
                    assert self.text == self.world.texts[seq], "the text is not the log's"
                    self.text = ""
                self.kept = self.text
            case StreamReset(scope="step"):
                self.text = self.kept
            case StepStart():
                assert not self.text, "a step began while one was open"
            case TextDelta(delta=text):
                self.text += text
                numbers = [int(it.split(":")[1]) for it in self.text.split()]
                assert numbers == sorted({*numbers}), "a piece came twice or too late"
                version = int(text.split()[0].split(":")[0])
                assert version >= self.version, "a process spoke that had lost the run"
                self.version = version


def _exchange(world: World, _: int) -> None:
    """The usual case: the holder is found, asked, and its answers arrive."""
    world.source.watch(world.holder.node, world.now)
    world.now += 40
    world.source.tick(world.now)
    world.answer()
    world.holder.flush()
    while world.net:
        world.deliver(0)


def _pass(world: World, ms: int) -> None:
    """Let time pass in steps, as a process does that is not asleep."""
    for _ in range(0, ms, TICK_MS):
        world.now += TICK_MS
        world.source.tick(world.now)


OPS: dict[str, Callable[[World, int], object]] = {
    "exchange": _exchange,
    "show": lambda world, _: world.holder.show(),
    "flush": lambda world, _: world.holder.flush(),
    "commit": lambda world, _: world.holder.commit(),
    "take over": lambda world, _: world.take_over(),
    "show late": lambda world, it: world.pick(it).show(),
    "flush late": lambda world, it: world.pick(it).flush(),
    "deliver": lambda world, _: world.deliver(0),
    "deliver any": lambda world, it: world.deliver(it),
    "double": lambda world, it: world.deliver(it, keep=True),
    "lose": lambda world, it: world.net and world.net.pop(it % len(world.net)),
    "answer": lambda world, _: world.answer(),
    "ask again": lambda world, _: world.asked.append(
        (world.source.asked or world.holder.node, WatchRequest(THREAD, Want.SNAPSHOT))
    ),
    "newest first": lambda world, _: world.deliver(-1),
    "lose question": lambda world, _: world.asked.clear(),
    "find": lambda world, _: world.source.watch(world.holder.node, world.now),
    "find late": lambda world, it: world.source.watch(world.pick(it).node, world.now),
    "tick": lambda world, _: _pass(world, ASK_MS),
    "silence": lambda world, _: _pass(world, SILENCE_MS),
    "wake": lambda world, _: world.wake(),
    "gone": lambda world, it: world.net.append((world.pick(it).node, Gone(THREAD))),
    "attach": lambda _, __: None,
}
OFTEN = ("show", "flush", "deliver", "exchange", "commit")

Schedule = list[tuple[str, int]]


async def settle(turns: int = TURNS[0]) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


async def play(schedule: Schedule) -> None:
    """Play a schedule, then let the run end and everything arrive."""
    world = World()
    clients, reading = [Client(world)], list[asyncio.Task[None]]()
    reading.append(asyncio.create_task(clients[0].read()))
    try:
        for op, number in schedule:
            if op == "attach" and len(clients) < 4:
                clients.append(Client(world))
                reading.append(asyncio.create_task(clients[-1].read()))
            OPS[op](world, number)
            await settle(TURNS[number % len(TURNS)])
        world.holder.show()
        world.holder.commit()
        world.write(RunFinish(thread_id=THREAD, run_id=RUN, termination=NaturalEnd()))
        world.is_over = True
        for _ in range(3):
            _pass(world, SILENCE_MS)
            world.wake()
            await settle()
        for task in reading:
            assert task.done(), "a reader is stuck"
            task.result()
    finally:
        for task in reading:
            task.cancel()
        await asyncio.wait(reading)
    for client in clients:
        assert client.seen[-1] == len(world.log)
        assert client.text == ""
    assert not world.active.watchers


STEPS = st.sampled_from([*OPS, *OFTEN])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.tuples(STEPS, st.integers(0, 30)), max_size=STEPS_EACH))
def test_what_a_careful_client_keeps_is_the_log(schedule: Schedule) -> None:
    asyncio.run(play(schedule))


LATE_FRAME = (
    "show", "find", "answer", "deliver", "show", "flush", "ask again", "answer", "newest first",
    "deliver",
    "show", "commit", "exchange", "wake",
)  # fmt: skip
"""A frame of an earlier snapshot comes after a later snapshot, with the number that is next."""


def make_schedule(seed: int) -> Schedule:
    if seed == 0:
        return [(name, 0) for name in LATE_FRAME]
    random, names = Random(seed), [*OPS, *OFTEN]
    return [(random.choice(names), random.randrange(31)) for _ in range(STEPS_EACH)]


def test_no_schedule_loses_or_doubles_anything() -> None:
    for seed in range(TRIES):
        asyncio.run(play(make_schedule(seed)))


def _forget_the_debt(patch: pytest.MonkeyPatch) -> None:
    def mutant(self: Any) -> None:
        self.live, self._owes_reset, self._is_provisional = None, self._is_provisional, False

    patch.setattr(EventStream, "_leave_source", mutant)


def _ignore_versions(patch: pytest.MonkeyPatch) -> None:
    take = RemoteSource._take_snapshot

    def mutant(self: Any, sender: str, frame: LiveFrame, now: int) -> None:
        self._version = 0
        take(self, sender, frame, now)

    patch.setattr(RemoteSource, "_take_snapshot", mutant)


def _trust_everybody(patch: pytest.MonkeyPatch) -> None:
    take = RemoteSource.take_frame

    def mutant(self: Any, sender: str, frame: LiveFrame, now: int) -> None:
        take(self, self._source or sender, frame, now)

    patch.setattr(RemoteSource, "take_frame", mutant)


def _ignore_numbers(patch: pytest.MonkeyPatch) -> None:
    take = RemoteSource.take_frame

    def mutant(self: Any, sender: str, frame: LiveFrame, now: int) -> None:
        self._n = frame.n - 1
        take(self, sender, frame, now)

    patch.setattr(RemoteSource, "take_frame", mutant)


def _mix_snapshots(patch: pytest.MonkeyPatch) -> None:
    take = RemoteSource.take_frame

    def mutant(self: Any, sender: str, frame: LiveFrame, now: int) -> None:
        stream = frame.stream if frame.n == 0 else self._stream
        take(self, sender, msgspec.structs.replace(frame, stream=stream), now)

    patch.setattr(RemoteSource, "take_frame", mutant)


def _show_what_the_log_has_shown(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EventStream, "_find_level", lambda self, _: (0, self._cursor))


def _wait_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(live_frames, "SILENCE_MS", 10**9)


def _never_reset(patch: pytest.MonkeyPatch) -> None:
    def mutant(self: Any) -> None:
        self.live, self._is_provisional = None, False

    patch.setattr(EventStream, "_leave_source", mutant)


def _reset_the_turn(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(event_streams, "_GOES_ON_ELSEWHERE", StreamReset(reason="other", scope="turn"))


def _remember_what_is_durable(patch: pytest.MonkeyPatch) -> None:
    add = RemoteRun.add

    def mutant(self: Any, items: Any) -> None:
        before = list(self._unfinished)
        add(self, items)
        if any(isinstance(it, LoggedEvent) for it in items):
            self._unfinished = [*before, *self._unfinished]

    patch.setattr(RemoteRun, "add", mutant)


def _leave_feeds_open(patch: pytest.MonkeyPatch) -> None:
    def mutant(self: Any) -> None:
        self.run = None

    patch.setattr(RemoteSource, "_close_run", mutant)


@pytest.mark.parametrize(
    "plant",
    [
        _ignore_versions,
        _trust_everybody,
        _ignore_numbers,
        _mix_snapshots,
        _show_what_the_log_has_shown,
        _wait_for_ever,
        _never_reset,
        _forget_the_debt,
        _reset_the_turn,
        _remember_what_is_durable,
        _leave_feeds_open,
    ],
)
def test_each_broken_rule_is_noticed(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(TRIES):
        try:
            asyncio.run(play(make_schedule(seed)))
        except AssertionError:
            return
    raise AssertionError(f"{TRIES} schedules did not notice it")


def test_a_source_is_renewed_asked_again_and_given_up() -> None:
    world = World()
    node = world.holder.node

    def asked() -> list[Want]:
        found, world.asked = [Want(it.want) for _, it in world.asked], []
        return found

    world.source.watch(node, 0)
    world.source.watch(node, 1)
    world.source.tick(ASK_MS - 1)
    assert asked() == [Want.SNAPSHOT]
    world.now = ASK_MS
    world.source.tick(world.now)
    world.answer()
    world.deliver(0)
    assert world.source.run is not None
    for second in range(2, 12):
        world.now = second * 1_000
        world.holder.flush()
        world.deliver(0)
        world.source.tick(world.now)
    assert asked() == [Want.MORE, Want.MORE]
    assert RENEW_MS == 5_000
    asked()
    # A process that slept has not heard what waits for it.
    world.source.tick(world.now + 2 * SILENCE_MS)
    world.now += 2 * SILENCE_MS
    assert world.source.run is not None
    world.source.tick(world.now + ASLEEP_MS - 1)
    run = world.source.run
    assert run is not None
    asked()
    world.source.tick(world.now + ASLEEP_MS)
    assert world.source.run is None
    assert run.feed.is_closed
    assert asked() == []
