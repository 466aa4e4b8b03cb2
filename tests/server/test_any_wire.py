"""Start on one wire and in one process; follow, answer and stop on another, in another."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from typer.testing import CliRunner

from awaken import (
    Access,
    Agent,
    AgentRuntime,
    Cancelled,
    MailboxConfig,
    RunStatus,
    ToolContext,
    tool,
)
from awaken.cli.main import app as command_line
from awaken.messages import Role
from awaken.server import ServerConfig, TokenSpec
from awaken.testing import Chunks, ScriptedModel, ToolCalls
from awaken.tools import ResumeMode

from .serving import Frame, Gate, frames_of, serving

THREAD = "thread-1"
QUICK = MailboxConfig(poll_ms=20, lease_ms=20_000, renew_ms=200)
Session = aiohttp.ClientSession


@tool(effect="none")
async def ask(ctx: ToolContext) -> Any:
    """Ask."""
    return ctx.suspend("sure?", mode=ResumeMode.USE_DECISION_AS_TOOL_RESULT)


@asynccontextmanager
async def two_servers(
    folder: Path, script: list[Any], tools: list[Any]
) -> AsyncIterator[tuple[str, str, AgentRuntime]]:
    """Two servers that share nothing but a file; only the first executes runs."""
    store = f"sqlite:///{folder}/shared.db"

    def agent() -> Agent:
        return Agent("a", model=ScriptedModel(script), tools=tools)

    first = AgentRuntime([agent()], store=store, mailbox=QUICK)
    second = AgentRuntime([agent()], store=store, mailbox=QUICK, has_worker=False)
    async with serving(first) as here, serving(second) as there:
        yield here, there, second


def native_start() -> tuple[str, Any]:
    return "/v1/runs", {
        "agentId": "a",
        "threadId": THREAD,
        "messages": [{"role": "user", "content": "go"}],
    }


def ai_sdk_start() -> tuple[str, Any]:
    message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "go"}]}
    return "/v1/ai-sdk/agents/a/runs", {"threadId": THREAD, "messages": [message]}


def ag_ui_start() -> tuple[str, Any]:
    body = {"threadId": THREAD, "messages": [{"id": "m1", "role": "user", "content": "go"}]}
    return "/v1/ag-ui/agents/a/runs", body


def a2a_start() -> tuple[str, Any]:
    message = {
        "messageId": "m1",
        "contextId": THREAD,
        "role": "ROLE_USER",
        "parts": [{"text": "go"}],
    }
    return "/v1/a2a/a/message:stream", {"message": message}


def responses_start() -> tuple[str, Any]:
    body = {"model": "a", "input": "go", "stream": True, "conversation": THREAD}
    return "/v1/responses", body


STARTS: dict[str, Callable[[], tuple[str, Any]]] = {
    "native": native_start,
    "ai-sdk": ai_sdk_start,
    "ag-ui": ag_ui_start,
    "a2a": a2a_start,
    "responses": responses_start,
}
ATTACHMENTS: dict[str, Callable[[str], str]] = {
    "native": lambda run_id: f"/v1/runs/{run_id}/events/stream",
    "ai-sdk": lambda _: f"/v1/ai-sdk/threads/{THREAD}/stream",
    "ag-ui": lambda _: f"/v1/ag-ui/threads/{THREAD}/stream",
    "a2a": lambda run_id: f"/v1/a2a/a/tasks/{run_id}:subscribe",
    "responses": lambda run_id: f"/v1/responses/resp_{run_id}?stream=true",
}


async def begun(session: Session, url: str, wire: str, until: asyncio.Event) -> list[Frame]:
    """Start a run, wait for something, then cut the connection; what had come until then."""
    path, body = STARTS[wire]()
    async with session.post(url + path, json=body) as reply:
        assert reply.status == 200, await reply.text()
        await until.wait()
        text = (await reply.content.readany()).decode()
    return list(frames_of(unnamed(text)))


def unnamed(text: str) -> str:
    """Whole frames without the names of events."""
    whole = text[: text.rindex("\n\n") + 2] if "\n\n" in text else ""
    return "\n".join(line for line in whole.split("\n") if not line.startswith("event: "))


def ids(wire: list[Frame]) -> list[int]:
    return [frame.id for frame in wire if frame.id is not None]


async def the_run(runtime: AgentRuntime) -> str:
    return (await runtime.list_runs(THREAD))[0].run_id


@pytest.mark.parametrize("second", ATTACHMENTS)
@pytest.mark.parametrize("first", STARTS)
def test_a_run_goes_on_without_its_client_and_is_read_to_its_end_elsewhere(
    first: str, second: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        gate = Gate()
        script = [ToolCalls([("wait", {})]), "All done."]
        async with (
            two_servers(tmp_path, script, [gate.tool()]) as (here, there, runtime),
            aiohttp.ClientSession() as session,
        ):
            had = await begun(session, here, first, gate.entered)
            run_id = await the_run(runtime)
            headers = {"Last-Event-ID": str(ids(had)[-1])} if ids(had) else {}
            path = ATTACHMENTS[second](run_id)
            async with session.get(there + path, headers=headers) as reply:
                assert reply.status == 200, await reply.text()
                gate.opened.set()
                got = list(frames_of(unnamed(await reply.text())))
            assert ids(had) + ids(got) == sorted({*ids(had), *ids(got)})
            assert "All done." in json.dumps([frame.data for frame in got])
            assert (await runtime.get_run(run_id)).status is RunStatus.DONE

    asyncio.run(scenario())


async def native_stop(session: Session, url: str, run_id: str) -> int:
    return await _posted(session, f"{url}/v1/runs/{run_id}/cancel")


async def ai_sdk_stop(session: Session, url: str, run_id: str) -> int:
    return await _posted(session, f"{url}/v1/ai-sdk/threads/{THREAD}/cancel")


async def ag_ui_stop(session: Session, url: str, run_id: str) -> int:
    return await _posted(session, f"{url}/v1/ag-ui/threads/{THREAD}/cancel")


async def a2a_stop(session: Session, url: str, run_id: str) -> int:
    return await _posted(session, f"{url}/v1/a2a/a/tasks/{run_id}:cancel")


async def responses_stop(session: Session, url: str, run_id: str) -> int:
    return await _posted(session, f"{url}/v1/responses/resp_{run_id}/cancel")


async def _posted(session: Session, url: str) -> int:
    async with session.post(url, json={}) as reply:
        return reply.status


STOPS: dict[str, Callable[[Session, str, str], Awaitable[int]]] = {
    "native": native_stop,
    "ai-sdk": ai_sdk_stop,
    "ag-ui": ag_ui_stop,
    "a2a": a2a_stop,
    "responses": responses_stop,
}


class Watched(ScriptedModel):
    """A model that streams slowly and tells how far it got."""

    def __init__(self) -> None:
        super().__init__([Chunks([f"word{n} " for n in range(1000)], delay_ms=10)])
        self.pieces = 0
        self.flowing = asyncio.Event()

    async def stream(self, request: Any) -> Any:
        async for event in super().stream(request):
            self.pieces += 1
            if self.pieces >= 5:
                self.flowing.set()
            yield event


@pytest.mark.parametrize("wire", [*STOPS, "command line"])
def test_a_stop_on_any_wire_is_the_end_and_keeps_what_was_said(wire: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        store = f"sqlite:///{tmp_path}/shared.db"
        model = Watched()
        first = AgentRuntime([Agent("a", model=model)], store=store, mailbox=QUICK)
        second = AgentRuntime(
            [Agent("a", model=ScriptedModel([]))], store=store, mailbox=QUICK, has_worker=False
        )
        async with (
            serving(first) as here,
            serving(second) as there,
            aiohttp.ClientSession() as session,
        ):
            # The client that started it goes away, which stops nothing.
            await begun(session, here, "native", model.flowing)
            run_id = await the_run(second)
            before = model.pieces
            while model.pieces < before + 3:
                await asyncio.sleep(0.01)
            if wire == "command line":
                arguments = ["cancel", run_id, "--store", store]
                told = await asyncio.to_thread(CliRunner().invoke, command_line, arguments)
                assert told.exit_code == 0, told.output
            else:
                assert await STOPS[wire](session, there, run_id) in (200, 202)
            result = await second.wait(run_id, timeout_ms=20_000)
            assert isinstance(result.termination, Cancelled)
            stopped_at = model.pieces
            await asyncio.sleep(0.1)
            assert model.pieces == stopped_at < 1000
            messages = [record.message for record in await second.messages(THREAD)]
            assert messages[-1].role is Role.ASSISTANT
            assert messages[-1].text.startswith("word0 word1 ")

    asyncio.run(scenario())


async def native_answer(session: Session, url: str, ticket: Any) -> None:
    body = {"toolCallId": ticket.call_id, "action": "resume", "payload": "yes"}
    async with session.post(f"{url}/v1/threads/{THREAD}/decision", json=body) as reply:
        assert reply.status == 202, await reply.text()


async def ai_sdk_answer(session: Session, url: str, ticket: Any) -> None:
    part = {
        "type": "tool-ask",
        "toolCallId": ticket.call_id,
        "state": "output-available",
        "input": {},
        "output": "yes",
    }
    body = {"messages": [{"id": ticket.run_id, "role": "assistant", "parts": [part]}]}
    url = f"{url}/v1/ai-sdk/threads/{THREAD}/runs"
    async with session.post(url, json=body) as reply:
        assert reply.status == 200, await reply.text()
        await reply.read()


async def ag_ui_answer(session: Session, url: str, ticket: Any) -> None:
    resume = [{"interruptId": ticket.ticket_id, "status": "resolved", "payload": "yes"}]
    body = {"threadId": THREAD, "messages": [], "resume": resume}
    async with session.post(f"{url}/v1/ag-ui/run", json=body) as reply:
        assert reply.status == 200, await reply.text()
        await reply.read()


async def a2a_answer(session: Session, url: str, ticket: Any) -> None:
    message = {
        "messageId": "m2",
        "taskId": ticket.run_id,
        "contextId": THREAD,
        "role": "ROLE_USER",
        "parts": [{"text": "yes"}],
    }
    async with session.post(f"{url}/v1/a2a/a/message:send", json={"message": message}) as reply:
        assert reply.status == 200, await reply.text()


async def command_line_answer(session: Session, url: str, ticket: Any, store: str) -> None:
    arguments = ["decide", ticket.ticket_id, "--result", '"yes"', "--store", store]
    told = await asyncio.to_thread(CliRunner().invoke, command_line, arguments)
    assert told.exit_code == 0, told.output


def _asking(request: Any) -> Any:
    is_answered = any(message.role is Role.TOOL for message in request.messages)
    return "Thanks." if is_answered else ToolCalls([("ask", {})])


ANSWERS: dict[str, Callable[[Session, str, Any], Awaitable[None]]] = {
    "native": native_answer,
    "ai-sdk": ai_sdk_answer,
    "ag-ui": ag_ui_answer,
    "a2a": a2a_answer,
}


@pytest.mark.parametrize("second", [*ANSWERS, "command line"])
@pytest.mark.parametrize("first", STARTS)
def test_a_question_is_answered_on_another_wire_in_another_process(
    first: str, second: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        # Whichever process goes on with it, its model answers by what it is told.
        script = [_asking] * 3
        async with (
            two_servers(tmp_path, script, [ask]) as (here, there, runtime),
            aiohttp.ClientSession() as session,
        ):
            path, body = STARTS[first]()
            async with session.post(here + path, json=body) as reply:
                assert reply.status == 200, await reply.text()
                await reply.read()
            (ticket,) = await runtime.tickets(THREAD)
            if second == "command line":
                store = f"sqlite:///{tmp_path}/shared.db"
                await command_line_answer(session, there, ticket, store)
            else:
                await ANSWERS[second](session, there, ticket)
            result = await runtime.wait(ticket.run_id, timeout_ms=20_000)
            assert result.text == "Thanks."
            answers = [it.message for it in await runtime.messages(THREAD)]
            assert [it.text for it in answers if it.role is Role.TOOL] == ['"yes"']

    asyncio.run(scenario())


@tool(effect="none")
async def permit(ctx: ToolContext) -> Any:
    """Ask for permission."""
    return (
        "done"
        if ctx.resume is not None
        else ctx.suspend("may I?", mode=ResumeMode.REPLAY_TOOL_CALL)
    )


@pytest.mark.parametrize("wire", ["ai-sdk", "a2a"])
@pytest.mark.parametrize(("asks", "status"), [(ask, 200), (permit, 403)], ids=["result", "right"])
def test_whoever_invokes_gives_results_but_no_permission(wire: str, asks: Any, status: int) -> None:
    async def scenario() -> None:
        script = [ToolCalls([(asks.descriptor.id, {})]), "Thanks."]
        runtime = AgentRuntime([Agent("a", model=ScriptedModel(script), tools=[asks])])
        caller = TokenSpec(id="caller", access=frozenset({Access.INVOKE, Access.READ}), token="t0")
        headers = {"authorization": "Bearer t0"}
        async with (
            serving(runtime, ServerConfig(tokens=(caller,))) as url,
            aiohttp.ClientSession(headers=headers) as session,
        ):
            path, body = native_start()
            async with session.post(url + path, json=body) as reply:
                assert reply.status == 200, await reply.text()
                await reply.read()
            (ticket,) = await runtime.tickets(THREAD)
            answering = ANSWERS[wire](session, url, ticket)
            if status == 200:
                await answering
                assert (await runtime.wait(ticket.run_id, timeout_ms=5_000)).text == "Thanks."
            else:
                with pytest.raises(AssertionError, match=r"'decide'|nothing_new"):
                    await answering
                assert len(await runtime.tickets(THREAD)) == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("wire", ["ai-sdk", "ag-ui"])
def test_a_message_that_is_sent_again_with_the_second_of_two_answers_is_stored_once(
    wire: str,
) -> None:
    async def scenario() -> None:
        script = [ToolCalls([("ask", {}), ("ask", {})]), "Thanks."]
        runtime = AgentRuntime([Agent("a", model=ScriptedModel(script), tools=[ask])])
        async with serving(runtime) as url, aiohttp.ClientSession() as session:
            path, body = STARTS[wire]()
            async with session.post(url + path, json=body) as reply:
                await reply.read()
            for ticket in await runtime.tickets(THREAD):
                path, body = RESENT[wire](ticket)
                async with session.post(url + path, json=body) as reply:
                    assert reply.status == 200, await reply.text()
                    await reply.read()
            result = await runtime.wait(ticket.run_id, timeout_ms=5_000)
            assert (result.status, result.text) == (RunStatus.DONE, "Thanks.")
            said = [it.message for it in await runtime.messages(THREAD)]
            assert [it.text for it in said if it.role is Role.USER] == ["go", "and this"]

    asyncio.run(scenario())


def _ai_sdk_resent(ticket: Any) -> tuple[str, Any]:
    part = {"type": "tool-ask", "toolCallId": ticket.call_id, "state": "output-available"}
    answer = {"id": ticket.run_id, "role": "assistant", "parts": [{**part, "output": "yes"}]}
    new = {"id": "m2", "role": "user", "parts": [{"type": "text", "text": "and this"}]}
    path, body = ai_sdk_start()
    return path, {**body, "messages": [*body["messages"], answer, new]}


def _ag_ui_resent(ticket: Any) -> tuple[str, Any]:
    path, body = ag_ui_start()
    new = {"id": "m2", "role": "user", "content": "and this"}
    resume = [{"interruptId": ticket.ticket_id, "status": "resolved", "payload": "yes"}]
    return path, {**body, "messages": [*body["messages"], new], "resume": resume}


RESENT: dict[str, Callable[[Any], tuple[str, Any]]] = {
    "ai-sdk": _ai_sdk_resent,
    "ag-ui": _ag_ui_resent,
}


@pytest.mark.parametrize("scope", [Access.READ, Access.INVOKE, Access.DECIDE, Access.ADMIN])
@pytest.mark.parametrize("way", ["REST", "JSON-RPC"])
def test_both_ways_into_a2a_ask_for_the_same_scope(way: str, scope: Access) -> None:
    async def scenario() -> None:
        runtime = AgentRuntime([Agent("a", model=ScriptedModel(["Hi."]))])
        caller = TokenSpec(id="caller", access=frozenset({scope}), token="t0")
        async with (
            serving(runtime, ServerConfig(tokens=(caller,))) as url,
            aiohttp.ClientSession(headers={"authorization": "Bearer t0"}) as session,
        ):
            run = await runtime.run("a", "hi", thread_id=THREAD)
            if way == "REST":
                async with session.get(f"{url}/v1/a2a/tasks/{run.run_id}") as reply:
                    text = await reply.text()
            else:
                asked = {"jsonrpc": "2.0", "id": 1, "method": "GetTask"}
                body = {**asked, "params": {"id": run.run_id}}
                async with session.post(f"{url}/v1/a2a", json=body) as reply:
                    text = await reply.text()
            may_read = scope in (Access.READ, Access.ADMIN)
            assert ("TASK_STATE_COMPLETED" in text) is may_read, text
            assert ("'read'" in text) is not may_read, text

    asyncio.run(scenario())


def test_readers_that_come_and_go_leave_nothing_behind() -> None:
    async def scenario() -> None:
        gate = Gate()
        model = ScriptedModel([ToolCalls([("wait", {})]), "Done."])
        runtime = AgentRuntime([Agent("a", model=model, tools=[gate.tool()])])
        async with serving(runtime) as url, aiohttp.ClientSession() as session:
            await begun(session, url, "native", gate.entered)
            path = ATTACHMENTS["native"](await the_run(runtime))
            following, engine = runtime._services.streams, runtime._engine
            before = len(asyncio.all_tasks())
            for _ in range(300):
                async with session.get(url + path) as reply:
                    await reply.content.readany()
            active = engine.active.of_thread(THREAD)
            assert active is not None
            assert active.run is not None
            async with asyncio.timeout(10):
                while (
                    active.run.feed.readers or following.readers or THREAD in engine.active.watchers
                ):
                    await asyncio.sleep(0.01)
                while len(asyncio.all_tasks()) > before + 2:
                    await asyncio.sleep(0.01)
            gate.opened.set()
            assert (await runtime.wait(active.run_id, timeout_ms=5_000)).text == "Done."

    asyncio.run(scenario())
