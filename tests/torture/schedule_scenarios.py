"""What two processes on one store may do to each other. Each scenario is played under many seeds.

A scenario lets its world live and says what must have come of it; what must hold in every world
is checked by the world itself.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from awaken.contracts.errors import AlreadyDecided, CursorExpired, DedupeConflict
from awaken.contracts.events import StateSnapshot
from awaken.contracts.lifecycle import Cancelled, NaturalEnd, RunStatus
from awaken.contracts.messages.message import Role, user
from awaken.contracts.runs.records import RunRequest
from awaken.contracts.storage.dispatch import DispatchStatus, InputMode
from awaken.contracts.storage.queries import DispatchQuery
from awaken.contracts.suspension.tickets import ToolCallResume
from awaken.testing import check_events

from .chaos_agent import AGENT
from .schedule_world import LEASE_MS, POLL_MS, SWEEP_MS, Deaf, Process, World, at, expected

LEASE_S, SWEEP_S = LEASE_MS / 1000, SWEEP_MS / 1000
SKEW_MS = 600_000

Scenario = Callable[[World], Awaitable[None]]


async def two_workers(world: World) -> None:
    """Two workers share three threads, some with two dispatches; each is executed once."""
    world.pace_s, world.work_s = 0.2, 0.5
    texts = ("use once", "use idempotent once", "say hello", "use none")
    async with world.living("a", "b") as (a, b):
        await asyncio.gather(
            *(
                at(world.pace(), partial((a, b)[n % 2].submit, text, f"t{n % 3}"))
                for n, text in enumerate(texts)
            )
        )
    await _all_ended_naturally(world)
    assert all(it.attempt_count == 1 for it in world.truth.claims), "a live claim was taken"


async def paused_worker(world: World) -> None:
    """A worker stops for twice its lease and goes on: others have its work, it writes no more."""
    world.pace_s, world.work_s = 0.6, 1.5
    async with world.living("a", "b") as (a, b):
        await asyncio.gather(a.submit("use once", "t1"), b.submit("use idempotent", "t2"))
        await asyncio.sleep(world.chance.uniform(0, 2))
        a.freeze()
        await asyncio.sleep(2 * LEASE_S + SWEEP_S)
        a.thaw()
    await _all_ended_naturally(world)


async def killed_worker(world: World) -> None:
    """A worker dies at any moment, and then the one that took over; a third one ends it all."""
    world.pace_s, world.work_s = 0.4, 0.8
    async with world.living("a", "b") as (a, b):
        await a.submit("use once idempotent", "t1")
        await asyncio.sleep(world.chance.uniform(0, 2))
        a.freeze()
        await asyncio.sleep(world.chance.uniform(0, LEASE_S + 2 * SWEEP_S))
        b.freeze()
        async with world.living("c"):
            await world.settled()
    await _all_ended_naturally(world)


async def skewed_clocks(world: World) -> None:
    """Wall clocks that are ten minutes wrong neither steal a live lease nor strand work."""
    world.pace_s, world.work_s = 1.0, 2 * LEASE_S
    skews = [world.chance.choice((-SKEW_MS, SKEW_MS)), world.chance.choice((0, SKEW_MS))]
    async with world.living("a", "b", skew_ms=skews) as (a, b):
        await asyncio.gather(
            a.submit("use once", "t1"), b.submit("use once", "t2"), a.submit("say hi", "t1")
        )
        begun = asyncio.get_running_loop().time()
        await world.settled()
    assert asyncio.get_running_loop().time() - begun < 6 * LEASE_S, "it was stranded"
    assert all(it.attempt_count == 1 for it in world.truth.claims), "a live lease was stolen"
    await _all_ended_naturally(world)


async def interrupts(world: World) -> None:
    """Two interrupts race with what executes and what is queued; the last word is theirs."""
    world.pace_s, world.work_s = 0.3, 0.5
    interrupt = partial(Process.submit, mode=InputMode.INTERRUPT)
    async with world.living("a", "b") as (a, b):
        await asyncio.gather(a.submit("use once"), b.submit("say queued"))
        await asyncio.gather(
            *(
                at(world.chance.uniform(0, 1), partial(interrupt, it, f"say {it.name}"))
                for it in (a, b)
            )
        )
    ended = [(await world.truth.load_run(it.run_id)) for it in world.receipts]
    assert any(it is not None and isinstance(it.termination, NaturalEnd) for it in ended[2:]), (
        "no interrupt was heard"
    )
    for run in ended:
        is_known_end = run is None or isinstance(run.termination, NaturalEnd | Cancelled)
        assert is_known_end, f"it ended as {run}"


async def same_decision(world: World) -> None:
    """A hundred submitters decide the same; one execution, a hundred equal receipts."""
    decision = ToolCallResume(decision_id="yes", result="yes")
    async with world.living("a", "b") as processes:
        await processes[0].submit("use ask")
        ticket = await world.open_ticket()
        receipts = await asyncio.gather(
            *(processes[n % 2].mailbox.decide([(ticket, decision)]) for n in range(100))
        )
    assert [receipts[0]] * 100 == receipts
    assert _told(world) == ['told "yes"']
    await _all_ended_naturally(world)


async def two_decisions(world: World) -> None:
    """Two different decisions race: one is taken, the other refused, and the tool hears one.

    They may come while the run still executes another call, or when it waits.
    """
    refused: list[BaseException] = []
    world.work_s = world.chance.choice((0, 0.2))

    async def decide(process: Process, ticket: str) -> None:
        await asyncio.sleep(world.chance.uniform(0, world.work_s))
        said = "yes" if process.name == "a" else {"approved": True}
        given = ToolCallResume(decision_id=process.name, result=said)
        with expected(AlreadyDecided, into=refused):
            await process.mailbox.decide([(ticket, given)])

    async with world.living("a", "b") as processes:
        await processes[0].submit("use ask once" if world.work_s else "use ask")
        ticket = await world.open_ticket(is_waiting=not world.work_s)
        await asyncio.gather(*(decide(it, ticket) for it in processes))
    assert len(_told(world)) == 1, f"the tool heard {_told(world)}"
    assert len(refused) == 1, f"{refused} were refused, the tool heard {_told(world)}"
    await _all_ended_naturally(world)


async def cancel_or_completion(world: World) -> None:
    """A cancel races the end: one terminal state, and whoever asks is told which."""
    world.pace_s, world.work_s = 0.2, 0.3
    async with world.living("a", "b") as (a, b):
        receipt = await a.submit(world.chance.choice(("use once", "say hi", "use ask")))
        await asyncio.sleep(world.chance.uniform(0, 1))
        answers = await asyncio.gather(*(it.mailbox.cancel(receipt.run_id) for it in (a, b)))
        await world.settled()
        run = await world.truth.load_run(receipt.run_id)
        if run is not None and run.status is RunStatus.WAITING:
            # It came to wait after both had looked: then it can be cancelled now.
            answers.append(await a.mailbox.cancel(receipt.run_id))
    run = await world.truth.load_run(receipt.run_id)
    if run is None:
        found = await world.truth.find_dispatch(receipt.dispatch_id)
        assert found is not None
        assert found.status is DispatchStatus.CANCELLED, f"it is {found.status}"
        return
    is_cancelled = isinstance(run.termination, Cancelled)
    assert run.status is RunStatus.DONE, f"it was cancelled ({answers}) and is {run.status}"
    assert any(answers) or not is_cancelled, "nobody has cancelled it"


async def steer_or_end(world: World) -> None:
    """A steering message goes into the run or starts one: it is there once, and is answered."""
    world.pace_s, world.work_s = 0.2, 0.3
    async with world.living("a", "b") as (a, b):
        await a.submit("use once")
        await asyncio.sleep(world.chance.uniform(0, 1))
        await b.submit("say steered", mode=InputMode.STEER)
    checkout = await world.truth.checkout("t")
    assert checkout is not None
    said = [it.text for it in checkout.messages if it.role is Role.USER]
    assert sorted(said) == ["say steered", "use once"], f"it has {said}"
    assert checkout.messages[-1].role is Role.ASSISTANT
    await _all_ended_naturally(world)


async def attaching_reader(world: World) -> None:
    """Readers that come at any time get the events of the log from the start, each once."""
    async with world.living("a") as (a,):
        request = RunRequest(thread_id="t", agent_id=AGENT, messages=(user("use once none"),))
        handle = await a.engine.start(request)

        async def read() -> list[object]:
            # Nothing here takes time, so that they come right between two events.
            for _ in range(world.chance.randrange(60)):
                await asyncio.sleep(0)
            # Snapshots are shown live and never logged, so that who comes late misses some.
            stream = handle.events()
            return [event async for event in stream if not isinstance(event, StateSnapshot)]

        streams = await asyncio.gather(*(read() for _ in range(8)))
    log = [it.event for it in await world.truth.list_events("t")]
    for stream in streams:
        assert not check_events(stream), check_events(stream)
        kept = [it for it in stream if it in log]
        missing = [it for it in log if it not in stream and not _is_text(it)]
        assert not missing, f"it never got {missing}"
        assert [it for it in kept if not _is_text(it)] == [it for it in log if not _is_text(it)]
        assert _text(stream) == _text(log), f"{_text(stream)!r} is not {_text(log)!r}"


async def lost_signals(world: World) -> None:
    """With every signal dropped, work starts within the poll interval, and cancels are heard."""
    world.bus = Deaf()
    world.pace_s = 0.05
    async with world.living("a", "b") as (a, b):
        await asyncio.gather(a.submit("say hi", "t1"), b.submit("use once", "t2"))
        begun = asyncio.get_running_loop().time()
        await world.settled()
        spent = asyncio.get_running_loop().time() - begun
        assert spent < POLL_MS / 1000 + 1, f"it took {spent} s"
        await a.submit("use ask", "t3")
        ticket = await world.open_ticket("t3")
        await b.mailbox.decide([(ticket, ToolCallResume(decision_id="d", result="yes"))])
    await _all_ended_naturally(world)


async def two_sweepers(world: World) -> None:
    """Two nodes take back what a dead one had, at the same moment; each piece comes back once."""
    world.pace_s, world.work_s = 0.1, 0.2
    async with world.living("dead") as (dead,):
        for number in range(3):
            await dead.submit("use idempotent", f"t{number}")
        await asyncio.sleep(world.chance.uniform(0.01, 0.3))
        dead.freeze()
        held = (await world.truth.list_dispatches(_CLAIMED)).items
        await asyncio.sleep(LEASE_S)
        async with world.living("a", "b") as (a, b):
            counts = await asyncio.gather(a.sweeper.reclaim(), b.sweeper.reclaim())
            assert sum(counts) <= len(held), f"{len(held)} were lost, {counts} came back"
            await world.settled()
    for dispatch in held:
        found = await world.truth.find_dispatch(dispatch.dispatch_id)
        assert found is not None
        assert found.attempt_count <= 2, "it was taken back twice"
    await _all_ended_naturally(world)


async def dedupe_race(world: World) -> None:
    """32 submitters under one key make one dispatch; who asks for something else is refused."""
    refused: list[BaseException] = []
    texts = ["say same"] * 32
    texts[world.chance.randrange(32)] = "say other"

    async def send(process: Process, text: str) -> None:
        with expected(DedupeConflict, into=refused):
            await process.submit(text, dedupe_key="key")

    async with world.living("a", "b") as processes:
        await asyncio.gather(*(send(processes[n % 2], text) for n, text in enumerate(texts)))
    found = (await world.truth.list_dispatches(DispatchQuery(thread_id="t"))).items
    assert len(found) == 1, f"{len(found)} dispatches under one key"
    assert len(refused) in (1, 31), f"{len(refused)} were refused"
    assert {it.dispatch_id for it in world.receipts} == {found[0].dispatch_id}
    await _all_ended_naturally(world)


async def deadline_or_decision(world: World) -> None:
    """A deadline and a decision come together: one of them counts, on every node alike."""
    deadline_s = world.chance.uniform(0.5, 1.5)
    clock = world.truth.clock
    world.deadline = lambda: clock.now_ms() + round(deadline_s * 1000)
    refused: list[BaseException] = []
    async with world.living("a", "b") as (a, b):
        await a.submit("use ask")
        ticket = await world.open_ticket()
        # Sweepers look every second, and a decision that comes after the deadline is refused.
        await asyncio.sleep(deadline_s + world.chance.uniform(-0.05, 0.02))
        given = ToolCallResume(decision_id="late", result="yes")
        with expected(AlreadyDecided, into=refused):
            await b.mailbox.decide([(ticket, given)])
        async with asyncio.timeout(30):
            while await world.truth.list_tickets("t"):
                await asyncio.sleep(0.1)
    heard = _told(world)
    assert len(heard) == (0 if refused else 1), f"refused {refused}, and it heard {heard}"
    stored = await world.truth.find_ticket(ticket)
    assert stored is not None
    if stored.decision is not None:
        assert (stored.decision.decision_id == "late") == (not refused)


async def purge_or_reader(world: World) -> None:
    """A reader that pages through a log while it is purged sees no gap: all, or `expired`."""
    async with world.living("a") as (a,):
        for number in range(3):
            await a.submit(f"say {number}")
        await world.settled()

        async def read() -> None:
            after = 0
            while page := await a.wire.list_events("t", after=after, limit=2):
                numbers = [it.seq for it in page]
                first = numbers[0] if after == 0 else after + 1
                assert numbers == list(range(first, first + len(numbers))), f"a gap: {numbers}"
                after = numbers[-1]

        async def purge() -> None:
            await asyncio.sleep(world.chance.choice((0, 0.01)))
            for _ in range(world.chance.randrange(1, 4)):
                await a.wire.purge(await a.wire.now_ms() + 1, world.chance.randrange(1, 4))

        reading, purging = asyncio.create_task(read()), asyncio.create_task(purge())
        await asyncio.wait({reading, purging})
        purging.result()
        with expected(CursorExpired, into=[]):
            reading.result()
        checkout = await world.truth.checkout("t")
        assert checkout is not None
        assert len(checkout.messages) == 6, "a purge took messages"
    world.is_purged = True


async def _all_ended_naturally(world: World) -> None:
    for receipt in world.receipts:
        found = await world.truth.find_dispatch(receipt.dispatch_id)
        run = None if found is None else await world.truth.load_run(found.taken_by or found.run_id)
        assert run is not None, f"run {receipt.run_id} never was"
        assert isinstance(run.termination, NaturalEnd), f"{run.run_id}: {run.termination}"


def _told(world: World) -> list[str]:
    return [what for did in world.effects.values() for _, what in did if what.startswith("told")]


def _is_text(event: object) -> bool:
    return type(event).__name__ in ("TextDelta", "ToolCallStart")


def _text(events: list[object]) -> str:
    return "".join(getattr(it, "delta", "") for it in events if type(it).__name__ == "TextDelta")


_CLAIMED = DispatchQuery(status=DispatchStatus.CLAIMED)
