"""One runtime, used from the event loops of several threads: the limits of each keep counting."""

import asyncio
import time

from awaken import Agent, AgentRuntime, tool
from awaken.testing import ScriptedModel, ToolCalls


def test_a_tool_that_runs_another_agent_in_a_loop_of_its_own_still_times_out() -> None:
    runtime: AgentRuntime

    @tool(effect="none", timeout=0.3)
    def ask_and_hang() -> str:
        """Ask another agent of this runtime, in the thread of the tool, then hang."""
        answer = asyncio.run(runtime.run("inner", "hi")).text
        time.sleep(1.5)
        return answer

    async def scenario() -> list[str]:
        nonlocal runtime
        calls = ToolCalls([("ask_and_hang", {})])
        outer = Agent("outer", model=ScriptedModel([calls, "done"]), tools=[ask_and_hang])
        inner = Agent("inner", model=ScriptedModel(["hello"]))
        async with AgentRuntime([outer, inner]) as runtime:
            await runtime.run("outer", "go", thread_id="t")
            return [it.message.text for it in await runtime.messages("t")]

    said = asyncio.run(scenario())
    assert said == ["go", "", "Timed out: no result within 300 ms", "done"]
