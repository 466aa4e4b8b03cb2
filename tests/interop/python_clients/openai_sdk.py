# mypy: ignore-errors
"""The official openai package: python openai_sdk.py <base url>; prints one JSON document."""

import asyncio
import json
import sys

from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel


class Weather(BaseModel):
    """What the client wants to know."""

    city: str
    degrees: int


TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}


async def main(url: str) -> dict:
    """Everything that the package can ask for."""
    told = {}
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="none") as client:
        create = client.responses.create
        first = await create(model="echo", input="one")
        branches = await asyncio.gather(
            *(
                create(model="echo", input=name, previous_response_id=first.id)
                for name in ("left", "right", "middle")
            )
        )
        told["branches"] = [it.output_text for it in branches]
        more = await create(model="echo", input="more", previous_response_id=branches[1].id)
        told["more"] = more.output_text

        items = [{"role": "user", "content": "weather in Oslo"}]
        asked = await create(model="echo", input=items, tools=[TOOL])
        items += asked.output
        calls = [it for it in asked.output if it.type == "function_call"]
        told["called"] = [(it.name, json.loads(it.arguments)) for it in calls]
        items += [
            {"type": "function_call_output", "call_id": it.call_id, "output": "7 degrees"}
            for it in calls
        ]
        answered = await create(model="echo", input=items, tools=[TOOL])
        items += answered.output
        items.append({"role": "user", "content": "thanks"})
        told["answered"] = answered.output_text
        told["thanked"] = (await create(model="echo", input=items)).output_text

        parsed = await client.responses.parse(model="echo", input="json", text_format=Weather)
        told["parsed"] = parsed.output_parsed.model_dump()
        async with client.responses.stream(
            model="echo", input="json", text_format=Weather
        ) as stream:
            kinds = [event.type async for event in stream]
            final = await stream.get_final_response()
        told["streamed"] = final.output_parsed.model_dump()
        told["kinds"] = kinds
        chat = await client.chat.completions.parse(
            model="echo", messages=[{"role": "user", "content": "json"}], response_format=Weather
        )
        told["chat"] = chat.choices[0].message.parsed.model_dump()
        loose = await client.chat.completions.create(
            model="echo",
            messages=[{"role": "user", "content": "json"}],
            response_format={"type": "json_object"},
        )
        told["loose"] = json.loads(loose.choices[0].message.content)

        later = await create(model="echo", input="later", background=True)
        told["background"] = later.background
        while later.status in ("queued", "in_progress"):
            later = await client.responses.retrieve(later.id)
        told["later"] = [later.status, later.output_text, later.background]
    with OpenAI(base_url=f"{url}/v1", api_key="none") as client:
        talk = client.responses.create(model="echo", input="1", conversation="c")
        client.responses.create(model="echo", input="2", conversation=talk.conversation.id)
        talk = client.responses.create(model="echo", input="3", conversation="c")
        told["conversation"] = talk.output_text
    return told


print(json.dumps(asyncio.run(main(sys.argv[1]))))
