"""A gate as a condition for publishing: it has to have passed for exactly what is published."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from awaken import Agent, AgentRuntime
from awaken.bootstrap.runtime_options import ManagedOptions
from awaken.cli.apps import load_app
from awaken.cli.main import app
from awaken.contracts.config.errors import PublishRefused
from awaken.contracts.evals.eval_runs import EvalMode
from awaken.contracts.evals.worlds import OnMiss, ScriptedTurn, ToolPolicy, ToolSource, ToolStub
from awaken.evals import Case, Dataset, EvalSpec, EvalStatus, Variant, scorers
from awaken.evals.evaluating import keep_dataset
from awaken.mailbox.config import MailboxConfig
from awaken.managed.drafts import PublishDraft
from awaken.managed.parts import Author
from awaken.managed.publish_rules import (
    JudgedGate,
    PublishRules,
    RequiredEval,
    find_unmet_evals,
)
from awaken.managed.records import RecordWrite
from awaken.models import InferenceOverride, InferenceRequest, ModelSpec
from awaken.testing import ScriptedModel, Turn

ANN = Author(id="ann")
RULES = PublishRules(requires_eval=(RequiredEval(dataset_id="polite"),))
TERMS: dict[str, Any] = {"agent_id": "clerk", "repeats": 1}
GATE: dict[str, Any] = {"terms": TERMS, "require": [{"scorer": "contains", "min_rate": 1.0}]}


def answer(request: InferenceRequest) -> Turn:
    return Turn("please" if "politely" in request.system[0] else "no")


def make_runtime(tmp_path: Path, rules: PublishRules) -> AgentRuntime:
    # No sweep comes: samples of a draft are executed at once, though nothing was published.
    return AgentRuntime(
        [Agent(id="other", model=ScriptedModel([]), instructions="x")],
        providers={"own": ScriptedModel([answer] * 99)},
        models=[ModelSpec(id="m", provider_id="own", upstream_model="m")],
        store=f"sqlite:///{tmp_path / 'a.db'}",
        managed=ManagedOptions(rules=rules),
        mailbox=MailboxConfig(sweep_ms=3_600_000),
    )


async def make_draft(runtime: AgentRuntime, prompt: str) -> str:
    assert runtime.managed is not None
    drafts = runtime.managed.drafts
    draft = await drafts.create(ANN, "manners")
    write = RecordWrite(namespace="agents", id="clerk", author=ANN)
    await drafts.put_record(draft.id, write, {"model_id": "m", "system_prompt": prompt})
    return draft.id


async def try_draft(
    runtime: AgentRuntime,
    draft_id: str,
    overrides: InferenceOverride | None = None,
    **options: Any,
) -> Any:
    variant = Variant(name="draft", draft_id=draft_id, overrides=overrides)
    variants = (*options.pop("before", ()), variant)
    spec = EvalSpec(dataset_id="polite", variants=variants, **options)
    made = await runtime.evals.create(spec, by="ann")
    runtime.evals.start(made.eval_id)
    return await runtime.evals.wait(made.eval_id, 20_000)


async def publish(runtime: AgentRuntime, draft_id: str) -> None:
    assert runtime.managed is not None
    await runtime.managed.drafts.publish(draft_id, PublishDraft(author=ANN))


def test_a_draft_is_published_only_after_its_gate_has_passed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with make_runtime(tmp_path, RULES) as runtime:
            dataset = Dataset(
                cases=(Case(id="c", user_input="hi"),),
                id="polite",
                scorers=(scorers.contains("please"),),
                gate=GATE,
            )
            await keep_dataset(runtime.evals.parts.evals, dataset)
            draft_id = await make_draft(runtime, "Answer rudely.")
            with pytest.raises(PublishRefused, match="gate of dataset 'polite' has not passed"):
                await publish(runtime, draft_id)
            failed = await try_draft(runtime, draft_id)
            assert failed.summary["gate"]["status"] == "failed"
            with pytest.raises(PublishRefused):
                await publish(runtime, draft_id)
            # A gate that the caller brings says nothing for the dataset's own, nor does one case.
            lenient = {"terms": TERMS, "require": [{"scorer": "contains", "min_rate": 0.0}]}
            for options in ({"gate": lenient}, {"gate": lenient, "cases": ("c",)}):
                easy = await try_draft(runtime, draft_id, **options)
                assert easy.summary["gate"]["status"] == "passed"
                with pytest.raises(PublishRefused):
                    await publish(runtime, draft_id)
            # Nor does a scorer of the caller that has the name of the dataset's.
            easy = await try_draft(runtime, draft_id, scorers=(scorers.contains("no"),))
            assert easy.summary["gate"]["status"] == "passed"
            with pytest.raises(PublishRefused):
                await publish(runtime, draft_id)
            good = await make_draft(runtime, "Answer politely.")
            passed = await try_draft(runtime, good)
            assert (passed.status, passed.summary["gate"]["status"]) == (EvalStatus.DONE, "passed")
            # What passed is not what the first draft has.
            with pytest.raises(PublishRefused):
                await publish(runtime, draft_id)
            # A dataset that has changed since has to be tried again, and as it is now.
            await keep_dataset(runtime.evals.parts.evals, dataset)
            for options in ({}, {"revision": 1}):
                with pytest.raises(PublishRefused):
                    await publish(runtime, good)
                if options:
                    await try_draft(runtime, good, **options)
            with pytest.raises(PublishRefused, match="the dataset has revision 2 now"):
                await publish(runtime, good)
            await try_draft(runtime, good)
            await publish(runtime, good)
            result = await runtime.run("clerk", "hi")
            assert result.text == "please"

    asyncio.run(scenario())


def test_only_an_eval_of_the_mode_and_tools_that_a_rule_names_lets_a_draft_through(
    tmp_path: Path,
) -> None:
    wanted = RequiredEval(dataset_id="polite", modes=(EvalMode.LIVE,), tools=(ToolSource.RECORDED,))
    case = Case(id="c", user_input="hi", provider_script=(ScriptedTurn(text="please"),))
    way_out = "run an eval of the draft .*with mode live and tools recorded"

    async def scenario() -> None:
        async with make_runtime(tmp_path, PublishRules(requires_eval=(wanted,))) as runtime:
            dataset = Dataset(
                cases=(case,), id="polite", scorers=(scorers.contains("please"),), gate=GATE
            )
            await keep_dataset(runtime.evals.parts.evals, dataset)
            draft_id = await make_draft(runtime, "Answer politely.")
            with pytest.raises(PublishRefused, match=f"has not passed .*: {way_out}"):
                await publish(runtime, draft_id)
            # A script answers whatever the draft says; the other one lets real tools run.
            partly_live = ToolPolicy(on_miss=OnMiss.LIVE_NONE)
            for mode, tools, named in (
                (EvalMode.SCRIPTED, ToolPolicy(), "scripted, tools recorded"),
                (EvalMode.LIVE, ToolPolicy(source=ToolSource.LIVE), "live, tools live"),
                (EvalMode.LIVE, partly_live, "live, tools live, recorded"),
            ):
                other = await try_draft(runtime, draft_id, mode=mode, tools=tools)
                assert other.summary["gate"]["status"] == "passed"
                problem = f"eval '{other.eval_id}' has mode {named}; .*{way_out}"
                with pytest.raises(PublishRefused, match=problem):
                    await publish(runtime, draft_id)
            # What the caller lets tools answer, or asks of the model besides, is not the draft's.
            stubs = ToolPolicy(stubs={"lookup": (ToolStub(result="please"),)})
            warmer = InferenceOverride(temperature=1.0)
            for options in ({"tools": stubs}, {"overrides": warmer}):
                other = await try_draft(runtime, draft_id, **options)
                assert other.summary["gate"]["status"] == "passed"
                with pytest.raises(PublishRefused):
                    await publish(runtime, draft_id)
            await try_draft(runtime, draft_id)
            await publish(runtime, draft_id)

    asyncio.run(scenario())


LIVE = Variant(name="live")
OFF_TERMS: dict[str, tuple[dict[str, Any], str]] = {
    "repeats": ({"repeats": 1}, "repeats is 1 instead of 2"),
    "gate": ({"gate": GATE, "repeats": 2}, "it has a gate of its own"),
    "scorers": ({"scorers": (scorers.contains("please", name="own"),)}, "scorers of its own"),
    "cases": ({"cases": ("c0", "c1")}, "its cases were chosen"),
    "tags": ({"tags": ("all",)}, "its cases were chosen"),
    "drafts": ({"has_drafts": True}, "drafts of cases took part"),
    "stop": ({"stop_early": True}, "it may stop early"),
    "seed": ({"seed": 7}, "seed is 7 instead of 0"),
    "timeout": ({"cell_timeout_ms": 2_000}, "cell_timeout_ms is 2000 instead of 60000"),
    "tokens": ({"max_tokens_per_cell": 9_000}, "max_tokens_per_cell is 9000 instead of not given"),
    "match": ({"tools": ToolPolicy(on_miss=OnMiss.ERROR)}, "tools is"),
    "judge": ({"judge": {"rubric": "All is well."}}, "judge is"),
    "judge_model": ({"judge_model_id": "m"}, 'judge_model_id is "m" instead of not given'),
    "agent": ({"agent_id": "other"}, 'agent_id is "other" instead of "clerk"'),
    "first": (
        {"before": (Variant(name="bad", instructions="Be rude."),)},
        "variant 'bad', with which others are compared, is not what is live",
    ),
    "first_agent": ({"before": (Variant(name="l", agent_id="other"),)}, "is not what is live"),
}


def make_pair(*, is_compared: bool = True) -> Dataset:
    cases = tuple(Case(id=f"c{at}", user_input="hi", tags=("all",)) for at in range(2))
    compare = [{"scorer": "contains", "policy": "lenient", "not_worse_than": 0.9}]
    gate = {**GATE, "terms": {**TERMS, "repeats": 2}}
    if is_compared:
        gate["compare"] = compare
    return Dataset(cases=cases, id="polite", scorers=(scorers.contains("please"),), gate=gate)


@pytest.mark.parametrize("name", OFF_TERMS)
def test_what_the_caller_of_an_eval_chooses_does_not_let_a_draft_through(
    name: str, tmp_path: Path
) -> None:
    """The gate states its terms: who runs its eval passes it by no choice of another way."""
    options, problem = OFF_TERMS[name]
    options = dict(options)

    async def scenario() -> None:
        async with make_runtime(tmp_path, RULES) as runtime:
            dataset = make_pair(is_compared=False)
            await keep_dataset(runtime.evals.parts.evals, dataset)
            draft_id = await make_draft(runtime, "Answer politely.")
            variant = Variant(
                name="draft", draft_id=draft_id, agent_id=options.pop("agent_id", None)
            )
            variants = (*options.pop("before", ()), variant)
            spec = EvalSpec(dataset_id="polite", variants=variants, **options)
            # An agent that is not in the live configuration yet cannot be compared with.
            if name == "first":
                spec = msgspec.structs.replace(
                    spec, variants=(Variant(name="bad", draft_id=draft_id, model_id="m"), variant)
                )
            made = await runtime.evals.create(spec, by="ann")
            runtime.evals.start(made.eval_id)
            await runtime.evals.wait(made.eval_id, 60_000)
            with pytest.raises(PublishRefused, match=problem.replace("(", r"\(")):
                await publish(runtime, draft_id)
            # What says nothing itself is made on the terms of the gate.
            passed = await try_draft(runtime, draft_id)
            assert passed.spec.repeats == 2
            assert passed.spec.variants[0].agent_id == "clerk"
            await publish(runtime, draft_id)

    asyncio.run(scenario())


def test_a_gate_that_compares_compares_with_what_is_live(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with make_runtime(tmp_path, PublishRules()) as runtime:
            await publish(runtime, await make_draft(runtime, "Answer politely."))
            evals = runtime.evals.parts.evals
            await keep_dataset(evals, make_pair())
            draft_id = await make_draft(runtime, "Answer very politely.")
            assert runtime.managed is not None
            found = runtime.managed.parts.find_judged_gates
            assert found is not None
            baseline = await try_draft(runtime, draft_id)
            for options, counts in (
                ({"before": (LIVE,)}, True),
                ({"before": (Variant(name="x", publication=1),)}, False),
                ({"baseline": baseline.eval_id}, False),
            ):
                tried = await try_draft(runtime, draft_id, **options)
                assert tried.summary["gate"]["status"] == "passed", tried.summary["gate"]
                judged = {it.eval_id: it for it in await found(tried.manifest_hash or "")}
                off = judged[tried.eval_id].off_terms
                assert (off == ()) == counts, off

    asyncio.run(scenario())


def test_too_few_cases_pass_no_gate(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with make_runtime(tmp_path, RULES) as runtime:
            dataset = make_pair(is_compared=False)
            gate = {**GATE, "terms": {**TERMS, "min_cases": 3}}
            dataset = msgspec.structs.replace(dataset, gate=gate)
            await keep_dataset(runtime.evals.parts.evals, dataset)
            draft_id = await make_draft(runtime, "Answer politely.")
            tried = await try_draft(runtime, draft_id)
            (check,) = [it for it in tried.summary["gate"]["checks"] if "terms" in it["condition"]]
            assert check["reason"] == "2 cases were tried, 3 are needed"
            assert tried.summary["gate"]["status"] == "undecided"
            with pytest.raises(PublishRefused):
                await publish(runtime, draft_id)

    asyncio.run(scenario())


def test_the_newest_eval_that_counts_decides() -> None:
    """A gate that failed is not passed by an older eval, nor by one on other terms."""

    def make_gate(at: int, **fields: Any) -> JudgedGate:
        live = EvalMode.LIVE
        given = {"eval_id": f"e{at}", "dataset_id": "polite", "mode": live, "tools": (), **fields}
        return JudgedGate(at=at, **given)

    passed, failed = make_gate(1), make_gate(2, is_passed=False)
    other = make_gate(3, off_terms=("seed is 7 instead of 0",))
    assert find_unmet_evals(RULES, [passed], 10) == []
    (problem,) = find_unmet_evals(RULES, [passed, failed, other], 10)
    assert problem.endswith("has not passed for this configuration (eval 'e2')")
    assert find_unmet_evals(RULES, [make_gate(4), passed, failed, other], 10) == []


def test_the_newest_eval_that_counts_says_whether_a_gate_passed_too_long_ago() -> None:
    wanted = RequiredEval(dataset_id="polite", modes=(EvalMode.LIVE,), max_age_ms=10)
    rules = PublishRules(requires_eval=(wanted,))

    def make_gate(at: int, mode: EvalMode) -> JudgedGate:
        return JudgedGate(eval_id=f"e{at}", dataset_id="polite", at=at, mode=mode, tools=())

    live, scripted = make_gate(0, EvalMode.LIVE), make_gate(50, EvalMode.SCRIPTED)
    assert find_unmet_evals(rules, [live], 10) == []
    (problem,) = find_unmet_evals(rules, [live, scripted], 51)
    assert problem.endswith("too long ago: run it again with mode live")


def test_a_rule_that_asks_for_simulated_tools_is_refused() -> None:
    with pytest.raises(ValueError, match="ask for recorded or live ones"):
        RequiredEval(dataset_id="polite", tools=(ToolSource.SIMULATED,))


APP = """
from awaken import Agent, AgentRuntime
from awaken.models import ModelSpec
from awaken.testing import ScriptedModel, Turn

def answer(request):
    return Turn("please" if "politely" in request.system[0] else "no")

runtime = AgentRuntime(
    [Agent(id="other", model=ScriptedModel([]), instructions="x")],
    providers={"own": ScriptedModel([answer] * 99)},
    models=[ModelSpec(id="m", provider_id="own", upstream_model="m")],
)
"""


def test_publications_and_drafts_are_variants_on_the_command_line(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    (tmp_path / "app_of_variants.py").write_text(APP)
    dataset = Dataset(
        cases=tuple(Case(id=f"c{at}", user_input="hi") for at in range(8)),
        id="polite",
        scorers=(scorers.contains("please"),),
    )

    async def publish_two() -> tuple[list[int], str]:
        runtime = load_app(str(tmp_path / "app_of_variants.py")).runtime
        assert runtime is not None
        numbers = []
        async with runtime.with_options(store=url, managed=True) as opened:
            await keep_dataset(opened.evals.parts.evals, dataset)
            for prompt in ("Answer rudely.", "Answer politely."):
                await publish(opened, await make_draft(opened, prompt))
                assert opened.managed is not None
                head = await opened.managed.parts.read_head()
                numbers.append(head.publication or 0)
            return numbers, await make_draft(opened, "Answer rudely again.")

    (old, new), draft = asyncio.run(publish_two())
    assert old != new

    def call(*variants: str) -> Any:
        arguments = ["eval", "run", "polite", "--app", str(tmp_path / "app_of_variants.py")]
        options = ["--agent", "clerk", "--store", url, "--repeats", "1", "--json", "-"]
        named = [part for it in variants for part in ("--variant", it)]
        return CliRunner().invoke(app, [*arguments, *options, *named])

    done = call(f"old:publication={old}", f"new:publication={new}", f"draft:draft_id={draft}")
    assert done.exit_code == 1, done.output
    figures = json.loads(done.stdout)["figures"]
    rates = {it["variant"]: it["scorers"][0]["rate"] for it in figures["variants"]}
    assert rates == {"old": 0, "new": 1, "draft": 0}
    verdicts = {it["second"]: it["scorers"][0]["verdict"] for it in figures["comparisons"]}
    assert verdicts == {"new": "better", "draft": "undecided"}
    for wrong in ("v:publication=999", "v:publication=x", "v:draft_id=none"):
        refused = call(wrong)
        assert (refused.exit_code, "Traceback" in refused.output) == (2, False), refused.output
