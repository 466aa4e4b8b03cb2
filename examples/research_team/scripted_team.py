"""Models that need no key: each follows the steps that its agent is told to take."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from awaken.messages import Message, Role
from awaken.models import InferenceRequest
from awaken.testing import Answer, ScriptedModel, ToolCalls

TOPICS = ("rhine", "elbe")
_EVENT = re.compile(r"<background-task-event [^>]*>\n(.*)\n</background-task-event>")


def scripted(answer: Callable[[InferenceRequest], Answer]) -> ScriptedModel:
    """A model that answers every request by a function."""
    return ScriptedModel([answer], cycle=True)


def research(request: InferenceRequest) -> Answer:
    """Search for the topic, and claim what the last page says."""
    pages = _results(request.messages)
    if not pages:
        return ToolCalls([("search", {"words": request.messages[-1].text})])
    page = pages[0][-1]
    return json.dumps({"claim": page["text"], "source": page["address"]})


def check(request: InferenceRequest) -> Answer:
    """Read the source; a page that shouts supports nothing."""
    pages = _results(request.messages)
    if not pages:
        address = re.findall(r"\w+/\w+", request.messages[-1].text)[0]
        return ToolCalls([("read_page", {"address": address})])
    is_fact = not pages[0]["text"].endswith("!")
    reason = "The page states it." if is_fact else "The page gives no evidence."
    return json.dumps({"is_supported": is_fact, "reason": reason})


def lead_team(request: InferenceRequest) -> Answer:
    """Start the researchers, have each finding checked when it arrives, and report."""
    messages = request.messages
    if not any(message.tool_calls for message in messages):
        start = [{"agent_id": "researcher", "prompt": it, "name": it} for it in TOPICS]
        return ToolCalls([("spawn_agent", arguments) for arguments in start])
    events = [json.loads(it[1]) for message in messages for it in _EVENT.finditer(message.text)]
    found = [json.loads(event["result"]) for event in events]
    asked = [
        call.arguments
        for message in messages
        for call in message.tool_calls or ()
        if call.name == "agent_run_checker"
    ]
    if new := [it for it in found if it not in asked]:
        return ToolCalls([("agent_run_checker", it) for it in new])
    if len(found) < len(TOPICS):
        return f"{len(found)} of {len(TOPICS)} researchers have answered."
    verdicts = [it for it in _results(messages) if "is_supported" in it]
    kept = [it for it, verdict in zip(asked, verdicts, strict=True) if verdict["is_supported"]]
    report = {
        "summary": " ".join(it["claim"] for it in kept),
        "findings": kept,
        "rejected": [it for it in asked if it not in kept],
    }
    return json.dumps(report)


def _results(messages: Sequence[Message]) -> list[Any]:
    return [json.loads(it.text) for it in messages if it.role is Role.TOOL]
