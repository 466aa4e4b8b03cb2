"""The context of a run is input: rules on `input` see it before it is stored or a prompt."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, Blocked, NaturalEnd
from awaken.errors import InvalidContext
from awaken.extensions.guardrails import (
    Action,
    CheckPlace,
    GuardrailsConfig,
    GuardrailsPlugin,
    GuardRule,
)
from awaken.testing import ScriptedModel

SECRET = "AKIAABCDEFGHIJKLMNOP"


@dataclass
class Customer:
    names: list[str]
    level: int = 0


def agent(action: Action, **options: Any) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(["Fine."], cycle=True)
    rule = GuardRule(name="s", on=(CheckPlace.INPUT,), action=action, detect=("secrets",))
    guards = {"plugins": [GuardrailsPlugin()], "config": [GuardrailsConfig(rules=(rule,))]}
    return Agent("a", model=model, **guards, **options), model


def make_text(context: Any) -> str:
    return f"Help {context.context}."


INSTRUCTIONS = ["Help {context.names}.", make_text]


@pytest.mark.parametrize("instructions", INSTRUCTIONS)
@pytest.mark.parametrize("type_", [None, Customer])
@pytest.mark.parametrize("is_queued", [False, True])
@pytest.mark.parametrize("action", [Action.REDACT, Action.BLOCK])
def test_a_secret_in_a_context_reaches_neither_model_nor_store(
    action: Action, is_queued: bool, type_: Any, instructions: Any
) -> None:
    async def scenario() -> None:
        made, model = agent(action, instructions=instructions, context_type=type_)
        async with AgentRuntime([made]) as runtime:
            given: Any = {"names": ["Ann", SECRET]}
            if is_queued:
                receipt = await runtime.submit("a", "Hi", thread_id="t", context=given)
                await runtime.wait(receipt.run_id, timeout_ms=20_000)
                run_id = receipt.run_id
            else:
                run_id = (await runtime.run("a", "Hi", thread_id="t", context=given)).run_id
            record = await runtime.get_run(run_id)
            assert record is not None
            assert SECRET not in repr(record) + repr(model.requests)
            is_blocked = action is Action.BLOCK
            assert isinstance(record.termination, Blocked if is_blocked else NaturalEnd)
            assert len(model.requests) == (not is_blocked)

    asyncio.run(scenario())


def test_a_redacted_value_that_no_longer_fits_its_type_is_refused() -> None:
    async def scenario() -> None:
        model = ScriptedModel([])
        rule = GuardRule(name="s", on=(CheckPlace.INPUT,), pattern="4711", max_chars=4)
        guarded = Agent(
            "a", model=model, context_type=Customer, plugins=[GuardrailsPlugin()],
            config=[GuardrailsConfig(rules=(rule,))],
        )  # fmt: skip
        async with AgentRuntime([guarded]) as runtime:
            with pytest.raises(InvalidContext, match="level"):
                await runtime.run("a", "Hi", thread_id="t", context={"names": [], "level": 4711})
            assert await runtime.list_runs("t") == ()

    asyncio.run(scenario())
