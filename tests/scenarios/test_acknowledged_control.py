"""What was acknowledged holds: one decision per ticket, a cancel until its run has ended.

Processes share a store; one of them is dead and has a thread, or executes a sibling call.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from awaken import (
    Agent,
    AgentRuntime,
    Cancelled,
    NaturalEnd,
    RunFinish,
    RunStatus,
    ToolContext,
    WorkflowContext,
    tool,
    workflow,
)
from awaken.buses.memory import MemoryBus
from awaken.contracts.config.heads import Switch, SwitchKind, SwitchState
from awaken.errors import AlreadyDecided, StoreUnavailable
from awaken.messages import Role
from awaken.stores import Commit, CommitReceipt, DispatchQuery, DispatchStatus, MemoryStore
from awaken.testing import LoopClock, ScriptedModel, ToolCalls
from awaken.tools import DecisionAction, ToolCallResume

from .mortal import PROMPT, Mortal, dying, on_shared_stores
from .nodes import Node, TruthStore, settled
from .workers import open_ticket
from .worlds import simulated

Stores = Callable[[Path], list[Any]]


def in_real_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """SQLite and heartbeats know no virtual time; whatever a test waits for is bounded."""

    @functools.wraps(test)
    def played(*arguments: Any, **options: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*arguments, **options), 60))

    return played


class Shop:
    """An agent that pays when it may, and does something else beside that."""

    def __init__(self, *, is_busy: bool = False, pays: bool = True) -> None:
        self.paid: list[Any] = []
        self.is_busy = asyncio.Event()
        self.may_end = asyncio.Event()

        @tool(effect="once")
        async def pay(ctx: ToolContext) -> Any:
            if ctx.resume is None:
                return ctx.suspend("May I pay?")
            self.paid.append(ctx.resume.result)
            return "paid"

        @tool(effect="none")
        async def work() -> str:
            self.is_busy.set()
            await self.may_end.wait()
            return "worked"

        calls = [("pay", {})] if pays else []
        calls += [("work", {})] if is_busy else []
        self.model = ScriptedModel([ToolCalls(calls), *["thanks"] * 9])
        self.agent = Agent("shop", model=self.model, tools=[pay, work])

    def process(self, store: Any, *, has_worker: bool = False) -> AgentRuntime:
        return AgentRuntime([self.agent], store=store, mailbox=PROMPT, has_worker=has_worker)


async def listed_ticket(runtime: AgentRuntime) -> str:
    while not (found := await runtime.tickets("t")):
        await asyncio.sleep(0.005)
    return found[0].ticket_id


async def outcome(work: Awaitable[Any]) -> bool:
    """Whether a decision was acknowledged."""
    try:
        await work
    except AlreadyDecided:
        return False
    return True


# --- one ticket, one decision ---


@pytest.mark.parametrize("first", ["cancel there", "resume here", "together"])
@on_shared_stores
@in_real_time
async def test_one_of_two_contradicting_decisions_is_acknowledged_while_a_sibling_executes(
    stores_of: Stores, tmp_path: Path, first: str
) -> None:
    shop, stores = Shop(is_busy=True), stores_of(tmp_path)
    async with shop.process(stores[0]) as here, shop.process(stores[1]) as there:
        handle = await here.start("shop", "buy", thread_id="t")
        await shop.is_busy.wait()
        ticket = await listed_ticket(there)
        resume = outcome(here.decide(ticket, "resume", result="yes"))
        cancel = outcome(there.decide(ticket, "cancel"))
        if first == "cancel there":
            is_declined, is_resumed = await cancel, await resume
        elif first == "resume here":
            is_resumed, is_declined = await resume, await cancel
        else:
            is_resumed, is_declined = await asyncio.gather(resume, cancel)
        assert is_resumed is not is_declined, "both or neither were acknowledged"
        shop.may_end.set()
        await handle.result()
        # If it waits before it has heard of a decision from elsewhere, whoever works goes on.
        async with shop.process(stores[1], has_worker=True) as worker:
            result = await worker.wait(handle.run_id, timeout_ms=20_000)
        assert result.termination == NaturalEnd()
        assert shop.paid == (["yes"] if is_resumed else [])


@on_shared_stores
@in_real_time
async def test_a_decision_from_elsewhere_is_seen_by_everybody_at_once_and_counts_once(
    stores_of: Stores, tmp_path: Path
) -> None:
    shop, stores = Shop(is_busy=True), stores_of(tmp_path)
    async with shop.process(stores[0]) as here, shop.process(stores[1]) as there:
        handle = await here.start("shop", "buy", thread_id="t")
        await shop.is_busy.wait()
        ticket = await listed_ticket(there)
        assert await there.decide(ticket, "resume", result="yes")
        assert await there.tickets("t") == (), "it is decided, for everybody"
        same = await outcome(here.decide_all({ticket: await taken(there, ticket)}))
        assert same, "the same decision again is acknowledged again"
        shop.may_end.set()
        await handle.result()
        async with shop.process(stores[1], has_worker=True) as worker:
            assert (await worker.wait(handle.run_id, timeout_ms=20_000)).termination == NaturalEnd()
        assert shop.paid == ["yes"]


async def taken(runtime: AgentRuntime, ticket_id: str) -> ToolCallResume:
    found = await runtime.store.find_ticket(ticket_id)
    assert found is not None
    assert found.decision is not None
    return found.decision


# --- a dead worker has the thread of a run that waits ---


async def left_by_the_dead(runtime: AgentRuntime) -> str:
    """A run waits, and whoever has claimed a message to its thread is dead; returns the run."""
    waiting = await runtime.run("shop", "buy", thread_id="t")
    assert waiting.is_waiting
    sent = await runtime.submit("shop", "hello?", thread_id="t")
    (claimed,) = await runtime.store.claim("dead", "token of the dead", 1)
    assert claimed.dispatch_id == sent.dispatch_id
    return waiting.run_id


@pytest.mark.parametrize("is_decided", [False, True])
@on_shared_stores
@in_real_time
async def test_a_cancel_outlives_the_claim_of_a_dead_worker_on_the_thread(
    stores_of: Stores, tmp_path: Path, is_decided: bool
) -> None:
    shop, stores = Shop(), stores_of(tmp_path)
    async with shop.process(stores[0]) as here:
        run_id = await left_by_the_dead(here)
        if is_decided:
            await here.decide((await here.tickets("t"))[0].ticket_id, result="yes")
        assert await here.cancel(run_id) is True
        async with shop.process(stores[1], has_worker=True) as there:
            await idle(there)
            result = await there.wait(run_id, timeout_ms=20_000)
            assert result.termination == Cancelled(cause="user")
            finishes = [it.event for it in await there.store.list_events("t")]
            ends = [it for it in finishes if isinstance(it, RunFinish) and it.run_id == run_id]
            assert [it.termination for it in ends][1:] == [Cancelled(cause="user")]
            said = [it.message.text for it in await there.messages("t")]
            assert said.count("hello?") == 1, "the message was not cancelled"
    assert shop.paid == [], "a run that was cancelled has paid"


@on_shared_stores
@in_real_time
async def test_a_decision_is_acted_on_although_a_message_was_there_first(
    stores_of: Stores, tmp_path: Path
) -> None:
    shop, stores = Shop(), stores_of(tmp_path)
    async with shop.process(stores[0]) as here:
        run_id = await left_by_the_dead(here)
        await here.decide((await here.tickets("t"))[0].ticket_id, result="yes")
        async with shop.process(stores[1], has_worker=True) as there:
            assert (await there.wait(run_id, timeout_ms=20_000)).termination == NaturalEnd()
            await idle(there)
            said = [it.message.text for it in await there.messages("t")]
            assert said.count("hello?") == 1
    assert shop.paid == ["yes"]


async def idle(runtime: AgentRuntime) -> None:
    """Wait until a thread has nothing more to do."""
    claimed = DispatchQuery(thread_id="t", status=DispatchStatus.CLAIMED)
    # Queued is looked for twice: what a dead worker had goes back between two looks.
    while (
        await runtime.store.count_queued()
        or (await runtime.store.list_dispatches(claimed)).items
        or await runtime.store.count_queued()
    ):
        await asyncio.sleep(0.005)


def test_a_decision_between_the_look_and_the_write_of_a_message_is_acted_on() -> None:
    async def scenario() -> None:
        truth, shop, bus = TruthStore(), Shop(), MemoryBus()
        await bus.open()
        async with Node(truth, [shop.agent], bus=bus) as node:
            await node.submit("buy", agent_id="shop")
            ticket = await open_ticket(truth)
            other = Node(truth, [shop.agent], name="other")
            node.wire.delays["commit"] = 0.2
            message = await node.submit("hello?", agent_id="shop")
            while not (await truth.find_dispatch(message.dispatch_id)).claim_token:  # type: ignore[union-attr]
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            yes = ToolCallResume(decision_id="1", result="yes")
            await other.mailbox.decide([(ticket, yes)])
            node.wire.delays.clear()
            await settled(truth, message.dispatch_id)
            while (await truth.load_thread("t")).open_run_id is not None:  # type: ignore[union-attr]
                await asyncio.sleep(0.1)
        assert shop.paid == ["yes"]
        checkout = await truth.checkout("t")
        assert checkout is not None
        said = [it.text for it in checkout.messages if it.role is Role.USER]
        assert said == ["buy", "hello?"]

    simulated(scenario)


def test_a_run_that_ends_before_it_hears_of_its_cancel_ends_as_cancelled() -> None:
    async def scenario() -> None:
        truth, shop = TruthStore(), Shop(is_busy=True)
        async with Node(truth, [shop.agent]) as node:
            receipt = await node.submit("buy", agent_id="shop")
            await shop.is_busy.wait()
            no = ToolCallResume(decision_id="1", action=DecisionAction.CANCEL)
            while not (tickets := await truth.list_tickets("t")):
                await asyncio.sleep(0.01)
            ticket = tickets[0].ticket_id
            await Node(truth, [shop.agent], name="other").mailbox.decide([(ticket, no)])
            # No signal comes through: it would hear of both at its next sign of life.
            assert await truth.request_cancel("t", "user", receipt.run_id)
            for token in node.book._held:
                node.book._held[token].notify_input()
            shop.may_end.set()
            await settled(truth, receipt.dispatch_id)
        record = await truth.load_run(receipt.run_id)
        assert record is not None
        assert record.termination == Cancelled(cause="user")
        ends = [it.event for it in await truth.list_events("t") if isinstance(it.event, RunFinish)]
        assert [it.termination for it in ends] == [Cancelled(cause="user")]

    simulated(scenario)


class Stalled(Mortal):
    """A store that is away for the first cancel, and never answers to the end of a run."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.refuses["request_cancel"] = 1
        self.is_ending = asyncio.Event()

    async def commit(self, commit: Commit) -> CommitReceipt:
        if commit.run is not None and commit.run.status is RunStatus.DONE:
            self.is_ending.set()
            await asyncio.Event().wait()
        receipt: CommitReceipt = await self.__getattr__("commit")(commit)
        return receipt


@on_shared_stores
@in_real_time
async def test_a_cancel_that_is_asked_for_again_while_its_run_ends_outlives_the_process(
    stores_of: Stores, tmp_path: Path
) -> None:
    shop, (store, other) = Shop(is_busy=True, pays=False), stores_of(tmp_path)
    stalled = Stalled(store)
    runtime = shop.process(stalled)
    async with dying(runtime) as here:
        handle = await here.start("shop", "buy", thread_id="t")
        await shop.is_busy.wait()
        with pytest.raises(StoreUnavailable):
            await here.cancel(handle.run_id)
        # It heard of the cancel, which is nowhere else, and its end is not written.
        await stalled.is_ending.wait()
        assert await here.cancel(handle.run_id) is True
        stalled.is_cut = True
    shop.may_end.set()
    async with shop.process(other, has_worker=True) as there:
        result = await there.wait(handle.run_id, timeout_ms=20_000)
    assert result.termination == Cancelled(cause="user")


# --- a run ends in one commit ---


class Crowded(MemoryStore):
    """A slow store; whoever flushes beside the run waits for its turn behind the first commit."""

    def __init__(self) -> None:
        super().__init__(clock=LoopClock())
        self.commits: list[Commit] = []
        self.beside: Callable[[], Coroutine[Any, Any, None]] | None = None
        self.fails_at: int | None = None
        self.tasks: list[asyncio.Task[None]] = []

    async def commit(self, commit: Commit) -> CommitReceipt:
        if self.beside is not None and not self.tasks:
            # One has the turn when the run comes to its end, the other one is next.
            self.tasks = [asyncio.create_task(self.beside()) for _ in range(2)]
        await asyncio.sleep(1)
        if len(self.commits) == self.fails_at:
            self.fails_at = None
            raise StoreUnavailable(store=self.name, problem="it is away")
        receipt = await super().commit(commit)
        self.commits.append(commit)
        return receipt


@pytest.mark.parametrize("fails_at", [None, 1, 2, 3])
def test_whoever_flushes_beside_a_run_that_ends_does_not_take_its_last_event_along(
    fails_at: int | None,
) -> None:
    async def scenario() -> None:
        store = Crowded()
        store.fails_at = fails_at
        agent = Agent("agent", model=ScriptedModel(["done"]))
        async with AgentRuntime([agent], store=store, clock=LoopClock()) as runtime:
            engine = runtime._engine

            async def flush() -> None:
                active = engine.active.of_thread("t")
                assert active is not None
                assert active.run is not None
                with suppress(StoreUnavailable):
                    await active.run.flush()

            store.beside = flush
            with suppress(StoreUnavailable):
                await runtime.run("agent", "go", thread_id="t")
            await asyncio.gather(*store.tasks)
        ends = [it for it in store.commits if any(isinstance(e, RunFinish) for e in it.events)]
        assert all(it.run is not None and it.run.status is RunStatus.DONE for it in ends)
        assert len(ends) <= 1
        record = (await store.checkout("t")).latest_run  # type: ignore[union-attr]
        assert record is not None
        assert (record.status is RunStatus.DONE) is bool(ends)

    simulated(scenario)


class Shaky(MemoryStore):
    """Fails once, at one of the writes and look-ups after it was armed; it may have written."""

    def __init__(self, at: int, *, has_written: bool) -> None:
        super().__init__()
        self.is_armed = False
        self.calls_left = at
        self._has_written = has_written

    async def commit(self, commit: Commit) -> CommitReceipt:
        if not self._fails_now():
            return await super().commit(commit)
        if self._has_written:
            await super().commit(commit)
        # Whether it was applied cannot be asked at once either.
        self.calls_left = 1
        raise StoreUnavailable(store="test", problem="the connection was lost")

    async def find_commit(self, commit_id: str, thread_id: str) -> CommitReceipt | None:
        if self._fails_now():
            raise StoreUnavailable(store="test", problem="the connection was lost")
        return await super().find_commit(commit_id, thread_id)

    def _fails_now(self) -> bool:
        self.calls_left -= self.is_armed
        return self.is_armed and self.calls_left == 0


@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.parametrize("has_written", [True, False])
def test_an_acknowledged_cancel_of_a_waiting_run_holds_although_the_store_failed_in_it(
    at: int, has_written: bool
) -> None:
    async def scenario() -> None:
        store, shop = Shaky(at, has_written=has_written), Shop()
        async with shop.process(store) as runtime:
            waiting = await runtime.run("shop", "buy", thread_id="t")
            store.is_armed = True
            is_acknowledged = False
            with suppress(StoreUnavailable):
                is_acknowledged = await runtime.cancel(waiting.run_id)
            store.is_armed = False
            record = await runtime.store.load_run(waiting.run_id)
            assert record is not None
            is_cancelled = isinstance(record.termination, Cancelled)
            assert is_cancelled or not is_acknowledged, record.termination
            # What was left open can be asked for again.
            assert is_cancelled or await runtime.cancel(waiting.run_id)
            assert shop.paid == []

    simulated(scenario)


class Lingering(MemoryStore):
    """The commit with which a run begins to wait is durable a while before it returns."""

    def __init__(self) -> None:
        super().__init__()
        self.is_waiting = asyncio.Event()

    async def commit(self, commit: Commit) -> CommitReceipt:
        receipt = await super().commit(commit)
        if commit.run is not None and commit.run.status is RunStatus.WAITING:
            self.is_waiting.set()
            await asyncio.sleep(1)
        return receipt


@workflow
async def patience(ctx: WorkflowContext) -> str:
    """Wait for something that never happens."""
    return str(await ctx.wait_for("never"))


PAUSED = Switch(
    kind=SwitchKind.AGENT, id="shop", state=SwitchState.PAUSED, reason="stop", by="ann", at=1
)


@pytest.mark.parametrize("waits_for", ["a ticket", "its agent, which is paused", "an event"])
def test_a_run_that_is_just_beginning_to_wait_can_be_cancelled(waits_for: str) -> None:
    async def scenario() -> None:
        is_paused = waits_for.startswith("its agent")
        store, shop = Lingering(), Shop(is_busy=is_paused, pays=not is_paused)
        async with AgentRuntime([shop.agent, patience], store=store, mailbox=PROMPT) as runtime:
            agent_id, given = ("patience", {}) if waits_for == "an event" else ("shop", "buy")
            run = await runtime.submit(agent_id, given, thread_id="t")
            if is_paused:
                await shop.is_busy.wait()
                runtime.switches.apply((PAUSED,))
                shop.may_end.set()
            await store.is_waiting.wait()
            assert await runtime.cancel(run.run_id)
            record = await runtime.store.load_run(run.run_id)
            assert record is not None
            assert isinstance(record.termination, Cancelled)

    simulated(scenario)
