"""What a guardrail held back in a run it holds back again, in a replay and in a sample."""

import asyncio
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, tool
from awaken.evals import Case, Dataset, Recording, evaluate, scorers
from awaken.extensions.guardrails import GuardrailsPlugin
from awaken.models import InferenceRequest
from awaken.testing import ScriptedModel, Turn


@tool(effect="none")
def look(q: str) -> str:
    """Look something up."""
    return "nothing"


def answer(request: InferenceRequest) -> Turn:
    last = request.messages[-1]
    if last.role == "tool":
        return Turn("There is nothing.")
    wants_call = "look" in last.text
    return Turn(calls=[("look", {"q": "falcon"})]) if wants_call else Turn("Falcon ships in May.")


def make_agent(place: str, action: str) -> Agent:
    rule = {"name": "plans", "on": [place], "action": action, "pattern": "(?i)falcon"}
    return Agent(
        "helper",
        model=ScriptedModel([answer] * 9),
        tools=[look],
        plugins=[GuardrailsPlugin()],
        config={"guardrails": {"rules": [rule]}},
    )


async def record(place: str, action: str, decision: str) -> Recording:
    """Let an agent say what its guardrail objects to, and check that the run verifies."""
    async with AgentRuntime([make_agent(place, action)], history="full") as runtime:
        done = await runtime.run("helper", "look" if place == "tool_arguments" else "When?")
        if action == "ask":
            await runtime.decide(done.tickets[0].ticket_id, decision)
            done = await runtime.wait(done.run_id)
        recording: Recording = await runtime.replays.record(done.run_id)
        same = await runtime.replays.verify(recording)
        assert same.is_same, same.divergences
        return recording


@pytest.mark.parametrize(
    ("place", "action", "decision"),
    [
        ("output", "block", ""),
        ("output", "ask", "resume"),
        ("output", "ask", "cancel"),
        ("output", "redact", ""),
        ("tool_arguments", "block", ""),
    ],
)
def test_what_was_held_back_is_held_back_again(place: str, action: str, decision: str) -> None:
    async def main() -> None:
        recording = await record(place, action, decision)
        case = Case(id="c", user_input="look" if place == "tool_arguments" else "When?")
        held = scorers.scorer("guardrail_held")
        dataset = Dataset(cases=(), scorers=(held,)).with_recorded(case, recording)
        options: dict[str, Any] = {"mode": "verify"}
        done = await evaluate(dataset, [make_agent(place, action)], **options)
        (item,) = done.items
        assert item.status == "scored", item
        # An approved answer was held back by nobody in the end, and a redacted one was shown.
        assert item.scores[0].passed == (action == "block" or decision == "cancel")

    asyncio.run(main())


def test_a_rule_that_is_new_screens_the_recorded_answers() -> None:
    async def main() -> None:
        recording = await record("tool_results", "redact", "")
        async with AgentRuntime([make_agent("output", "block")], history="full") as runtime:
            parted = await runtime.replays.verify(recording)
            assert parted.divergences[0].path.startswith("/answer")
            assert parted.ended == "blocked"

    asyncio.run(main())
