# mypy: ignore-errors
"""The Agents SDK: python agents_sdk.py <base url>; prints one JSON document."""

import asyncio
import json
import sys

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    Runner,
    SQLiteSession,
    function_tool,
    set_default_openai_client,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from pydantic import BaseModel


class Weather(BaseModel):
    """What the client wants to know."""

    city: str
    degrees: int


@function_tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"7 degrees in {city}"


async def main(url: str) -> dict:
    """Sessions, lists of items, structured outputs, branches and streams."""
    client = AsyncOpenAI(base_url=f"{url}/v1", api_key="none")
    set_default_openai_client(client, use_for_tracing=False)
    set_tracing_disabled(True)
    told = {}
    agent = Agent(name="Helper", model="echo", tools=[get_weather])

    session = SQLiteSession("session")
    first = await Runner.run(agent, "weather in Oslo", session=session)
    second = await Runner.run(agent, "thanks", session=session)
    told["session"] = [first.final_output, second.final_output]
    told["kept"] = len(await session.get_items())

    items = [*first.to_input_list(), {"role": "user", "content": "and now?"}]
    told["list"] = (await Runner.run(agent, items)).final_output

    begun = await Runner.run(agent, "one")
    branches = await asyncio.gather(
        *(
            Runner.run(agent, name, previous_response_id=begun.last_response_id)
            for name in ("left", "right")
        )
    )
    told["branches"] = [it.final_output for it in branches]

    forming = Agent(name="Forming", model="echo", tools=[get_weather], output_type=Weather)
    told["formed"] = (await Runner.run(forming, "json")).final_output.model_dump()
    told["formed_after_call"] = (
        await Runner.run(forming, "weather in Rome as json")
    ).final_output.model_dump()

    streamed = Runner.run_streamed(agent, "weather in Paris")
    told["events"] = sorted({event.type async for event in streamed.stream_events()})
    told["streamed"] = streamed.final_output

    chatting = Agent(
        name="Chatting",
        model=OpenAIChatCompletionsModel("echo", openai_client=client),
        tools=[get_weather],
    )
    told["chat"] = (await Runner.run(chatting, "weather in Bonn")).final_output
    by_chat = Agent(
        name="Forming",
        model=OpenAIChatCompletionsModel("echo", openai_client=client),
        output_type=Weather,
    )
    told["chat_formed"] = (await Runner.run(by_chat, "json")).final_output.model_dump()
    await client.close()
    return told


print(json.dumps(asyncio.run(main(sys.argv[1]))))
