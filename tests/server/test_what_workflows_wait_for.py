"""Every wire says what a workflow waits for; nobody is asked to decide a sleep or an event."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from typer.testing import CliRunner

from awaken import AgentRuntime, WorkflowContext, workflow
from awaken.cli.main import app as command_line

from .in_process import ask, bearer
from .mcp_world import both_eras, connected
from .serving import serving
from .test_any_wire import STARTS, THREAD
from .test_workflows_on_any_wire import said
from .test_workflows_over_http import tokens

EVENT = "waits for the event 'paid'"


@workflow(id="a")
async def waits(ctx: WorkflowContext) -> str:
    """Wait for an event."""
    return str(await ctx.wait_for("paid", int))


@workflow(id="a")
async def sleeps(ctx: WorkflowContext) -> None:
    """Sleep."""
    await ctx.sleep(days=3)


@workflow
async def asks(ctx: WorkflowContext) -> None:
    """Ask a person while it sleeps and waits."""
    await ctx.gather(ctx.approve("Pay?"), ctx.sleep(days=3), ctx.wait_for("paid"))


@pytest.mark.parametrize("flow", [waits, sleeps])
@pytest.mark.parametrize("wire", [it for it in STARTS if it != "native"])
def test_a_stream_says_what_a_workflow_waits_for(wire: str, flow: Any) -> None:
    async def story() -> None:
        async with serving(AgentRuntime([flow])) as url, aiohttp.ClientSession(url) as session:
            path, body = STARTS[wire]()
            async with session.post(path, json=said(body, "{}", 1)) as answer:
                text = await answer.text()
                assert answer.status == 200, text
            assert (EVENT if flow is waits else "sleeps until 20") in text
            for word in ("approval", "interrupts", "data-question", "AUTH_REQUIRED", "INPUT_REQ"):
                assert word not in text

    asyncio.run(story())


def test_chat_completions_and_a_task_say_what_a_workflow_waits_for() -> None:
    async def story() -> None:
        runtime = AgentRuntime([waits])
        async with serving(runtime) as url, aiohttp.ClientSession(url) as session:
            body = {"model": "a", "messages": [{"role": "user", "content": "{}"}]}
            async with session.post("/v1/chat/completions", json=body) as answer:
                content = (await answer.json())["choices"][0]["message"]["content"]
            assert content == "[The workflow waits for the event 'paid'.]"
            started = await runtime.run("a", {})
            async with session.get(f"/v1/a2a/a/tasks/{started.run_id}") as answer:
                status = (await answer.json())["status"]
            assert status["state"] == "TASK_STATE_WORKING"
            assert EVENT in status["message"]["parts"][0]["text"]

    asyncio.run(story())


@pytest.mark.parametrize("is_background", [False, True])
def test_a_response_of_a_workflow_that_waits_is_in_progress_and_has_the_result_later(
    is_background: bool,
) -> None:
    async def story() -> None:
        runtime = AgentRuntime([waits])
        async with serving(runtime) as url, aiohttp.ClientSession(url) as session:

            async def look(response_id: str) -> tuple[str, list[str]]:
                async with session.get(f"/v1/responses/{response_id}") as answer:
                    return read(await answer.json())

            def read(shown: Any) -> tuple[str, list[str]]:
                texts = [it["content"][0]["text"] for it in shown["output"] if "content" in it]
                return shown["status"], texts

            body = {"model": "a", "input": "{}", "background": is_background}
            async with session.post("/v1/responses", json=body) as answer:
                begun = await answer.json()
            parked = ("in_progress", [f"[The workflow {EVENT}.]"])
            if not is_background:
                assert read(begun) == parked
            run_id = begun["id"].removeprefix("resp_")
            async with asyncio.timeout(30):
                while await look(begun["id"]) != parked:
                    await asyncio.sleep(0.01)
                await runtime.send_event(run_id, "paid", 7)
                while (await look(begun["id"]))[0] != "completed":
                    await asyncio.sleep(0.01)
            assert await look(begun["id"]) == ("completed", ["7"])

    asyncio.run(story())


@both_eras
def test_mcp_says_what_a_workflow_waits_for(era: str) -> None:
    async def story() -> None:
        async with serving(AgentRuntime([waits])) as url, connected(url, era) as client:
            answer = await client.call_tool("a", {"message": "{}"})
            assert EVENT in answer.content[0].text
            assert "ticket_ids" not in (answer.structured_content or {})

    asyncio.run(story())


@both_eras
def test_a_workflow_is_a_tool_with_its_own_parameters(era: str) -> None:
    @workflow
    async def add(ctx: WorkflowContext, n: int, by: int = 1) -> int:
        """Add."""
        return n + by

    async def story() -> None:
        runtime = AgentRuntime([add])
        async with serving(runtime) as url, connected(url, era) as client:
            (shown,) = (await client.list_tools()).tools
            assert shown.input_schema["required"] == ["n"]
            assert shown.input_schema["properties"]["n"]["type"] == "integer"
            async with aiohttp.ClientSession(url) as session:
                agent = await (await session.get("/v1/agents/add")).json()
            assert agent["input_schema"]["required"] == ["n"]
            for given in ({"n": 4}, {"n": 4, "by": 1}, {"message": '{"n": 4}'}):
                answer = await client.call_tool("add", given)
                assert (answer.is_error, answer.content[0].text) == (False, "5")
            before = len(await runtime.list_runs())
            for wrong in ({"message": "hello"}, {"n": "four"}, {}, {"n": 4, "other": 1}):
                answer = await client.call_tool("add", wrong)
                assert answer.is_error, wrong
            # Refused before a run began.
            assert len(await runtime.list_runs()) == before

    asyncio.run(story())


def test_lists_of_tickets_have_only_what_people_decide() -> None:
    async def story() -> None:
        async with AgentRuntime([asks, sleeps]) as runtime:
            app = runtime.asgi(tokens())
            run = await runtime.run("asks", {}, thread_id=THREAD)
            asleep = await runtime.run("a", {}, thread_id="asleep")
            for path, count in (
                ("/v1/tickets", 1),
                ("/v1/tickets?limit=1", 1),
                (f"/v1/threads/{THREAD}/tickets", 1),
                (f"/v1/runs/{run.run_id}/tickets", 1),
                ("/v1/threads/asleep/tickets", 0),
                (f"/v1/runs/{asleep.run_id}/tickets", 0),
            ):
                way = f"{path}{'&' if '?' in path else '?'}total=true"
                answer = await ask(app, "GET", way, headers=bearer("all"))
                assert answer.json["total"] == count, path
                assert len(answer.json["items"]) <= count
            shown = await ask(app, "GET", "/v1/tickets", headers=bearer("all"))
            assert [it["suspension"]["message"] for it in shown.json["items"]] == ["Pay?"]

    asyncio.run(story())


def test_the_command_line_lists_only_what_people_decide(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'w.db'}"

    async def story() -> str:
        async with AgentRuntime([asks], store=url) as runtime:
            await runtime.run("asks", {})
            found = await runtime.tickets()
            return next(it.ticket_id for it in found if it.tool_name == "sleep")

    sleeping = asyncio.run(story())
    listed = CliRunner().invoke(command_line, ["tickets", "list", "--store", url])
    assert listed.exit_code == 0, listed.output
    assert "Pay?" in listed.output
    assert "sleep" not in listed.output.lower()
    assert "event" not in listed.output
    shown = CliRunner().invoke(command_line, ["tickets", "show", sleeping, "--store", url])
    assert "nobody" in shown.output
