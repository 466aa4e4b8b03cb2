"""What happens below a workflow, or below an agent that goes on, decides its sample."""

import asyncio
from typing import Any

import msgspec
import pytest

from awaken import Agent, WorkflowContext, tool, workflow
from awaken.contracts.evals.eval_runs import EvalBudget, EvalMode, EvalStatus
from awaken.errors import AwakenError, ProviderFailed
from awaken.evals import Case, EvalResult, ScriptedTurn, ToolPolicy, Variant, evaluate, scorers
from awaken.models import TokenUsage
from awaken.testing import ScriptedModel, Turn

SENT: list[str] = []
CASE = Case(id="c", user_input='{"text": "hi"}', scorers=(scorers.contains("done"),))


@tool(effect="once")
async def send(text: str) -> str:
    """Send."""
    SENT.append(text)
    return "sent"


def make_flow(target: Any, *, is_caught: bool = True, calls: int = 1) -> Any:
    @workflow(id="flow")
    async def flow(ctx: WorkflowContext, text: str) -> str:
        """Do it, and say done whatever comes of it."""
        for _ in range(calls):
            try:
                if isinstance(target, str):
                    await ctx.ask(target, text)
                else:
                    await ctx.call(target, text)
            except AwakenError:
                if not is_caught:
                    raise
        return "done"

    return flow


def make_asked(model: Any, **options: Any) -> Agent:
    config = {"retry": {"max_retries": 0}}
    return Agent("asked", model=model, instructions="Help.", config=config, **options)


def run(agents: Any, **options: Any) -> EvalResult:
    options.setdefault("variants", [Variant(name="v", agent_id="flow")])
    options.setdefault("mode", EvalMode.LIVE)
    cases = options.pop("cases", [CASE])
    return asyncio.run(evaluate(cases, agents, **options))


@pytest.mark.parametrize("is_caught", [True, False])
@pytest.mark.parametrize("is_below", [True, False])
def test_a_call_without_an_answer_is_a_divergence_though_the_workflow_caught_it(
    is_caught: bool, is_below: bool
) -> None:
    model = ScriptedModel([Turn(calls=[("send", {"text": "hi"})]), Turn("ok")], cycle=True)
    target = "asked" if is_below else send
    agents = [make_flow(target, is_caught=is_caught), make_asked(model, tools=[send])]
    done = run(agents, repeats=1)
    assert [it.status.value for it in done.items] == ["diverged"], done.items[0].error
    assert "diverged" in (done.items[0].error or "")
    assert not done.is_passed
    assert SENT == []


def test_a_delegate_that_diverged_is_a_divergence_though_the_agent_answered() -> None:
    below = ScriptedModel([Turn(calls=[("send", {"text": "hi"})]), Turn("ok")], cycle=True)
    above = ScriptedModel([Turn(calls=[("agent_run_asked", {"prompt": "x"})]), Turn("done")])
    lead = Agent("lead", model=above, instructions="Lead.", delegates=["asked"])
    variants = [Variant(name="v", agent_id="lead")]
    live = Case(
        id="c",
        user_input="hi",
        scorers=CASE.scorers,
        tools=ToolPolicy(allow_live=("agent_run_*",), allow_effects=True),
    )
    agents = [lead, make_asked(below, tools=[send])]
    done = run(agents, cases=[live], variants=variants, repeats=1)
    assert [it.status.value for it in done.items] == ["diverged"], done.items[0].error
    assert SENT == []


@pytest.mark.parametrize("is_caught", [True, False])
def test_a_provider_that_fails_below_a_workflow_is_no_failure_of_the_variant(
    is_caught: bool,
) -> None:
    failures = [ProviderFailed("503")] * 3
    agents = [make_flow("asked", is_caught=is_caught), make_asked(ScriptedModel(failures))]
    done = run(agents, repeats=1)
    assert [it.status.value for it in done.items] == ["infra_error"], done.items[0].error
    assert done.record.status is EvalStatus.INCOMPLETE
    assert done.figures.variants[0].failed == 0
    # A sample that is tried again counts as it ended then.
    model = ScriptedModel([ProviderFailed("503"), Turn("ok")])
    done = run([make_flow("asked", is_caught=is_caught), make_asked(model)], repeats=1)
    assert [it.status.value for it in done.items] == ["scored"]
    assert done.is_passed


@pytest.mark.parametrize("is_caught", [True, False])
def test_a_budget_that_is_used_up_below_a_workflow_cuts_the_rest(is_caught: bool) -> None:
    usage = TokenUsage(prompt_tokens=4, completion_tokens=90)
    model = ScriptedModel([Turn("ok", usage=usage)] * 50)
    asked = make_asked(model, context_policy={"max_output_tokens": 90})
    done = run(
        [make_flow("asked", is_caught=is_caught), asked],
        repeats=20,
        budget=EvalBudget(tokens=500),
    )
    found = [it.status.value for it in done.items]
    assert sorted(set(found)) == ["cut", "scored"], [it.error for it in done.items]
    assert done.record.status is EvalStatus.INCOMPLETE
    assert done.record.spent["tokens"] <= 500
    assert done.figures.variants[0].failed == 0
    assert done.figures.variants[0].scorers[0].rate == 1.0


def test_a_scripted_error_below_a_workflow_is_what_the_case_tries() -> None:
    script = (ScriptedTurn(error="rate_limited"),)
    case = msgspec.structs.replace(CASE, provider_script=script, allow_unused_provider_script=True)
    agents = [make_flow("asked"), make_asked(ScriptedModel([]))]
    done = run(agents, cases=[case], mode=EvalMode.SCRIPTED)
    assert [it.status.value for it in done.items] == ["scored"], done.items[0].error


@pytest.mark.parametrize(("seconds", "status"), [(0.05, "scored"), (3600, "timeout")])
def test_a_workflow_that_sleeps_waits_for_no_person(seconds: float, status: str) -> None:
    @workflow(id="flow")
    async def flow(ctx: WorkflowContext, text: str) -> str:
        """Sleep on it."""
        await ctx.sleep(seconds)
        return "done"

    done = run([flow], repeats=1)
    assert [it.status.value for it in done.items] == [status], done.items[0].error


def test_a_workflow_that_asks_a_person_beside_its_sleep_waits_for_one() -> None:
    @workflow(id="flow")
    async def flow(ctx: WorkflowContext, text: str) -> str:
        """Sleep on it, and ask."""
        await ctx.gather(ctx.sleep(0.05), ctx.approve("Fine?", timeout=5))
        return "done"

    done = run([flow], repeats=1)
    assert [it.status.value for it in done.items] == ["failed"]
    assert (done.items[0].error or "").startswith("waiting: ")
