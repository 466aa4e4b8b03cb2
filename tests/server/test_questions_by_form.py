"""A question with a schema is a form on every wire; what is filled in reaches the tool as data."""

import asyncio
import json
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, ToolContext, tool
from awaken.messages import Role
from awaken.protocols.acp.sessions import Sessions
from awaken.server import ServerApp
from awaken.testing import ScriptedModel, ToolCalls
from awaken.tools import Ticket

from .deciding_world import META, server_config
from .in_process import Answer, Request, bearer
from .mcp_world import MODERN

SCHEMA = {
    "type": "object",
    "properties": {"size": {"type": "string", "enum": ["small", "large"]}},
    "required": ["size"],
}
GIVEN = {"size": "large"}
HEADERS = {**bearer("all"), "content-type": "application/json"}


def asking() -> AgentRuntime:
    @tool(effect="none")
    async def choose(ctx: ToolContext) -> Any:
        """Choose."""
        if ctx.resume is None:
            return ctx.suspend("Which size?", response_schema=SCHEMA)
        return f"told {json.dumps(ctx.resume.result)}"

    script = [ToolCalls([("choose", {}, "c1")]), "done"]
    return AgentRuntime([Agent("a", model=ScriptedModel(script, cycle=True), tools=[choose])])


async def sent(app: ServerApp, path: str, body: Any, **headers: str) -> Answer:
    """The whole answer, streams included."""
    request = Request(app, "POST", path, body=body, headers={**HEADERS, **headers})
    await asyncio.wait_for(request.task, 10)
    return request.answer


def start(wire: str) -> tuple[str, Any]:
    said = {"id": "m", "role": "user", "content": "go"}
    parts = {"id": "m", "role": "user", "parts": [{"type": "text", "text": "go"}]}
    message = {"messageId": "m", "role": "ROLE_USER", "contextId": "t", "parts": [{"text": "go"}]}
    return {
        "native": ("/v1/runs", {"agentId": "a", "threadId": "t", "messages": [said]}),
        "ag-ui": ("/v1/ag-ui/run", {"agentId": "a", "threadId": "t", "messages": [said]}),
        "ai-sdk": ("/v1/ai-sdk/chat", {"agentId": "a", "id": "t", "messages": [parts]}),
        "a2a": ("/v1/a2a/a/message:send", {"message": message}),
        "responses": ("/v1/responses", {"model": "a", "input": "go", "conversation": "t"}),
        "chat": (
            "/v1/chat/completions",
            {"model": "a", "messages": [{"role": "user", "content": "go"}]},
        ),
    }[wire]


def answer(wire: str, ticket: Ticket) -> tuple[str, Any]:
    call_id, run_id, thread_id = ticket.call_id, ticket.run_id, ticket.thread_id
    part = {"type": "tool-choose", "toolCallId": call_id, "state": "output-available"}
    filled = {"id": "a", "role": "assistant", "parts": [{**part, "output": GIVEN}]}
    message = {"messageId": "n", "role": "ROLE_USER", "taskId": run_id, "parts": [{"data": GIVEN}]}
    public, text = f"{call_id}~{run_id}", json.dumps(GIVEN)
    output = {"type": "function_call_output", "call_id": public, "output": text}
    entry = {"interruptId": ticket.ticket_id, "payload": GIVEN}
    decided = {"ticketId": ticket.ticket_id, "action": "resume", "payload": GIVEN}
    return {
        "native": (f"/v1/runs/{run_id}/decision", decided),
        "ag-ui": ("/v1/ag-ui/run", {"threadId": thread_id, "messages": [], "resume": [entry]}),
        "ai-sdk": (f"/v1/ai-sdk/threads/{thread_id}/runs", {"messages": [filled]}),
        "a2a": ("/v1/a2a/a/message:send", {"message": message}),
        "responses": ("/v1/responses", {"model": "a", "input": [output], "conversation": "t"}),
        "chat": (
            "/v1/chat/completions",
            {"model": "a", "messages": [{"role": "tool", "tool_call_id": public, "content": text}]},
        ),
    }[wire]


async def told(runtime: AgentRuntime, ticket: Ticket) -> str:
    await runtime.wait(ticket.run_id, timeout_ms=10_000)
    messages = [it.message for it in await runtime.messages(ticket.thread_id)]
    return next(it.text for it in messages if it.role is Role.TOOL)


@pytest.mark.parametrize("wire", ["native", "ag-ui", "ai-sdk", "a2a", "responses", "chat"])
def test_a_form_is_shown_and_what_is_filled_in_reaches_the_tool(wire: str) -> None:
    async def scenario() -> None:
        async with asking() as runtime:
            app = runtime.asgi(server_config())
            path, body = start(wire)
            shown = await sent(app, path, body)
            assert shown.status == 200, shown.body
            assert b"enum" in shown.body, "the form is not shown"
            assert b"large" in shown.body
            assert b"Which size?" in shown.body
            (ticket,) = await runtime.tickets()
            path, body = answer(wire, ticket)
            given = await sent(app, path, body)
            assert given.status in (200, 202), given.body
            assert await told(runtime, ticket) == f"told {json.dumps(GIVEN)}"

    asyncio.run(scenario())


def test_history_of_the_ai_sdk_has_the_form_while_it_is_open() -> None:
    async def scenario() -> None:
        async with asking() as runtime:
            app = runtime.asgi(server_config())
            await sent(app, *start("ai-sdk"))
            request = Request(app, "GET", "/v1/ai-sdk/threads/t/messages", headers=HEADERS)
            await asyncio.wait_for(request.task, 10)
            parts = request.answer.json["messages"][-1]["parts"]
            (form,) = [it["data"] for it in parts if it["type"] == "data-question"]
            (ticket,) = await runtime.tickets()
            assert (form["toolCallId"], form["ticketId"]) == ("c1", ticket.ticket_id)
            assert form["responseSchema"] == SCHEMA

    asyncio.run(scenario())


def test_mcp_shows_the_form_itself() -> None:
    async def scenario() -> None:
        async with asking() as runtime:
            app = runtime.asgi(server_config())
            await app.open()
            await runtime.run("a", "go", thread_id="t")
            (ticket,) = await runtime.tickets()
            said = {"action": "accept", "content": GIVEN}
            meta = {
                f"{META}protocolVersion": MODERN,
                f"{META}clientCapabilities": {"elicitation": {"form": {}}},
            }
            params = {"name": "a", "requestState": f"{ticket.run_id}@0", "_meta": meta}
            known = {
                "accept": "application/json, text/event-stream", "mcp-protocol-version": MODERN,
                "mcp-method": "tools/call", "mcp-name": "a",
            }  # fmt: skip
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            shown = await sent(app, "/v1/mcp", body, **known)
            assert b"requestedSchema" in shown.body
            assert b"large" in shown.body
            params["inputResponses"] = {ticket.ticket_id: said}
            await sent(app, "/v1/mcp", body, **known)
            assert await told(runtime, ticket) == f"told {json.dumps(GIVEN)}"

    asyncio.run(scenario())


class Editor:
    """Chooses an option by its name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked: list[Any] = []

    async def send_request(self, _: str, params: Any) -> Any:
        self.asked.append([it["name"] for it in params["options"]])
        (option,) = [it["optionId"] for it in params["options"] if it["name"] == self.name]
        return {"outcome": {"outcome": "selected", "optionId": option}}

    async def send_notification(self, *_: Any) -> None:
        """Nothing to do."""


@pytest.mark.parametrize(
    ("name", "said"),
    [("large", f"told {json.dumps(GIVEN)}"), ("Decline", "The call was declined.")],
)
def test_acp_shows_a_form_that_is_one_choice(name: str, said: str) -> None:
    async def scenario() -> None:
        async with asking() as runtime:
            await runtime.run("a", "go", thread_id="t")
            (ticket,) = await runtime.tickets()
            sessions = Sessions(runtime.view("local"), "a", "0")
            editor = sessions.client = Editor(name)
            await sessions._go_on(ticket.thread_id, ticket.run_id, asyncio.Future())
            assert editor.asked == [["small", "large", "Decline"]]
            assert await told(runtime, ticket) == said

    asyncio.run(scenario())
