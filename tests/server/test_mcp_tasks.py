"""Calls that take long are tasks for clients that know tasks (SEP-2663)."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from awaken import Access, Agent, AgentRuntime, Cancelled, RedactedString
from awaken.server import ServerConfig, TokenSpec
from awaken.testing import ScriptedModel

from .mcp_world import LEGACY, MODERN, Held, RawClient, answering, asking
from .serving import serving

TASKS = "io.modelcontextprotocol/tasks"
ABLE = {
    "_meta": {
        "io.modelcontextprotocol/clientCapabilities": {
            "elicitation": {},
            "extensions": {TASKS: {}},
        }
    }
}


@asynccontextmanager
async def raw(agent: Agent) -> AsyncIterator[tuple[RawClient, AgentRuntime]]:
    runtime = AgentRuntime([agent])
    async with serving(runtime) as url, RawClient(url, MODERN) as client:
        yield client, runtime


async def ask(client: RawClient, method: str, **params: Any) -> Any:
    """The result, or the error's code."""
    _, _, answer = await client.post(method, {**ABLE, **params})
    return answer["result"] if "result" in answer else answer["error"]["code"]


async def long_call(client: RawClient, name: str, held: Held) -> Any:
    call = ask(client, "tools/call", name=name, arguments={"message": "hi"})
    task = await call
    assert held.is_asked.is_set()
    return task


def test_a_call_that_takes_long_is_a_task_and_the_task_has_the_result() -> None:
    async def scenario() -> None:
        held = Held("At last.")
        agent = Agent("helper", model=ScriptedModel([held]))
        async with raw(agent) as (client, runtime):
            task = await long_call(client, "helper", held)
            assert (task["resultType"], task["status"], task["ttlMs"]) == ("task", "working", None)
            assert "result" not in task
            task_id = task["taskId"]
            assert (await ask(client, "tasks/get", taskId=task_id))["status"] == "working"
            held.may_answer.set()
            await runtime.wait(task_id, timeout_ms=10_000)
            done = await ask(client, "tasks/get", taskId=task_id)
            assert (done["status"], done["resultType"]) == ("completed", "complete")
            assert done["result"]["content"][0]["text"] == "At last."
            assert done["result"]["structuredContent"]["run_id"] == task_id
            ack = await ask(client, "tasks/cancel", taskId=task_id)
            assert ack == {"resultType": "complete", "_meta": done["_meta"]}

    asyncio.run(scenario())


def test_runs_of_other_doors_are_tasks_only_for_those_who_may_read() -> None:
    async def scenario() -> None:
        runtime = AgentRuntime([answering("Secret.")])
        machine, reader = frozenset({Access.INVOKE}), frozenset({Access.INVOKE, Access.READ})
        tokens = (
            TokenSpec(id="m", token=RedactedString("m"), access=machine),
            TokenSpec(id="r", token=RedactedString("r"), access=reader),
        )
        begun = await runtime.run("helper", "hi")
        async with (
            serving(runtime, ServerConfig(tokens=tokens)) as url,
            RawClient(url, MODERN, authorization="Bearer m") as one,
            RawClient(url, MODERN, authorization="Bearer r") as two,
        ):
            call = {"name": "helper", "arguments": {"message": "hi"}}
            state = {"requestState": f"{begun.run_id}@0"}
            for method in ("tasks/get", "tasks/update", "tasks/cancel"):
                assert await ask(one, method, taskId=begun.run_id) == -32602
            assert await ask(one, "tools/call", **call, **state) == -32602
            for told in (
                (await ask(two, "tasks/get", taskId=begun.run_id))["result"],
                await ask(two, "tools/call", **call, **state),
            ):
                assert told["content"][0]["text"] == "Secret."
            own = (await ask(one, "tools/call", **call))["structuredContent"]["run_id"]
            assert (await ask(one, "tasks/get", taskId=own))["status"] == "completed"

    asyncio.run(scenario())


def test_a_call_that_is_answered_soon_is_no_task() -> None:
    async def scenario() -> None:
        async with raw(answering("Hi.")) as (client, _):
            done = await ask(client, "tools/call", name="helper", arguments={"message": "hi"})
            assert (done["resultType"], done["content"][0]["text"]) == ("complete", "Hi.")

    asyncio.run(scenario())


def test_a_cancelled_task_is_a_cancelled_run() -> None:
    async def scenario() -> None:
        held = Held()
        async with raw(Agent("helper", model=ScriptedModel([held]))) as (client, runtime):
            task = await long_call(client, "helper", held)
            await ask(client, "tasks/cancel", taskId=task["taskId"])
            ended = await runtime.wait(task["taskId"], timeout_ms=10_000)
            assert ended.termination == Cancelled(cause="user")
            done = await ask(client, "tasks/get", taskId=task["taskId"])
            assert (done["status"], "result" in done) == ("cancelled", False)

    asyncio.run(scenario())


def test_a_task_asks_and_goes_on_when_everything_is_answered() -> None:
    async def scenario() -> None:
        schema = {"type": "string"}
        async with raw(asking(schema, times=2)) as (client, runtime):
            asked = await ask(client, "tools/call", name="asker", arguments={"message": "hi"})
            task_id = asked["requestState"].partition("@")[0]
            first, second = (await ask(client, "tasks/get", taskId=task_id))["inputRequests"]
            for name, left in ((first, [second]), ("unknown", [second])):
                answers = {name: {"action": "accept", "content": {"answer": "yes"}}}
                await ask(client, "tasks/update", taskId=task_id, inputResponses=answers)
                task = await ask(client, "tasks/get", taskId=task_id)
                assert (task["status"], list(task["inputRequests"])) == ("input_required", left)
            answers = {second: {"action": "accept", "content": {"answer": "no"}}}
            await ask(client, "tasks/update", taskId=task_id, inputResponses=answers)
            await runtime.wait(task_id, timeout_ms=10_000)
            done = await ask(client, "tasks/get", taskId=task_id)
            told = done["result"]["content"][0]["text"]
            assert sorted(re.findall(r"told (\w+)", told)) == ["no", "yes"]

    asyncio.run(scenario())


def test_a_task_that_others_must_decide_on_just_works_on() -> None:
    async def scenario() -> None:
        unable = {"io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS: {}}}}
        async with raw(asking()) as (client, _):
            call = {"name": "asker", "arguments": {"message": "hi"}, "_meta": unable}
            _, _, answer = await client.post("tools/call", call)
            given = answer["result"]["structuredContent"]
            named = {"taskId": given["run_id"], "_meta": unable}
            _, _, task = await client.post("tasks/get", named)
            assert task["result"]["status"] == "working"
            assert given["ticket_ids"][0] in task["result"]["statusMessage"]

    asyncio.run(scenario())


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
def test_tasks_are_for_clients_that_declare_them_and_name_them(method: str) -> None:
    async def scenario() -> None:
        async with raw(answering("Hi.")) as (client, _):
            result = await ask(client, "tools/call", name="helper", arguments={"message": "hi"})
            run_id = result["structuredContent"]["run_id"]
            more = {"inputResponses": {}} if method == "tasks/update" else {}
            assert isinstance(await ask(client, method, taskId=run_id, **more), dict)
            assert await ask(client, method, taskId="nobody's", **more) == -32602
            status, _, refused = await client.post(method, {"taskId": run_id, **more})
            assert (status, refused["error"]["code"]) == (400, -32021)
            required = refused["error"]["data"]["requiredCapabilities"]
            assert required == {"extensions": {TASKS: {}}}
            other = {"mcp-name": "another"}
            _, _, refused = await client.post(method, {**ABLE, "taskId": run_id, **more}, **other)
            assert refused["error"]["code"] == -32020

    asyncio.run(scenario())


def test_methods_that_tasks_no_longer_have_are_unknown() -> None:
    async def scenario() -> None:
        async with raw(answering("Hi.")) as (client, _):
            for method in ("tasks/result", "tasks/list"):
                assert await ask(client, method, taskId="x") == -32601

    asyncio.run(scenario())


def test_clients_with_a_session_have_no_tasks() -> None:
    async def scenario() -> None:
        runtime = AgentRuntime([answering("Hi.")])
        async with serving(runtime) as url, RawClient(url, LEGACY) as client:
            _, _, refused = await client.post("tasks/get", {"taskId": "x"})
            assert refused["error"]["code"] == -32601

    asyncio.run(scenario())
