"""A gate as a condition for publishing: it has to have passed for exactly what is published."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, AgentRuntime
from awaken.bootstrap.runtime_options import ManagedOptions
from awaken.contracts.config.errors import PublishRefused
from awaken.evals import Case, Dataset, EvalSpec, EvalStatus, Variant, scorers
from awaken.evals.evaluating import keep_dataset
from awaken.managed.drafts import PublishDraft
from awaken.managed.parts import Author
from awaken.managed.publish_rules import PublishRules, RequiredEval
from awaken.managed.records import RecordWrite
from awaken.models import InferenceRequest, ModelSpec
from awaken.testing import ScriptedModel, Turn

ANN = Author(id="ann")
RULES = PublishRules(requires_eval=(RequiredEval(dataset_id="polite"),))
GATE = {"require": [{"scorer": "contains", "min_rate": 1.0}]}


def answer(request: InferenceRequest) -> Turn:
    return Turn("please" if "politely" in request.system[0] else "no")


async def make_draft(runtime: AgentRuntime, prompt: str) -> str:
    assert runtime.managed is not None
    drafts = runtime.managed.drafts
    draft = await drafts.create(ANN, "manners")
    write = RecordWrite(namespace="agents", id="clerk", author=ANN)
    await drafts.put_record(draft.id, write, {"model_id": "m", "system_prompt": prompt})
    return draft.id


async def try_draft(runtime: AgentRuntime, draft_id: str, **options: Any) -> Any:
    variants = (Variant(name="draft", agent_id="clerk", draft_id=draft_id),)
    spec = EvalSpec(dataset_id="polite", variants=variants, repeats=1, **options)
    made = await runtime.evals.create(spec, by="ann")
    runtime.evals.start(made.eval_id)
    return await runtime.evals.wait(made.eval_id, 20_000)


async def publish(runtime: AgentRuntime, draft_id: str) -> None:
    assert runtime.managed is not None
    await runtime.managed.drafts.publish(draft_id, PublishDraft(author=ANN))


def test_a_draft_is_published_only_after_its_gate_has_passed(tmp_path: Path) -> None:
    async def scenario() -> None:
        runtime = AgentRuntime(
            [Agent(id="other", model=ScriptedModel([]), instructions="x")],
            providers={"own": ScriptedModel([answer] * 99)},
            models=[ModelSpec(id="m", provider_id="own", upstream_model="m")],
            store=f"sqlite:///{tmp_path / 'a.db'}",
            managed=ManagedOptions(rules=RULES),
        )
        async with runtime:
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
            lenient = {"require": [{"scorer": "contains", "min_rate": 0.0}]}
            for options in ({"gate": lenient}, {"gate": lenient, "cases": ("c",)}):
                easy = await try_draft(runtime, draft_id, **options)
                assert easy.summary["gate"]["status"] == "passed"
                with pytest.raises(PublishRefused):
                    await publish(runtime, draft_id)
            good = await make_draft(runtime, "Answer politely.")
            passed = await try_draft(runtime, good)
            assert (passed.status, passed.summary["gate"]["status"]) == (EvalStatus.DONE, "passed")
            # What passed is not what the first draft has.
            with pytest.raises(PublishRefused):
                await publish(runtime, draft_id)
            await publish(runtime, good)
            result = await runtime.run("clerk", "hi")
            assert result.text == "please"

    asyncio.run(scenario())
