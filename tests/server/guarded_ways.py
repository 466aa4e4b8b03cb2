"""Every way in: what clients can send that a model, a tool or a store gets to see, wire by wire."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from awaken import AgentRuntime

from .in_process import Answer, Request

HI = {"role": "user", "content": "hi"}
FRONT = {"type": "object", "properties": {}}


@dataclass
class World:
    """A server, and what was sent to it."""

    app: Any
    runtime: AgentRuntime
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    async def post(self, path: str, body: Any, **headers: str) -> Answer:
        request = Request(self.app, "POST", path, body=body, headers=headers)
        await asyncio.wait_for(request.task, 20)
        assert request.answer.status < 300, (path, request.answer.status, request.answer.body)
        return request.answer

    async def waiting(self) -> tuple[str, str]:
        """The run that waits, and its call."""
        (run,) = [it for it in await self.runtime.list_runs() if it.status == "waiting"]
        (ticket,) = await self.runtime.store.list_run_tickets(run.thread_id, run.run_id)
        return run.run_id, ticket.call_id


Way = Callable[[World, str], Awaitable[None]]
WAYS: dict[str, tuple[str, Way]] = {}
"""By name: which agent it is for, and how the text is sent."""


def way(name: str, agent: str = "a") -> Callable[[Way], Way]:
    def named(send: Way) -> Way:
        WAYS[name] = (agent, send)
        return send

    return named


def simple(name: str, path: str, body: Callable[[str], Any]) -> None:
    """A way of one request; what comes after the text in it is harmless."""

    async def send(world: World, text: str) -> None:
        await world.post(path, body(text))

    WAYS[name] = ("a", send)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


# The native API.

for _role in ("user", "system"):
    simple(
        f"native {_role}",
        "/v1/runs",
        lambda text, role=_role: {
            "agentId": "a",
            "messages": [{"role": role, "content": text}, HI, HI],
        },
    )

for _name, _blocks in {
    "blocks": lambda text: [{"type": "text", "text": "x"}, {"type": "text", "text": text}],
    "title": lambda text: [
        {
            "type": "document",
            "title": text,
            "source": {"type": "url", "url": "https://example.com/a.pdf"},
        }
    ],
    "address": lambda text: [
        {"type": "image", "source": {"type": "url", "url": f"https://example.com/{text}.png"}}
    ],
    "text file": lambda text: [
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "text/plain", "data": encoded(text)},
        }
    ],
}.items():
    simple(
        f"native {_name}",
        "/v1/runs",
        lambda text, blocks=_blocks: {
            "agentId": "a",
            "messages": [{"role": "user", "content": blocks(text)}, HI],
        },
    )


@way("native mailbox")
async def _mailbox(world: World, text: str) -> None:
    await world.post("/v1/runs", {"agentId": "a", "threadId": "t", "messages": [HI]})
    answer = await world.post("/v1/threads/t/mailbox", {"payload": {"deep": [{"er": text}]}})
    await world.runtime.wait(answer.json["run_id"], timeout_ms=20_000)


@way("native queue")
async def _queue(world: World, text: str) -> None:
    await world.post("/v1/runs", {"agentId": "a", "threadId": "t", "messages": [HI]})
    messages = [{"role": "system", "content": text}, HI]
    body = {"agentId": "a", "messages": messages, "mode": "queue"}
    answer = await world.post("/v1/threads/t/messages", body)
    await world.runtime.wait(answer.json["run_id"], timeout_ms=20_000)


@way("native steer", "holding")
async def _steer(world: World, text: str) -> None:
    body = {"agentId": "holding", "threadId": "t", "messages": [HI]}
    running = asyncio.create_task(world.post("/v1/runs", body))
    await asyncio.wait_for(world.entered.wait(), 20)
    messages = [{"role": "user", "content": text}, HI]
    await world.post("/v1/threads/t/messages", {"messages": messages, "mode": "steer"})
    world.opened.set()
    await running


async def _begin(world: World, agent: str) -> tuple[str, str]:
    await world.post("/v1/runs", {"agentId": agent, "threadId": "t", "messages": [HI]})
    return await world.waiting()


for _name, _agent, _form in (
    ("result", "asking", lambda text: {"action": "resume", "payload": {"a": [text]}}),
    ("result key", "asking", lambda text: {"action": "resume", "payload": {text: 1}}),
    ("told", "telling", lambda text: {"action": "resume", "payload": text}),
    ("refusal", "asking", lambda text: {"action": "cancel", "reason": text}),
    ("edited", "editing", lambda text: {"action": "resume", "arguments": {"what": text}}),
):

    @way(f"native decision: {_name}", _agent)
    async def _decide(world: World, text: str, agent: str = _agent, form: Any = _form) -> None:
        run_id, call_id = await _begin(world, agent)
        body = {**form(text), "toolCallId": call_id}
        await world.post(f"/v1/runs/{run_id}/decision", body)
        await world.runtime.wait(run_id, timeout_ms=20_000)


# AG-UI.


def _ag_ui(*messages: Any, **more: Any) -> Any:
    told = [{"id": f"m{place}", **it} for place, it in enumerate(messages)]
    return {"threadId": "t", "runId": "r", "messages": told, **more}


_AG_UI = "/v1/ag-ui/agents/a/runs"
for _role in ("user", "system", "developer"):
    simple(
        f"ag-ui {_role}",
        _AG_UI,
        lambda text, role=_role: _ag_ui({"role": role, "content": text}, HI),
    )
for _name, _more in {
    "context": lambda text: {"context": [{"description": "d", "value": text}]},
    "context name": lambda text: {"context": [{"description": text, "value": "v"}]},
    "state": lambda text: {"state": {"deep": [{"er": text}]}},
    "state key": lambda text: {"state": {text: 1}},
    "tool description": lambda text: {
        "tools": [{"name": "front", "description": text, "parameters": FRONT}]
    },
    "tool schema": lambda text: {
        "tools": [
            {
                "name": "front",
                "description": "d",
                "parameters": {
                    "type": "object",
                    "properties": {"x": {"type": "string", "description": text}},
                },
            }
        ]
    },
}.items():
    simple(f"ag-ui {_name}", _AG_UI, lambda text, more=_more: _ag_ui(HI, **more(text)))
simple(
    "ag-ui part",
    _AG_UI,
    lambda text: _ag_ui({"role": "user", "content": [{"type": "text", "text": text}]}, HI),
)


@way("ag-ui tool result", "fronting")
async def _ag_ui_result(world: World, text: str) -> None:
    path, tools = "/v1/ag-ui/agents/fronting/runs", [{"name": "front", "description": "d"}]
    await world.post(path, _ag_ui(HI, tools=tools))
    _, call_id = await world.waiting()
    answer = {"role": "tool", "toolCallId": call_id, "content": text}
    await world.post(path, {**_ag_ui(HI, answer, tools=tools), "runId": "r2"})


@way("ag-ui tool error", "fronting")
async def _ag_ui_error(world: World, text: str) -> None:
    path, tools = "/v1/ag-ui/agents/fronting/runs", [{"name": "front", "description": "d"}]
    await world.post(path, _ag_ui(HI, tools=tools))
    _, call_id = await world.waiting()
    answer = {"role": "tool", "toolCallId": call_id, "content": "x", "error": text}
    await world.post(path, {**_ag_ui(HI, answer, tools=tools), "runId": "r2"})


# The AI SDK.


def _ui(role: str, *parts: Any, id_: str = "m") -> Any:
    return {"id": id_, "role": role, "parts": list(parts)}


def _said(text: str) -> Any:
    return {"type": "text", "text": text}


_AI_SDK = "/v1/ai-sdk/agents/a/runs"
_THEN = _ui("user", _said("hi"), id_="n")
for _role in ("user", "system"):
    simple(
        f"ai-sdk {_role}",
        _AI_SDK,
        lambda text, role=_role: {"threadId": "t", "messages": [_ui(role, _said(text)), _THEN]},
    )
simple(
    "ai-sdk state",
    _AI_SDK,
    lambda text: {"threadId": "t", "messages": [_THEN], "state": {"a": {"b": text}}},
)
simple(
    "ai-sdk file name",
    _AI_SDK,
    lambda text: {
        "threadId": "t",
        "messages": [
            _ui(
                "user",
                {
                    "type": "file",
                    "url": "https://example.com/a.pdf",
                    "mediaType": "application/pdf",
                    "filename": text,
                },
            ),
            _THEN,
        ],
    },
)
simple(
    "ai-sdk text file",
    _AI_SDK,
    lambda text: {
        "threadId": "t",
        "messages": [
            _ui(
                "user",
                {
                    "type": "file",
                    "mediaType": "text/plain",
                    "url": f"data:text/plain;base64,{encoded(text)}",
                },
            ),
            _THEN,
        ],
    },
)
simple(
    "ai-sdk tool",
    _AI_SDK,
    lambda text: {
        "threadId": "t",
        "messages": [_THEN],
        "tools": [{"name": "front", "description": text, "parameters": FRONT}],
    },
)

for _name, _part in {
    "result": lambda text: {"state": "output-available", "output": {"a": text}},
    "error": lambda text: {"state": "output-error", "errorText": text},
}.items():

    @way(f"ai-sdk tool {_name}", "fronting")
    async def _ui_result(world: World, text: str, part: Any = _part) -> None:
        path, tools = "/v1/ai-sdk/agents/fronting/runs", [{"name": "front"}]
        await world.post(path, {"threadId": "t", "messages": [_THEN], "tools": tools})
        _, call_id = await world.waiting()
        answer = {"type": "tool-front", "toolCallId": call_id, **part(text)}
        messages = [_THEN, _ui("assistant", answer, id_="o")]
        await world.post(path, {"threadId": "t", "messages": messages, "tools": tools})


# OpenAI.

_CHAT, _RESPONSES = "/v1/chat/completions", "/v1/responses"
_ANSWERED = {"role": "assistant", "content": "ok"}
for _role in ("user", "system", "developer", "assistant"):
    simple(
        f"chat {_role}",
        _CHAT,
        lambda text, role=_role: {"model": "a", "messages": [{"role": role, "content": text}, HI]},
    )
    simple(
        f"chat {_role} in a history",
        _CHAT,
        lambda text, role=_role: {
            "model": "a",
            "messages": [HI, {"role": role, "content": text}, _ANSWERED, HI],
        },
    )
    simple(
        f"responses {_role}",
        _RESPONSES,
        lambda text, role=_role: {
            "model": "a",
            "input": [HI, {"role": role, "content": text}, _ANSWERED, HI],
        },
    )
simple(
    "responses instructions",
    _RESPONSES,
    lambda text: {"model": "a", "instructions": text, "input": "hi"},
)
simple("responses input", _RESPONSES, lambda text: {"model": "a", "input": text})


def _called(arguments: Any, output: str) -> Any:
    call = {"type": "function_call", "call_id": "c", "name": "x"}
    return [
        HI,
        {**call, "arguments": json.dumps(arguments)},
        {"type": "function_call_output", "call_id": "c", "output": output},
        {"role": "assistant", "content": "ok"},
        HI,
    ]


simple(
    "responses arguments in a history",
    _RESPONSES,
    lambda text: {"model": "a", "input": _called({"q": text}, "fine")},
)
simple(
    "responses result in a history",
    _RESPONSES,
    lambda text: {"model": "a", "input": _called({}, text)},
)
simple(
    "chat result in a history",
    _CHAT,
    lambda text: {
        "model": "a",
        "messages": [
            HI,
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c", "type": "function", "function": {"name": "x", "arguments": "{}"}}
                ],
            },
            {"role": "tool", "tool_call_id": "c", "content": text},
            _ANSWERED,
            HI,
        ],
    },
)
simple(
    "responses tool",
    _RESPONSES,
    lambda text: {
        "model": "a",
        "input": "hi",
        "tools": [{"type": "function", "name": "f", "description": text, "parameters": FRONT}],
    },
)


def _form(text: str) -> Any:
    field = {"type": "string", "description": text}
    return {"name": "n", "schema": {"type": "object", "properties": {"a": field}}}


@way("responses form of the answer", "formed")
async def _response_form(world: World, text: str) -> None:
    form = {"format": {"type": "json_schema", **_form(text)}}
    await world.post(_RESPONSES, {"model": "formed", "input": "hi", "text": form})


@way("chat form of the answer", "formed")
async def _chat_form(world: World, text: str) -> None:
    form = {"type": "json_schema", "json_schema": _form(text)}
    await world.post(_CHAT, {"model": "formed", "messages": [HI], "response_format": form})


@way("responses tool result", "fronting")
async def _output(world: World, text: str) -> None:
    tools = [{"type": "function", "name": "front", "parameters": FRONT}]
    ask = {"model": "fronting", "tools": tools}
    asked = (await world.post(_RESPONSES, {**ask, "input": "hi"})).json
    (call,) = [it for it in asked["output"] if it["type"] == "function_call"]
    answer = {"type": "function_call_output", "call_id": call["call_id"], "output": text}
    await world.post(
        _RESPONSES, {**ask, "input": [answer, HI], "previous_response_id": asked["id"]}
    )


# A2A.


def _a2a(*parts: Any, **more: Any) -> Any:
    return {"message": {"messageId": "m", "role": "ROLE_USER", "parts": list(parts), **more}}


for _name, _part in {
    "text": lambda text: {"text": text},
    "data": lambda text: {"data": {"a": [{"b": text}]}},
    "file name": lambda text: {
        "url": "https://example.com/x.pdf",
        "filename": text,
        "mediaType": "application/pdf",
    },
    "raw text": lambda text: {"raw": encoded(text), "mediaType": "text/plain"},
}.items():
    simple(
        f"a2a {_name}",
        "/v1/a2a/a/message:send",
        lambda text, part=_part: _a2a(part(text), {"text": "hi"}),
    )


@way("a2a answer", "asking")
async def _a2a_answer(world: World, text: str) -> None:
    path = "/v1/a2a/asking/message:send"
    asked = (await world.post(path, _a2a({"text": "hi"}))).json
    task = asked["task"]["id"]
    answer = {"data": {"result": {"a": text}}}
    await world.post(path, _a2a(answer, taskId=task, messageId="m2"))


# MCP.


async def _mcp(world: World, **params: Any) -> Any:
    era, prefix = "2026-07-28", "io.modelcontextprotocol/"
    told = {f"{prefix}protocolVersion": era, f"{prefix}clientCapabilities": {"elicitation": {}}}
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {**params, "_meta": told},
    }
    answer = await world.post(
        "/v1/mcp",
        body,
        **{
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            "mcp-protocol-version": era,
            "mcp-method": "tools/call",
            "mcp-name": params["name"],
        },
    )
    data = [line[6:] for line in answer.body.decode().splitlines() if line.startswith("data: ")]
    return json.loads(data[-1] if data else answer.body)["result"]


@way("mcp message")
async def _mcp_message(world: World, text: str) -> None:
    await _mcp(world, name="a", arguments={"message": text})


@way("mcp answer", "form")
async def _mcp_answer(world: World, text: str) -> None:
    arguments = {"message": "hi"}
    asked = await _mcp(world, name="form", arguments=arguments)
    (name,) = asked["inputRequests"]
    answers = {name: {"action": "accept", "content": {"name": text}}}
    more = {"requestState": asked["requestState"], "inputResponses": answers}
    await _mcp(world, name="form", arguments=arguments, **more)
