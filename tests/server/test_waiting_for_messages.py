"""Runs at other backends that wait for a message: every wire asks, and a message continues them."""

import asyncio
from typing import Any

import pytest
from acp import text_block

from awaken.backends import BackendRunStatus
from awaken.stores import WaitingReason

from .a2a_world import Caller, states
from .acp_world import Editor, editing
from .ag_ui_oracle import Client as AgUiClient
from .waiting_world import ASKED, GO, kinds, remote, text_in, texts, world


@pytest.mark.parametrize(
    ("status", "state", "reason"),
    [
        (BackendRunStatus.WAITING_INPUT, "INPUT_REQUIRED", WaitingReason.USER_INPUT),
        (BackendRunStatus.WAITING_AUTH, "AUTH_REQUIRED", WaitingReason.TOOL_PERMISSION),
    ],
)
def test_an_a2a_task_asks_what_the_other_side_asks(
    status: BackendRunStatus, state: str, reason: WaitingReason
) -> None:
    async def scenario() -> None:
        backend, runtime = remote(status)
        async with world(runtime) as it:
            caller = Caller(it.url, it.session)
            frames = await caller.stream("go", contextId="t")
            assert states(frames) == ["SUBMITTED", "WORKING", state]
            ended = frames[-1].data["statusUpdate"]
            assert ended["status"]["message"]["parts"] == [{"text": "Which city?"}]
            run = await it.rested()
            assert (run.waiting and run.waiting.reason) is reason
            _, shown = await caller.rest("GET", f"/tasks/{run.run_id}")
            assert states([{"task": shown}]) == [state]
            assert shown["status"]["message"]["parts"] == [{"text": "Which city?"}]
            done = await caller.send("Paris", taskId=run.run_id)
            assert (done["id"], states([{"task": done}])) == (run.run_id, ["COMPLETED"])
            assert backend.told == ["go", "Paris"]

    asyncio.run(scenario())


def test_an_mcp_task_asks_what_the_other_side_asks() -> None:
    async def scenario() -> None:
        backend, runtime = remote()
        async with world(runtime) as it:
            call = await it.mcp("tools/call", name="default", arguments=ASKED)
            assert call["content"][0]["text"] == "Which city?"
            assert call["structuredContent"]["status"] == "waiting"
            run_id = call["structuredContent"]["run_id"]
            task = await it.mcp("tasks/get", taskId=run_id)
            assert task["status"] == "input_required"
            ((name, form),) = task["inputRequests"].items()
            assert form["params"]["message"] == "Which city?"
            for refused in ({"action": "decline"}, {"action": "accept", "content": {}}, "?"):
                await it.mcp("tasks/update", taskId=run_id, inputResponses={name: refused})
            assert (await it.mcp("tasks/get", taskId=run_id))["status"] == "input_required"
            answer = {"action": "accept", "content": {"message": "Paris"}}
            await it.mcp("tasks/update", taskId=run_id, inputResponses={name: answer})
            await it.runtime.wait(run_id, timeout_ms=10_000)
            done = await it.mcp("tasks/get", taskId=run_id)
            assert done["result"]["content"][0]["text"] == "It rains there."
            assert backend.told == ["go", "Paris"]

    asyncio.run(scenario())


def test_an_mcp_call_on_the_thread_continues_the_run() -> None:
    async def scenario() -> None:
        _, runtime = remote()
        async with world(runtime) as it:
            asked = await it.mcp("tools/call", name="default", arguments=ASKED)
            known = asked["structuredContent"]
            given = {"message": "Paris", "thread_id": known["thread_id"]}
            done = await it.mcp("tools/call", name="default", arguments=given)
            assert done["content"][0]["text"] == "It rains there."
            assert done["structuredContent"]["run_id"] == known["run_id"]

    asyncio.run(scenario())


@pytest.mark.parametrize("is_resume", [True, False])
def test_an_ag_ui_client_is_asked_and_answers_with_a_message_or_the_interrupt(
    is_resume: bool,
) -> None:
    async def scenario() -> None:
        backend, runtime = remote()
        async with world(runtime) as it:
            body = {"threadId": "t", "runId": "r", "messages": [{"id": "u", **GO}]}
            frames = await it.post("/v1/ag-ui/run", body)
            AgUiClient().read(frames)
            assert frames[-1].data["outcome"]["type"] == "interrupt"
            (asked,) = frames[-1].data["outcome"]["interrupts"]
            told = (asked["id"], asked["reason"], asked["message"])
            assert told == ("r", "input_required", "Which city?")
            answer = {"resume": [{"interruptId": "r", "status": "resolved", "payload": "Paris"}]}
            said = {"messages": [{"id": "v", "role": "user", "content": "Paris"}]}
            more = {**body, "runId": "s", **(answer if is_resume else said)}
            frames = await it.post("/v1/ag-ui/run", more)
            AgUiClient().read(frames)
            assert (frames[0].data["runId"], kinds(frames)[-1]) == ("r", "RUN_FINISHED")
            assert text_in(frames, "TEXT_MESSAGE_CONTENT") == "It rains there."
            assert backend.told == ["go", "Paris"]

    asyncio.run(scenario())


def test_an_ai_sdk_client_is_asked_and_answers_with_a_message() -> None:
    async def scenario() -> None:
        backend, runtime = remote()
        async with world(runtime) as it:
            frames = await it.post("/v1/ai-sdk/chat", _chat("u", "go"))
            assert text_in(frames, "text-delta") == "Which city?"
            end = frames[-1].data
            assert (end["type"], end["finishReason"]) == ("finish", "other")
            assert end["messageMetadata"]["waitsFor"] == "input_required"
            run_id = end["messageMetadata"]["runId"]
            async with it.session.get(f"{it.url}/v1/ai-sdk/threads/t/stream") as reply:
                assert reply.status == 204
            frames = await it.post("/v1/ai-sdk/chat", _chat("v", "Paris"))
            assert text_in(frames, "text-delta") == "It rains there."
            assert frames[-1].data["messageMetadata"]["runId"] == run_id
            assert frames[-1].data["finishReason"] == "stop"
            assert backend.told == ["go", "Paris"]

    asyncio.run(scenario())


def _chat(message_id: str, text: str) -> Any:
    said = {"id": message_id, "role": "user", "parts": [{"type": "text", "text": text}]}
    return {"id": "t", "messages": [said], "trigger": "submit-message"}


def test_a_response_asks_and_the_next_one_answers() -> None:
    async def scenario() -> None:
        _, runtime = remote()
        async with world(runtime) as it:
            body = {"model": "default", "input": "go"}
            asked = await it.ask("/v1/responses", body)
            assert (asked["status"], texts(asked)) == ("completed", ["Which city?"])
            more = {"model": "default", "input": "Paris", "previous_response_id": asked["id"]}
            nothing = {**more, "input": []}
            async with it.session.post(f"{it.url}/v1/responses", json=nothing) as reply:
                assert reply.status == 400, await reply.text()
            assert texts(await it.ask("/v1/responses", more)) == ["It rains there."]

    asyncio.run(scenario())


def test_a_turn_of_an_editor_ends_with_the_question_and_the_next_prompt_answers() -> None:
    async def scenario() -> None:
        editor = Editor()
        backend, runtime = remote()
        async with asyncio.timeout(30), editing(runtime, editor) as client:
            session = (await client.new_session(cwd="/", mcp_servers=[])).session_id
            for text in ("go", "Paris"):
                done = await client.prompt(session_id=session, prompt=[text_block(text)])
                assert done.stop_reason == "end_turn"
            assert editor.text() == "Which city?It rains there."
            assert backend.told == ["go", "Paris"]

    asyncio.run(scenario())
