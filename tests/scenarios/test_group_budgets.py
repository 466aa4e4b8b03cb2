"""One ledger for all runs of a group: whatever they do at once, they never spend beyond its cap."""

import asyncio
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.forked_python import ForkedPython
from tests.postgres.server import new_schema, server
from tests.sampling import choose_size, sampled

from awaken import Agent, AgentRuntime, Budget
from awaken.contracts.models.budgets import SHARED_LEDGER, Ledger, decode_ledger, group_scope
from awaken.contracts.runs.records import RunRequest
from awaken.messages import user
from awaken.models import BudgetScope, InferenceRequest, TokenUsage
from awaken.stores.postgres import PostgresStore
from awaken.testing import ScriptedModel, Turn

from .test_budgets import exceeded, spends
from .worlds import World, simulated

GROUP, TENANT = BudgetScope.GROUP, BudgetScope.TENANT


async def group_ledger(runtime: AgentRuntime, group: str) -> Ledger:
    profile = runtime._engine.services.profile
    entry = await profile.find_entry(group_scope(group), SHARED_LEDGER)
    return decode_ledger(None if entry is None else entry.value)


def sample(group: str | None, *budgets: Budget, text: str = "go", **options: Any) -> RunRequest:
    return RunRequest(
        agent_id="agent",
        messages=(user(text),),
        budgets=budgets,
        budget_group=group,
        **options,
    )


def count_bytes(request: InferenceRequest) -> int:
    """The most tokens that a tokenizer can make of a request: one of each byte."""
    texts = [*request.system, *(it.text for it in request.messages)]
    return sum(len(it.encode()) for it in texts)


class Greedy:
    """A model that answers with as many tokens as it may, or with some of them.

    Its tokenizer makes between one token of four bytes and one token of each byte.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.spent = 0

    def __call__(self, request: InferenceRequest) -> Turn:
        most = request.overrides.max_tokens if request.overrides is not None else None
        assert most is not None, "a call of a group has a limit"
        used = self._random.choice((most, self._random.randint(1, most)))
        size = count_bytes(request)
        prompt = self._random.choice((size, self._random.randint(size // 4, size)))
        self.spent += prompt + used
        usage = TokenUsage(prompt_tokens=prompt, completion_tokens=used)
        return Turn("done", usage=usage, delay_ms=self._random.randint(0, 5))


@sampled
def test_spent_is_never_more_than_the_cap_with_32_samples_at_once() -> None:
    """`make torture` makes 1,000 trials of it."""

    async def scenario() -> None:
        cut, trials = 0, choose_size(40, 1_000)
        greedy = Greedy(0)
        model = ScriptedModel([lambda request: greedy(request)] * (32 * trials))
        async with AgentRuntime([Agent(id="agent", model=model, instructions="x")]) as runtime:
            for trial in range(trials):
                drawn = random.Random(trial)
                cap, greedy = drawn.randint(200, 60_000), Greedy(trial)
                texts = ["語" * drawn.randint(1, 400) if drawn.random() < 0.5 else "go"] * 32
                budget = Budget(scope=GROUP, tokens=cap)
                group = f"group-{trial}"
                runs = [runtime._engine.run(sample(group, budget, text=it)) for it in texts]
                ended = await asyncio.gather(*runs)
                ledger = await group_ledger(runtime, group)
                assert ledger.spent.tokens == greedy.spent <= cap, trial
                assert ledger.holds == {}, trial
                cut += sum("group" in str(it.termination) for it in ended)
        assert cut > trials

    simulated(scenario)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_processes_share_the_ledger_of_a_group(tmp_path: Path, kind: str) -> None:
    schema = new_schema() if kind == "postgres" else ""

    def open_store() -> Any:
        if kind == "postgres":
            return PostgresStore(server().url, schema=schema)
        return f"sqlite:///{tmp_path / 'a.db'}"

    async def scenario() -> None:
        model = Greedy(1)
        agent = Agent(id="agent", model=ScriptedModel([model] * 40), instructions="x")
        first = AgentRuntime([agent], store=open_store(), has_worker=False)
        other = AgentRuntime([agent], store=open_store(), has_worker=False)
        async with asyncio.timeout(120), first, other:
            budget = Budget(scope=GROUP, tokens=20_000)
            both = [runtime for _ in range(20) for runtime in (first, other)]
            await asyncio.gather(*(it._engine.run(sample("e", budget)) for it in both))
            ledger = await group_ledger(first, "e")
            assert ledger.spent.tokens == model.spent <= 20_000
            assert ledger.holds == {}

    asyncio.run(scenario())


@sampled
@pytest.mark.timeout(3_600)  # A thousand trials on a server take minutes.
def test_on_postgres_two_processes_never_spend_more_than_the_cap_together() -> None:
    """32 samples at once over two processes; `make torture` makes 1,000 trials of it."""

    async def scenario() -> None:
        schema, trials, cut = new_schema(), choose_size(5, 1_000), 0
        greedy = Greedy(0)
        model = ScriptedModel([lambda request: greedy(request)] * (32 * trials))
        agent = Agent(id="agent", model=model, instructions="x")
        first, other = (
            AgentRuntime(
                [agent], store=PostgresStore(server().url, schema=schema), has_worker=False
            )
            for _ in range(2)
        )
        async with first, other:
            for trial in range(trials):
                drawn = random.Random(trial)
                cap, greedy = drawn.randint(200, 40_000), Greedy(trial)
                budget, group = Budget(scope=GROUP, tokens=cap), f"group-{trial}"
                runs = [it._engine.run(sample(group, budget)) for it in (first, other) * 16]
                ended = await asyncio.gather(*runs)
                ledger = await group_ledger(first, group)
                assert ledger.spent.tokens == greedy.spent <= cap, trial
                assert ledger.holds == {}, trial
                cut += sum("group" in str(it.termination) for it in ended)
        assert cut > 0

    asyncio.run(scenario())


@sampled
@pytest.mark.timeout(1_800)  # A hundred trials of four processes take minutes.
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_processes_that_share_no_memory_never_spend_more_than_the_cap(
    tmp_path: Path, kind: str
) -> None:
    """32 samples at once over four processes of the system."""
    url, schema = f"sqlite:///{tmp_path / 'a.db'}", "-"
    if kind == "postgres":
        url, schema = server().url, new_schema()
    command = ("-m", "tests.scenarios.spending_process", url, schema, "8")
    pipe = subprocess.PIPE
    nodes = [ForkedPython(*command, stdin=pipe, stdout=pipe, text=True) for _ in range(4)]
    used = 0
    try:
        assert [it.stdout.readline() for it in nodes] == ["ready\n"] * 4
        for trial in range(choose_size(3, 100)):
            cap = random.Random(trial).randint(200, 20_000)
            for place, node in enumerate(nodes):
                node.stdin.write(f"group-{trial} {cap} {trial * 4 + place}\n")
                node.stdin.flush()
            spent = sum(int(it.stdout.readline()) for it in nodes)
            assert spent <= cap, trial
            used += spent
    finally:
        for node in nodes:
            node.kill()
            node.communicate()
    assert used


def test_groups_do_not_know_each_other_and_a_run_without_one_is_not_limited() -> None:
    async def scenario() -> None:
        budget = Budget(scope=GROUP, tokens=1_000)
        async with World([spends(200, text="done")] * 9) as world:
            engine = world.runtime._engine
            for group in ("a", "b", None):
                await engine.run(sample(group, budget))
            assert (await group_ledger(world.runtime, "a")).spent.tokens == 200
            assert (await group_ledger(world.runtime, "b")).spent.tokens == 200
            assert (
                await world.runtime._engine.services.profile.find_entry("group::", SHARED_LEDGER)
                is None
            )

    simulated(scenario)


def test_a_group_and_a_tenant_are_both_charged_and_a_refusal_of_one_leaves_no_hold() -> None:
    async def scenario() -> None:
        async with World([spends(200, text="done")] * 9) as world:
            engine = world.runtime._engine
            given = Budget(scope=GROUP, tokens=240), Budget(scope=TENANT, tokens=10**6)
            await engine.run(sample("e", *given, tenant_id="acme"))
            refused = await engine.run(sample("e", *given, tenant_id="acme"))
            assert refused.termination == exceeded("group: 240 tokens")
            profile = engine.services.profile
            entry = await profile.find_entry("tenant::acme", SHARED_LEDGER)
            ledger = decode_ledger(entry.value if entry else None)
            assert (ledger.spent.tokens, ledger.holds) == (200, {})
            assert (await group_ledger(world.runtime, "e")).holds == {}

    simulated(scenario)
