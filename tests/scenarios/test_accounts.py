"""Nothing that a run spends is forgotten: after its last call, after a handoff, without a store."""

import asyncio
import logging
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, Budget, Cancelled, NaturalEnd, Phase, Suspended
from awaken.errors import RateLimited, StreamInterrupted
from awaken.extensions.handoff import HandoffPlugin
from awaken.models import BudgetScope, StopReason, TokenUsage
from awaken.plugins import THREAD_LEDGER, Ledger
from awaken.testing import LoopClock, ScriptedModel, Turn

from .asking import another_process, asks_permission, finished, open_tickets
from .test_budgets import Adding, exceeded, spends, tenant_ledger, thread_ledger
from .worlds import Hooks, WatchedStore, World, play, simulated

THREAD, TENANT = BudgetScope.THREAD, BudgetScope.TENANT
TIMES = [Budget(scope=THREAD, time_ms=60_000), Budget(scope=TENANT, time_ms=60_000)]
TOKENS = [Budget(scope=THREAD, tokens=60_000), Budget(scope=TENANT, tokens=60_000)]
HANDOFF = Turn(
    calls=[("transfer_to_agent", {"agent_id": "b"})],
    usage=TokenUsage(prompt_tokens=10, completion_tokens=20),
)


async def spent_time(world: World) -> tuple[int, int]:
    tenant = await tenant_ledger(world.runtime, "acme")
    return (await thread_ledger(world, "@acme:t")).spent.ms, tenant.spent.ms


def test_time_after_the_last_call_is_charged_when_the_run_ends() -> None:
    async def scenario() -> None:
        adding = Adding(takes_s=25)
        world = World([spends(30)] * 9, tools=adding.tools, max_rounds=1, budgets=TIMES)
        async with world:
            for number in (1, 2, 3):
                await world.tell(tenant_id="acme")
                assert await spent_time(world) == (25_000 * number, 25_000 * number)
            story = await world.tell(tenant_id="acme")
            assert story.termination == exceeded("thread: 60,000 ms")
            assert len(adding.ran) == 3

    simulated(scenario)


def test_time_after_the_last_call_is_charged_when_the_run_is_cancelled() -> None:
    async def scenario() -> None:
        world = World([spends(30)], tools=Adding(takes_s=500).tools, budgets=TIMES)
        async with world:
            handle = await world.runtime.start("agent", "go", thread_id="t", tenant_id="acme")
            await asyncio.sleep(50)
            await world.runtime.cancel_and_wait("@acme:t")
            assert (await handle.result()).termination == Cancelled()
            assert await spent_time(world) == (50_000, 50_000)

    simulated(scenario)


@pytest.mark.parametrize("budgets", [TIMES, TOKENS], ids=["time", "tokens"])
def test_a_run_that_waits_is_charged_before_and_goes_on_from_there(budgets: list[Budget]) -> None:
    async def two_seconds(_: Any) -> None:
        await asyncio.sleep(2)

    async def scenario() -> None:
        options: dict[str, Any] = {
            "tools": Adding(takes_s=7).tools,
            "plugins": [asks_permission(), Hooks({Phase.STEP_END: two_seconds})],
            "budgets": budgets,
        }
        script = [spends(30, delay_ms=1_000), spends(30, text="done", delay_ms=1_000)]
        async with World(script, **options) as world:
            assert (await world.tell(tenant_id="acme")).termination == Suspended()
            assert await spent_time(world) == (3_000, 3_000)
            await asyncio.sleep(900)
            other = another_process(world, **options)
            await other.runtime.decide((await open_tickets(world, "@acme:t"))[0])
            assert (await finished(other, "@acme:t")).termination == NaturalEnd()
            assert (await thread_ledger(other, "@acme:t")).spent.ms == 13_000

    simulated(scenario)


def test_a_store_that_fails_after_a_good_answer_does_not_fail_the_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with World(["hello"], budgets=[Budget(scope=TENANT, tokens=10**6)]) as world:
            profile: Any = world.runtime._engine.services.profile
            change, count = profile.change_entry, 0

            async def broken(*args: Any, **options: Any) -> Any:
                nonlocal count
                count += 1
                if count == 2:
                    raise OSError("disk")
                return await change(*args, **options)

            profile.change_entry = broken
            story = await world.tell(tenant_id="acme")
            assert (story.termination, story.lines[-1][1]) == (NaturalEnd(), "hello")
            ledger = await tenant_ledger(world.runtime, "acme")
            assert (ledger.spent.tokens, ledger.holds) == (30, {})

    with caplog.at_level(logging.WARNING):
        simulated(scenario)
    assert "could not be charged" in caplog.text


def test_a_run_that_is_cancelled_while_it_settles_leaves_no_hold_behind() -> None:
    async def scenario() -> None:
        async with World(["hello"], budgets=[Budget(scope=TENANT, tokens=10**6)]) as world:
            profile: Any = world.runtime._engine.services.profile
            change, count, reached = profile.change_entry, 0, asyncio.Event()

            async def slow(*args: Any, **options: Any) -> Any:
                nonlocal count
                count += 1
                if count == 2:
                    reached.set()
                    await asyncio.sleep(1)
                return await change(*args, **options)

            profile.change_entry = slow
            handle = await world.runtime.start("agent", "go", thread_id="t", tenant_id="acme")
            await reached.wait()
            await world.runtime.cancel_and_wait("@acme:t")
            assert (await handle.result()).termination == Cancelled()
            ledger = await tenant_ledger(world.runtime, "acme")
            assert (ledger.spent.tokens, ledger.holds) == (30, {})

    simulated(scenario)


def test_a_soft_budget_that_is_used_up_in_the_middle_of_an_answer_lets_it_be_completed() -> None:
    usage = TokenUsage(prompt_tokens=10, completion_tokens=200)
    cut = Turn("one and ", stop=StopReason.MAX_TOKENS, usage=usage)
    story = play([cut, "two"], budgets=[Budget(tokens=100, soft=True)])
    assert (story.termination, story.lines[-1][1]) == (NaturalEnd(), "one and two")


def test_a_pause_before_the_next_try_ends_with_the_time_budget() -> None:
    async def scenario() -> None:
        script = [RateLimited("slow down", retry_after_ms=300_000), "late"]
        async with World(script, config={}, budgets=[Budget(time_ms=5_000)]) as world:
            began = asyncio.get_running_loop().time()
            assert (await world.tell()).termination == exceeded("run: 5,000 ms")
            assert asyncio.get_running_loop().time() - began < 6

    simulated(scenario)


def test_what_a_broken_stream_has_said_is_charged() -> None:
    async def scenario() -> None:
        script = [Turn("y" * 40_000, error=StreamInterrupted("reset"))]
        async with World(script, budgets=TOKENS[:1]) as world:
            await world.tell()
            assert 10_000 <= (await thread_ledger(world)).spent.tokens <= 10_010

    simulated(scenario)


class TwoAgents:
    """Agent `a`, which hands over to agent `b`; both share a store and a thread."""

    def __init__(self, *budgets: Budget, script: list[Any]) -> None:
        tools = Adding().tools
        self.model = ScriptedModel(script)
        self.store = WatchedStore()
        handoff = HandoffPlugin({"b": "always"})
        self.agents = [
            Agent("a", model=ScriptedModel([HANDOFF]), plugins=[handoff], budgets=list(budgets)),
            Agent("b", model=self.model, tools=tools),
        ]

    def runtime(self) -> AgentRuntime:
        return AgentRuntime(self.agents, store=self.store, clock=LoopClock())

    async def ledger(self) -> Ledger:
        checkout = await self.store.checkout("t")
        assert checkout is not None
        return THREAD_LEDGER.decode(checkout.state[THREAD_LEDGER.name])


def test_a_handoff_does_not_free_a_run_from_its_budgets() -> None:
    async def scenario() -> None:
        world = TwoAgents(Budget(tokens=700), script=[spends(300)] * 9)
        async with world.runtime() as runtime:
            result = await runtime.run("a", "go", thread_id="t")
            assert result.termination == exceeded("run: 700 tokens")
            assert len(world.model.requests) == 2

    simulated(scenario)


def test_an_agent_without_a_budget_spends_from_the_threads() -> None:
    async def scenario() -> None:
        script = [spends(300, text="one"), spends(400, text="two")]
        world = TwoAgents(Budget(scope=THREAD, tokens=5_000), script=script)
        async with world.runtime() as runtime:
            await runtime.run("a", "go", thread_id="t")
            assert (await world.ledger()).spent.tokens == 330
            result = await runtime.run("b", "again", thread_id="t")
            assert (result.text, (await world.ledger()).spent.tokens) == ("two", 730)

    simulated(scenario)


def test_the_budgets_of_the_first_agent_hold_in_another_process_too() -> None:
    async def scenario() -> None:
        world = TwoAgents(Budget(tokens=700), script=[spends(300)] * 9)
        world.agents[1] = Agent(
            "b", model=world.model, tools=Adding().tools, plugins=[asks_permission()]
        )
        async with world.runtime() as first, world.runtime() as second:
            result = await first.run("a", "go", thread_id="t")
            for _ in range(2):
                (ticket,) = await second.tickets("t")
                await second.decide(ticket.ticket_id)
                result = await second.wait(result.run_id)
            assert result.termination == exceeded("run: 700 tokens")

    simulated(scenario)
