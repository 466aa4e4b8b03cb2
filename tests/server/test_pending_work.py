"""A run that waits for work that only a plugin knows of: every wire ends when it has answered."""

import asyncio
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, Phase, Plugin, PluginRegistrar, StateCommand
from awaken.plugins import PENDING_WORK, StepStartContext
from awaken.testing import ScriptedModel

from .a2a_world import sending
from .in_process import Request

MESSAGE = {"role": "user", "content": "send it"}
AI_SDK = {"id": "m", "role": "user", "parts": [{"type": "text", "text": "send it"}]}
AG_UI = {"tools": [], "context": [], "forwardedProps": {}, "state": {}}


class Courier(Plugin):
    """Has something under way from the first step on."""

    name = "courier"

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.hook(Phase.STEP_START, self.hold)

    async def hold(self, _: StepStartContext) -> StateCommand:
        return StateCommand().update(PENDING_WORK, True)


WIRES: dict[str, tuple[str, Any]] = {
    "native": ("/v1/runs", {"agentId": "a", "threadId": "t", "messages": [MESSAGE]}),
    "ai-sdk": ("/v1/ai-sdk/chat", {"id": "t", "messages": [AI_SDK], "agentId": "a"}),
    "ag-ui": (
        "/v1/ag-ui/agents/a/runs",
        {"threadId": "t", "runId": "r", "messages": [{"id": "m", **MESSAGE}], **AG_UI},
    ),
    "a2a": ("/v1/a2a/a/message:send", sending("send it")),
    "responses": ("/v1/responses", {"model": "a", "input": "send it"}),
    "streamed responses": ("/v1/responses", {"model": "a", "input": "send it", "stream": True}),
    "chat": ("/v1/chat/completions", {"model": "a", "messages": [MESSAGE]}),
}


@pytest.mark.parametrize("wire", WIRES)
def test_a_client_with_one_connection_has_its_answer_and_can_send_the_next_message(
    wire: str,
) -> None:
    async def scenario() -> None:
        model = ScriptedModel(["It is on its way."], cycle=True)
        async with AgentRuntime([Agent("a", model=model, plugins=[Courier()])]) as runtime:
            path, body = WIRES[wire]
            request = Request(runtime.asgi(), "POST", path, body=body)
            await asyncio.wait_for(request.task, 20)
            answer = request.answer
            assert answer is not None
            assert (answer.status, "on its way" in answer.body.decode()) == (200, True)
            (run,) = await runtime.list_runs()
            assert run.awaits_message

    asyncio.run(scenario())
