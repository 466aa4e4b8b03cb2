"""Recordings of agents that this process does not have: they verify from what was recorded."""

import asyncio
from typing import Any

import msgspec
import pytest

from awaken import Agent, AgentRuntime, Delegate, tool
from awaken.bootstrap.replays import build_recorder, build_replays
from awaken.contracts.evals.recordings import Recording
from awaken.contracts.evals.replays import ReplaySpec
from awaken.evals import ToolPolicy
from awaken.extensions.background import BackgroundTasksPlugin
from awaken.models import InferenceRequest
from awaken.testing import ScriptedModel, Turn


class Question(msgspec.Struct):
    topic: str


@tool(effect="none")
async def look(at: str) -> str:
    """Look."""
    return f"saw {at}"


PROMPT = {"prompt": "p"}
KINDS: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "plain": ({"delegates": ["helper"]}, "agent_run_helper", PROMPT),
    "declared": ({"delegates": [Delegate("helper")]}, "agent_run_helper", PROMPT),
    "background": (
        {"delegates": [Delegate("helper", background=True)]}, "agent_run_helper", PROMPT,
    ),
    "typed": (
        {"delegates": [Delegate("helper", arguments=Question)]}, "agent_run_helper", {"topic": "t"},
    ),
    "task": (
        {"delegates": ["helper"], "plugins": [BackgroundTasksPlugin()]},
        "spawn_agent", {"agent_id": "helper", **PROMPT},
    ),
    "refused": ({"delegates": [Delegate("helper")]}, "agent_run_helper", {"no": 1}),
    "refused task": (
        {"delegates": ["helper"], "plugins": [BackgroundTasksPlugin()]}, "spawn_agent", {"no": 1},
    ),
}  # fmt: skip


def make_agents(kind: str) -> list[Agent]:
    options, name, arguments = KINDS[kind]

    def answer(request: InferenceRequest) -> Turn:
        last = request.messages[-1]
        if last.role == "tool" or "found" in last.text:
            return Turn(f"I heard: {last.text[:8]}")
        return Turn(calls=[(name, arguments)])

    script = [Turn(calls=[("look", {"at": "x"})]), "found"]
    helper = Agent("helper", model=ScriptedModel(script), tools=[look], description="Helps.")
    return [Agent("lead", model=ScriptedModel([answer], cycle=True), **options), helper]


async def record(kind: str) -> Recording:
    async with AgentRuntime(make_agents(kind), history="full") as runtime:
        done = await runtime.run("lead", "go")
        return await build_recorder(runtime.view("test").engine).record(done.run_id)


@pytest.mark.parametrize("delegates", ["recorded", "replay"])
@pytest.mark.parametrize("left", ["lead", "helper", "neither"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_verifies_without_its_agents(kind: str, left: str, delegates: Any) -> None:
    async def main() -> None:
        recording = await record(kind)
        stays = [it for it in make_agents(kind) if it.spec.id == left]
        if left == "lead":
            # Its code is there, and does not name the helper any more.
            stays = [Agent("lead", model=ScriptedModel([]))]
        async with AgentRuntime(stays or [Agent("z", model=ScriptedModel([]))]) as runtime:
            replays = build_replays(runtime.view("test").engine)
            spec = ReplaySpec(tools=ToolPolicy(delegates=delegates))
            found = await replays.replay(recording, spec)
            assert found.is_same, found.divergences

    asyncio.run(main())
