"""A first agent with a tool.

The model is scripted, so that this runs without a key: it asks for the tool once, then answers
with what the tool said. Replace `model=` to let a real one decide.
"""

import asyncio

from awaken import Agent, AgentRuntime, tool
from awaken.models import InferenceRequest
from awaken.testing import ScriptedModel, ToolCalls


@tool(effect="none")
async def get_weather(city: str) -> str:
    """Current weather in a city.

    Args:
        city: The city's name.
    """
    return f"sunny in {city}"


def read_the_result(request: InferenceRequest) -> str:
    """Answer with the latest message of the request, which is the tool's result."""
    return f"It is {request.messages[-1].text}."


async def main() -> None:
    model = ScriptedModel([ToolCalls([("get_weather", {"city": "Paris"})]), read_the_result])
    agent = Agent("assistant", model=model, instructions="Be brief.", tools=[get_weather])

    async with AgentRuntime([agent]) as runtime:
        result = await runtime.run("assistant", "What is the weather in Paris?", thread_id="t1")
        transcript = await runtime.messages("t1")

    for record in transcript:
        print(f"{record.message.role:>9}: {record.message.text or record.message.tool_calls}")
    print(f"{result.steps} steps, {result.usage.total_tokens} tokens, {result.status}")

    assert result.text == "It is sunny in Paris."
    assert [record.message.role for record in transcript] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


if __name__ == "__main__":
    asyncio.run(main())
