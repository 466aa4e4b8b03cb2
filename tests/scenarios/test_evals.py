"""Evals end to end: planned, driven, scored, cut, cancelled, and taken over."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from awaken import Agent, AgentRuntime, tool
from awaken.contracts.errors import InvalidValue
from awaken.contracts.evals.cases import Case, CaseTurn, Expectation
from awaken.contracts.evals.errors import (
    InvalidDataset,
    InvalidEval,
    InvalidGate,
    NotComparable,
    UnknownEval,
)
from awaken.contracts.evals.eval_runs import (
    EvalBudget,
    EvalMode,
    EvalSpec,
    EvalStatus,
    ItemStatus,
)
from awaken.contracts.evals.scores import ScorerSpec
from awaken.contracts.evals.verdicts import GateStatus
from awaken.contracts.evals.worlds import (
    OnMiss,
    OnQuestion,
    PlannedDecision,
    ScriptedCall,
    ScriptedTurn,
    SimulatedUser,
    ToolPolicy,
    ToolSource,
    ToolStub,
    Variant,
)
from awaken.contracts.suspension.tickets import DecisionAction
from awaken.errors import ProviderFailed, Unauthorized
from awaken.evals.driving import list_items
from awaken.evals.evaluating import Dataset, EvalResult, evaluate, keep_dataset
from awaken.evals.preparing import EvalLimits
from awaken.evals.runner import EvalRunner
from awaken.extensions.handoff import HandoffPlugin
from awaken.models import InferenceRequest, TokenUsage
from awaken.testing import ScriptedModel, Turn

SAYS = ScorerSpec(scorer="contains", options={"phrases": ["yes"]})
AGENT = (Variant(name="v", agent_id="agent"),)
CALLS_MAIL = ScriptedTurn(calls=(ScriptedCall(name="send_mail", arguments={"to": "a@b.c"}),))


class Mail:
    """A tool with effects that counts how often it was executed."""

    def __init__(self, *, asks: bool = False) -> None:
        self.sent = 0

        @tool(effect="once", approval=asks)
        async def send_mail(to: str) -> str:
            """Send a mail."""
            self.sent += 1
            return f"sent to {to}"

        self.tool = send_mail


def agent(model: Any = None, **options: Any) -> Agent:
    return Agent(id="agent", model=model or ScriptedModel([]), instructions="Answer.", **options)


def scripted(case_id: str = "c", *turns: ScriptedTurn, **fields: Any) -> Case:
    script = turns or (ScriptedTurn(text="yes"),)
    fields.setdefault("scorers", (SAYS,))
    return Case(id=case_id, user_input="hi", provider_script=script, **fields)


def live(case_id: str = "c", **fields: Any) -> Case:
    return Case(id=case_id, user_input="hi", scorers=(SAYS,), **fields)


def run(*args: Any, **options: Any) -> EvalResult:
    return asyncio.run(evaluate(*args, **options))


def statuses(result: EvalResult) -> list[str]:
    return [it.status.value for it in result.items]


def test_a_scripted_dataset_needs_no_model_and_has_figures() -> None:
    cases = [scripted("good"), scripted("bad", ScriptedTurn(text="no"))]
    result = run(cases, [agent()])
    assert result.record.status is EvalStatus.DONE
    passed = {it.case_id: it.scores[0].passed for it in result.items}
    assert passed == {"good": True, "bad": False}
    (figures,) = result.figures.variants
    assert figures.scorers[0].rate == 0.5
    assert not result.is_passed


def test_no_tool_with_effects_runs_and_stubs_answer() -> None:
    mail = Mail()
    stub = ToolPolicy(stubs={"send_mail": (ToolStub(result="stubbed"),)})
    turns = (CALLS_MAIL, ScriptedTurn(text="yes"))
    done = run([scripted("c", *turns, tools=stub)], [agent(tools=[mail.tool])], repeats=3)
    assert (done.is_passed, mail.sent) == (True, 0)
    assert done.items[0].calls == ("send_mail",)


def test_a_call_without_an_answer_is_a_divergence_or_an_error_but_never_an_effect() -> None:
    mail = Mail()
    turns = (CALLS_MAIL, ScriptedTurn(text="yes"))
    for policy, status in (
        (ToolPolicy(), ItemStatus.DIVERGED),
        (ToolPolicy(on_miss=OnMiss.LIVE_NONE), ItemStatus.DIVERGED),
        (ToolPolicy(allow_live=("*",)), ItemStatus.DIVERGED),
        (ToolPolicy(on_miss=OnMiss.ERROR), ItemStatus.SCORED),
    ):
        done = run([scripted("c", *turns, tools=policy)], [agent(tools=[mail.tool])], repeats=1)
        assert (done.items[0].status, mail.sent) == (status, 0), policy
    allowed = ToolPolicy(allow_live=("send_mail",), allow_effects=True)
    run([scripted("c", *turns, tools=allowed)], [agent(tools=[mail.tool])], repeats=1)
    assert mail.sent == 1


def test_a_case_decides_questions_and_one_that_nothing_decides_fails_the_sample() -> None:
    turns = (CALLS_MAIL, ScriptedTurn(text="yes"))
    stub = ToolPolicy(stubs={"send_mail": (ToolStub(result="stubbed"),)})

    def case(**fields: Any) -> Case:
        return scripted("c", *turns, tools=stub, **fields)

    decision = PlannedDecision(tool="send_mail", action=DecisionAction.RESUME)
    for given, status, text in (
        (case(decisions=(decision,)), "scored", "yes"),
        (case(on_question=OnQuestion.APPROVE), "scored", "yes"),
        (case(on_question=OnQuestion.DENY), "scored", "yes"),
        (case(), "failed", ""),
    ):
        mail = Mail(asks=True)
        done = run([given], [agent(tools=[mail.tool])])
        assert (statuses(done), done.items[0].text, mail.sent) == ([status], text, 0)
    assert done.items[0].error == "waiting: send_mail"


def test_further_turns_are_on_the_same_thread_and_one_outcome() -> None:
    usage = TokenUsage(prompt_tokens=10, completion_tokens=20, total_tokens=30)
    answers = (ScriptedTurn(text="one", usage=usage), ScriptedTurn(text="yes, two", usage=usage))
    further = CaseTurn(user_input="and?", provider_script=answers[1:])
    case = scripted(
        "c",
        answers[0],
        continued_turns=(further,),
        scorers=(SAYS, ScorerSpec(scorer="max_steps", options={"max": 2})),
    )
    done = run([case], [agent()])
    assert (done.is_passed, done.items[0].text) == (True, "yes, two")
    assert done.items[0].usage == TokenUsage(
        prompt_tokens=20, completion_tokens=40, total_tokens=60
    )


def test_a_script_that_is_not_used_up_fails_its_case_unless_it_allows_that() -> None:
    left, error = ScriptedTurn(text="never asked for"), ScriptedTurn(error="rate_limited")
    yes = ScriptedTurn(text="yes")
    fails = Expectation(expected_error_type="bad_request")
    more = CaseTurn(user_input="and?", provider_script=(yes, yes))
    cases = [
        scripted("whole"),
        scripted("left", yes, left),
        scripted("error_left", yes, error),
        scripted("errors_first", error, yes),
        scripted("turn", continued_turns=(more,)),
        scripted("allowed", yes, left, allow_unused_provider_script=True),
        scripted("fails", ScriptedTurn(error="bad_request"), scorers=(), expect=fails),
        scripted("fails_left", ScriptedTurn(error="bad_request"), yes, scorers=(), expect=fails),
    ]
    done = {it.case_id: it for it in run(cases, [agent()]).items}
    bad = {name: it.error or "" for name, it in done.items() if it.status is not ItemStatus.SCORED}
    assert set(bad) == {"left", "error_left", "turn", "fails_left"}
    assert bad["left"].startswith("script_unused: 1 of the 2 scripted answers were not asked for")
    assert "of turn 2" in bad["turn"]
    # It counts as a failure of the variant, not as a sample that is missing.
    (figures,) = run(cases[:2], [agent()]).figures.variants
    assert (figures.failed, figures.missing, figures.scorers[0].rate) == (1, 0, 0.5)


def test_variants_change_the_agent_for_their_own_samples_only() -> None:
    def answer(request: InferenceRequest) -> Turn:
        return Turn("yes" if "politely" in request.system[0] else "no")

    variants = [Variant(name="old"), Variant(name="new", instructions="Answer politely.")]
    model = ScriptedModel([answer] * 20)
    done = run([live(f"c{n}") for n in range(4)], [agent(model)], variants=variants, repeats=2)
    rates = {it.variant: it.scorers[0].rate for it in done.figures.variants}
    assert rates == {"old": 0.0, "new": 1.0}
    (comparison,) = done.figures.comparisons
    assert (comparison.first, comparison.second) == ("old", "new")
    assert comparison.scorers[0].difference == 1.0


@pytest.mark.parametrize(
    ("variant", "problem"),
    [
        (Variant(name="v", agent_id="nobody"), "nobody"),
        (Variant(name="v", model_id="nowhere"), "nowhere"),
        (Variant(name="v", changes={"max_rounds": "many"}), "max_rounds"),
        (Variant(name="v", changes={"colour": "red"}), "colour"),
        (Variant(name="v", publication=3), "managed configuration"),
        (Variant(name="v", tool_descriptions={"send": "Send."}), "no agent has a tool 'send'"),
    ],
)
def test_a_variant_that_does_not_compile_is_refused_before_anything_is_asked(
    variant: Variant, problem: str
) -> None:
    model = ScriptedModel(["yes"] * 9)
    with pytest.raises(InvalidEval, match=problem):
        run([live()], [agent(model)], variants=[variant])
    assert model.entries_left == 9


def test_a_variant_changes_the_text_of_any_tool_that_an_agent_shows() -> None:
    """Those of code, and those that delegates and plugins bring."""
    shown: list[dict[str, str]] = []

    def answer(request: InferenceRequest) -> str:
        shown.append({it.id: it.description for it in request.tools})
        return "yes"

    helper = Agent("helper", model=ScriptedModel([]), instructions="Help.", description="Helps.")
    asked = agent(
        ScriptedModel([answer] * 9),
        tools=[Mail().tool],
        delegates=["helper"],
        plugins=[HandoffPlugin(["helper"])],
    )
    texts = {name: f"Text of {name}." for name in ("send_mail", "agent_run_helper")}
    texts["transfer_to_agent"] = "Text of transfer_to_agent."
    variant = Variant(name="v", agent_id="agent", tool_descriptions=texts)
    done = run([live()], [asked, helper], variants=[variant], repeats=1)
    assert statuses(done) == ["scored"]
    assert shown == [texts]


def test_a_mode_that_is_none_is_refused_by_name() -> None:
    with pytest.raises(InvalidEval, match="no mode 'lively'; use one of live"):
        run([live()], [agent()], mode="lively")


def test_an_error_of_the_provider_is_retried_twice_and_then_missing() -> None:
    model = ScriptedModel([ProviderFailed("503")] * 2 + ["yes"] + [ProviderFailed("503")] * 3)
    quiet = agent(model, config={"retry": {"max_retries": 0}})
    done = run([live("a"), live("b")], [quiet], repeats=1, concurrency=1)
    assert sorted(statuses(done)) == ["infra_error", "scored"]
    assert done.record.status is EvalStatus.INCOMPLETE
    assert done.figures.variants[0].missing == 1
    assert done.figures.variants[0].scorers[0].rate == 1.0


def test_a_key_that_is_missing_is_no_failure_of_the_agent() -> None:
    done = run([live()], [agent(ScriptedModel([Unauthorized("no key")] * 9))], repeats=1)
    assert statuses(done) == ["infra_error"]
    assert done.figures.variants[0].failed == 0


def test_an_agent_that_fails_as_expected_has_done_what_it_should() -> None:
    turn = ScriptedTurn(error="invalid_request", text="no such thing")
    given = (
        ("expected", Expectation(expected_error_type="invalid_request")),
        ("unexpected", Expectation()),
    )
    cases = [scripted(name, turn, expect=it, scorers=()) for name, it in given]
    done = run(cases, [agent()])
    assert {it.case_id: it.status.value for it in done.items} == {
        "expected": "scored",
        "unexpected": "failed",
    }


def test_a_sample_that_takes_too_long_is_cancelled_and_says_so() -> None:
    model = ScriptedModel([Turn("yes", delay_ms=60_000)])
    done = run([live()], [agent(model)], repeats=1, cell_timeout_ms=100)
    assert (statuses(done), done.items[0].error) == (["timeout"], "it took too long")


def test_a_budget_that_is_used_up_cuts_the_rest_and_the_eval_is_incomplete() -> None:
    usage = TokenUsage(prompt_tokens=4, completion_tokens=90)
    model = ScriptedModel([Turn("yes", usage=usage)] * 50)
    options: dict[str, Any] = {
        "variants": [Variant(name="v", changes={"context_policy": {"max_output_tokens": 90}})],
        "budget": EvalBudget(tokens=500),
    }
    done = run([live(f"c{n}") for n in range(10)], [agent(model)], repeats=2, **options)
    assert done.record.status is EvalStatus.INCOMPLETE
    assert done.record.spent["tokens"] <= 500
    assert sorted(set(statuses(done))) == ["cut", "scored"]
    assert statuses(done).count("scored") >= 3
    assert len(done.items) == 20
    assert done.figures.variants[0].scorers[0].rate == 1.0


def test_a_budget_that_judges_use_up_cuts_the_rest_and_no_gate_passes() -> None:
    """A verdict without money for it is missing: the samples before it are too few."""
    usage = TokenUsage(prompt_tokens=4, completion_tokens=90)

    def answer(request: InferenceRequest) -> Turn:
        is_judge = "Is it kind?" in str(request.system)
        verdict = '{"reason": "fine", "verdict": "pass"}'
        return Turn(verdict, usage=usage) if is_judge else Turn("yes", usage=TokenUsage())

    judge = ScorerSpec(scorer="judge", options={"rubric": "Is it kind?"})
    model = ScriptedModel([answer] * 99)
    cases = [Case(id=f"c{at}", user_input="hi", scorers=(judge,)) for at in range(30)]
    options: dict[str, Any] = {
        "judge_model_id": "judge-model",
        "budget": EvalBudget(tokens=3_000),
        "gate": {"require": [{"scorer": "judge", "min_rate": 1.0}]},
        "runtime_options": {"providers": {"own": model}, "models": [_model("judge-model")]},
    }
    agents = [Agent(id="agent", model="judge-model", instructions="Answer.")]
    done = run(cases, agents, repeats=1, concurrency=1, **options)
    assert sorted(set(statuses(done))) == ["cut", "scored"], [it.error for it in done.items]
    assert done.record.status is EvalStatus.INCOMPLETE
    assert done.record.spent["tokens"] <= 3_000
    cut = [it for it in done.items if it.status is ItemStatus.CUT]
    assert any("judge could not be asked" in (it.error or "") for it in cut)
    assert all(it.scores == () for it in cut)
    (figures,) = done.figures.variants[0].scorers
    assert (figures.errors, figures.missing) == (0, len(cut))
    assert done.gate is not None
    assert (done.gate.status, done.is_passed) == (GateStatus.UNDECIDED, False)


def test_a_cap_in_dollars_with_a_model_without_a_price_is_refused() -> None:
    model = ScriptedModel(["yes"])
    with pytest.raises(InvalidEval, match="cap in dollars needs the price"):
        run([live()], [agent(model)], budget=EvalBudget(cost_usd=1))
    assert model.entries_left == 1


def test_a_judge_is_a_run_below_the_sample_and_spends_from_the_same_budget() -> None:
    def answer(request: InferenceRequest) -> Turn:
        is_judge = "Is it kind?" in str(request.system)
        return Turn('{"reason": "fine", "verdict": "pass"}' if is_judge else "yes")

    judge = ScorerSpec(scorer="judge", options={"rubric": "Is it kind?", "scale": "binary"})
    model = ScriptedModel([answer] * 9)
    case = Case(id="c", user_input="hi", scorers=(judge,))

    async def scenario() -> None:
        done = await evaluate(
            [case],
            [Agent(id="agent", model="judge-model", instructions="Answer.")],
            repeats=1,
            judge_model_id="judge-model",
            budget=EvalBudget(tokens=100_000),
            runtime_options={"providers": {"own": model}, "models": [_model("judge-model")]},
        )
        (score,) = done.items[0].scores
        assert score.error is None, score
        assert score.judge is not None
        assert score.judge.run_ids
        assert done.record.spent["tokens"] == 60

    asyncio.run(scenario())


def _model(name: str) -> Any:
    from awaken.models import ModelSpec  # noqa: PLC0415

    return ModelSpec(id=name, provider_id="own", upstream_model=name, max_output_tokens=100)


def test_a_simulated_person_talks_until_the_goal_is_reached() -> None:
    said: list[str] = []

    def answer(request: InferenceRequest) -> Turn:
        if "You play a person" in str(request.system):
            return Turn("DONE" if "yes" in request.messages[-1].text else f"line {len(said)}")
        said.append(request.messages[-1].text)
        return Turn("yes" if len(said) == 2 else "hm")

    model = ScriptedModel([answer] * 9)
    case = Case(id="c", user=SimulatedUser(goal="a yes", model_id="m"), scorers=(SAYS,))
    done = run(
        [case],
        [Agent(id="agent", model="m", instructions="Answer.")],
        repeats=1,
        runtime_options={"providers": {"own": model}, "models": [_model("m")]},
    )
    assert (statuses(done), said) == (["scored"], ["line 0", "line 1"])


def test_cancel_ends_the_runs_of_samples_and_begins_no_more() -> None:
    async def scenario() -> None:
        model = ScriptedModel([Turn("yes", delay_ms=60_000)] * 20)
        async with AgentRuntime([agent(model)], history="full") as runtime:
            runner = runtime.evals
            await keep_dataset(runner.parts.evals, Dataset(cases=(live(),)))
            made = await runner.create(
                EvalSpec(dataset_id="dataset", variants=AGENT, repeats=10, concurrency=3)
            )
            runner.start(made.eval_id)
            async with asyncio.timeout(60):
                # A run is active before it has asked its model.
                while model.entries_left > 17:
                    await asyncio.sleep(0.01)
            ended = await runner.cancel(made.eval_id)
            assert ended.status is EvalStatus.CANCELLED
            assert (await runner.wait(made.eval_id, 5_000)).status is EvalStatus.CANCELLED
            async with asyncio.timeout(10):
                while sum(1 for _ in runtime._engine.active):
                    await asyncio.sleep(0.01)
            assert await list_items(runner.parts.evals, made.eval_id) == []
            assert model.entries_left == 17

    asyncio.run(scenario())


def test_an_eval_goes_on_in_another_process_with_what_is_missing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'evals.db'}"
    asked: list[str] = []

    def answer(request: InferenceRequest) -> Turn:
        asked.append(request.messages[-1].text)
        return Turn("yes", delay_ms=5)

    def runtime() -> AgentRuntime:
        return AgentRuntime([agent(ScriptedModel([answer] * 99))], store=url)

    async def first() -> str:
        async with runtime() as one:
            cases = [Case(id=f"c{n}", user_input=f"q{n}", scorers=(SAYS,)) for n in range(10)]
            await keep_dataset(one.evals.parts.evals, Dataset(cases=tuple(cases)))
            made = await one.evals.create(EvalSpec(dataset_id="dataset", variants=AGENT, repeats=2))
            one.evals.start(made.eval_id)
            while len(await list_items(one.evals.parts.evals, made.eval_id)) < 7:
                await asyncio.sleep(0.01)
        return made.eval_id

    async def second(eval_id: str) -> None:
        async with runtime() as two:
            parts = two.evals.parts
            before = {it.number: it for it in await list_items(parts.evals, eval_id)}
            assert 7 <= len(before) < 20
            await two._sweep_evals()
            record = await two.evals.wait(eval_id, 30_000)
            items = await list_items(parts.evals, eval_id)
            assert record.status is EvalStatus.DONE
            assert [it.number for it in items] == list(range(20))
            assert all(before.get(it.number, it) == it for it in items)

    eval_id = asyncio.run(first())
    asyncio.run(second(eval_id))
    assert sorted(asked) == sorted([f"q{n}" for n in range(10)] * 2)


def test_only_one_process_drives_an_eval(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'evals.db'}"

    async def scenario() -> None:
        model = ScriptedModel([Turn("yes", delay_ms=200)] * 9)
        async with (
            AgentRuntime([agent(model)], store=url) as one,
            AgentRuntime([agent(model)], store=url) as two,
        ):
            await keep_dataset(one.evals.parts.evals, Dataset(cases=(live(),)))
            made = await one.evals.create(EvalSpec(dataset_id="dataset", variants=AGENT, repeats=4))
            one.evals.start(made.eval_id)
            async with asyncio.timeout(20):
                while await two.evals._claims.is_free(made.eval_id):
                    await asyncio.sleep(0.01)
            await two._sweep_evals()
            # Its own sweep may just find the lease taken: what counts is who drives.
            assert two.evals._drivers == {}
            assert (await two.evals.wait(made.eval_id, 20_000)).status is EvalStatus.DONE
            assert model.entries_left == 5

    asyncio.run(scenario())


def test_an_eval_without_room_for_evals_is_refused() -> None:
    parts: Any = SimpleNamespace(limits=EvalLimits(evals_at_once=0))
    with pytest.raises(InvalidEval, match="at least 1"):
        EvalRunner(parts)


def test_a_mode_is_chosen_by_what_the_cases_have() -> None:
    assert run([scripted()], [agent()]).record.spec.mode is EvalMode.SCRIPTED
    model = ScriptedModel(["yes"] * 5)
    done = run([live()], [agent(model)])
    assert (done.record.spec.mode, len(done.items)) == (EvalMode.LIVE, 5)


def test_a_gate_passes_or_fails_and_one_that_cannot_be_read_is_refused_first() -> None:
    gate = {"require": [{"scorer": "contains", "min_rate": 0.9}]}
    good = run([scripted(f"c{n}") for n in range(3)], [agent()], gate=gate)
    assert good.gate is not None
    assert good.gate.is_passed
    bad = run([scripted("a"), scripted("b", ScriptedTurn(text="no"))], [agent()], gate=gate)
    assert bad.gate is not None
    assert not bad.gate.is_passed
    with pytest.raises(InvalidGate):
        run([scripted()], [agent()], gate={"require": [{"scorer": "contains", "min": 1}]})


def test_an_eval_may_stop_early_and_its_looks_are_recorded() -> None:
    def answer(request: InferenceRequest) -> Turn:
        return Turn("yes" if "politely" in request.system[0] else "no")

    variants = [Variant(name="old"), Variant(name="new", instructions="Answer politely.")]
    model = ScriptedModel([answer] * 500)
    cases = [live(f"c{n}") for n in range(30)]
    options: dict[str, Any] = {"variants": variants, "repeats": 3, "stop_early": True}
    done = run(cases, [agent(model)], **options)
    (look,) = done.record.looks
    assert (look["is_decided"], look["verdicts"]) == (True, {"new/contains": "better"})
    assert (done.record.status, len(done.items), done.record.planned) == ("done", 60, 60)
    same = run(cases, [agent(ScriptedModel(["yes"] * 500))], **options)
    assert len(same.items) in (60, 180)
    # Who has looked before judges by the bound of the last look.
    for looked in (done, same):
        last = looked.figures.comparisons[0].scorers[0].look
        assert last is not None
        assert (last.number, round(last.bound, 2)) == (3, 2.0)
    once = run(cases, [agent(model)], **options | {"stop_early": False})
    assert once.figures.comparisons[0].scorers[0].look is None


def test_what_would_be_lost_or_paid_for_nothing_is_refused_before_anything_is_spent() -> None:
    model = ScriptedModel(["yes"] * 99)
    twice = Dataset(cases=(live("c"), live("c")))
    with pytest.raises(InvalidDataset, match="two cases"):
        run(twice, [agent(model)])
    unnamed = Dataset(cases=(live("c"),), scorers=(SAYS, SAYS))
    with pytest.raises(InvalidDataset, match="two scorers"):
        run(unnamed, [agent(model)])

    async def name_baselines() -> None:
        async with AgentRuntime([agent(model)]) as runtime:
            dataset = Dataset(id="d", cases=(scripted("c"),))
            await keep_dataset(runtime.evals.parts.evals, dataset)
            spec = EvalSpec(dataset_id="d", variants=AGENT, mode=EvalMode.SCRIPTED)
            first = await runtime.evals.create(spec)
            other = EvalSpec(dataset_id="d", variants=AGENT, baseline=first.eval_id)
            with pytest.raises(NotComparable, match="live"):
                await runtime.evals.create(other)
            with pytest.raises(UnknownEval):
                await runtime.evals.create(msgspec.structs.replace(spec, baseline="nope"))

    asyncio.run(name_baselines())
    wrong: list[dict[str, Any]] = [{"cost_usd": 0}, {"tokens": -1}, {"cost_usd": float("nan")}]
    for budget in wrong:
        with pytest.raises(InvalidValue, match="positive"):
            EvalBudget(**budget)
    assert len(model.requests) == 0


def test_a_baseline_that_cannot_be_compared_is_refused_before_anything_is_asked() -> None:
    model = ScriptedModel(["yes"] * 99)
    before = run(Dataset(cases=(scripted("c"),), id="d"), [agent(model)])
    live_cases = (live("c"),)
    with pytest.raises(NotComparable, match="scripted, the other live"):
        run(Dataset(cases=live_cases, id="d"), [agent(model)], baseline=before)
    with pytest.raises(NotComparable, match="'d' and 'other'"):
        run(Dataset(cases=(scripted("c"),), id="other"), [agent(model)], baseline=before)
    assert len(model.requests) == 0


def test_a_recorded_case_is_tried_with_the_agent_of_its_recording() -> None:
    async def record() -> Any:
        two = Agent(id="two", model=ScriptedModel(["yes"]), instructions="Other.")
        async with AgentRuntime([agent(), two]) as runtime:
            done = await runtime.run("two", "hi")
            return await runtime.replays.record(done.run_id)

    two = Agent(id="two", model=ScriptedModel([]), instructions="Other.")
    case = Case(id="r", recording="0" * 32)
    dataset = Dataset(cases=(), scorers=(SAYS,)).with_recorded(case, asyncio.run(record()))
    same = run(dataset, [agent(), two], mode="verify")
    assert statuses(same) == ["scored"]
    # A variant of another agent asks other questions, and says so.
    other = run(dataset, [agent(), two], mode="verify", variants=AGENT)
    assert statuses(other) == ["diverged"]
    with pytest.raises(InvalidEval, match="gone"):
        run(dataset, [agent(), two], variants=[Variant(name="v", agent_id="gone")])


def test_a_failed_agent_is_no_pass_of_scorers_that_do_not_look_at_its_end() -> None:
    kind = ScorerSpec(scorer="excludes", options={"phrases": ["no idea"]})
    ended = ScorerSpec(scorer="ended", options={"types": ["error"]})
    for extra, status, rate in (((), "failed", 0.0), ((ended,), "scored", 1.0)):
        case = scripted("c", ScriptedTurn(error="bad_request"), scorers=(kind, *extra))
        done = run([case], [agent()])
        assert statuses(done) == [status]
        assert done.is_passed == bool(extra)
        rates = {it.scorer: it.rate for it in done.figures.variants[0].scorers}
        assert rates.get("excludes", 0.0) == rate


def test_an_eval_that_failed_has_not_passed_whatever_its_samples_did() -> None:
    result = run([scripted("c")], [agent()])
    assert result.is_passed
    for status in (EvalStatus.FAILED, EvalStatus.CANCELLED, EvalStatus.INCOMPLETE):
        ended = msgspec.structs.replace(result.record, status=status)
        assert not msgspec.structs.replace(result, record=ended).is_passed


@pytest.mark.parametrize(
    ("error", "make"),
    [
        (InvalidGate, lambda: {"gate": {"require": [{"scorer": "typo", "min_rate": 1}]}}),
        (InvalidGate, lambda: {"gate": {"compare": [{"scorer": "typo"}]}}),
        (InvalidGate, lambda: {"gate": {"cases": {"must_pass": ["smok"]}}}),
        (InvalidValue, lambda: {"max_tokens_per_cell": 0}),
        (InvalidValue, lambda: {"cases_": (live("c", weight=1e308),)}),
        (InvalidValue, lambda: {"cases_": (live("c", weight=float("nan")),)}),
        (InvalidEval, lambda: {"cases_": (scripted("c", ScriptedTurn(text="yes", stop="weird")),)}),
    ],
)
def test_what_cannot_give_figures_is_refused_before_a_model_is_asked(
    error: type[Exception], make: Any
) -> None:
    model = ScriptedModel(["yes"] * 9)

    def try_it() -> None:
        options = make()
        run(options.pop("cases_", (live("c"),)), [agent(model)], **options)

    with pytest.raises(error):
        try_it()
    assert len(model.requests) == 0


def test_a_chosen_part_of_a_dataset_may_lack_what_its_gate_names() -> None:
    other = ScorerSpec(scorer="contains", name="other", options={"phrases": ["yes"]})
    gate = {"require": [{"scorer": "other", "min_rate": 1}]}
    dataset = Dataset(cases=(scripted("a"), scripted("b", scorers=(other,))), gate=gate)
    part = run(dataset, [agent()], cases=["a"])
    assert part.gate is not None
    assert part.gate.status == "undecided"
    assert run(dataset, [agent()]).is_passed


def test_no_gate_passes_on_simulated_tools() -> None:
    model = ScriptedModel(["yes"] * 99)
    gate = {"require": [{"scorer": "contains", "min_rate": 1}]}
    policies = (ToolPolicy(source=ToolSource.SIMULATED), ToolPolicy(on_miss=OnMiss.SIMULATE))
    for policy in policies:
        own = live("c", tools=policy)
        with pytest.raises(InvalidEval, match="tools of case 'c' are simulated"):
            run([own], [agent(model)], gate=gate)
        with pytest.raises(InvalidEval, match="simulated"):
            run([live("c")], [agent(model)], gate=gate, tools=policy)
        assert len(model.requests) == 0
    # The gate of the dataset stays: an exploration does not pass it.
    for policy in policies:
        done = run(Dataset(cases=(live("c", tools=policy),), gate=gate), [agent(model)])
        assert done.gate is not None
        assert done.gate.status == "undecided"
        assert any(it.condition == "simulated_tools" for it in done.gate.checks)


def test_a_gate_compares_only_cases_that_are_the_same_in_both() -> None:
    gate = {"compare": [{"scorer": "contains"}]}
    cases = [scripted(f"c{at}") for at in range(4)]
    before = run(Dataset(cases=tuple(cases), gate=gate), [agent()])
    same = run(Dataset(cases=tuple(cases), gate=gate), [agent()], baseline=before)
    assert same.gate is not None
    assert same.gate.is_passed
    changed = tuple(msgspec.structs.replace(it, user_input="other") for it in cases)
    after = run(Dataset(cases=changed, gate=gate), [agent()], baseline=before)
    assert after.gate is not None
    assert after.gate.status == "undecided"
