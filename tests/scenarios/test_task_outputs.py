"""An agent with an output type whose tasks still work: only its last answer has to fit."""

import asyncio

import msgspec
import pytest

from awaken import Agent, AgentRuntime, Retry, RunFailed, ToolContext, tool
from awaken.models import InferenceRequest
from awaken.testing import ScriptedModel, ToolCalls
from awaken.tools import TaskContext


class Report(msgspec.Struct):
    pages: int


def build_librarian(last: str, seen: list[Report]) -> Agent[object, Report]:
    """An agent whose task ends after it has said that it waits."""
    has_answered = asyncio.Event()

    async def count(_task: TaskContext) -> int:
        await has_answered.wait()
        return 20

    @tool(effect="idempotent")
    async def start_counting(ctx: ToolContext) -> str:
        """Count in the background."""
        return str((await ctx.spawn(count, name="count")).name)

    def wait_aloud(_request: InferenceRequest) -> str:
        has_answered.set()
        return "I wait for the count."

    def look(report: Report) -> None:
        seen.append(report)
        if report.pages < 0:
            raise Retry("pages are not negative")

    script = ScriptedModel([ToolCalls([("start_counting", {})]), wait_aloud, last, last])
    return Agent(
        "librarian",
        model=script,
        tools=[start_counting],
        output_type=Report,
        output_validators=[look],
        output_retries=0,
    )


@pytest.mark.parametrize("is_attached", [True, False])
def test_what_is_said_while_a_task_works_is_not_judged(is_attached: bool) -> None:
    seen: list[Report] = []

    async def scenario() -> None:
        agent = build_librarian('{"pages": 20}', seen)
        async with AgentRuntime([agent]) as runtime, asyncio.timeout(10):
            if is_attached:
                result = await runtime.run(agent, "Count.")
            else:
                result = await runtime.wait((await runtime.start(agent, "Count.")).run_id)
            assert result.output == Report(20)
            assert result.steps == 3

    asyncio.run(scenario())
    assert seen == [Report(20)]


@pytest.mark.parametrize("last", ["still no JSON", '{"pages": -1}'])
def test_the_answer_after_the_tasks_is_judged(last: str) -> None:
    async def scenario() -> str:
        agent = build_librarian(last, [])
        async with AgentRuntime([agent]) as runtime, asyncio.timeout(10):
            with pytest.raises(RunFailed) as failed:
                await runtime.run(agent, "Count.")
            return failed.value.cause_code

    assert asyncio.run(scenario()) in ("invalid_output", "output_rejected")
