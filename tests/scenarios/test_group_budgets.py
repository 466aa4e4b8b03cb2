"""One ledger for all runs of a group: whatever they do at once, they never spend beyond its cap."""

import asyncio
import random
from pathlib import Path
from typing import Any

from tests.sampling import choose_size, sampled

from awaken import Agent, AgentRuntime, Budget
from awaken.contracts.models.budgets import SHARED_LEDGER, Ledger, decode_ledger, group_scope
from awaken.contracts.runs.records import RunRequest
from awaken.messages import user
from awaken.models import BudgetScope, InferenceRequest, TokenUsage
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


def test_processes_share_the_ledger_of_a_group(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = Greedy(1)
        agent = Agent(id="agent", model=ScriptedModel([model] * 40), instructions="x")
        url = f"sqlite:///{tmp_path / 'a.db'}"
        first = AgentRuntime([agent], store=url, has_worker=False)
        other = AgentRuntime([agent], store=url, has_worker=False)
        async with first, other:
            budget = Budget(scope=GROUP, tokens=20_000)
            both = [runtime for _ in range(20) for runtime in (first, other)]
            await asyncio.gather(*(it._engine.run(sample("e", budget)) for it in both))
            assert (await group_ledger(first, "e")).spent.tokens == model.spent <= 20_000

    asyncio.run(scenario())


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
