"""A run is cancelled at every single moment of its life, by everybody who can, over two stores.

Whatever the moment: one terminal event, one record that is done, a valid transcript at every
commit, results that were there are kept, no effect happens twice, nothing is left behind.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import Any

import pytest
from tests.sampling import choose_size, inject_at_points, sampled

from awaken import (
    Agent,
    AgentRuntime,
    Phase,
    Plugin,
    PluginRegistrar,
    RunRequest,
    StateCommand,
    StateKey,
    ToolContext,
    tool,
)
from awaken.contracts.events import RunFinish
from awaken.contracts.lifecycle import Cancelled, NaturalEnd, RunStatus
from awaken.contracts.messages.message import Role
from awaken.contracts.plugins.plugin import GateDecision, SetResult, ToolGateContext
from awaken.contracts.state.keys import EffectSpec
from awaken.contracts.storage.store import Checkout, Commit, CommitReceipt
from awaken.contracts.suspension.tickets import ToolCallResume
from awaken.contracts.tool_results import ToolResult
from awaken.stores.memory import MemoryStore
from awaken.testing import assert_valid_events, assert_valid_transcript
from awaken.testing.scripted_model import Chunks, ToolCalls, Turn
from awaken.testing.simulation import InjectionPoint
from scenarios.worlds import CheckedModel, LoopClock, assert_valid_at_every_commit

EVERY = choose_size(7, 1)
WORKED = StateKey(
    "worked", default=0, apply=lambda old, new: old + new, merge="commutative", scope="thread"
)
NOTED = EffectSpec[int]("noted", int)


class QuickStore(MemoryStore):
    """Never suspends; remembers its commits."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[Commit] = []

    async def commit(self, commit: Commit) -> CommitReceipt:
        receipt = await super().commit(commit)
        self.commits.append(commit)
        return receipt


class SlowStore(QuickStore):
    """Suspends in every read, and before and after each commit is applied."""

    async def commit(self, commit: Commit) -> CommitReceipt:
        await asyncio.sleep(0.01)
        receipt = await super().commit(commit)
        await asyncio.sleep(0.01)
        return receipt

    async def checkout(self, thread_id: str) -> Checkout | None:
        await asyncio.sleep(0.01)
        return await super().checkout(thread_id)

    async def find_commit(self, commit_id: str, thread_id: str) -> CommitReceipt | None:
        await asyncio.sleep(0.01)
        return await super().find_commit(commit_id, thread_id)


class Everywhere(Plugin):
    """A gate, an effect at activation, and a hook that takes its time in every phase."""

    name = "everywhere"

    def register(self, registrar: PluginRegistrar) -> None:
        async def hook(_: Any) -> StateCommand:
            await asyncio.sleep(0.01)
            return StateCommand().emit(NOTED, 1)

        async def gate(context: ToolGateContext) -> GateDecision | None:
            await asyncio.sleep(0.01)
            if context.call.name == "answered":
                return SetResult(result=ToolResult.success("answered", "by the gate"))
            return None

        async def noted(_payload: int, _snapshot: Any) -> None:
            await asyncio.sleep(0.01)

        for phase in Phase:
            if phase is not Phase.TOOL_GATE:
                registrar.hook(phase, hook)
        registrar.gate(gate)
        registrar.effect(NOTED, noted)

    def on_activate(self, agent: Any) -> StateCommand:
        return StateCommand().emit(NOTED, 0)


class Work:
    """Tools of every effect that keep a ledger of what they began and what they gave."""

    def __init__(self) -> None:
        self.begun: Counter[str] = Counter()
        self.given: dict[str, str] = {}
        self.tools = [self._made(effect) for effect in ("none", "idempotent", "once")]
        self.tools.append(self._asking())

    def _made(self, effect: Any) -> Any:
        @tool(id=effect, effect=effect)
        async def work(seconds: float, ctx: ToolContext) -> str:
            self.begun[ctx.call_id] += 1
            await asyncio.sleep(seconds)
            ctx.state.update(WORKED, 1)
            self.given[ctx.call_id] = f"worked {seconds}"
            return self.given[ctx.call_id]

        return work

    def _asking(self) -> Any:
        @tool
        async def ask(ctx: ToolContext) -> Any:
            if ctx.resume is None:
                return ctx.suspend("?")
            self.begun[ctx.call_id] += 1
            await asyncio.sleep(0.5)
            ctx.state.update(WORKED, 1)
            self.given[ctx.call_id] = "worked 1"
            return self.given[ctx.call_id]

        return ask


class Life:
    """A run of three steps with everything in it, on a thread that is looked at afterwards."""

    def __init__(self, store: QuickStore) -> None:
        self.work = Work()
        self.store = store
        self.accepted: list[bool] = []
        first = [("once", {"seconds": 1}), ("none", {"seconds": 0}), ("idempotent", {"seconds": 2})]
        second = [("answered", {}), ("once", {"seconds": 0}), ("once", {"seconds": 1})]
        last = Chunks(["the ", "end"], delay_ms=10)
        self.model = CheckedModel(
            [
                Turn("hm", reasoning="let me see", calls=first),
                ToolCalls(second),
                last,
                *["again"] * 2,
            ]
        )
        self.runtime = self.process()

    def process(self) -> AgentRuntime:
        agent = Agent("agent", model=self.model, tools=self.work.tools, plugins=[Everywhere()])
        return AgentRuntime([agent], store=self.store, clock=LoopClock())

    async def cancel(self) -> None:
        self.accepted.append(await self.runtime.cancel("t"))

    async def check(self, *, kept: dict[str, str]) -> str:
        """Hold what is left to every promise; return how the run ended."""
        assert list(self.runtime._engine.active) == []
        assert (self.model.problems, self.model.open_streams) == ([], 0)
        checkout = await self.store.checkout("t")
        ended = "nothing"
        if checkout is not None:
            ended = await self._check_run(checkout, kept)
        again = await self.runtime.run("agent", "again", thread_id="t")
        assert again.termination == NaturalEnd()
        return ended

    async def _check_run(self, checkout: Checkout, kept: dict[str, str]) -> str:
        (record,) = await self.runtime.list_runs("t")
        assert (record.status, record.waiting) == (RunStatus.DONE, None)
        assert checkout.open_run is None
        assert await self.runtime.tickets() == ()
        assert_valid_transcript(checkout.messages)
        assert_valid_at_every_commit(self.store.commits)
        log = [entry.event for entry in await self.store.list_events("t")]
        assert_valid_events(log)
        finish = log[-1]
        assert isinstance(finish, RunFinish)
        assert finish.termination == record.termination
        answers = {it.tool_call_id: it.text for it in checkout.messages if it.role is Role.TOOL}
        assert kept.items() <= answers.items(), "a result that was there is gone"
        worked = [text for text in answers.values() if text.startswith("worked")]
        stored = checkout.state.get(WORKED.name)
        assert (WORKED.decode(stored) if stored else 0) == len(worked)
        assert max(self.work.begun.values(), default=1) == 1
        is_cancelled = isinstance(record.termination, Cancelled)
        assert all(accepted is is_cancelled for accepted in self.accepted)
        return str(record.termination.__struct_config__.tag)


Arm = Callable[[Life, "asyncio.Task[Any]"], Callable[[], object]]


def by_user(life: Life, run: "asyncio.Task[Any]") -> Callable[[], object]:
    return life.cancel


def by_caller(life: Life, run: "asyncio.Task[Any]") -> Callable[[], object]:
    return run.cancel


def by_both(life: Life, run: "asyncio.Task[Any]") -> Callable[[], object]:
    async def both() -> None:
        await life.runtime.cancel("t")
        run.cancel()
        await asyncio.sleep(0)
        run.cancel()

    return both


def by_shutdown(life: Life, run: "asyncio.Task[Any]") -> Callable[[], object]:
    return life.runtime._engine.close


async def plain_run(life: Life) -> None:
    await life.runtime.run("agent", "go", thread_id="t")


async def streamed_run(life: Life) -> None:
    async with aclosing(life.runtime.stream("agent", "go", thread_id="t")) as events:
        async for _ in events:
            await asyncio.sleep(0)


async def started_run(life: Life) -> None:
    await (await life.runtime.start("agent", "go", thread_id="t")).result()


Go = Callable[[Life], Coroutine[Any, Any, None]]


@sampled
@pytest.mark.parametrize("store", [QuickStore, SlowStore])
@pytest.mark.parametrize(
    ("go", "who"),
    [
        (plain_run, by_user),
        (plain_run, by_caller),
        (plain_run, by_both),
        (streamed_run, by_caller),
        (started_run, by_shutdown),
    ],
)
def test_a_run_cancelled_at_any_moment_ends_whole(
    go: Go, who: Arm, store: type[QuickStore]
) -> None:
    ends: Counter[str] = Counter()

    async def scenario(hook: InjectionPoint) -> None:
        life, kept = Life(store()), {}
        run = asyncio.create_task(go(life))
        cancel = who(life, run)

        def inject() -> object:
            kept.update(life.work.given)
            return cancel()

        hook.arm(inject)
        await asyncio.wait({run})
        await hook.settle()
        ends[await life.check(kept=kept)] += 1

    points = inject_at_points(scenario, EVERY)
    assert points * EVERY > (150 if store is QuickStore else 300)
    assert ends["cancelled"] > points * 0.8
    assert ends["natural_end"] >= 1
    assert set(ends) <= {"cancelled", "natural_end", "nothing"}


@sampled
@pytest.mark.parametrize("store", [QuickStore, SlowStore])
def test_a_run_that_times_out_at_any_moment_ends_whole(store: type[QuickStore]) -> None:
    async def scenario(hook: InjectionPoint) -> None:
        life, kept = Life(store()), {}
        try:
            async with asyncio.timeout(None) as limit:

                def inject() -> None:
                    kept.update(life.work.given)
                    limit.reschedule(asyncio.get_running_loop().time())

                hook.arm(inject)
                await life.runtime.run("agent", "go", thread_id="t")
                hook.disarm()
        except TimeoutError:
            assert hook.fired
        await life.check(kept=kept)

    assert inject_at_points(scenario, EVERY) * EVERY > 150


ASKS = [("ask", {}), ("once", {"seconds": 0}), ("ask", {})]


async def suspended(life: Life) -> RunRequest:
    """Bring a life to the point where it waits; return the request that lets it go on."""
    life.model = CheckedModel([ToolCalls(ASKS), Chunks(["the ", "end"], delay_ms=10), "again"])
    life.runtime = life.process()
    result = await life.runtime.run("agent", "go", thread_id="t")
    assert len(result.tickets) == 2
    life.runtime = life.process()
    decisions = {it.ticket_id: ToolCallResume(decision_id=it.call_id) for it in result.tickets}
    return RunRequest(thread_id="t", decisions=tuple(decisions.items()))


@sampled
@pytest.mark.parametrize("store", [QuickStore, SlowStore])
def test_a_resumed_run_cancelled_at_any_moment_ends_whole(store: type[QuickStore]) -> None:
    ends: Counter[str] = Counter()

    async def scenario(hook: InjectionPoint) -> None:
        life, kept = Life(store()), {}
        request = await suspended(life)

        def inject() -> object:
            kept.update(life.work.given)
            return life.cancel()

        hook.arm(inject)
        handle = await life.runtime.start(request)
        await handle.result()
        await hook.settle()
        ends[await life.check(kept=kept)] += 1

    points = inject_at_points(scenario, EVERY)
    assert points * EVERY > (70 if store is QuickStore else 100)
    assert ends["cancelled"] > points * 0.8


@pytest.mark.parametrize("store", [QuickStore, SlowStore])
def test_a_decision_whose_sender_vanishes_at_any_moment_is_taken_or_not_but_harms_no_run(
    store: type[QuickStore],
) -> None:
    taken: Counter[bool] = Counter()

    async def scenario(hook: InjectionPoint) -> None:
        life = Life(store())
        decisions = dict((await suspended(life)).decisions)
        sender = asyncio.create_task(life.runtime.decide_all(decisions))
        hook.arm(sender.cancel)
        await asyncio.wait({sender})
        await hook.settle()
        await asyncio.sleep(10)
        taken[not await life.runtime.tickets()] += 1
        receipts = await life.runtime.decide_all(decisions)
        assert [receipt.decision_id for receipt in receipts] == ["call_1", "call_3"]
        (record,) = await life.runtime.list_runs("t")
        assert (await life.runtime.wait(record.run_id)).termination == NaturalEnd()
        assert life.work.begun == {"call_1": 1, "call_2": 1, "call_3": 1}
        await life.check(kept=life.work.given)

    inject_at_points(scenario, 1)
    assert taken[True] > 2
    assert taken[False] > 2 or store is QuickStore


def test_a_decision_whose_sender_vanishes_while_the_run_still_works_harms_nothing_either() -> None:
    async def scenario(hook: InjectionPoint) -> None:
        life = Life(SlowStore())
        calls = [("ask", {}), ("none", {"seconds": 5}), ("none", {"seconds": 6})]
        life.model = CheckedModel([ToolCalls(calls), "the end", "again"])
        life.runtime = life.process()
        handle = await life.runtime.start("agent", "go", thread_id="t")
        await asyncio.sleep(1)
        (ticket,) = await life.runtime.tickets("t")
        sender = asyncio.create_task(life.runtime.decide(ticket.ticket_id))
        hook.arm(sender.cancel)
        await asyncio.wait({sender})
        await hook.settle()
        await handle.result()
        await life.runtime.decide(ticket.ticket_id)
        assert (await life.runtime.wait(handle.run_id)).termination == NaturalEnd()
        assert life.work.begun["call_1"] == 1
        await life.check(kept=life.work.given)

    assert inject_at_points(scenario, 1) >= 5
