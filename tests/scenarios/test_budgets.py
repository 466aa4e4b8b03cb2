"""Runs stop when a budget is used up, with a reason that is written down; soft budgets ask."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from awaken import (
    Agent,
    AgentRuntime,
    Blocked,
    Budget,
    Cancelled,
    InvalidInput,
    MailboxConfig,
    ModelSpec,
    NaturalEnd,
    RunStatus,
    Stopped,
    Suspended,
    tool,
)
from awaken.cli.main import app
from awaken.contracts.models.budgets import SHARED_LEDGER, decode_ledger, tenant_scope
from awaken.contracts.plugins.loop_state import STOP_STATS
from awaken.errors import RateLimited
from awaken.events import InferenceComplete, StoppedReason
from awaken.models import BudgetScope, InferenceRequest, ModelPrices, TokenUsage
from awaken.plugins import THREAD_LEDGER, Block, Ledger, ToolGateContext
from awaken.testing import ScriptedModel, Turn

from .asking import another_process, asks_permission, finished, open_tickets, retold, tool_answers
from .worlds import Gate, World, play, simulated

QUICK = MailboxConfig(lease_ms=20_000, renew_ms=100, sweep_ms=200, poll_ms=20, drain_ms=500)
WAIT_MS = 20_000
TENANT = BudgetScope.TENANT
THREAD = BudgetScope.THREAD
DEAR = ModelSpec(
    id="dear",
    provider_id="mine",
    upstream_model="dear-1",
    prices=ModelPrices(input=1000.0, output=2000.0),
)


def spends(tokens: int, **turn: Any) -> Turn:
    """A turn that uses this many tokens; it asks for `add` unless it says something."""
    if "text" not in turn:
        turn.setdefault("calls", [("add", {"a": 1})])
    return Turn(usage=TokenUsage(prompt_tokens=10, completion_tokens=tokens - 10), **turn)


class Adding:
    """A tool that notes that it ran, and takes a second."""

    def __init__(self, takes_s: float = 0) -> None:
        self.ran: list[int] = []

        @tool
        async def add(a: int) -> int:
            await asyncio.sleep(takes_s)
            self.ran.append(a)
            return a + 1

        self.tools = [add]


def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'store.db'}"


async def thread_ledger(world: World, thread_id: str = "t") -> Ledger:
    checkout = await world.store.checkout(thread_id)
    assert checkout is not None
    return THREAD_LEDGER.decode(checkout.state[THREAD_LEDGER.name])


def exceeded(detail: str) -> Stopped:
    return Stopped(reason=StoppedReason(code="budget_exceeded", detail=detail))


def test_a_run_stops_with_a_named_reason_when_its_tokens_are_used_up() -> None:
    story = play(
        [spends(300), spends(300), spends(300)],
        tools=Adding().tools,
        budgets=[Budget(tokens=650)],
    )
    assert story.termination == exceeded("run: 650 tokens")
    assert story.record.termination == story.termination
    assert (story.record.status, len(story.requests)) == (RunStatus.DONE, 2)
    limits = [request.overrides.max_tokens for request in story.requests]
    assert limits[0] > 600 > 350 > limits[1] > 250
    assert story.answers == ["2", "2"]


def test_a_budget_of_the_request_holds_besides_the_agents() -> None:
    story = play(
        [spends(300)] * 3,
        tools=Adding().tools,
        budgets=[Budget(tokens=10_000)],
        options={"budgets": [Budget(tokens=350)]},
    )
    assert story.termination == exceeded("run: 350 tokens")
    assert len(story.requests) == 1


def test_a_thread_remembers_what_its_earlier_runs_spent() -> None:
    budgets = [Budget(scope=THREAD, tokens=800)]

    async def scenario() -> None:
        script = [spends(400, text="one"), spends(350, text="two"), "elsewhere"]
        async with World(script, budgets=budgets) as world:
            assert (await world.tell()).termination == NaturalEnd()
            other = another_process(world, budgets=budgets)
            assert (await other.tell("again")).termination == NaturalEnd()
            assert (await world.tell("more")).termination == exceeded("thread: 800 tokens")
            assert (await thread_ledger(world)).spent.tokens == 750
            assert (await world.tell(thread_id="other")).termination == NaturalEnd()

    simulated(scenario)


def test_money_is_counted_and_shown_wherever_usage_is() -> None:
    model = ScriptedModel([spends(60, text="dear")])

    async def scenario() -> None:
        agent = Agent("agent", model=DEAR, budgets=[Budget(cost_usd=1.0)])
        async with AgentRuntime([agent], providers={"mine": model}) as runtime:
            events = [event async for event in runtime.stream("agent", "go", thread_id="t")]
            (done,) = [event for event in events if isinstance(event, InferenceComplete)]
            assert done.usage is not None
            assert done.usage.cost_usd == pytest.approx(0.11)
            (record,) = await runtime.list_runs("t")
            assert record.usage.cost_usd == pytest.approx(0.11)
            assert model.requests[0].overrides is not None
            assert (model.requests[0].overrides.max_tokens or 0) < 500

    asyncio.run(scenario())


def test_the_command_line_says_what_a_run_cost_and_who_pays(tmp_path: Path) -> None:
    async def scenario() -> None:
        agent = Agent("agent", model=DEAR)
        providers = {"mine": ScriptedModel([spends(60, text="dear")])}
        async with AgentRuntime([agent], providers=providers, store=file(tmp_path)) as runtime:
            await runtime.run("agent", "go", run_id_hint="r", tenant_id="acme")

    asyncio.run(scenario())
    shown = CliRunner().invoke(app, ["runs", "show", "@acme:r", "--store", file(tmp_path)]).stdout
    facts = dict(line.split(maxsplit=1) for line in shown.splitlines() if " " in line)
    assert (facts["cost"], facts["tenant"]) == ("$0.110000", "acme")
    assert "cost_nanos" not in facts["usage"]


def test_a_money_budget_does_not_trust_a_model_without_a_price() -> None:
    story = play(["free?"], budgets=[Budget(cost_usd=1.0)])
    assert isinstance(story.termination, Stopped)
    assert "is not known" in (story.termination.reason.detail or "")
    assert story.requests == []


def test_time_that_tools_take_counts_and_the_wait_for_a_person_does_not() -> None:
    async def scenario() -> None:
        adding, budgets = Adding(takes_s=2), [Budget(time_ms=5_000)]
        world = World(
            [spends(30), spends(30), spends(30)],
            tools=adding.tools,
            plugins=[asks_permission()],
            budgets=budgets,
        )
        async with world:
            await world.tell()
            for _ in range(3):
                await asyncio.sleep(100)
                tickets = await open_tickets(world)
                other = another_process(
                    world, tools=adding.tools, plugins=[asks_permission()], budgets=budgets
                )
                await other.runtime.decide(tickets[0])
                await finished(other)
            assert (await finished(world)).termination == exceeded("run: 5,000 ms")
            assert len(adding.ran) == 3

    simulated(scenario)


def test_the_time_of_tools_is_durable_with_their_step_so_that_a_crash_gives_none_back() -> None:
    async def scenario() -> None:
        adding = Adding(takes_s=2)
        world = World(
            [spends(30), spends(30), "done"], tools=adding.tools, budgets=[Budget(time_ms=60_000)]
        )
        async with world:
            await world.tell()
            await finished(world)
            kept = [
                STOP_STATS.decode(stats).active_ms
                for commit in world.store.commits
                if (stats := commit.run_state.get(STOP_STATS.name)) is not None
            ]
        assert kept[:2] == [2_000, 4_000]

    simulated(scenario)


def test_a_call_that_never_ends_is_ended_by_the_time_budget() -> None:
    async def never(_: InferenceRequest) -> str:
        await asyncio.sleep(3)
        return "too late"

    story = play([never], budgets=[Budget(time_ms=1_000)])
    assert story.termination == exceeded("run: 1,000 ms")


def test_a_call_that_was_cancelled_is_charged_with_what_it_asked() -> None:
    async def scenario() -> None:
        async def slow(_: InferenceRequest) -> str:
            await asyncio.sleep(100)
            return "late"

        async with World([slow], budgets=[Budget(scope=THREAD, tokens=5_000)]) as world:
            handle = await world.runtime.start("agent", "x" * 4_000, thread_id="t")
            await asyncio.sleep(1)
            await world.runtime.cancel_and_wait("t")
            assert (await handle.result()).termination == Cancelled()
            assert 1_000 <= (await thread_ledger(world)).spent.tokens <= 1_010

    simulated(scenario)


def test_a_call_that_the_provider_refused_costs_nothing() -> None:
    async def scenario() -> None:
        budgets = [Budget(scope=THREAD, tokens=5_000)]
        async with World([RateLimited("slow down")] * 9, budgets=budgets) as world:
            await world.tell("x" * 4_000)
            assert (await thread_ledger(world)).spent.tokens == 0

    simulated(scenario)


SOFT = [Budget(scope=THREAD, tokens=100, soft=True)]


def soft_world(**more: Any) -> tuple[World, Adding]:
    adding = Adding()
    calls = [("add", {"a": 1}), ("add", {"a": 2}), ("add", {"a": 3})]
    script = [spends(150, calls=calls), spends(30, text="done"), spends(30, text="more")]
    return World(script, tools=adding.tools, budgets=SOFT, **more), adding


@pytest.mark.parametrize("elsewhere", [False, True], ids=["same process", "other process"])
def test_a_soft_budget_asks_once_and_whoever_allows_it_lets_the_run_go_on(elsewhere: bool) -> None:
    async def scenario() -> None:
        world, adding = soft_world()
        async with world:
            story = await world.tell()
            assert (story.termination, adding.ran) == (Suspended(), [])
            tickets = await world.runtime.tickets("t")
            assert {ticket.suspension.action for ticket in tickets} == {"budget"}
            assert "thread: 100 tokens" in tickets[0].suspension.message
            decider = world
            if elsewhere:
                decider = another_process(world, tools=adding.tools, budgets=SOFT)
            await decider.runtime.decide(tickets[1].ticket_id)
            assert (await finished(decider)).termination == NaturalEnd()
            assert sorted(adding.ran) == [1, 2, 3]
            assert await open_tickets(world) == []
            assert list(tool_answers(await retold(world)).values()) == ["2", "3", "4"]
            ledger = await thread_ledger(world)
            assert (ledger.spent.tokens, ledger.extended) == (180, {SOFT[0].key: 1})

    simulated(scenario)


def test_whoever_denies_a_soft_budget_ends_the_run_by_it() -> None:
    async def scenario() -> None:
        world, adding = soft_world()
        async with world:
            await world.tell()
            await world.runtime.decide((await open_tickets(world))[0], "cancel")
            result = await finished(world)
            assert result.termination == exceeded("thread: 100 tokens")
            story = await retold(world)
            assert (adding.ran, len(story.answers), len(story.requests)) == ([], 3, 1)
            assert await open_tickets(world) == []

    simulated(scenario)


def test_a_soft_budget_that_is_used_up_before_a_run_stops_it() -> None:
    async def scenario() -> None:
        async with World([spends(150, text="one"), "two"], budgets=SOFT) as world:
            assert (await world.tell()).termination == NaturalEnd()
            story = await world.tell("again")
            assert story.termination == exceeded("thread: 100 tokens")
            assert len(story.requests) == 1

    simulated(scenario)


def test_a_gate_that_blocks_comes_before_the_question_about_money() -> None:
    async def gate(_: ToolGateContext) -> Block:
        return Block(reason="never")

    async def scenario() -> None:
        world, adding = soft_world(plugins=[Gate(gate)])
        async with world:
            assert (await world.tell()).termination == Blocked(reason="never")
            assert (adding.ran, await open_tickets(world)) == ([], [])

    simulated(scenario)


def test_permission_and_money_are_two_questions_on_one_call() -> None:
    async def scenario() -> None:
        adding = Adding()
        world = World(
            [spends(150), spends(30, text="done")],
            tools=adding.tools,
            budgets=SOFT,
            plugins=[asks_permission()],
        )
        async with world:
            await world.tell()
            actions = []
            for _ in range(2):
                (ticket,) = await world.runtime.tickets("t")
                actions.append(ticket.suspension.action)
                assert adding.ran == []
                await world.runtime.decide(ticket.ticket_id)
                await finished(world)
            assert (actions, adding.ran) == (["may", "budget"], [1])
            assert (await finished(world)).termination == NaturalEnd()

    simulated(scenario)


async def tenant_ledger(runtime: AgentRuntime, tenant: str) -> Ledger:
    profile = runtime._engine.services.profile
    entry = await profile.find_entry(tenant_scope(tenant), SHARED_LEDGER)
    return decode_ledger(None if entry is None else entry.value)


def hungry(request: InferenceRequest) -> Turn:
    """Answers with every token it may, and asks for more."""
    assert request.overrides is not None
    most = request.overrides.max_tokens
    assert most is not None
    usage = TokenUsage(prompt_tokens=20, completion_tokens=most)
    return Turn(calls=[("add", {"a": 1})], usage=usage, delay_ms=1)


def test_two_processes_never_let_a_tenant_spend_more_than_its_limit(tmp_path: Path) -> None:
    limit = 20_000

    def runtime() -> AgentRuntime:
        spec = ModelSpec(id="m", provider_id="mine", upstream_model="m", max_output_tokens=700)
        agent = Agent("agent", model=spec, tools=Adding().tools)
        model = ScriptedModel([hungry], cycle=True)
        return AgentRuntime(
            [agent],
            providers={"mine": model},
            store=file(tmp_path),
            mailbox=QUICK,
            budgets=[Budget(scope=TENANT, tokens=limit)],
        )

    async def scenario() -> None:
        async with runtime() as one, runtime() as two:
            runs = [
                runtime.run("agent", "go", thread_id=f"t{n}", tenant_id="acme")
                for n, runtime in enumerate([one, two] * 10)
            ]
            results = await asyncio.gather(*runs)
            used = sum(
                (it.usage.prompt_tokens or 0) + (it.usage.completion_tokens or 0) for it in results
            )
            ledger = await tenant_ledger(one, "acme")
            assert limit * 0.9 < used <= limit + 20 * len(results)
            assert (ledger.spent.tokens, ledger.holds) == (used, {})
            ends = {str(it.termination.reason.detail) for it in results}
            assert ends == {"tenant: 20,000 tokens"}
            free = await one.run("agent", "go", thread_id="o", tenant_id="other")
            assert (free.usage.completion_tokens or 0) > 0

    asyncio.run(scenario())


STORES: list[Callable[[Path], str | None]] = [file, lambda _: None]


@pytest.mark.parametrize("store", STORES, ids=["sqlite", "memory"])
def test_a_delivered_run_keeps_its_tenant_and_its_budgets(
    store: Callable[[Path], str | None], tmp_path: Path
) -> None:
    async def scenario() -> None:
        model = ScriptedModel([spends(300)] * 3)
        agent = Agent("agent", model=model, tools=Adding().tools)
        runtime = AgentRuntime(
            [agent],
            store=store(tmp_path),
            mailbox=QUICK,
            budgets=[Budget(scope=TENANT, tokens=10_000)],
        )
        async with runtime as rt:
            receipt = await rt.submit("agent", "go", tenant_id="acme", budgets=[Budget(tokens=350)])
            result = await rt.wait(receipt.run_id, timeout_ms=WAIT_MS)
            assert result.termination == exceeded("run: 350 tokens")
            assert (await rt.get_run(receipt.run_id)).tenant_id == "acme"
            assert (await tenant_ledger(rt, "acme")).spent.tokens == 300

    asyncio.run(scenario())


def test_a_soft_question_outlives_the_process_that_asked_it(tmp_path: Path) -> None:
    adding = Adding()
    soft = [Budget(scope=TENANT, tokens=100, soft=True)]

    def runtime(*script: Any) -> AgentRuntime:
        agent = Agent("agent", model=ScriptedModel(script), tools=adding.tools)
        return AgentRuntime([agent], store=file(tmp_path), mailbox=QUICK, budgets=soft)

    async def scenario() -> None:
        async with runtime(spends(150)) as first:
            waiting = await first.run("agent", "go", thread_id="t", tenant_id="acme")
            assert waiting.is_waiting
        async with runtime(spends(80, text="done")) as second:
            (ticket,) = await second.tickets("@acme:t")
            await second.decide(ticket.ticket_id)
            result = await second.wait(waiting.run_id, timeout_ms=WAIT_MS)
            assert (result.text, adding.ran) == ("done", [1])
            ledger = await tenant_ledger(second, "acme")
            assert (ledger.spent.tokens, ledger.extended) == (230, {soft[0].key: 1})
            other = await second.run("agent", "hi", thread_id="u", tenant_id="acme")
            assert other.usage == TokenUsage()

    asyncio.run(scenario())


def test_the_request_of_a_waiting_run_cannot_be_freed_from_its_budget() -> None:
    async def scenario() -> None:
        world = World(
            [spends(300), spends(300), "free"],
            tools=Adding().tools,
            plugins=[asks_permission()],
        )
        async with world:
            await world.tell(budgets=[Budget(tokens=400)])
            (ticket,) = await open_tickets(world)
            other = another_process(world, tools=Adding().tools, plugins=[asks_permission()])
            await other.runtime.decide(ticket)
            result = await finished(other)
            assert result.termination == exceeded("run: 400 tokens")

    simulated(scenario)


@pytest.mark.parametrize(
    "options",
    [
        {"budgets": Budget(tokens=1)},
        {"budgets": [{"tokens": 1}]},
        {"budgets": ["tokens"]},
        {"tenant_id": 7},
        {"tenant_id": " "},
    ],
)
def test_a_malformed_budget_or_tenant_is_refused_before_anything_is_written(options: Any) -> None:
    async def scenario() -> None:
        async with World(["never"]) as world:
            with pytest.raises(InvalidInput):
                await world.runtime.run("agent", "go", thread_id="t", **options)
            assert world.store.commits == []

    simulated(scenario)


def test_without_a_budget_a_run_is_written_as_before() -> None:
    async def scenario() -> None:
        async with World(["hi"]) as world:
            story = await world.tell()
            assert story.requests[0].overrides is None
            checkout = await world.store.checkout("t")
            assert checkout is not None
            assert not [
                name for name in {**checkout.state, **checkout.run_state} if "ledger" in name
            ]

    simulated(scenario)
