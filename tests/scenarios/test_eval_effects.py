"""No eval executes a tool with effects unless its policy allows effects, whatever else it says."""

import asyncio
import itertools
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, tool
from awaken.contracts.evals.worlds import ToolSource
from awaken.evals import (
    Case,
    Dataset,
    EvalMode,
    OnMiss,
    OnQuestion,
    Recording,
    ScriptedCall,
    ScriptedTurn,
    ToolPolicy,
    Variant,
    evaluate,
    scorers,
)
from awaken.testing import ScriptedModel, Turn

CALLS = tuple(ScriptedCall(name=it, arguments={}) for it in ("send", "retry", "asked", "look"))
SCORERS = (scorers.contains("done"),)


class Effects:
    """Tools of every effect, which count how often they are executed."""

    def __init__(self) -> None:
        self.executed: list[str] = []

        @tool(effect="once")
        async def send() -> str:
            """Send."""
            self.executed.append("send")
            return "sent"

        @tool(effect="idempotent")
        async def retry() -> str:
            """Write again."""
            self.executed.append("retry")
            return "written"

        @tool(effect="once", approval=True)
        async def asked() -> str:
            """Send after a question."""
            self.executed.append("asked")
            return "sent"

        @tool(effect="none")
        async def look() -> str:
            """Look."""
            self.executed.append("look")
            return "seen"

        self.tools = [send, retry, asked, look]

    @property
    def with_effects(self) -> list[str]:
        return [it for it in self.executed if it != "look"]


def make_agent(effects: Effects, **options: Any) -> Agent:
    turns = [Turn(calls=[(it.name, {}) for it in CALLS]), Turn("done")]
    model = ScriptedModel(turns * 200)
    return Agent(id="agent", model=model, instructions="x", tools=effects.tools, **options)


def record_run() -> Recording:
    """A run in reality, whose effects did happen."""
    effects = Effects()

    async def main() -> Recording:
        async with AgentRuntime([make_agent(effects)]) as runtime:
            waiting = await runtime.run("agent", "hi")
            return await runtime.replays.record(waiting.run_id)

    recording = asyncio.run(main())
    assert "send" in effects.executed
    return recording


@pytest.mark.parametrize("mode", list(EvalMode))
def test_no_tool_with_effects_is_executed_in_any_mode_by_any_policy(mode: EvalMode) -> None:
    script = (ScriptedTurn(calls=CALLS), ScriptedTurn(text="done"))
    effects = Effects()
    recording = record_run()
    policies = [
        ToolPolicy(source=source, on_miss=on_miss, allow_live=allowed)
        for source, on_miss, allowed in itertools.product(ToolSource, OnMiss, ((), ("*",)))
    ]
    dataset = Dataset(cases=())
    for at, (policy, rule) in enumerate(itertools.product(policies, OnQuestion)):
        case = Case(
            id=f"c{at}",
            recording="0" * 64,
            provider_script=script,
            tools=policy,
            on_question=rule,
            scorers=SCORERS,
        )
        dataset = dataset.with_recorded(case, recording)
    # A variant makes another run of it: recorded answers do not fit any more.
    variants = [
        Variant(name="same", agent_id="agent"),
        Variant(name="other", agent_id="agent", instructions="Something else."),
    ]
    options: dict[str, Any] = {"mode": mode, "repeats": 1, "variants": variants}
    done = asyncio.run(evaluate(dataset, [make_agent(effects)], **options))
    assert len(done.items) == 2 * len(policies) * len(OnQuestion)
    assert effects.with_effects == []
    # The tools do work: only the policy kept them from being executed.
    assert "look" in effects.executed or mode in (EvalMode.RECORDED, EvalMode.VERIFY)
    allowed = ToolPolicy(source=ToolSource.LIVE, allow_live=("*",), allow_effects=True)
    live = Case(id="live", user_input="hi", provider_script=script, tools=allowed, scorers=SCORERS)
    asyncio.run(evaluate([live], [make_agent(effects)], repeats=1))
    assert "send" in effects.with_effects
