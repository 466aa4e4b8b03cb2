"""What a person says on the thread of an open workflow is the event `message`, on every wire."""

import asyncio
import json
import os
from typing import Any

import aiohttp
import pytest
from acp.helpers import text_block

from awaken import (
    Access,
    Agent,
    AgentRuntime,
    RunRequest,
    ToolContext,
    WorkflowContext,
    tool,
    workflow,
)
from awaken.contracts.workflows.steps import read_path
from awaken.errors import ThreadHasWorkflow
from awaken.messages import user
from awaken.testing import ScriptedModel

from .acp_world import Editor, editing
from .in_process import ask, bearer, config, token
from .mcp_world import both_eras, connected
from .serving import serving
from .test_any_wire import STARTS, THREAD

MINUTE_MS = 60_000


@workflow(id="a")
async def listens(ctx: WorkflowContext) -> str:
    """Wait for a message, then for an event."""
    said = await ctx.wait_for("message", str)
    await ctx.wait_for("over")
    return f"heard {said}"


def make_runtime() -> AgentRuntime:
    return AgentRuntime([listens, Agent("b", model=ScriptedModel(["I am b."], cycle=True))])


async def until_heard(runtime: AgentRuntime, run_id: str) -> None:
    """The message was taken by the run that waited, and by nothing else."""
    async with asyncio.timeout(20):
        while True:
            records = await runtime.store.list_tool_records(run_id)
            done = [it for it in records if read_path(it.call_id) == "1" and it.result is not None]
            run = await runtime.get_run(run_id)
            if done and done[0].result.data == "go" and run.status == "waiting":
                return
            assert run.status != "done", run
            await asyncio.sleep(0.01)


def make_body(wire: str, agent: str) -> tuple[str, Any]:
    path, body = STARTS[wire]()
    if wire == "ag-ui":
        body["runId"] = "the-clients-own"
    written = json.dumps(body).replace('"agentId": "a"', f'"agentId": "{agent}"')
    written = written.replace('"model": "a"', f'"model": "{agent}"')
    return path.replace("/a/", f"/{agent}/"), json.loads(written)


@pytest.mark.parametrize("wire", STARTS)
def test_a_message_is_an_event_of_the_waiting_workflow_on_every_wire(wire: str) -> None:
    async def story() -> None:
        runtime = make_runtime()
        async with serving(runtime) as url, aiohttp.ClientSession(url) as session:
            waiting = await runtime.run("a", {}, thread_id=THREAD)
            path, body = make_body(wire, "b")
            async with session.post(path, json=body) as refused:
                text = await refused.text()
                assert refused.status == 409, text
                assert "workflow" in text
            path, body = make_body(wire, "a")
            async with session.post(path, json=body) as answer:
                text = await answer.text()
                assert answer.status == 200, text
            await until_heard(runtime, waiting.run_id)
            assert [it.run_id for it in await runtime.list_runs(THREAD)] == [waiting.run_id]

    asyncio.run(story())


@pytest.mark.parametrize("mode", ["queue", "steer", "interrupt", "resume"])
def test_a_message_is_an_event_in_every_mode_of_the_mailbox(mode: str) -> None:
    async def story() -> None:
        async with make_runtime() as runtime:
            waiting = await runtime.run("a", {}, thread_id=THREAD)
            with pytest.raises(ThreadHasWorkflow):
                await runtime.submit("b", "go", thread_id=THREAD, mode=mode)
            await runtime.submit("a", "go", thread_id=THREAD, mode=mode)
            await until_heard(runtime, waiting.run_id)
            assert len(await runtime.list_runs(THREAD)) == 1

    asyncio.run(story())


@pytest.mark.parametrize("on_busy", ["queue", "interrupt"])
@pytest.mark.parametrize("way", ["run", "start", "stream"])
def test_a_message_is_an_event_in_the_process_itself(way: str, on_busy: str) -> None:
    async def story() -> None:
        async with make_runtime() as runtime:
            waiting = await runtime.run("a", {}, thread_id=THREAD)

            async def say(agent: str) -> None:
                options: Any = {"thread_id": THREAD, "on_busy": on_busy}
                if way == "run":
                    await runtime.run(agent, "go", **options)
                elif way == "start":
                    request = RunRequest(
                        agent_id=agent, messages=(user("go"),), run_id_hint="mine", **options
                    )
                    await (await runtime.start(request)).result()
                else:
                    async for _ in runtime.stream(agent, "go", **options):
                        pass

            with pytest.raises(ThreadHasWorkflow):
                await say("b")
            await say("a")
            await until_heard(runtime, waiting.run_id)
            assert len(await runtime.list_runs(THREAD)) == 1

    asyncio.run(story())


def test_a_message_is_an_event_over_chat_completions() -> None:
    async def story() -> None:
        runtime = make_runtime()
        async with serving(runtime) as url, aiohttp.ClientSession(url) as session:
            waiting = await runtime.run("a", {}, thread_id=THREAD)
            for model, status in (("b", 409), ("a", 200)):
                body = {"model": model, "messages": [{"role": "user", "content": "go"}]}
                headers = {"X-Thread-Id": THREAD}
                path = "/v1/chat/completions"
                async with session.post(path, json=body, headers=headers) as answer:
                    assert answer.status == status, await answer.text()
            await until_heard(runtime, waiting.run_id)
            assert len(await runtime.list_runs(THREAD)) == 1

    asyncio.run(story())


@both_eras
def test_a_message_is_an_event_over_mcp(era: str) -> None:
    async def story() -> None:
        runtime = make_runtime()
        async with serving(runtime) as url, connected(url, era) as client:
            waiting = await runtime.run("a", {}, thread_id=THREAD)
            refused = await client.call_tool("b", {"message": "go", "thread_id": THREAD})
            assert refused.is_error
            taken = await client.call_tool("a", {"message": "go", "thread_id": THREAD})
            assert not taken.is_error
            await until_heard(runtime, waiting.run_id)
            assert len(await runtime.list_runs(THREAD)) == 1

    asyncio.run(story())


def test_a_prompt_is_an_event_over_acp_and_the_editor_is_asked_nothing() -> None:
    async def story() -> None:
        runtime, editor = AgentRuntime([listens]), Editor()
        async with asyncio.timeout(20), editing(runtime, editor) as client:
            session = await client.new_session(cwd=os.path.abspath(os.sep), mcp_servers=[])
            for text in ("{}", "go"):
                prompt = [text_block(text)]
                await client.prompt(prompt=prompt, session_id=session.session_id)
            (run,) = await runtime.list_runs(session.session_id)
            await until_heard(runtime, run.run_id)
            assert editor.asked == []

    asyncio.run(story())


@pytest.mark.parametrize("agent", ["a", "b"])
def test_a_schedule_never_answers_in_the_run_of_a_workflow(agent: str) -> None:
    async def story() -> None:
        async with make_runtime() as runtime:
            waiting = await runtime.run("a", {}, thread_id=THREAD)
            await runtime.schedules.create(
                agent, "go", thread_id=THREAD, every_ms=MINUTE_MS, schedule_id="s"
            )
            fired = await runtime.schedules.fire("s")
            if agent == "a":
                await until_heard(runtime, waiting.run_id)
            else:
                assert (fired.outcome, fired.reason) == ("refused", "thread_has_workflow")
                assert len(await runtime.list_runs(THREAD)) == 1
            assert (await runtime.get_run(waiting.run_id)).status == "waiting"

    asyncio.run(story())


@pytest.mark.parametrize("way", ["submit", "run"])
def test_an_interrupt_does_not_cancel_a_workflow_that_executes(way: str) -> None:
    async def story() -> None:
        entered, opened = asyncio.Event(), asyncio.Event()

        @tool(effect="none")
        async def work() -> str:
            entered.set()
            await opened.wait()
            return "worked"

        @workflow(id="a", tools=[work])
        async def busy(ctx: WorkflowContext) -> str:
            worked = await ctx.call(work)
            return f"{worked}, heard {await ctx.wait_for('message', str)}"

        async with AgentRuntime([busy]) as runtime:
            begun = await runtime.start("a", {}, thread_id=THREAD)
            await entered.wait()
            if way == "submit":
                await runtime.submit("a", "go", thread_id=THREAD, mode="interrupt")
            else:
                asked = asyncio.create_task(
                    runtime.run("a", "go", thread_id=THREAD, on_busy="interrupt")
                )
                await asyncio.sleep(0)
            opened.set()
            async with asyncio.timeout(20):
                while (run := await runtime.get_run(begun.run_id)).status != "done":
                    await asyncio.sleep(0.01)
                if way == "run":
                    assert (await asked).run_id == begun.run_id
            assert run.final_output == "worked, heard go"

    asyncio.run(story())


@pytest.mark.parametrize("way", ["events", "inputs", "messages"])
@pytest.mark.parametrize("is_busy", [False, True])
def test_what_another_user_says_to_a_workflow_is_answered_for_that_user(
    way: str, *, is_busy: bool
) -> None:
    """Whichever route it comes by: what Ann's memory has is never in an answer to Bob."""
    may_go_on = asyncio.Event()

    @tool(effect="none")
    async def whose(ctx: ToolContext) -> str:
        """Say for whom the run acts."""
        return ctx.run.user_id or ""

    @tool(effect="none")
    async def work() -> str:
        """Keep the run busy."""
        await may_go_on.wait()
        return "done"

    @workflow(tools=[whose, work])
    async def chat(ctx: WorkflowContext) -> str:
        """Answer what a person says."""
        if is_busy:
            await ctx.call(work)
        await ctx.wait_for("message")
        return str(await ctx.call(whose))

    usual = frozenset({Access.READ, Access.INVOKE})
    callers = config(token("ann", usual, tenant_id="acme"), token("bob", usual, tenant_id="acme"))

    async def story() -> None:
        async with AgentRuntime([chat]) as runtime:
            app = runtime.asgi(callers)
            whose_run = {"tenant_id": "acme", "user_id": "ann"}
            begun = await runtime.start("chat", {}, thread_id="t", **whose_run)
            run_id = begun.run_id
            async with asyncio.timeout(30):
                while not is_busy and (await runtime.get_run(run_id)).status != "waiting":
                    await asyncio.sleep(0.01)
            said: Any = {"messages": [{"role": "user", "content": "Who am I?"}]}
            shown = run_id.removeprefix("@acme:")
            path = {
                "events": f"/v1/runs/{shown}/events/message",
                "inputs": f"/v1/runs/{shown}/inputs",
                "messages": "/v1/threads/t/messages",
            }[way]
            body = {"payload": "Who am I?"} if way == "events" else said
            sent = await ask(app, "POST", path, headers=bearer("bob"), body=body)
            assert sent.status in (200, 202), sent.body
            may_go_on.set()
            async with asyncio.timeout(30):
                while (run := await runtime.get_run(run_id)).status != "done":
                    await asyncio.sleep(0.01)
            assert run.final_output == "bob"

    asyncio.run(story())
