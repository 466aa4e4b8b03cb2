"""A message into a run that is running.

`steer` puts a message into the run's inbox. The run takes it in before it asks the model again;
what it is doing right now is not disturbed.
"""

import asyncio

from awaken import Agent, AgentRuntime, tool
from awaken.models import InferenceRequest
from awaken.testing import ScriptedModel, ToolCalls


def heed(request: InferenceRequest) -> str:
    """Answer what the last message asks for."""
    return f"I heard: {request.messages[-1].text}"


async def main() -> None:
    searching, found = asyncio.Event(), asyncio.Event()

    @tool(effect="none")
    async def search(query: str) -> str:
        """Search for something; takes its time."""
        searching.set()
        await found.wait()
        return "three hotels"

    model = ScriptedModel([ToolCalls([("search", {"query": "hotel"})]), heed])
    async with AgentRuntime([Agent("guide", model=model, tools=[search])]) as runtime:
        handle = await runtime.start("guide", "Find a hotel.", thread_id="t1")
        await searching.wait()

        receipt = await runtime.steer(handle.run_id, "Only ones with a garden.")
        found.set()
        result = await handle.result()

        late = await runtime.steer(handle.run_id, "Too late.")
        texts = [record.message.text for record in await runtime.messages("t1")]

    print("\n".join(text for text in texts if text))
    assert receipt.is_accepted
    assert result.text == "I heard: Only ones with a garden."
    assert texts[2:4] == ["three hotels", "Only ones with a garden."]
    assert not late.is_accepted, "a run that is over takes nothing in, and says so"


if __name__ == "__main__":
    asyncio.run(main())
