"""Workflows through a crash at every point and under many schedules: nothing lost, nothing doubled.

Every workflow notes what it sees at each point. Whenever it is entered again, it has to see the
same: replay is exact.
"""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.blocking_store import MakeStore, postgres_trials, sqlite_trials
from tests.sampling import IS_EVERYTHING, choose_size, sampled

from awaken import (
    Agent,
    Cancelled,
    NaturalEnd,
    ToolError,
    WorkflowContext,
    tool,
    user,
    workflow,
)
from awaken.contracts.runs.records import RunRecord, RunRequest
from awaken.errors import OutcomeUnknown, StepFailed, StepTimedOut
from awaken.mailbox.mailbox import Mailbox
from awaken.mailbox.workflow_runs import SentEvent, make_event
from awaken.stores import InputMode
from awaken.testing import AgentReport, ScriptedModel, simulate_agent
from awaken.tools import StepRetry

THREAD, RUN = "simulated", "the-run"


class Eyes:
    """What workflows saw, by run and point."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, str], Any] = {}
        self.problems: list[str] = []

    def see(self, ctx: WorkflowContext, point: str, value: Any) -> Any:
        data = msgspec.to_builtins(value)
        known = self.seen.setdefault((ctx.run.run_id, point), data)
        if known != data:
            self.problems.append(f"{point}: {known!r} before, {data!r} now")
        return value


EYES = Eyes()


@tool(effect="none")
async def look(x: int) -> int:
    """Look something up."""
    await asyncio.sleep(0.01 * (3 - x % 3))
    return x * 2


@tool(effect="idempotent")
async def save(x: int) -> int:
    """Save something."""
    await asyncio.sleep(0.01 * (x % 3))
    return x + 1


@tool(effect="once")
async def pay(x: int) -> int:
    """Pay."""
    return x


@tool(effect="none")
async def broken() -> int:
    """Fail."""
    raise ToolError("broken")


ROLLS = itertools.count()


@tool(effect="none")
async def roll() -> int:
    """Return another number each time."""
    return next(ROLLS)


TOOLS = [look, save, pay, broken, roll]


async def pay_once(ctx: WorkflowContext, x: int) -> int:
    """Pay; a crash inside leaves the outcome unknown, and it is never paid twice."""
    try:
        return int(await ctx.call(pay, x))
    except OutcomeUnknown:
        return x


@workflow(tools=TOOLS)
async def straight(ctx: WorkflowContext) -> int:
    total = EYES.see(ctx, "look", await ctx.call(look, 1))
    total += EYES.see(ctx, "save", await ctx.call(save, 2))
    total += await pay_once(ctx, 3)
    EYES.see(ctx, "roll", await ctx.call(roll))
    await ctx.call(save, 1)
    EYES.see(ctx, "values", [await ctx.now(), await ctx.random(), await ctx.uuid()])
    return int(total)


@workflow(tools=TOOLS)
async def loops(ctx: WorkflowContext) -> int:
    total = 0
    for number in range(5):
        ctx.set_status({"number": number})
        total += EYES.see(ctx, f"{number}", await ctx.call(save, number))
    return total


@workflow(tools=TOOLS)
async def gathers(ctx: WorkflowContext) -> int:
    async def two(x: int) -> int:
        return int(await ctx.call(look, x)) + int(await ctx.call(save, x))

    found = await ctx.gather(two(0), two(1), two(2), pay_once(ctx, 5))
    EYES.see(ctx, "found", found)
    nested = await ctx.gather(ctx.gather(ctx.call(save, 1), ctx.call(save, 2)), ctx.call(look, 1))
    return sum(found) + sum(nested[0])


@workflow(tools=TOOLS)
async def races(ctx: WorkflowContext) -> int:
    winner, value = await ctx.race(ctx.call(look, 0), ctx.call(look, 2), ctx.sleep(60))
    EYES.see(ctx, "winner", [winner, value])
    second, _ = await ctx.race(ctx.sleep(30), ctx.wait_for("never"))
    EYES.see(ctx, "second", second)
    await ctx.call(save, 1)
    return 7


@workflow(tools=TOOLS)
async def sleeps(ctx: WorkflowContext) -> int:
    before = await ctx.now()
    await ctx.sleep(90)
    after = EYES.see(ctx, "after", await ctx.now())
    await ctx.gather(ctx.sleep(10), ctx.sleep(20), ctx.call(save, 1))
    # It wakes within a second of its due time, unless its process had just died.
    assert after - before >= 90_000
    return 7


@workflow(tools=TOOLS)
async def events(ctx: WorkflowContext) -> int:
    # They come while it sleeps, before any step waits for them.
    await ctx.sleep(20)
    first = EYES.see(ctx, "first", await ctx.wait_for("n", int))
    await ctx.call(save, first)
    second = EYES.see(ctx, "second", await ctx.wait_for("n", int))
    third = EYES.see(ctx, "third", await ctx.wait_for("n", int))
    return int(first * 100 + second * 10 + third)


@workflow(tools=TOOLS)
async def rivals(ctx: WorkflowContext) -> int:
    # What a loser took and did nothing with stays for the next step.
    await ctx.sleep(20)

    async def read() -> int:
        return int(await ctx.wait_for("n", int))

    _, first = await ctx.race(read(), ctx.gather(read(), ctx.wait_for("never")))
    EYES.see(ctx, "first", first)
    await ctx.call(save, first)
    winner, second = await ctx.race(ctx.wait_for("n", int), ctx.race(read(), read()))
    second = second if winner == 0 else second[1]
    EYES.see(ctx, "second", second)
    third = EYES.see(ctx, "third", await ctx.wait_for("n", int))
    return int(first * 100 + second * 10 + third)


@workflow(tools=TOOLS)
async def late(ctx: WorkflowContext) -> int:
    try:
        await ctx.wait_for("never", timeout=5)
    except StepTimedOut:
        return int(await ctx.call(save, 6))
    return 0


@workflow(tools=TOOLS)
async def approvals(ctx: WorkflowContext) -> int:
    first, second = await ctx.gather(ctx.approve("one?"), ctx.approve("two?"))
    EYES.see(ctx, "answers", [bool(first), bool(second)])
    return await pay_once(ctx, 7)


helper = Agent("helper", model=ScriptedModel(["fine"] * 99))


@workflow(tools=TOOLS)
async def inner(ctx: WorkflowContext, x: int) -> int:
    await ctx.sleep(3)
    return int(await ctx.call(save, x))


@workflow(tools=TOOLS)
async def children(ctx: WorkflowContext) -> int:
    answers = await ctx.gather(ctx.ask("inner", {"x": 4}), ctx.ask("helper", "Well?"))
    EYES.see(ctx, "answers", answers)
    return 7


@workflow(tools=TOOLS)
async def errors(ctx: WorkflowContext) -> int:
    try:
        await ctx.call(broken)
    except StepFailed as error:
        EYES.see(ctx, "error", str(error))
    try:
        await ctx.gather(ctx.call(save, 1), ctx.call(broken), ctx.call(look, 1))
    except StepFailed as error:
        EYES.see(ctx, "gathered", error.step)
    return await pay_once(ctx, 7)


@workflow(tools=TOOLS)
async def retries(ctx: WorkflowContext) -> int:
    try:
        await ctx.call(broken, retry=StepRetry(attempts=3, first_ms=4_000, factor=3))
    except StepFailed as error:
        EYES.see(ctx, "step", error.step)
    return 7


@workflow(tools=TOOLS)
async def versions(ctx: WorkflowContext) -> int:
    if EYES.see(ctx, "patched", ctx.patched("new")):
        await ctx.call(save, 1)
    await ctx.sleep(1)
    return 7


@workflow(tools=TOOLS)
async def chains(ctx: WorkflowContext, left: int = 2) -> int:
    await ctx.call(save, left)
    if left:
        ctx.continue_as_new({"left": left - 1})
    return 7


@workflow(tools=TOOLS)
async def cancels(ctx: WorkflowContext) -> int:
    try:
        await ctx.gather(ctx.sleep(days=1), ctx.wait_for("never"))
    finally:
        await ctx.call(save, 9)
    return 7


@workflow(tools=TOOLS)
async def stops(ctx: WorkflowContext) -> int:
    # Cancelled while it executes: steps, their commits and a child are under way.
    try:
        while True:
            await ctx.gather(ctx.call(look, 1), ctx.call(save, 2), ctx.ask("inner", {"x": 1}))
    finally:
        await ctx.call(save, 9)


@tool(effect="none")
async def tag(names: list[str]) -> int:
    """Count names."""
    return len(names)


@workflow(tools=TOOLS)
async def shares(ctx: WorkflowContext) -> int:
    # First come, first noted: what branches do to a common list is replayed in its order.
    seen: list[str] = []

    async def work(name: str, x: int) -> None:
        seen.append(f"{name} begins")
        seen.append(f"{name} {await ctx.call(look, x)}")
        await ctx.gather(note(f"{name}-0", 1), note(f"{name}-1", 2))
        seen.append(f"{name} {await ctx.call(save, x)}")

    async def note(name: str, x: int) -> None:
        seen.append(f"{name} begins")
        await ctx.call(save, x)
        seen.append(f"{name} {await ctx.random() > 2}")

    await ctx.gather(work("a", 0), work("b", 1), work("c", 2))
    EYES.see(ctx, "shared", seen)
    await ctx.call(tag, seen)
    await ctx.sleep(1)
    return int(await ctx.call(tag, seen))


@workflow(tools=TOOLS)
async def losers(ctx: WorkflowContext) -> int:
    # What a loser did until it lost, and when it unwinds, is replayed as well.
    seen: list[str] = []

    async def lose(name: str, x: int) -> None:
        try:
            seen.append(f"{name} {await ctx.call(save, x)}")
            seen.append(f"{name} {await ctx.call(look, x, retry=2)}")
            await ctx.wait_for("never")
        finally:
            seen.append(f"{name} lost")
            await ctx.call(pay, 1)

    async def win() -> None:
        await ctx.call(look, 1)
        seen.append(f"win {await ctx.call(save, 2)}")

    await ctx.race(lose("a", 1), win(), lose("b", 2))
    EYES.see(ctx, "lost", seen)
    await ctx.call(tag, seen)
    await ctx.sleep(1)
    await ctx.race(lose("c", 1), ctx.sleep(2))
    EYES.see(ctx, "lost again", seen)
    await ctx.call(tag, seen)
    await ctx.sleep(1)
    return 7


@workflow(tools=TOOLS)
async def queues(ctx: WorkflowContext) -> int:
    # Branches that wait for each other, and not only for steps.
    queue: asyncio.Queue[int] = asyncio.Queue()

    async def produce() -> None:
        for number in range(3):
            await queue.put(await ctx.call(save, number))

    async def consume() -> int:
        return sum([int(await ctx.call(look, await queue.get())) for _ in range(3)])

    _, total = await ctx.gather(produce(), consume())
    EYES.see(ctx, "total", total)
    await ctx.sleep(1)
    return int(total) - 5


@workflow(tools=TOOLS)
async def swallows(ctx: WorkflowContext) -> int:
    while True:
        try:
            await ctx.call(save, 1)
            ctx.set_status("tries")
            await ctx.sleep(2)
            return 7
        except BaseException:  # noqa: BLE001 - as people write it
            pass


@workflow(tools=TOOLS)
async def sets(ctx: WorkflowContext) -> int:
    names = [f"n{it}" for it in range(20)]
    given = OddSet(names)
    ctx.set_status({"names": given})
    await ctx.call(tag, given)
    await ctx.sleep(1)
    return 7


class OddSet(frozenset[str]):
    """A set whose order differs whenever it is read, as that of a set does in each process."""

    def __iter__(self) -> Iterator[str]:
        found = sorted(super().__iter__())
        turn = next(ROLLS) % len(found)
        return iter(found[turn:] + found[:turn])


def sends(agent_id: str, *numbers: int) -> Callable[[Mailbox], Any]:
    async def story(mailbox: Mailbox) -> None:
        await start(mailbox, agent_id)
        for number in numbers:
            for _ in range(2):
                run = await opened(mailbox)
                event = SentEvent(run_id=RUN, name="n", payload=number, event_id=f"id {number}")
                request = await make_event(mailbox.services, run, event)
                key = f"event:{number}"
                await mailbox.submit(request, mode=InputMode.STEER, dedupe_key=key, asked=number)

    return story


def cancelling(agent_id: str, after_s: float = 3) -> Callable[[Mailbox], Any]:
    async def story(mailbox: Mailbox) -> None:
        await start(mailbox, agent_id)
        await opened(mailbox)
        await asyncio.sleep(after_s)
        while not (await mailbox.services.store.load_run(RUN)).status.is_terminal:
            await mailbox.cancel(RUN)
            await asyncio.sleep(60)

    return story


async def start(mailbox: Mailbox, agent_id: str) -> None:
    request = RunRequest(
        thread_id=THREAD, agent_id=agent_id, run_id_hint=RUN, messages=(user("{}"),)
    )
    await mailbox.submit(request)


async def opened(mailbox: Mailbox) -> RunRecord:
    while (run := await mailbox.services.store.load_run(RUN)) is None:
        await asyncio.sleep(1)
    return run


def answers(*wanted: str) -> Callable[[RunRecord], str | None]:
    def judge(run: RunRecord) -> str | None:
        if run.parent_run_id is not None or run.agent_id == "chains":
            return None if isinstance(run.termination, NaturalEnd) else f"ended {run.termination}"
        is_fine = isinstance(run.termination, NaturalEnd) and run.final_output in wanted
        return None if is_fine else f"answered {run.final_output!r}, ended {run.termination!r}"

    return judge


def is_cancelled(run: RunRecord) -> str | None:
    if run.parent_run_id is not None:
        return None if run.status.is_terminal else f"is {run.status}"
    return None if isinstance(run.termination, Cancelled) else f"ended {run.termination!r}"


CASES: dict[str, tuple[Any, Any, Callable[[RunRecord], str | None]]] = {
    "straight": (straight, "{}", answers("8")),
    "loops": (loops, "{}", answers("15")),
    "gathers": (gathers, "{}", answers("22")),
    "races": (races, "{}", answers("7")),
    "sleeps": (sleeps, "{}", answers("7")),
    "events": (events, sends("events", 1, 2, 3), answers("123")),
    # Which of several waiting branches takes an event is up to the schedule; each is used once.
    "rivals": (
        rivals,
        sends("rivals", 1, 2, 3),
        answers(*map("".join, itertools.permutations("123"))),
    ),
    "late": (late, "{}", answers("7")),
    "approvals": (approvals, "{}", answers("7")),
    "children": ([children, inner, helper], "{}", answers("7")),
    "errors": (errors, "{}", answers("7")),
    "retries": (retries, "{}", answers("7")),
    "versions": (versions, "{}", answers("7")),
    "chains": (chains, "{}", answers("7")),
    "shares": (shares, "{}", answers("21")),
    "losers": (losers, "{}", answers("7")),
    "queues": (queues, "{}", answers("7")),
    "swallows": (swallows, "{}", answers("7")),
    "sets": (sets, "{}", answers("7")),
    "cancels": (cancels, cancelling("cancels"), is_cancelled),
    "stops": ([stops, inner], cancelling("stops", 0.015), is_cancelled),
}


@contextmanager
def watched() -> Iterator[None]:
    EYES.problems.clear()
    EYES.seen.clear()
    yield
    assert EYES.problems == []


def sweep(name: str, **options: Any) -> AgentReport:
    """Let processes die at points of a workflow, and judge what it saw and answered."""
    agents, inputs, judge = CASES[name]

    def fresh(run: RunRecord) -> str | None:
        # Ids repeat from trial to trial, so each trial begins with closed eyes.
        found = judge(run)
        problems, EYES.problems = EYES.problems, []
        EYES.seen.clear()
        return found or ("; ".join(problems) or None)

    with watched():
        return simulate_agent(agents, inputs, judge=fresh, **options)


@sampled
@pytest.mark.parametrize("name", CASES)
def test_a_workflow_survives_a_crash_at_every_point(name: str) -> None:
    assert sweep(name, schedules=choose_size(4, 80)).crash_points > 5


@pytest.fixture(scope="module")
def make_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeStore]:
    with sqlite_trials(tmp_path_factory.mktemp("sweep")) as make:
        yield make


@sampled
@pytest.mark.parametrize("name", CASES)
def test_a_workflow_on_sqlite_survives_a_crash(name: str, make_sqlite: MakeStore) -> None:
    some = None if IS_EVERYTHING else 2
    schedules = choose_size(1, 10)
    sweep(name, schedules=schedules, crash_points=some, make_store=make_sqlite)


@sampled
@pytest.mark.parametrize("name", CASES if IS_EVERYTHING else ["events", "rivals", "losers"])
def test_a_workflow_on_postgres_survives_a_crash(name: str, tmp_path: Path) -> None:
    with postgres_trials(tmp_path) as make:
        sweep(name, schedules=1, crash_points=choose_size(2, 6), make_store=make)
