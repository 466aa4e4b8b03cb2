"""What one request may bring, on every wire: too much is refused by a number, before it is done."""

import asyncio
import json
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, Message, RunRequest, user
from awaken.errors import LimitExceeded
from awaken.messages import Role, Text
from awaken.protocols.a2a import wire
from awaken.protocols.a2a.routes import _NAMES, _camel
from awaken.services import request_limits
from awaken.services.request_limits import check_history, check_request
from awaken.testing import ScriptedModel, ToolCalls
from awaken.tools import ToolDescriptor

from .in_process import ask

TEXT = {"type": "text", "text": "x"}
BOMB = {
    "properties": {"a": {"$ref": "#/$defs/d0"}},
    "$defs": {
        **{f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(30)},
        "d30": {"type": "integer"},
    },
}


def many(item: Any, count: int) -> list[Any]:
    return [item] * count


def openai_call(arguments: str) -> dict[str, Any]:
    return {
        "role": "assistant",
        "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": arguments}}],
    }


def ui(**fields: Any) -> dict[str, Any]:
    return {"agentId": "a", "messages": [{"id": "m", "role": "user", "parts": [TEXT]}], **fields}


def ag_ui(**fields: Any) -> dict[str, Any]:
    return {"agentId": "a", "messages": [{"id": "m", "role": "user", "content": "x"}], **fields}


def a2a(parts: list[Any]) -> dict[str, Any]:
    return {"message": {"messageId": "m", "role": "ROLE_USER", "parts": parts}}


WIDE_SCHEMA = {"properties": {f"p{n}": {"type": "integer"} for n in range(6000)}}
REFUSED: list[tuple[str, dict[str, Any], set[int]]] = [
    ("/v1/runs", {"agent_id": "a", "messages": many({"content": "x"}, 1001)}, {413}),
    ("/v1/runs", {"agent_id": "a", "messages": [{"content": many(TEXT, 2001)}]}, {413}),
    ("/v1/runs", {"agent_id": "a", "messages": [{"content": "x" * 2_000_001}]}, {413}),
    ("/v1/threads", {"title": "x" * 70_000}, {413}),
    ("/v1/threads", {"custom": {"a": ["x" * 100] * 1000}}, {413}),
    ("/v1/ag-ui/run", ag_ui(messages=many({"role": "user", "content": "x"}, 5001)), {422}),
    ("/v1/ag-ui/run", ag_ui(messages=many({"role": "user", "content": "x"}, 1001)), {413}),
    ("/v1/ag-ui/run", ag_ui(state={"a": "x" * 1_100_000}), {413}),
    ("/v1/ag-ui/run", ag_ui(tools=many({"name": "t"}, 1001)), {422}),
    ("/v1/ag-ui/run", ag_ui(tools=[{"name": "t", "parameters": WIDE_SCHEMA}]), {413}),
    ("/v1/ag-ui/run", ag_ui(resume=many({"interruptId": "i"}, 1001)), {422}),
    ("/v1/ai-sdk/chat", ui(messages=many({"role": "user", "parts": [TEXT]}, 5001)), {422}),
    ("/v1/ai-sdk/chat", ui(messages=[{"role": "user", "parts": many(TEXT, 2001)}]), {413}),
    ("/v1/ai-sdk/chat", ui(state="x" * 1_100_000), {413}),
    ("/v1/ai-sdk/chat", ui(tools=[{"name": "t", "parameters": WIDE_SCHEMA}]), {413}),
    ("/v1/ai-sdk/chat", ui(tools={f"t{n}": {} for n in range(1001)}), {413}),
    ("/v1/a2a/message:send", a2a(many({"text": "x"}, 2001)), {400, 422}),
    (
        "/v1/chat/completions",
        {"model": "a", "messages": many({"role": "user", "content": "x"}, 6001)},
        {400},
    ),
    (
        "/v1/chat/completions",
        {"model": "a", "messages": [openai_call("[" + "{}," * 200_000 + "{}]")]},
        {413},
    ),
    (
        "/v1/chat/completions",
        {
            "model": "a",
            "messages": [*many({"role": "assistant", "content": "x"}, 5001), {"content": "x"}],
        },
        {413},
    ),
    ("/v1/responses", {"model": "a", "input": many({"content": "x"}, 6001)}, {400}),
    (
        "/v1/responses",
        {
            "model": "a",
            "input": [
                {"type": "function_call_output", "call_id": f"c~{n}", "output": "x"}
                for n in range(30)
            ],
        },
        {400},
    ),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_too_much_is_refused_by_its_number(number: int) -> None:
    path, body, statuses = REFUSED[number]

    async def scenario() -> None:
        async with AgentRuntime([Agent("a", model=ScriptedModel(["Yes."]))]) as runtime:
            answer = await ask(runtime.asgi(), "POST", path, body=body)
            assert answer.status in statuses, answer.body[:300]
            assert len(answer.body) < 2000

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/ag-ui/run", ag_ui(tools=[{"name": "t", "parameters": BOMB}])),
        ("/v1/ai-sdk/chat", ui(tools=[{"name": "t", "parameters": BOMB}])),
        (
            "/v1/responses",
            {
                "model": "a",
                "input": "x",
                "tools": [{"type": "function", "name": "t", "parameters": BOMB}],
            },
        ),
    ],
)
def test_a_call_that_a_schema_bomb_would_have_to_judge_fails_and_the_run_goes_on(
    path: str, body: dict[str, Any]
) -> None:
    async def scenario() -> None:
        model = ScriptedModel([ToolCalls([("t", {"a": "x"})]), "Done."])
        async with AgentRuntime([Agent("a", model=model)]) as runtime:
            answer = await ask(runtime.asgi(), "POST", path, body=body)
            assert answer.status == 200, answer.body
        told = json.dumps([it.text for it in model.requests[-1].messages if it.role is Role.TOOL])
        assert "too many steps" in told

    asyncio.run(scenario())


def test_what_is_counted_of_a_request() -> None:
    check_request(RunRequest(messages=(user("x"),) * 1000))
    parts = Message(role=Role.USER, content=(Text(text="x"),) * 2000)
    check_request(RunRequest(messages=(parts,)))
    half = {"properties": {f"p{n}": {"type": "integer"} for n in range(2600)}}
    tools = [ToolDescriptor(id=f"t{n}", parameters=half) for n in range(2)]
    check_request(RunRequest(frontend_tools=tuple(tools[:1])))
    for request in (
        RunRequest(messages=(parts, user("x"))),
        RunRequest(frontend_tools=tuple(tools)),
        RunRequest(messages=(user("x" * 1_500_000), user("y" * 600_000))),
    ):
        with pytest.raises(LimitExceeded):
            check_request(request)
    with pytest.raises(LimitExceeded, match="5000"):
        check_history((user("x"),) * (request_limits.HISTORY_MAX + 1))


def test_every_field_of_a2a_may_be_spelled_as_protobuf_does() -> None:
    sent = {
        "message": {
            "message_id": "m",
            "context_id": "c",
            "parts": [{"media_type": "a/b", "data": {"a_b": 1}}],
        },
        "configuration": {"task_push_notification_config": {"authentication": {"scheme": "x"}}},
        "metadata": {"c_d": 1},
    }
    assert _camel(sent) == {
        "message": {
            "messageId": "m",
            "contextId": "c",
            "parts": [{"mediaType": "a/b", "data": {"a_b": 1}}],
        },
        "configuration": {"taskPushNotificationConfig": {"authentication": {"scheme": "x"}}},
        "metadata": {"c_d": 1},
    }
    assert _camel({"_a" * 1000: 1}) == {"_a" * 1000: 1}
    assert {"history_length", "page_size", "status_timestamp_after", "return_immediately"} <= {
        *_NAMES
    }
    reached = {
        wire.SendMessage,
        wire.WireMessage,
        wire.Configuration,
        wire.PushConfig,
        wire.ListTasks,
    }
    assert reached <= {*wire.types()}
