"""Stands in for a model: remembers what begins with "I", forgets, looks up, and greets."""

import json
import re

from awaken.models import InferenceRequest
from awaken.testing import ScriptedModel, ToolCalls

_FACT = re.compile(r'<fact about="user" id="([^"]+)">([^<]+)</fact>')


def answer(request: InferenceRequest) -> str | ToolCalls:
    """Answer as a model would that calls one tool for each message."""
    last = request.messages[-1]
    if last.role == "tool":
        return _report(last.text)
    known = dict(_FACT.findall(request.messages[0].text))
    said = last.text
    if said.casefold().startswith("forget") and known:
        return ToolCalls([("forget", {"fact_id": next(iter(known))})])
    if said.casefold().startswith("i "):
        return ToolCalls([("remember", {"fact": f"The user said: {said}"})])
    if said.endswith("?") and not re.search(r"\bme\b", said):
        return ToolCalls([("search_knowledge", {"query": said})])
    return f"I know: {'; '.join(known.values())}" if known else "I know nothing about you yet."


def _report(result: str) -> str:
    try:
        found = json.loads(result)
    except ValueError:
        return result
    if "remembered" in found:
        return "I will remember that."
    if "forgotten" in found:
        return "Forgotten."
    passages = found.get("passages", [])
    return str(passages[0]["text"]) if passages else "The handbook says nothing about it."


def scripted_assistant() -> ScriptedModel:
    """The model of the example without a key."""
    return ScriptedModel([answer], cycle=True)
