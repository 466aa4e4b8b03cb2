"""An agent without hooks hands over to one with hooks: the hooks run from then on."""

import asyncio

from awaken import (
    Agent,
    AgentRuntime,
    Phase,
    Plugin,
    PluginRegistrar,
    StateCommand,
    ToolContext,
    tool,
)
from awaken.plugins import ACTIVE_AGENT, StepStartContext
from awaken.testing import ScriptedModel, ToolCalls


@tool(effect="none")
async def hand_over(ctx: ToolContext) -> str:
    """Let the other agent answer."""
    ctx.state.set(ACTIVE_AGENT, "hooked")
    return "handed over"


class Counting(Plugin):
    """Counts the steps that it sees begin."""

    name = "counting"

    def __init__(self) -> None:
        self.seen = 0

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.hook(Phase.STEP_START, self.count)

    async def count(self, ctx: StepStartContext) -> StateCommand | None:
        self.seen += 1
        return None


def test_the_hooks_of_the_agent_that_takes_over_run() -> None:
    async def scenario() -> tuple[str, int]:
        counting = Counting()
        calls = ToolCalls([("hand_over", {})])
        bare = Agent("bare", model=ScriptedModel([calls]), tools=[hand_over])
        hooked = Agent("hooked", model=ScriptedModel(["Here."]), plugins=[counting])
        async with AgentRuntime([bare, hooked]) as runtime:
            return (await runtime.run("bare", "go")).text, counting.seen

    assert asyncio.run(scenario()) == ("Here.", 1)
