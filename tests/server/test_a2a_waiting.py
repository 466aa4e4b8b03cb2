"""A2A tasks that wait: what they ask, and how messages answer them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from a2a.types.a2a_pb2 import GetTaskRequest
from google.protobuf.json_format import MessageToDict

from awaken import Access, Agent, AgentRuntime, RedactedString, RunStatus, ToolContext, tool
from awaken.messages import Role
from awaken.protocols.a2a.states import Question, TaskState, state_of
from awaken.server import ServerConfig, TokenSpec
from awaken.stores import RunRecord
from awaken.testing import ScriptedModel, ToolCalls
from awaken.tools import ResumeMode

from .a2a_world import (
    BINDINGS,
    agents,
    artifact,
    ask,
    official,
    official_sending,
    sending,
    states,
    told,
    violations,
    world,
)

ASKS = ToolCalls([("ask", {"question": "which one?"})])
WIPES = ToolCalls([("wipe", {"disk": "sda"})])
BOTH = ToolCalls([("wipe", {"disk": "sda"}), ("ask", {"question": "which one?"})])
TWICE = ToolCalls([("wipe", {"disk": "sda"}), ("wipe", {"disk": "sdb"})])


@tool
async def choose(ctx: ToolContext) -> Any:
    """Let whoever asked choose: the answer is the result."""
    return ctx.suspend("which one?", mode=ResumeMode.USE_DECISION_AS_TOOL_RESULT)


CHOOSES = ToolCalls([("choose", {})])


async def answers(runtime: AgentRuntime, task: Any) -> str:
    """What the model was told in answer to its calls."""
    found = [it.message for it in await runtime.messages(task["contextId"])]
    return " ".join(it.text for it in found if it.role is Role.TOOL)


@pytest.mark.parametrize("binding", BINDINGS)
def test_the_official_client_answers_a_question(binding: str) -> None:
    async def scenario() -> None:
        runtime = agents(a=[ASKS, "Thanks."])
        async with (
            world(runtime) as caller,
            official(caller.url, binding, streaming=False) as client,
        ):
            (asked,) = await told(client, official_sending("hi"))
            task = asked["task"]
            assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
            text, data = task["status"]["message"]["parts"]
            assert text == {"text": "which one?"}
            (question,) = data["data"]["questions"]
            assert (question["callId"], question["toolName"]) == ("call_1", "ask")
            assert (question["kind"], question["arguments"]) == (
                "input",
                {"question": "which one?"},
            )
            (ended,) = await told(client, official_sending("the left", task_id=task["id"]))
            assert ended["task"]["id"] == task["id"]
            assert ended["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
            got = MessageToDict(await client.get_task(GetTaskRequest(id=task["id"])))
            assert got["artifacts"][0]["parts"] == [{"text": "Thanks."}]
            assert "told the left" in await answers(runtime, task)

    asyncio.run(scenario())


VERDICTS = (
    ({"text": "Approve."}, "wiped sda"),
    ({"data": {"approved": True}}, "wiped sda"),
    ({"data": {"approved": True, "callId": "{call}"}}, "wiped sda"),
    ({"text": "deny"}, None),
    ({"data": {"approved": False, "reason": "too risky"}}, "too risky"),
)


def test_a_permission_is_given_or_refused() -> None:
    async def scenario() -> None:
        runtime = agents(a=[WIPES, "Done."] * len(VERDICTS))
        async with world(runtime) as caller:
            for index, (part, result) in enumerate(VERDICTS):
                task = await caller.send(f"hi {index}")
                assert task["status"]["state"] == "TASK_STATE_AUTH_REQUIRED"
                text, data = task["status"]["message"]["parts"]
                assert text == {"text": "wipe sda?"}
                call_id = data["data"]["questions"][0]["callId"]
                named = json.loads(json.dumps(part).replace("{call}", call_id))
                ended = await caller.send("answer", taskId=task["id"], parts=[named])
                assert ended["status"]["state"] == "TASK_STATE_COMPLETED"
                said = await answers(runtime, task)
                assert ("wiped" in said) == (result == "wiped sda")
                assert result is None or result in said

    asyncio.run(scenario())


UNCLEAR = (
    (WIPES, [{"text": "maybe"}], "message.parts"),
    (WIPES, [{"data": {"approved": "maybe"}}], "message.parts[0].data"),
    (WIPES, [{"data": {"remember": "thread"}}], "message.parts[0].data.approved"),
    (WIPES, [{"text": "no"}, {"data": {"approved": True}}], "message.parts[1].data"),
    (WIPES, [{"data": {"approved": False}}, {"text": "yes"}], "message.parts[0].data"),
    (WIPES, [{"data": {"approved": True, "callId": "x"}}], "message.parts[0].data.callId"),
    (ASKS, [{"text": "  "}], "message.parts"),
    (BOTH, [{"text": "yes"}], "message.parts"),
    (BOTH, [{"data": {"approved": True}}], "message.parts[0].data"),
    (WIPES, [{"text": "no"}, {"data": {"approved": True}}], "message.parts[1].data"),
    (WIPES, [{"data": {"approved": False}}, {"text": "Yes!"}], "message.parts[0].data"),
)


def test_an_answer_that_is_not_clear_is_refused_and_nothing_is_decided() -> None:
    async def scenario() -> None:
        async with world(agents(a=[script for script, _, _ in UNCLEAR])) as caller:
            for index, (_, parts, field) in enumerate(UNCLEAR):
                task = await caller.send(f"hi {index}")
                body = sending("answer", taskId=task["id"], parts=parts)
                status, refused = await caller.rest("POST", "/message:send", body)
                assert (status, *violations(refused)) == (400, field)
                _, got = await caller.rest("GET", f"/tasks/{task['id']}")
                assert got["status"]["message"] == task["status"]["message"]

    asyncio.run(scenario())


@pytest.mark.parametrize("approved", [True, False])
def test_whoever_may_only_invoke_answers_questions_but_decides_nothing_for_later(
    approved: bool,
) -> None:
    async def scenario() -> None:
        may = frozenset({Access.INVOKE, Access.READ})
        token = TokenSpec(id="one", access=may, token=RedactedString("key-one"))
        own = {"Authorization": "Bearer key-one"}
        lasting = {"approved": approved, "remember": {"scope": "project", "pattern": "*"}}
        agent = Agent("a", model=ScriptedModel([CHOOSES, "Thanks."]), tools=[choose])
        async with world(AgentRuntime([agent]), ServerConfig(tokens=(token,))) as caller:
            _, asked = await caller.rest("POST", "/message:send", sending("hi"), headers=own)
            task_id = asked["task"]["id"]
            body = sending("answer", taskId=task_id, parts=[{"data": lasting}])
            status, _ = await caller.rest("POST", "/message:send", body, headers=own)
            assert status == 403
            _, got = await caller.rest("GET", f"/tasks/{task_id}", headers=own)
            assert got["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
            body = sending("answer", taskId=task_id, parts=[{"text": "the left"}])
            status, ended = await caller.rest("POST", "/message:send", body, headers=own)
            assert (status, ended["task"]["status"]["state"]) == (200, "TASK_STATE_COMPLETED")

    asyncio.run(scenario())


def test_several_questions_are_answered_one_by_one_or_together() -> None:
    async def scenario() -> None:
        async with world(agents(a=[BOTH, "Done.", BOTH, "Done.", TWICE, "Done."])) as caller:
            task = await caller.send("one")
            assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
            answer = [{"data": {"callId": "call_1", "approved": True}}]
            opening = await caller.stream("first", taskId=task["id"], parts=answer)
            assert states(opening) == ["WORKING", "WORKING", "INPUT_REQUIRED"]
            *_, data = opening[-1].data["statusUpdate"]["status"]["message"]["parts"]
            assert [it["callId"] for it in data["data"]["questions"]] == ["call_2"]
            _, got = await caller.rest("GET", f"/tasks/{task['id']}")
            assert got["status"]["message"]["parts"][-1] == data
            ended = await caller.stream("left", taskId=task["id"])
            assert states(ended) == ["WORKING", "WORKING", "COMPLETED"]
            task = await caller.send("two")
            answers = [
                {"data": {"callId": "call_3", "approved": False}},
                {"data": {"callId": "call_4", "result": "right"}},
            ]
            ended = await caller.send("both", taskId=task["id"], parts=answers)
            assert ended["status"]["state"] == "TASK_STATE_COMPLETED"
            task = await caller.send("three")
            assert task["status"]["state"] == "TASK_STATE_AUTH_REQUIRED"
            body = sending("approve", taskId=task["id"])
            status, refused = await caller.rest("POST", "/message:send", body)
            assert (status, *violations(refused)) == (400, "message.parts")
            *_, data = task["status"]["message"]["parts"]
            answers = [
                {"data": {"ticketId": it["ticketId"], "approved": True}}
                for it in data["data"]["questions"]
            ]
            ended = await caller.send("approve", taskId=task["id"], parts=answers)
            assert ended["status"]["state"] == "TASK_STATE_COMPLETED"

    asyncio.run(scenario())


def test_only_a_task_that_waits_takes_a_message_and_only_in_its_context() -> None:
    async def scenario() -> None:
        async with world(agents(a=["Done.", ASKS, "Done."])) as caller:
            over = await caller.send("one")
            body = sending("two", taskId=over["id"])
            status, refused = await caller.rest("POST", "/message:send", body)
            assert status == 400
            assert over["contextId"] in violations(refused)["message.taskId"]
            waiting = await caller.send("three")
            body = sending("x", taskId=waiting["id"], contextId=over["contextId"])
            status, refused = await caller.rest("POST", "/message:stream", body)
            assert (status, *violations(refused)) == (400, "message.contextId")
            body = sending("x", taskId="unknown")
            status, _ = await caller.rest("POST", "/message:send", body)
            assert status == 404
            ended = await caller.send(
                "x", taskId=waiting["id"], contextId=waiting["contextId"], message_id="m9"
            )
            assert ended["status"]["state"] == "TASK_STATE_COMPLETED"

    asyncio.run(scenario())


def test_a_message_without_a_task_id_lets_a_task_that_waits_go_on_without_its_answer() -> None:
    async def scenario() -> None:
        runtime = agents(a=[ASKS, "Something else."])
        async with world(runtime) as caller:
            waiting = await caller.send("one")
            ended = await caller.send("two", contextId=waiting["contextId"])
            assert ended["id"] == waiting["id"]
            assert ended["artifacts"][0]["parts"] == [{"text": "Something else."}]
            assert "told" not in await answers(runtime, ended)
            assert await runtime.tickets() == ()

    asyncio.run(scenario())


def test_a_task_that_waits_is_cancelled_and_shown_to_subscribers() -> None:
    async def scenario() -> None:
        async with world(agents(a=[ASKS])) as caller:
            waiting = await caller.send("one")
            async with caller.subscribing(waiting["id"]) as (opening, rest):
                assert opening.data["task"]["status"]["message"] == waiting["status"]["message"]
                status, got = await caller.rest("POST", f"/tasks/{waiting['id']}:cancel")
                assert (status, got["status"]["state"]) == (200, "TASK_STATE_CANCELED")
                assert states(await rest())[-1] == "CANCELED"

    asyncio.run(scenario())


def test_deciding_needs_its_own_right() -> None:
    async def scenario() -> None:
        access = frozenset({Access.READ, Access.INVOKE})
        token = TokenSpec(id="one", access=access, token=RedactedString("key"))
        config = ServerConfig(tokens=(token,))
        headers = {"Authorization": "Bearer key"}
        async with world(agents(a=[WIPES, "Done."]), config) as caller:
            _, sent = await caller.rest("POST", "/message:send", sending("hi"), headers=headers)
            body = sending("approve", taskId=sent["task"]["id"])
            for path in ("/message:send", "/message:stream"):
                status, _ = await caller.rest("POST", path, body, headers=headers)
                assert status == 403
            _, got = await caller.rest("GET", f"/tasks/{sent['task']['id']}", headers=headers)
            assert got["status"]["state"] == "TASK_STATE_AUTH_REQUIRED"

    asyncio.run(scenario())


def test_a_task_is_answered_and_followed_in_another_process(tmp_path: Path) -> None:
    def runtime(script: list[Any]) -> AgentRuntime:
        agent = Agent("a", model=ScriptedModel(script), tools=[ask])
        return AgentRuntime([agent], store=f"sqlite:///{tmp_path}/s.db")

    async def scenario() -> None:
        async with (
            world(runtime([ASKS, "From the first."])) as first,
            world(runtime(["From the other."])) as other,
        ):
            waiting = await first.send("one")
            async with other.subscribing(waiting["id"]) as (opening, rest):
                assert opening.data["task"]["status"]["message"] == waiting["status"]["message"]
                heard = await other.stream("the left", taskId=waiting["id"])
                assert states(heard) == ["WORKING", "WORKING", "COMPLETED"]
                assert states(await rest()) == ["WORKING", "COMPLETED"]
            assert (artifact(heard) or "").startswith("From the")
            whole = await first.subscribe(waiting["id"], 0)
            assert states(whole) == [
                "SUBMITTED", "WORKING", "INPUT_REQUIRED", "WORKING", "COMPLETED",
            ]  # fmt: skip
            assert artifact(whole) == artifact(heard)

    asyncio.run(scenario())


def test_an_answered_task_works_before_a_worker_has_taken_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        asking = Agent("a", model=ScriptedModel([ASKS, "Fine."]), tools=[ask])
        runtime = AgentRuntime([asking], store=f"sqlite:///{tmp_path}/s.db")
        async with world(runtime) as caller:
            task = await caller.send("one")
            assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
            free, claim = asyncio.Event(), runtime.store.claim

            async def claim_later(*given: Any, **options: Any) -> Any:
                await free.wait()
                return await claim(*given, **options)

            runtime.store.claim = claim_later  # type: ignore[method-assign]
            at_once = {"configuration": {"returnImmediately": True}}
            body = sending("the left", taskId=task["id"]) | at_once
            _, replied = await caller.rest("POST", "/message:send", body)
            _, got = await caller.rest("GET", f"/tasks/{task['id']}")
            async with caller.subscribing(task["id"]) as (opening, rest):
                for shown in (replied["task"], got, opening.data["task"]):
                    assert shown["status"] | {"timestamp": ""} == {
                        "state": "TASK_STATE_WORKING",
                        "timestamp": "",
                    }
                free.set()
                assert states(await rest()) == ["WORKING", "COMPLETED"]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("kinds", "state"),
    [
        ([], TaskState.WORKING),
        (["permission"], TaskState.AUTH_REQUIRED),
        (["permission", "input"], TaskState.INPUT_REQUIRED),
    ],
)
def test_a_task_waits_for_as_long_as_a_question_is_open(kinds: list[str], state: TaskState) -> None:
    record = RunRecord(run_id="r", thread_id="t", agent_id="a", status=RunStatus.WAITING)
    asked = [Question(call_id=kind, tool_name="x", kind=kind) for kind in kinds]
    assert state_of(record, asked) is state
