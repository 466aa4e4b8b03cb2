"""The model of the demo: it answers by fixed rules, without a key or a network.

A pure function of the request. It shows features of the runtime (text, tool calls, generated
interfaces); scripts for tests are in `awaken.testing`.
"""

import re
from collections.abc import AsyncGenerator, Sequence
from typing import Any, NamedTuple

import msgspec

from awaken.contracts.messages.deltas import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.contracts.messages.message import Message, Role, Visibility
from awaken.contracts.models.inference import (
    Effort,
    InferenceRequest,
    ModelEvent,
    Stop,
    StopReason,
    TokenUsage,
    UsageReport,
)

OPENUI_MARK = "OpenUI Lang"
OPENUI_TEXT = """\
root = Stack([title, summary])
title = TextContent("Scripted demo")
summary = TextContent("This interface was written by the scripted model.")
"""

JSON_UI_MARK = "JSON Patch operations (RFC 6902)"
JSON_UI_TEXT = """\
{"op": "add", "path": "/root", "value": "page"}
{"op": "add", "path": "/elements/page", "value": {"type": "Card", "props": {}, "children": []}}
{"op": "add", "path": "/elements/title", "value": {"type": "Text", "props": {"text": "Demo"}}}
{"op": "add", "path": "/elements/page/children/-", "value": "title"}
"""
_INTERFACES = {OPENUI_MARK: OPENUI_TEXT, JSON_UI_MARK: JSON_UI_TEXT}

_QUOTED_CHARS = 80
_RESULT_CHARS = 400
_WORDS = re.compile(r"\S+\s*|\s+")

_A2UI_BATCH: dict[str, Any] = {
    "messages": [
        {
            "surfaceUpdate": {
                "surfaceId": "demo",
                "components": [
                    {"id": "root", "component": {"Card": {"child": "greeting"}}},
                    {
                        "id": "greeting",
                        "component": {"Text": {"text": {"literalString": "Hello from A2UI"}}},
                    },
                ],
            }
        },
        {"beginRendering": {"surfaceId": "demo", "root": "root"}},
    ]
}


class _Directive(NamedTuple):
    mark: str
    tool: str
    arguments: str


def _directive(mark: str, tool: str, arguments: dict[str, Any]) -> _Directive:
    return _Directive(mark, tool, msgspec.json.encode(arguments).decode())


_DIRECTIVES = (
    _directive("RUN_WEATHER_TOOL", "get_weather", {"location": "Tokyo"}),
    _directive("RUN_STOCK_TOOL", "get_stock_price", {"symbol": "AAPL"}),
    _directive("RUN_TOOL_SEARCH_WEATHER", "ToolSearch", {"query": "select:get_weather"}),
    _directive("RUN_A2UI_TOOL", "render_a2ui", _A2UI_BATCH),
    _directive("RUN_NOTE_TOOL", "append_note", {"note": "Buy milk"}),
    _directive("RUN_INFO_TOOL", "serverInfo", {}),
    _directive("RUN_FAILING_TOOL", "failingTool", {}),
    _directive("RUN_FINISH_TOOL", "finish", {"summary": "All done"}),
    _directive("RUN_PROGRESS_TOOL", "progress_demo", {"steps": 3}),
    _directive("RUN_SLOW_TOOL", "progress_demo", {"steps": 60, "pause_ms": 500}),
    _directive("RUN_QUESTION_TOOL", "askUserQuestion", {"question": "Which city do you mean?"}),
    _directive("RUN_COLOR_TOOL", "set_background_color", {"color": "lavender"}),
    _directive("RUN_DELETE_TOOL", "delete_file", {"path": "old-report.txt"}),
    _directive("RUN_SKILL_TOOL", "skill", {"skill": "greeting", "arguments": {"who": "Ada"}}),
    _directive("RUN_PHASES_TOOL", "phases_seen", {}),
    _directive("RUN_PREFERENCE_TOOL", "set_preference", {"preference": "window seats"}),
    _directive("RUN_JSON_UI_TOOL", "render_json_ui", {"prompt": "a card that says Demo"}),
    _directive("RUN_UI_TOOL", "render_openui", {"prompt": "a title and a summary"}),
)


class ScriptedProvider:
    """Answers by fixed rules; the same request always gets the same answer.

    In this order: if the system prompt explains OpenUI Lang or a JSON interface, the answer is
    one; tool results are repeated as text; marks in the last user text (`RUN_WEATHER_TOOL`, …)
    become calls of the tools that the request offers; any other text is quoted. If the request
    asks for reasoning, the model first repeats the question.
    """

    name = "scripted"

    async def stream(self, request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the answer in word-sized deltas, or the calls, then usage and stop."""
        unread = _unread(request.messages)
        calls = _calls(request, unread)
        text = "" if calls else _answer(request, unread)
        if _is_reasoning_wanted(request):
            yield ReasoningDelta(delta=f"I was asked: {unread.text[:_QUOTED_CHARS]}")
        for word in _WORDS.findall(text):
            yield TextDelta(delta=word)
        for call_id, directive in calls:
            yield ToolCallStart(id=call_id, name=directive.tool)
            yield ToolCallDelta(id=call_id, args_delta=directive.arguments)
        written = len(text) + sum(len(directive.arguments) for _, directive in calls)
        yield UsageReport(usage=_usage(request, read=len(unread.text), written=written))
        yield Stop(reason=StopReason.TOOL_USE if calls else StopReason.END_TURN)


def _is_reasoning_wanted(request: InferenceRequest) -> bool:
    effort = request.overrides.reasoning_effort if request.overrides is not None else None
    return effort not in (None, Effort.NONE)


class _Unread(NamedTuple):
    """The messages after the last answer: the text, and name and text of each result."""

    text: str
    results: list[tuple[str, str]]


def _unread(messages: Sequence[Message]) -> _Unread:
    """Read back to the last answer; a user's text counts before internal messages."""
    hidden: Message | None = None
    answers: list[Message] = []
    for message in reversed(messages):
        if message.role is Role.TOOL:
            answers.append(message)
        elif message.role is Role.ASSISTANT:
            return _Unread(hidden.text if hidden else "", _name_results(message, answers))
        elif message.role is Role.USER and message.visibility is Visibility.ALL:
            return _Unread(message.text, [])
        elif message.role is Role.USER:
            hidden = hidden or message
    return _Unread(hidden.text if hidden else "", [])


def _name_results(asked: Message, answers: list[Message]) -> list[tuple[str, str]]:
    names = {call.id: call.name for call in asked.tool_calls or ()}
    return [
        (names.get(answer.tool_call_id or "", "tool"), answer.text) for answer in reversed(answers)
    ]


def _calls(request: InferenceRequest, unread: _Unread) -> list[tuple[str, _Directive]]:
    wanted = [directive for directive in _DIRECTIVES if directive.mark in unread.text]
    if not wanted or unread.results or _interface(request):
        return []
    offered = {tool.id for tool in request.tools}
    directives = [directive for directive in wanted if directive.tool in offered]
    return list(zip(_call_ids(request.messages, len(directives)), directives, strict=True))


def _answer(request: InferenceRequest, unread: _Unread) -> str:
    if interface := _interface(request):
        return interface
    if unread.results:
        return "\n".join(
            f"{name} returned: {text[:_RESULT_CHARS]}" for name, text in unread.results
        )
    return f"Scripted response to: {unread.text[:_QUOTED_CHARS]}"


def _interface(request: InferenceRequest) -> str:
    """Return the interface that the request asks for; empty if it asks for none."""
    prompts = list(request.system)
    for message in request.messages:
        if message.role is not Role.SYSTEM:
            break
        prompts.append(message.text)
    found = (ui for mark, ui in _INTERFACES.items() if any(mark in text for text in prompts))
    return next(found, "")


def _call_ids(messages: Sequence[Message], count: int) -> list[str]:
    # After compaction the number of messages may be one that was used before.
    taken = {call.id for message in messages for call in message.tool_calls or ()}
    turn = len(messages)
    while f"call_{turn}_1" in taken:
        turn += 1
    return [f"call_{turn}_{position}" for position in range(1, count + 1)]


def _usage(request: InferenceRequest, *, read: int, written: int) -> TokenUsage:
    # Counts messages instead of reading them all, so that a long thread costs no more.
    system = sum(len(text) for text in request.system)
    prompt = 4 * len(request.messages) + (system + read) // 4 + 1
    completion = written // 4 + 1
    return TokenUsage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=prompt + completion,
    )
