"""A decision for always is one on every wire: the same call is not asked about again."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from acp import text_block
from mcp_types import ElicitResult
from typer.testing import CliRunner

from awaken import Agent, AgentRuntime, MailboxConfig, tool
from awaken.cli.main import app as command_line
from awaken.extensions.permission import PermissionPlugin
from awaken.messages import Role
from awaken.models import InferenceRequest
from awaken.testing import ScriptedModel, ToolCalls

from .acp_world import Editor, editing
from .mcp_world import MODERN, connected
from .serving import serving

THREAD = "thread-1"
RULES = {"default_behavior": "ask"}
Session = aiohttp.ClientSession


class World:
    """An agent that calls one tool in every run, and what ran of it."""

    def __init__(self) -> None:
        self.ran = 0

    def agent(self, rules: Any = RULES) -> Agent:
        @tool(effect="none")
        async def erase() -> str:
            """Erase."""
            self.ran += 1
            return "erased"

        return Agent(
            "a",
            model=ScriptedModel([_obey], cycle=True),
            tools=[erase],
            plugins=[PermissionPlugin()],
            config={"permission": rules},
        )


def _obey(request: InferenceRequest) -> Any:
    is_new = request.messages[-1].role is Role.USER
    return ToolCalls([("erase", {})]) if is_new else "done"


async def native(session: Session, url: str, ticket: Any, *, allow: bool) -> Any:
    action = "resume" if allow else "cancel"
    body = {"toolCallId": ticket.call_id, "action": action, "remember": {"scope": "thread"}}
    async with session.post(f"{url}/v1/threads/{THREAD}/decision", json=body) as reply:
        return reply.status, await reply.text()


async def ai_sdk(session: Session, url: str, ticket: Any, *, allow: bool) -> Any:
    part = {
        "type": "tool-erase",
        "toolCallId": ticket.call_id,
        "state": "approval-responded",
        "input": {},
        "approval": {"id": ticket.ticket_id, "approved": allow},
    }
    message = {"id": ticket.run_id, "role": "assistant", "parts": [part]}
    body = {"messages": [message], "remember": "thread"}
    async with session.post(f"{url}/v1/ai-sdk/threads/{THREAD}/runs", json=body) as reply:
        return reply.status, await reply.text()


async def ag_ui(session: Session, url: str, ticket: Any, *, allow: bool) -> Any:
    payload = {"approved": allow, "remember": {"scope": "thread"}}
    resume = [{"interruptId": ticket.ticket_id, "status": "resolved", "payload": payload}]
    body = {"threadId": THREAD, "messages": [], "resume": resume}
    async with session.post(f"{url}/v1/ag-ui/run", json=body) as reply:
        return reply.status, await reply.text()


async def a2a(session: Session, url: str, ticket: Any, *, allow: bool) -> Any:
    message = {
        "messageId": f"m-{allow}",
        "taskId": ticket.run_id,
        "contextId": THREAD,
        "role": "ROLE_USER",
        "parts": [{"data": {"approved": allow, "remember": "thread"}}],
    }
    async with session.post(f"{url}/v1/a2a/a/message:send", json={"message": message}) as reply:
        return reply.status, await reply.text()


async def responses(session: Session, url: str, ticket: Any, *, allow: bool) -> Any:
    answer = {
        "type": "mcp_approval_response",
        "approval_request_id": f"{ticket.ticket_id}~{ticket.run_id}",
        "approve": allow,
        "remember": "thread",
    }
    body = {"model": "a", "input": [answer], "previous_response_id": f"resp_{ticket.run_id}"}
    async with session.post(f"{url}/v1/responses", json=body) as reply:
        return reply.status, await reply.text()


WIRES: dict[str, Callable[..., Awaitable[tuple[int, str]]]] = {
    "native": native,
    "ai-sdk": ai_sdk,
    "ag-ui": ag_ui,
    "a2a": a2a,
    "responses": responses,
}


async def _asked(runtime: AgentRuntime) -> Any:
    result = await runtime.run("a", "go", thread_id=THREAD)
    assert result.is_waiting
    return result.tickets[0]


async def _is_settled(runtime: AgentRuntime, world: World, run_id: str, *, allow: bool) -> None:
    """Twice more the same call, and nobody is asked."""
    await runtime.wait(run_id, timeout_ms=10_000)
    for _ in range(2):
        assert not (await runtime.run("a", "go", thread_id=THREAD)).is_waiting
    assert world.ran == (3 if allow else 0)
    # What was answered on one thread says nothing about another one.
    assert (await runtime.run("a", "go", thread_id="other")).is_waiting


@pytest.mark.parametrize("allow", [True, False], ids=["allow", "deny"])
@pytest.mark.parametrize("wire", WIRES)
def test_a_decision_for_always_is_remembered_from_every_wire(wire: str, allow: bool) -> None:
    async def scenario() -> None:
        world = World()
        runtime = AgentRuntime([world.agent()])
        async with serving(runtime) as url, aiohttp.ClientSession() as session:
            ticket = await _asked(runtime)
            status, text = await WIRES[wire](session, url, ticket, allow=allow)
            assert status in (200, 202), text
            await _is_settled(runtime, world, ticket.run_id, allow=allow)

    asyncio.run(scenario())


@pytest.mark.parametrize("wire", WIRES)
def test_a_scope_that_does_not_exist_decides_nothing(
    wire: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        world = World()
        runtime = AgentRuntime([world.agent()])
        async with serving(runtime) as url, aiohttp.ClientSession() as session:
            ticket = await _asked(runtime)
            post = session.post

            def wrong(url: str, json: Any) -> Any:
                return post(url, data=_dumped(json).replace(b'"thread"', b'"ever"'), headers=_JSON)

            monkeypatch.setattr(session, "post", wrong, raising=False)
            status, text = await WIRES[wire](session, url, ticket, allow=True)
            assert 400 <= status < 500, text
            assert len(await runtime.tickets(THREAD)) == 1
            assert world.ran == 0

    asyncio.run(scenario())


_JSON = {"content-type": "application/json"}


def _dumped(body: Any) -> bytes:
    return msgspec.json.encode(body)


@pytest.mark.parametrize("allow", [True, False], ids=["allow", "deny"])
def test_a_decision_for_always_is_remembered_from_the_command_line(
    allow: bool, tmp_path: Path
) -> None:
    async def scenario() -> None:
        world, store = World(), f"sqlite:///{tmp_path}/a.db"
        config = MailboxConfig(poll_ms=20, lease_ms=20_000, renew_ms=200)
        async with AgentRuntime([world.agent()], store=store, mailbox=config) as runtime:
            ticket = await _asked(runtime)
            how = "--resume" if allow else "--cancel"
            arguments = ["decide", ticket.ticket_id, how, "--remember", "thread", "--store", store]
            told = await asyncio.to_thread(CliRunner().invoke, command_line, arguments)
            assert told.exit_code == 0, told.output
            await _is_settled(runtime, world, ticket.run_id, allow=allow)

    asyncio.run(scenario())


@pytest.mark.parametrize("allow", [True, False], ids=["allow", "deny"])
def test_a_decision_for_always_is_remembered_from_an_editor(allow: bool) -> None:
    async def scenario() -> None:
        world = World()
        editor = Editor(*["allow_always" if allow else "reject_always"] * 2)
        runtime = AgentRuntime([world.agent()])
        async with editing(runtime, editor) as client:
            await client.initialize(1)
            session = await client.new_session("/", [])
            thread_id = session.session_id
            for number in range(4):
                if number == 3:
                    assert await runtime.remembered.forget_all("thread", thread_id=thread_id)
                await client.prompt(session_id=thread_id, prompt=[text_block("go")])
            runs = await runtime.list_runs()
            assert [it.waiting for it in runs] == [None] * 4
            later = [await runtime.store.list_run_tickets(it.thread_id, it.run_id) for it in runs]
        assert [len(it) for it in later] == [1, 0, 0, 1], "what is forgotten is asked about again"
        assert world.ran == (4 if allow else 0)

    asyncio.run(scenario())


def test_a_decision_for_always_is_remembered_from_a_form() -> None:
    async def scenario() -> None:
        world, asked = World(), list[Any]()

        async def approve(_: Any, params: Any) -> ElicitResult:
            asked.append(params)
            content = {"decision": "approve", "remember": "project"}
            return ElicitResult(action="accept", content=content)

        runtime = AgentRuntime([world.agent({"rules": [_PROJECT]})])
        async with (
            serving(runtime) as url,
            connected(url, MODERN, elicitation_callback=approve) as client,
        ):
            for _ in range(3):
                await client.call_tool("a", {"message": "go"})
        assert len(asked) == 1
        assert world.ran == 3

    asyncio.run(scenario())


_PROJECT = {"tool": "erase", "behavior": "ask", "scope": "project"}
