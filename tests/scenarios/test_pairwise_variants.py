"""Judges that compare later variants of an eval with the first one, sample by sample."""

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from awaken import Agent, AgentRuntime
from awaken.contracts.evals.cases import Case
from awaken.contracts.evals.errors import InvalidEval
from awaken.contracts.evals.eval_runs import EvalItem, EvalSpec, EvalStatus, ItemStatus
from awaken.contracts.evals.scores import ScorerSpec
from awaken.contracts.evals.worlds import Variant
from awaken.evals.driving import EvalDriver, list_items
from awaken.evals.evaluating import Dataset, EvalResult, evaluate, keep_dataset
from awaken.evals.preparing import prepare_eval
from awaken.evals.rescoring import rescore_eval
from awaken.models import InferenceRequest, ModelSpec
from awaken.testing import ScriptedModel, Turn

RUBRIC = "Which answer is kinder?"
PAIR = ScorerSpec(scorer="pairwise", options={"rubric": RUBRIC, "against": "first_variant"})
VARIANTS = (
    Variant(name="old", agent_id="agent", instructions="Speak as OLD."),
    Variant(name="new", agent_id="agent", instructions="Speak as NEW."),
)
Answer = Callable[[str, str], Turn]


def speak(variant: str, said: str) -> Turn:
    return Turn(f"{variant} answers {said}")


class World:
    """A model that speaks as each variant says, and a judge that prefers the new one."""

    def __init__(self, answer: Answer = speak) -> None:
        self.judged: list[tuple[str, str]] = []
        self._answer = answer
        self.model = ScriptedModel([self._reply] * 200)

    def _reply(self, request: InferenceRequest) -> Turn:
        if RUBRIC not in str(request.system):
            variant = "old" if "OLD" in str(request.system) else "new"
            return self._answer(variant, request.messages[-1].text)
        found = re.findall(r"BEGIN (\w+) \S+\n(.*)\nEND", request.messages[-1].text)
        parts = dict(found)
        self.judged.append((parts["first"], parts["second"]))
        winner = "first" if parts["first"].startswith("new") else "second"
        return Turn(json.dumps({"reason": "kinder", "winner": winner}))

    def options(self) -> dict[str, Any]:
        spec = ModelSpec(id="m", provider_id="own", upstream_model="m", max_output_tokens=100)
        return {"providers": {"own": self.model}, "models": [spec], "history": "full"}

    def evaluate(self, *cases: str, **options: Any) -> EvalResult:
        dataset = [Case(id=it, user_input=it, scorers=(PAIR,)) for it in cases]
        agents = [Agent(id="agent", model="m", instructions="Answer.")]
        given = {"variants": VARIANTS, "judge_model_id": "m", "repeats": 1, **options}

        async def scenario() -> EvalResult:
            async with asyncio.timeout(120):
                return await evaluate(dataset, agents, runtime_options=self.options(), **given)

        return asyncio.run(scenario())


def find_items(items: Any, variant: str) -> list[EvalItem]:
    return [it for it in items if it.variant == variant]


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_later_variant_is_compared_with_the_first_on_the_same_case_and_repeat(
    concurrency: int,
) -> None:
    world = World()
    done = world.evaluate("a", "b", "c", repeats=2, concurrency=concurrency)
    assert done.record.status is EvalStatus.DONE, done.record.problem
    for item in find_items(done.items, "new"):
        (score,) = item.scores
        assert (score.value, score.label, score.against) == (1.0, "better", "old"), score
        assert score.judge is not None
        assert len(score.judge.run_ids) == 2
    pairs = {tuple(sorted(it)) for it in world.judged}
    assert pairs == {(f"new answers {it}", f"old answers {it}") for it in "abc"}
    assert len(world.judged) == 12, "every pair is judged in both orders, once"
    # The first variant is what others are compared with: it has no score, and lacks none.
    assert all(it.scores == () for it in find_items(done.items, "old"))
    old, new = sorted(done.figures.variants, key=lambda it: it.variant != "old")
    assert old.scorers == ()
    assert [(it.scorer, it.mean, it.errors) for it in new.scorers] == [("pairwise", 1.0, 0)]
    assert done.is_passed


def test_a_first_variant_that_failed_leaves_the_score_missing_and_never_zero() -> None:
    def answer(variant: str, said: str) -> Turn:
        if (variant, said) == ("old", "b"):
            raise ValueError("it broke")
        return speak(variant, said)

    done = World(answer).evaluate("a", "b")
    (broken,) = [it for it in find_items(done.items, "old") if it.case_id == "b"]
    assert broken.status is not ItemStatus.SCORED
    (item,) = [it for it in find_items(done.items, "new") if it.case_id == "b"]
    (score,) = item.scores
    assert (item.status, score.value, score.passed) == (ItemStatus.SCORED, None, None)
    assert "variant 'old'" in (score.error or "")
    figures = {it.variant: it.scorers for it in done.figures.variants}
    assert [(it.mean, it.samples, it.errors) for it in figures["new"]] == [(1.0, 1, 1)]
    assert figures["old"] == (), "what is compared with has no figure of the comparison, no 0"
    assert not done.is_passed


def test_a_long_answer_of_the_first_variant_is_compared_whole() -> None:
    world = World(lambda variant, said: Turn(f"{variant} {'x' * 9_000} {said}"))
    done = world.evaluate("a")
    assert [it.scores[0].error for it in find_items(done.items, "new")] == [None]
    assert {len(text) for pair in world.judged for text in pair} == {9_000 + len("new  a")}


def test_an_eval_of_one_variant_cannot_be_compared_with_its_first() -> None:
    world = World()
    with pytest.raises(InvalidEval, match="give two variants"):
        world.evaluate("a", variants=VARIANTS[:1])
    assert world.model.requests == []


def test_a_driver_that_takes_over_compares_with_what_the_first_one_wrote() -> None:
    world = World()

    async def main() -> None:
        agents = [Agent(id="agent", model="m", instructions="Answer.")]
        async with asyncio.timeout(120), AgentRuntime(agents, **world.options()) as runtime:
            parts = runtime.evals.parts
            cases = tuple(Case(id=it, user_input=it) for it in "ab")
            await keep_dataset(parts.evals, Dataset(cases=cases, id="d", scorers=(PAIR,)))
            spec = EvalSpec(dataset_id="d", variants=VARIANTS, judge_model_id="m", repeats=1)
            record = await runtime.evals.create(spec)
            running = msgspec.structs.replace(record, status=EvalStatus.RUNNING)
            assert await parts.evals.update_eval(running, was=EvalStatus.PLANNED)
            prepared = await prepare_eval(parts, record.spec, record.publications)
            assert [it.variant for it in prepared.samples] == ["old", "new"] * 2
            await EvalDriver(parts, running, prepared).drive(1)
            assert [it.variant for it in await list_items(parts.evals, record.eval_id)] == ["old"]
            await EvalDriver(parts, running, prepared).drive()
            items = await list_items(parts.evals, record.eval_id)
            scores = [it.scores[0] for it in find_items(items, "new")]
            assert [(it.value, it.error) for it in scores] == [(1.0, None)] * 2
            asked = len(world.judged)
            again = await rescore_eval(runtime.evals, record.eval_id)
            scores = [it.scores[0] for it in find_items(again.items, "new")]
            assert [(it.value, it.against) for it in scores] == [(1.0, "old")] * 2
            assert len(world.judged) == asked + 4

    asyncio.run(main())


def test_samples_that_nothing_scored_are_no_pass() -> None:
    done = World().evaluate("a")
    assert done.is_passed
    bare = tuple(msgspec.structs.replace(it, scores=()) for it in done.items)
    assert not msgspec.structs.replace(done, items=bare).is_passed
