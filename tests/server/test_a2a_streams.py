"""A2A tasks as streams: tokens as they come, cut anywhere and attached again."""

import asyncio
import json
from typing import Any

import pytest
from a2a.types.a2a_pb2 import GetTaskRequest, SubscribeToTaskRequest
from google.protobuf.json_format import MessageToDict

from awaken import (
    Blocked,
    Cancelled,
    Failed,
    NaturalEnd,
    RunFinish,
    RunStart,
    StepStart,
    StreamReset,
    TextDelta,
)
from awaken.events import ErrorEvent
from awaken.protocols.a2a.projection import TaskEncoder, TaskProjection
from awaken.protocols.a2a.refusals import rest_error
from awaken.testing import Chunks, ToolCalls, Turn

from .a2a_world import (
    BINDINGS,
    Caller,
    agents,
    artifact,
    held,
    kinds,
    official,
    official_sending,
    states,
    told,
    world,
)
from .serving import frames_of

TOKENS = Turn(text=["One ", "two ", "three."])
TOOLED = [
    ToolCalls([("ask", {"question": "sure?"})], text="Let me ask."),
    Turn(text=["Fine", ", done."]),
]


@pytest.mark.parametrize("binding", BINDINGS)
def test_the_official_client_hears_every_token(binding: str) -> None:
    async def scenario() -> None:
        async with world(agents(a=[TOKENS])) as caller, official(caller.url, binding) as client:
            heard = await told(client, official_sending("hi"))
            assert kinds(heard) == ["task", "statusUpdate", *["artifactUpdate"] * 4, "statusUpdate"]
            assert states(heard) == ["SUBMITTED", "WORKING", "COMPLETED"]
            chunks = [it["artifactUpdate"] for it in heard if "artifactUpdate" in it]
            texts = [it["artifact"]["parts"][0]["text"] for it in chunks]
            assert texts == ["One ", "two ", "three.", ""]
            assert [it.get("append", False) for it in chunks] == [False, True, True, True]
            assert [it.get("lastChunk", False) for it in chunks] == [False, False, False, True]
            assert artifact(heard) == "One two three."
            opening = heard[0]["task"]
            assert [it["parts"] for it in opening["history"]] == [[{"text": "hi"}]]
            task = MessageToDict(await client.get_task(GetTaskRequest(id=opening["id"])))
            assert task["artifacts"][0]["parts"] == [{"text": "One two three."}]
            assert task["status"]["message"]["parts"] == [{"text": "One two three."}]
            assert [it["role"] for it in task["history"]] == ["ROLE_USER", "ROLE_AGENT"]

    asyncio.run(scenario())


@pytest.mark.parametrize("binding", BINDINGS)
def test_the_official_client_attaches_to_a_task_that_works(binding: str) -> None:
    async def scenario() -> None:
        gate = asyncio.Event()
        runtime = agents(a=[held(gate, "Late.")])
        async with world(runtime) as caller, official(caller.url, binding) as client:
            task = await caller.send("hi", configuration={"returnImmediately": True})
            assert task["status"]["state"] in ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING")
            heard: list[Any] = []
            async for it in client.subscribe(SubscribeToTaskRequest(id=task["id"])):
                heard.append(MessageToDict(it))
                gate.set()
            assert kinds(heard)[0] == "task"
            assert heard[0]["task"]["id"] == task["id"]
            assert states(heard)[-1] == "COMPLETED"
            assert artifact(heard) == "Late."

    asyncio.run(scenario())


def test_a_stream_ends_when_the_task_waits_and_goes_on_with_its_answer() -> None:
    async def scenario() -> None:
        async with world(agents(a=TOOLED)) as caller:
            first = await caller.stream("hi")
            assert states(first) == ["SUBMITTED", "WORKING", "INPUT_REQUIRED"]
            task = first[0].data["task"]
            second = await caller.stream("yes", taskId=task["id"])
            assert states(second) == ["WORKING", "WORKING", "COMPLETED"]
            assert second[0].data["task"]["artifacts"][0]["parts"] == [{"text": "Let me ask."}]
            assert artifact(second) == "Fine, done."
            ids = [it.id for it in (*first, *second) if it.id is not None]
            assert ids == sorted(set(ids))

    asyncio.run(scenario())


def test_cut_at_every_frame_nothing_is_lost_or_doubled() -> None:
    async def scenario() -> None:
        async with world(agents(a=TOOLED)) as caller:
            first = await caller.stream("hi")
            task_id = first[0].data["task"]["id"]
            whole = [*first, *(await caller.stream("yes", taskId=task_id))[1:]]
            logged = (await caller.subscribe(task_id, 0))[1:]
            assert artifact(logged) == artifact(whole) == "Fine, done."
            assert states(logged) == states(whole)[1:]
            for cut in range(len(whole) + 1):
                got = whole[:cut]
                latest = max((it.id for it in got if it.id is not None), default=0)
                kept = _up_to(got, latest)
                opening, *suffix = await caller.subscribe(task_id, latest)
                assert _projection([*kept, *suffix]) == _projection(whole)
                assert _logged_projection([*kept, *suffix]) == _logged_projection(logged)
                # Whoever keeps nothing but the opening task gets there as well.
                assert artifact([opening, *suffix]) == "Fine, done."
                assert states([opening, *suffix])[-1] == "COMPLETED"

    asyncio.run(scenario())


def test_cut_while_it_speaks_the_rest_follows_without_a_gap() -> None:
    async def scenario() -> None:
        words = [f"w{index} " for index in range(60)]
        runtime = agents(a=[Turn(text=Chunks(words, delay_ms=3))])
        async with world(runtime) as caller:
            started = await caller.send("hi", configuration={"returnImmediately": True})
            readers = [_cut_after(caller, started["id"], pieces) for pieces in range(1, 8)]
            for heard in await asyncio.gather(*readers):
                assert artifact(heard) == "".join(words)
                assert states(heard)[-1] == "COMPLETED"

    asyncio.run(scenario())


async def _cut_after(caller: Caller, task_id: str, pieces: int) -> list[Any]:
    """Read some frames, hang up, attach again without a cursor, as official clients do."""
    url = f"{caller.url}/v1/a2a/tasks/{task_id}:subscribe"
    async with caller.session.post(url) as reply:
        seen = b""
        while seen.count(b"\n\n") < pieces:
            seen += await reply.content.readany()
    async with caller.session.get(url) as reply:
        text = await reply.text()
        if reply.status == 409:
            # It has ended meanwhile.
            return await caller.subscribe(task_id, 0)
    return list(frames_of(text))


def _up_to(frames: list[Any], cursor: int) -> list[Any]:
    """What a client keeps: everything up to the frame with its latest id."""
    last = max((i for i, it in enumerate(frames) if it.id == cursor), default=-1)
    return [it for it in frames[: last + 1] if "task" not in it.data]


def _projection(frames: list[Any]) -> Any:
    found = [it for it in frames if "task" not in it.data]
    return artifact(found), states(found), [it.data for it in found if "statusUpdate" in it.data]


def _logged_projection(frames: list[Any]) -> Any:
    """The durable frames: those that every reader gets alike."""
    return [(it.id, it.data) for it in frames if it.id is not None and "statusUpdate" in it.data]


def test_a_task_that_ended_is_not_subscribed_to_without_a_cursor() -> None:
    async def scenario() -> None:
        async with world(agents(a=["Hi."])) as caller:
            task = await caller.send("hi")
            for method in ("GET", "POST"):
                status, body = await caller.rest(method, f"/tasks/{task['id']}:subscribe")
                assert status == 409
                assert body["error"]["details"][0]["reason"] == "UNSUPPORTED_OPERATION"
            answer = await caller.rpc("SubscribeToTask", {"id": task["id"]})
            assert answer["error"]["code"] == -32004
            for cursor, expected in (("x", 400), ("-1", 400), ("9" * 30, 400), ("999999", 400)):
                status, _ = await caller.rest(
                    "GET", f"/tasks/{task['id']}:subscribe", headers={"Last-Event-ID": cursor}
                )
                assert status == expected, cursor

    asyncio.run(scenario())


def test_a_turn_that_is_given_up_is_replaced() -> None:
    told_of = TaskProjection("t", "c")
    told_of.project(RunStart(thread_id="c", run_id="t"))
    frames = [
        payload
        for event in (
            StepStart(message_id="m"),
            TextDelta(delta="wrong"),
            StreamReset(reason="again"),
            TextDelta(delta="right"),
            TextDelta(delta="!"),
            _end("right!"),
        )
        for payload in told_of.project(event)
    ]
    assert artifact(frames) == "right!"
    flags = [it["artifactUpdate"].get("append", False) for it in frames if "artifactUpdate" in it]
    assert flags == [False, False, True, True]


def test_an_answer_that_differs_from_what_was_shown_replaces_it() -> None:
    told_of = TaskProjection("t", "c")
    shown = told_of.project(TextDelta(delta="thinking aloud"))
    ending = told_of.project(_end("the answer"))
    assert artifact([*shown, *ending]) == "the answer"
    assert ending[0]["artifactUpdate"]["lastChunk"] is True
    assert told_of.snapshot()["artifacts"][0]["parts"] == [{"text": "the answer"}]


@pytest.mark.parametrize(
    ("termination", "state", "said"),
    [
        (Failed(message="it broke"), "FAILED", "it broke"),
        (Blocked(reason="not allowed"), "REJECTED", "not allowed"),
        (Cancelled(), "CANCELED", "so far"),
    ],
)
def test_other_ends_say_why_and_complete_no_artifact(
    termination: Any, state: str, said: str
) -> None:
    told_of = TaskProjection("t", "c")
    told_of.project(TextDelta(delta="so far"))
    (ending,) = told_of.project(_end("so far", termination))
    assert states([ending]) == [state]
    assert ending["statusUpdate"]["status"]["message"]["parts"] == [{"text": said}]


def _end(response: str, termination: Any = None) -> RunFinish:
    return RunFinish(
        thread_id="c",
        run_id="t",
        result={"response": response},
        termination=termination or NaturalEnd(),
    )


@pytest.mark.parametrize(
    ("code", "status"),
    [("unknown_run", 404), ("unknown_thread", 404), ("server_stopping", 503), (None, 503)],
)
def test_a_stream_that_breaks_says_whether_to_attach_again(code: str | None, status: int) -> None:
    encoder = TaskEncoder(TaskProjection("r", "t"), lambda it: it, rest_error)
    (frame,) = encoder.encode(ErrorEvent(message="over", code=code))
    error = json.loads(frame.decode().split("data: ")[1])["error"]
    named = {404: "NOT_FOUND", 503: "UNAVAILABLE"}
    assert (error["code"], error["status"]) == (status, named[status])
