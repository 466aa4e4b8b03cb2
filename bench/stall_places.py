"""Where in the body of each route a hostile shape goes: templates by the route's path."""

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from stall_shapes import Shape

HOLE = "@@HOLE@@"
FILE = "@@FILE@@"
Template = tuple[str, object]
"""The kind of shape that it takes, and a document with a hole."""


class Case(NamedTuple):
    """One body for one route."""

    shape: str
    place: str
    body: bytes


def _native(content: str = "messages") -> list[Template]:
    said = {"agent_id": "guarded", "messages": [{"role": "user", "content": HOLE}]}
    part = {"type": "text", "text": HOLE}
    rows = {"agent_id": "guarded", "messages": [{"role": "user", "content": [part]}]}
    return [
        ("text", said),
        ("value", {**said, "messages": [{"role": "user", "content": "hi"}], "other": HOLE}),
        ('items:{"role":"user","content":"hi"}', {**said, content: HOLE}),
        ('items:{"type":"text","text":"hi"}', {**rows, content: [{"content": HOLE}]}),
    ]


def _tool(parameters: object) -> dict[str, object]:
    return {"name": "paint", "description": "", "parameters": parameters}


_AG_UI_MESSAGE = {"id": "m", "role": "user", "content": HOLE}
_AG_UI: list[Template] = [
    ("text", {"agentId": "guarded", "messages": [_AG_UI_MESSAGE]}),
    ("text", {"agentId": "guarded", "messages": [{**_AG_UI_MESSAGE, "content": [
        {"type": "document", "source": {"type": "url", "value": HOLE}}]}]}),
    ("value", {"agentId": "guarded", "messages": [{**_AG_UI_MESSAGE, "content": "x"}],
               "state": HOLE}),
    ("value", {"agentId": "guarded", "messages": [{**_AG_UI_MESSAGE, "content": "x"}],
               "context": HOLE}),
    ("value", {"agentId": "guarded", "resume": {"interruptId": "i", "payload": HOLE}}),
    ("value", {"agentId": "guarded", "messages": [{**_AG_UI_MESSAGE, "content": "x"}],
               "tools": [_tool(HOLE)]}),
    ("schema", {"agentId": "painter", "messages": [{**_AG_UI_MESSAGE, "content": "x"}],
                "tools": [_tool(HOLE)]}),
    ("items:{\"role\":\"user\",\"content\":\"hi\"}", {"agentId": "guarded", "messages": HOLE}),
    ("items:{\"type\":\"text\",\"text\":\"hi\"}",
     {"agentId": "guarded", "messages": [{**_AG_UI_MESSAGE}]}),
    ("items:{\"name\":\"tool#\"}", {"agentId": "guarded", "tools": HOLE, "messages": [
        {**_AG_UI_MESSAGE, "content": "x"}]}),
    ("items:{\"interruptId\":\"i#\"}", {"agentId": "guarded", "resume": HOLE}),
    ("items:{\"role\":\"tool\",\"content\":\"{}\",\"toolCallId\":\"c#\"}",
     {"agentId": "guarded", "messages": HOLE}),
]  # fmt: skip


def _ui(part: object) -> dict[str, object]:
    return {"agentId": "guarded", "messages": [{"id": "m", "role": "user", "parts": [part]}]}


_HELLO = _ui({"type": "text", "text": "x"})
_AI_SDK: list[Template] = [
    ("text", _ui({"type": "text", "text": HOLE})),
    ("text", _ui({"type": "file", "url": HOLE})),
    ("value", {**_HELLO, "state": HOLE}),
    ("value", _ui({"type": "tool-x", "output": HOLE})),
    ("value", {**_HELLO, "tools": [_tool(HOLE)]}),
    ("schema", {**_HELLO, "agentId": "painter", "tools": [_tool(HOLE)]}),
    ("items:{\"id\":\"m#\",\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"text\":\"x\"}]}",
     {**_HELLO, "messages": HOLE}),
    ("items:{\"type\":\"text\",\"text\":\"x\"}",
     {"agentId": "guarded", "messages": [{"id": "m", "role": "user", "parts": HOLE}]}),
    ("items:{\"type\":\"file\",\"url\":\"data:,x\"}",
     {"agentId": "guarded", "messages": [{"id": "m", "role": "user", "parts": HOLE}]}),
    ("items:{\"name\":\"tool#\"}", {**_HELLO, "tools": HOLE}),
]  # fmt: skip


def _a2a(part: object, **more: object) -> dict[str, object]:
    said = {"messageId": "m", "role": "ROLE_USER", "parts": [part], **more}
    return {"message": said, "configuration": {"returnImmediately": True}}


_A2A: list[Template] = [
    ("text", _a2a({"text": HOLE})),
    ("text", _a2a({"url": HOLE})),
    ("text", _a2a({"raw": HOLE})),
    ("value", _a2a({"data": HOLE})),
    ("value", {**_a2a({"text": "x"}), "metadata": HOLE}),
    ("value", {**_a2a({"text": "x"}), "other": HOLE}),
    ('items:{"text":"x"}', _a2a({"text": "x"}, parts=HOLE)),
    ('items:{"url":"http://a/#"}', _a2a({"text": "x"}, parts=HOLE)),
    ('items:{"text":"x","url":"ftp:"}', _a2a({"text": "x"}, parts=HOLE)),
]


def _rpc(method: str, params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


_A2A_RPC: list[Template] = [
    *((kind, _rpc("SendMessage", it)) for kind, it in _A2A),
    ("value", _rpc("GetTask", HOLE)),
    ("value", {**_rpc("GetTask", {}), "method": HOLE}),
    ("text", {**_rpc("GetTask", {}), "id": HOLE}),
]


def _call(arguments: object) -> dict[str, object]:
    return _rpc("tools/call", {"name": "guarded", "arguments": arguments, "_meta": _META})


_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
_MCP: list[Template] = [
    ("text", _call({"message": HOLE})),
    ("value", _call({"message": "x", "other": HOLE})),
    ("value", _call(HOLE)),
    ("value", _rpc("tools/list", {"_meta": _META, "cursor": HOLE})),
    ("value", _rpc("ping", HOLE)),
    ('items:{"a":#}', _call({"message": HOLE})),
]


def _chat(content: object, **more: object) -> dict[str, object]:
    return {"model": "guarded", "messages": [{"role": "user", "content": content}], **more}


def _function(parameters: object) -> dict[str, object]:
    return {"type": "function", "function": _tool(parameters)}


_CALLED = (
    '{"role":"assistant","tool_calls":[{"id":"c#","function":'
    '{"name":"f","arguments":"{}"}}]},'
    '{"role":"tool","tool_call_id":"c#","content":"x"}'
)
_CHAT: list[Template] = [
    ("text", _chat(HOLE)),
    ("text", _chat([{"type": "file", "file": {"file_data": HOLE}}])),
    ("text", _chat("x", messages=[
        {"role": "user", "content": "x"},
        {"role": "assistant", "tool_calls": [
            {"id": "c", "function": {"name": "f", "arguments": HOLE}}]},
        {"role": "tool", "tool_call_id": "c", "content": "x"},
        {"role": "user", "content": "x"}])),
    ("text", _chat("x", messages=[
        {"role": "user", "content": HOLE}, {"role": "assistant", "content": "x"},
        {"role": "user", "content": "x"}])),
    ("value", _chat("x", tool_choice=HOLE)),
    ("value", _chat("x", stream_options={"a": HOLE})),
    ("value", _chat("x", tools=[_function(HOLE)])),
    ("schema", _chat("x", model="painter", tools=[_function(HOLE)])),
    ("items:{\"role\":\"user\",\"content\":\"x\"}", _chat("x", messages=HOLE)),
    ("items:{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"content\":\"y\"}",
     _chat("x", messages=HOLE)),
    (f"items:{_CALLED}", _chat("x", messages=HOLE)),
    ("items:{\"type\":\"text\",\"text\":\"x\"}", _chat(HOLE)),
    ("items:{\"type\":\"function\",\"name\":\"tool#\"}", _chat("x", tools=HOLE)),
]  # fmt: skip
_RESPONSES: list[Template] = [
    ("text", {"model": "guarded", "input": HOLE}),
    ("text", {"model": "guarded", "input": "x", "instructions": HOLE}),
    ("text", {"model": "guarded", "input": "x", "metadata": {"a": HOLE}}),
    ("value", {"model": "guarded", "input": "x", "metadata": HOLE}),
    ("value", {"model": "guarded", "input": "x", "tool_choice": HOLE}),
    ("schema", {"model": "painter", "input": "x", "tools": [{"type": "function", **_tool(HOLE)}]}),
    ("items:{\"role\":\"user\",\"content\":\"x\"}", {"model": "guarded", "input": HOLE}),
    ("items:{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"content\":\"y\"}",
     {"model": "guarded", "input": HOLE}),
    ("items:{\"type\":\"function_call\",\"call_id\":\"c#\",\"name\":\"f\"},"
     "{\"type\":\"function_call_output\",\"call_id\":\"c#\",\"output\":\"x\"}",
     {"model": "guarded", "input": HOLE}),
    ("items:{\"type\":\"function\",\"name\":\"tool#\"}",
     {"model": "guarded", "input": "x", "tools": HOLE}),
    ("items:{\"type\":\"mcp_approval_response\",\"approval_request_id\":\"a#\",\"approve\":true}",
     {"model": "guarded", "input": HOLE}),
]  # fmt: skip
_DECISION: list[Template] = [
    (kind, {"action": "resume", "toolCallId": "call_1", name: HOLE})
    for kind in ("value", "text")
    for name in ("payload", "arguments", "reason")
]
_THREAD: list[Template] = [
    ("text", {"title": HOLE}),
    ("text", {"custom": {"a": HOLE}}),
    ("value", {"custom": HOLE}),
    ("value", {"custom": {"a": HOLE}}),
    ("text", {"resource_id": HOLE}),
]
_PUSH: list[Template] = [("text", {"url": HOLE}), ("value", {"url": "http://a/", "id": HOLE})]


def templates_of(path: str) -> list[Template]:
    """What a route takes; a route that is not known here is an error, not left out."""
    for end, found in {
        "/decision": _DECISION,
        "/mailbox": [("value", {"payload": HOLE}), ("text", {"payload": {"text": HOLE}})],
        "/chat/completions": _CHAT,
        "/responses": _RESPONSES,
        "pushNotificationConfigs": _PUSH,
        "/message:send": _A2A,
        "/message:stream": _A2A,
        "/mcp": _MCP,
    }.items():
        if path.endswith(end):
            return found
    for start, found in {
        "/v1/ai-sdk": _AI_SDK,
        "/v1/ag-ui": _AG_UI,
        "/v1/a2a": _A2A_RPC,
    }.items():
        if path.startswith(start):
            return found
    if path in ("/v1/threads", "/v1/threads/{thread_id}", "/v1/threads/{thread_id}/metadata"):
        return _THREAD
    if path in ("/v1/runs", "/v1/runs/{run_id}/inputs", "/v1/threads/{thread_id}/messages"):
        return _native()
    raise KeyError(path)


def cases(path: str, shape: Shape, size: int) -> Iterator[Case]:
    """Every body that the shape makes for a route."""
    if shape.kind == "body":
        yield Case(shape.name, "body", shape.make(size).encode("utf-8", "surrogateescape"))
        return
    for number, (kind, document) in enumerate(templates_of(path)):
        kind, _, item = kind.partition(":")
        filled = _filling(shape, kind, item, size)
        if filled is None:
            continue
        text = json.dumps(document).replace(f'"{HOLE}"', filled)
        yield Case(shape.name, f"{kind} {number}", text.encode()[: size + 1000])


@lru_cache(maxsize=1)
def _made(shape: Shape, size: int) -> str:
    return shape.make(size)


def _filling(shape: Shape, kind: str, item: str, size: int) -> str | None:
    room = size - 1000
    if shape.kind == "items":
        if kind != "items":
            return None
        count = room // (len(item.replace("#", "000000")) + 1)
        return "[" + ",".join(item.replace("#", str(n)) for n in range(count)) + "]"
    if shape.kind == "schema":
        return _made(shape, room) if kind in ("schema", "value") else None
    if shape.kind == "text":
        if kind not in ("text", "value"):
            return None
        return '"' + _made(shape, room).replace('"', '\\"') + '"'
    return _made(shape, room) if kind == "value" else None
