# mypy: ignore-errors
"""LangChain's ChatOpenAI: python langchain_chat.py <base url>; prints one JSON document."""

import json
import sys

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel


class Weather(BaseModel):
    """What the client wants to know."""

    city: str
    degrees: int


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"7 degrees in {city}"


def talk(model: ChatOpenAI) -> dict:
    """Ask, stream, call tools and want a form."""
    told = {"said": model.invoke("one").text}
    told["streamed"] = "".join(chunk.text for chunk in model.stream("one"))
    equipped = model.bind_tools([get_weather])
    messages = [HumanMessage("weather in Oslo")]
    messages.append(equipped.invoke(messages))
    for call in messages[-1].tool_calls:
        result = get_weather.invoke(call["args"])
        messages.append(ToolMessage(result, tool_call_id=call["id"]))
    messages.append(equipped.invoke(messages))
    told["called"] = [call["args"] for call in messages[1].tool_calls]
    told["answered"] = messages[-1].text
    messages.append(HumanMessage("thanks"))
    told["thanked"] = equipped.invoke(messages).text
    for method in ("json_schema", "json_mode", "function_calling"):
        found = model.with_structured_output(Weather, method=method).invoke("json")
        told[method] = found.model_dump()
    return told


url = f"{sys.argv[1]}/v1"
options = {"model": "echo", "base_url": url, "api_key": "none"}
chat = talk(ChatOpenAI(**options, use_responses_api=False))
responses = talk(ChatOpenAI(**options, use_responses_api=True))
going_on = ChatOpenAI(**options, use_responses_api=True, use_previous_response_id=True)
begun = [HumanMessage("one")]
begun.append(going_on.invoke(begun))
branches = [going_on.invoke([*begun, HumanMessage(name)]).text for name in ("left", "right")]
print(json.dumps({"chat": chat, "responses": responses, "branches": branches}))
