"""Every way to decide on a ticket, over every wire, in process; and an agent that wants to act."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from awaken import Access, Agent, AgentRuntime, AwakenError, RunRequest, tool
from awaken.bootstrap.decisions import build_decision
from awaken.extensions.permission import PermissionPlugin
from awaken.extensions.permission import ask as ask_about
from awaken.protocols.acp.sessions import Sessions
from awaken.server import RateLimit, ServerApp, ServerConfig, ServerLimits
from awaken.testing import ScriptedModel, ToolCalls
from awaken.tools import Ticket
from awaken.transport.problems import to_http_error
from awaken.transport.routes import SCOPES

from .in_process import ask, bearer, config, token
from .mcp_world import MODERN

DECIDED = (200, 202)
META = "io.modelcontextprotocol/"
OFTEN = RateLimit(per_s=1e6, burst=10**6)


@dataclass
class World:
    """A server with one agent, whose tool `act` needs a permission and says that it ran."""

    app: ServerApp
    runtime: AgentRuntime
    script: list[Any]
    ran: list[str] = field(default_factory=list)

    async def asked(self, ids: Sequence[str], thread_id: str) -> dict[str, Ticket]:
        """The tickets of a step whose calls have these ids, by the calls' ids."""
        self.script.append(ToolCalls([("act", {"name": it}, it) for it in ids]))
        result = await self.runtime.run("a", "go", thread_id=thread_id)
        return {it.call_id: it for it in result.tickets}

    async def post(self, path: str, body: Any, who: str = "all", **headers: str) -> int:
        """Send a request, and wait until what it began has come to rest."""
        known = {**bearer(who), "content-type": "application/json", **headers}
        answer = await ask(self.app, "POST", path, body=body, headers=known)
        if answer.status == 200 and b'"error"' in answer.body[:200] and b"jsonrpc" in answer.body:
            return 400
        return answer.status


def server_config() -> ServerConfig:
    limits = ServerLimits(login_failures=OFTEN, submits=OFTEN, decisions=OFTEN)
    callers = (token("all", SCOPES), token("invoke", frozenset({Access.INVOKE, Access.READ})))
    return config(*callers, limits=limits)


@asynccontextmanager
async def deciding(*, has_rules: bool = True, **options: Any) -> AsyncIterator[World]:
    """A world with a script that tests write as they go; without rules, the tool itself asks."""
    script: list[Any] = []
    ran: list[str] = []

    @tool(effect="none", approval=not has_rules)
    async def act(name: str = "") -> str:
        """Act."""
        ran.append(name)
        return f"acted on {name}"

    async def speak(_: Any) -> Any:
        return script.pop(0) if script else "done"

    agent = Agent(
        "a",
        model=ScriptedModel([speak], cycle=True),
        tools=[act],
        plugins=[PermissionPlugin([ask_about("act")])] if has_rules else [],
    )
    async with asyncio.timeout(120), AgentRuntime([agent], **options) as runtime:
        app = runtime.asgi(server_config())
        await app.open()
        yield World(app, runtime, script, ran)


Way = Callable[[World, Ticket, Any, Sequence[Ticket]], Awaitable[int]]
"""Sends a payload as the decision on one ticket of several, and returns the status."""


def _native(name: str) -> Way:
    async def way(world: World, ticket: Ticket, payload: Any, _: Sequence[Ticket]) -> int:
        named = {"ticketId": ticket.ticket_id} if name == "ticketId" else {}
        named |= {"toolCallId": ticket.call_id} if name == "toolCallId" else {}
        body = {"action": "resume", "payload": payload, **named}
        return await world.post(f"/v1/runs/{ticket.run_id}/decision", body)

    return way


async def on_thread(world: World, ticket: Ticket, payload: Any, _: Sequence[Ticket]) -> int:
    body = {"action": "resume", "payload": payload, "toolCallId": ticket.call_id}
    return await world.post(f"/v1/threads/{ticket.thread_id}/decision", body)


def _ai_sdk(*, has_id: bool) -> Way:
    async def way(world: World, ticket: Ticket, payload: Any, _: Sequence[Ticket]) -> int:
        approval = payload if isinstance(payload, dict) else {"approved": payload}
        approval = {**approval, "id": ticket.ticket_id} if has_id else approval
        part = {
            "type": f"tool-{ticket.tool_name}", "toolCallId": ticket.call_id, "input": {},
            "state": "approval-responded", "approval": approval,
        }  # fmt: skip
        message = {"id": "m", "role": "assistant", "parts": [part]}
        return await world.post(
            f"/v1/ai-sdk/threads/{ticket.thread_id}/runs", {"messages": [message]}
        )

    return way


def _ag_ui(name: str) -> Way:
    async def way(world: World, ticket: Ticket, payload: Any, _: Sequence[Ticket]) -> int:
        resume = [{"interruptId": getattr(ticket, name), "status": "resolved", "payload": payload}]
        body = {"threadId": ticket.thread_id, "messages": [], "resume": resume}
        return await world.post("/v1/ag-ui/run", body)

    return way


def _a2a(name: str, *, is_rpc: bool = False) -> Way:
    async def way(world: World, ticket: Ticket, payload: Any, _: Sequence[Ticket]) -> int:
        data = payload if isinstance(payload, dict) else {"approved": payload}
        id_ = ticket.ticket_id if name == "ticketId" else ticket.call_id
        message = {
            "messageId": "m", "taskId": ticket.run_id, "contextId": ticket.thread_id,
            "role": "ROLE_USER", "parts": [{"data": {**data, name: id_}}],
        }  # fmt: skip
        if not is_rpc:
            return await world.post("/v1/a2a/a/message:send", {"message": message})
        params = {"message": message}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
        return await world.post("/v1/a2a/a", body)

    return way


async def responses(world: World, ticket: Ticket, payload: Any, tickets: Sequence[Ticket]) -> int:
    """All at once: the others are declined."""
    given = payload.get("approved") if isinstance(payload, dict) else payload
    items = [
        {
            "type": "mcp_approval_response",
            "approval_request_id": f"{it.ticket_id}~{it.run_id}",
            "approve": given if it is ticket else False,
        }
        for it in tickets
    ]
    body = {"model": "a", "input": items, "previous_response_id": f"resp_{ticket.run_id}"}
    return await world.post("/v1/responses", body)


async def mcp(world: World, ticket: Ticket, payload: Any, _: Sequence[Ticket]) -> int:
    content = {"decision": "approve" if payload is True else payload}
    if isinstance(payload, dict):
        content = {"decision": payload.get("approved")}
    answer = {"action": "accept", "content": content}
    params = {
        "name": "a",
        "requestState": f"{ticket.run_id}@0",
        "inputResponses": {ticket.ticket_id: answer},
        "_meta": {
            f"{META}protocolVersion": MODERN,
            f"{META}clientCapabilities": {"elicitation": {"form": {}}},
        },
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {
        "accept": "application/json, text/event-stream", "mcp-protocol-version": MODERN,
        "mcp-method": "tools/call", "mcp-name": "a",
    }  # fmt: skip
    return await world.post("/v1/mcp", body, **headers)


class Editor:
    """An ACP client that allows the calls of one ticket, as far as it can tell them apart."""

    def __init__(self, ticket: Ticket, option: str) -> None:
        self._shown = (ticket.call_id, ticket.arguments)
        self._option = option

    async def send_request(self, _: str, params: Any) -> Any:
        call = params["toolCall"]
        is_meant = (call["toolCallId"], call["rawInput"]) == self._shown
        option = self._option if is_meant else "opt_reject_once"
        return {"outcome": {"outcome": "selected", "optionId": option}}

    async def send_notification(self, *_: Any) -> None:
        """Nothing to do."""


async def acp(world: World, ticket: Ticket, payload: Any, _: Sequence[Ticket]) -> int:
    sessions = Sessions(world.runtime.view("local"), "a", "0")
    sessions.client = Editor(ticket, "opt_allow_once" if payload is True else str(payload))
    try:
        await sessions._go_on(ticket.thread_id, ticket.run_id, asyncio.Future())
    except AwakenError as error:
        return to_http_error(error).status
    return 200


def _python(name: str) -> Way:
    async def way(world: World, ticket: Ticket, payload: Any, _: Sequence[Ticket]) -> int:
        try:
            if name == "decide":
                await world.runtime.decide(ticket.ticket_id, result=payload)
            else:
                given = build_decision(ticket.call_id, "resume", {"result": payload}, 0)
                named = ((ticket.call_id, given),)
                await world.runtime.start(RunRequest(thread_id=ticket.thread_id, decisions=named))
        except AwakenError as error:
            return to_http_error(error).status
        return 202

    return way


WAYS: dict[str, Way] = {
    "native by ticket": _native("ticketId"),
    "native by call": _native("toolCallId"),
    "native on the thread": on_thread,
    "ai-sdk by approval": _ai_sdk(has_id=True),
    "ai-sdk by call": _ai_sdk(has_id=False),
    "ag-ui by interrupt": _ag_ui("ticket_id"),
    "ag-ui by call": _ag_ui("call_id"),
    "a2a by ticket": _a2a("ticketId"),
    "a2a by call": _a2a("callId"),
    "a2a over json-rpc": _a2a("callId", is_rpc=True),
    "openai responses": responses,
    "mcp": mcp,
    "acp": acp,
    "python": _python("decide"),
    "python by call": _python("run"),
}
