"""Runs that wait for their own tasks are one run on every wire, up to their last word."""

import asyncio
import json
from pathlib import Path

import pytest
from acp import text_block

from awaken import Agent, RemoteEndpoint, RunStatus
from awaken.bootstrap.upgrade import check_upgrade
from awaken.buses.memory import MemoryBus
from awaken.cli.finished_runs import FinishedRuns
from awaken.stores import RunRecord, Signal, SignalKind
from awaken.testing import check_events

from .a2a_world import Caller, artifact, states
from .acp_world import Editor, editing
from .ag_ui_oracle import Client as AgUiClient
from .mcp_world import LEGACY, connected
from .serving import Frame, frames_of
from .waiting_world import ASKED, GO, World, busy, events_of, kinds, remote, resting, text_in, texts

WAITS = "waiting for its tasks"


@pytest.mark.parametrize("is_shared", [True, False])
def test_the_native_stream_shows_the_wait_and_goes_on(is_shared: bool, tmp_path: Path) -> None:
    async def scenario(it: World) -> None:
        async def look() -> list[Frame]:
            return await it.post(
                "/v1/runs", {"agentId": "default", "threadId": "t", "messages": [GO]}
            )

        asking = asyncio.ensure_future(look())
        run = await it.rested()
        shown = await it.ask(f"/v1/runs/{run.run_id}")
        assert (shown["status"], shown["waiting"]["reason"]) == ("waiting", "background_tasks")
        it.gate.set()
        frames = [frame.data for frame in await asking]
        ends = [frame for frame in frames if frame["event_type"] == "run_finish"]
        assert [end.get("awaits_tasks", False) for end in ends] == [True, False]
        assert {frame["run_id"] for frame in frames if "run_id" in frame} == {run.run_id}
        assert frames[-1] == ends[-1]
        assert ends[0]["result"]["status_reason"] == "awaiting_tasks"
        assert ends[-1]["result"]["response"] == "All done."

    resting(scenario, f"sqlite:///{tmp_path}/store.db" if is_shared else None)


@pytest.mark.parametrize("version", [6, 7])
def test_an_ai_sdk_client_sees_one_message(version: int) -> None:
    async def scenario(it: World) -> None:
        said = {"id": "u", "role": "user", "parts": [{"type": "text", "text": "go"}]}
        body = {"id": "t", "messages": [said], "trigger": "submit-message"}
        asking = it.post(f"/v1/ai-sdk/chat?version={version}", body)

        async def look() -> list[Frame]:
            first = asyncio.ensure_future(asking)
            run = await it.rested()
            history = await it.ask("/v1/ai-sdk/threads/t/messages")
            assert history["executing_run_id"] == run.run_id
            assert [message["role"] for message in history["messages"]] == ["user"]
            url = f"{it.url}/v1/ai-sdk/threads/t/stream?version={version}"
            async with it.session.get(url) as resumed:
                assert resumed.status == 200
                it.gate.set()
                again = list(frames_of(await resumed.text()))
            frames = await first
            for told in (frames, again):
                assert text_in(told, "text-delta") == "I wait.All done."
                assert (kinds(told).count("start"), kinds(told).count("finish")) == (1, 1)
            return frames

        frames = await look()
        assert kinds(frames)[-1] == "finish"
        assert kinds(frames).count("start-step") == kinds(frames).count("finish-step") == 3
        assert frames[-1].data["finishReason"] == "stop"

    resting(scenario)


def test_an_ag_ui_client_sees_one_run() -> None:
    async def scenario(it: World) -> None:
        body = {"threadId": "t", "runId": "r", "messages": [{"id": "u", **GO}]}
        frames = await it.while_resting(it.post("/v1/ag-ui/run", body))
        client = AgUiClient().read(frames)
        assert kinds(frames).count("RUN_STARTED") == kinds(frames).count("RUN_FINISHED") == 1
        assert [said["content"] for said in client.messages if said.get("content")][-1] == (
            "All done."
        )
        assert frames[-1].data["result"]["status"] == "done"
        steps = [frame.data["stepName"] for frame in frames if "STEP_S" in frame.data["type"]]
        assert steps == ["step_1", "step_2", "step_3"]

    resting(scenario)


@pytest.mark.parametrize("is_streamed", [True, False])
def test_a_chat_completion_has_everything_that_was_said(is_streamed: bool) -> None:
    async def scenario(it: World) -> None:
        body = {"model": "default", "messages": [GO], "stream": is_streamed}

        async def read() -> str:
            url, headers = f"{it.url}/v1/chat/completions", {"X-Thread-Id": "t"}
            async with it.session.post(url, json=body, headers=headers) as reply:
                return await reply.text()

        text = await it.while_resting(read())
        if not is_streamed:
            whole = json.loads(text)["choices"][0]["message"]["content"]
        else:
            chunks = [frame.data for frame in frames_of(text.replace("[DONE]", '"[DONE]"'))]
            assert chunks.pop() == "[DONE]"
            choices = [chunk["choices"][0] for chunk in chunks]
            assert [it["delta"].get("role") for it in choices].count("assistant") == 1
            assert [it["finish_reason"] for it in choices if it["finish_reason"]] == ["stop"]
            whole = "".join(it["delta"].get("content") or "" for it in choices)
        assert whole == "I wait.\n\nAll done."

    resting(scenario)


def test_a_response_is_one_and_a_message_meanwhile_makes_the_next() -> None:
    async def scenario(it: World) -> None:
        body = {"model": "default", "input": "go", "conversation": "t", "stream": True}
        first = asyncio.ensure_future(events_of(it, "POST", "/v1/responses", body))
        run = await it.rested()
        at_rest = await it.ask(f"/v1/responses/resp_{run.run_id}")
        assert at_rest["status"] == "in_progress"
        more = {"model": "default", "input": "and?", "conversation": "t"}
        second = asyncio.ensure_future(it.ask("/v1/responses", more))
        await it.until(RunStatus.WAITING, steps=run.steps)
        it.gate.set()
        events, later = await first, await second
        names = [event["type"] for event in events]
        assert (names.count("response.created"), names.count("response.completed")) == (1, 1)
        assert names[-1] == "response.completed"
        assert texts(events[-1]["response"]) == ["I wait.", "All done.", "More."]
        assert later["id"].startswith(f"resp_{run.run_id}~")
        assert texts(later) == ["All done.", "More."]
        # What was answered later is found again as it was, from any place on.
        assert texts(await it.ask(f"/v1/responses/{later['id']}")) == ["All done.", "More."]
        path = f"/v1/responses/{later['id']}?stream=true"
        again = await events_of(it, "GET", path)
        assert again[0]["type"] == "response.created"
        assert texts(again[-1]["response"]) == ["All done.", "More."]
        cursor = str((await it.runtime.store.load_thread("t")).event_seq - 4)
        rest = await events_of(it, "GET", path, headers={"Last-Event-ID": cursor})
        assert rest == again[-len(rest) :]
        assert 0 < len(rest) < len(again)

    resting(scenario)


def test_an_a2a_task_works_on_until_its_last_word() -> None:
    async def scenario(it: World) -> None:
        caller = Caller(it.url, it.session)
        asking = asyncio.ensure_future(caller.stream("go", contextId="t"))
        run = await it.rested()
        _, shown = await caller.rest("GET", f"/tasks/{run.run_id}")
        assert shown["status"] == {**shown["status"], "state": "TASK_STATE_WORKING"}
        assert "message" not in shown["status"]
        assert "artifacts" not in shown
        _, listed = await caller.rest("GET", "/tasks?contextId=t&status=TASK_STATE_WORKING")
        assert [task["id"] for task in listed["tasks"]] == [run.run_id]
        watching = asyncio.ensure_future(caller.subscribe(run.run_id))
        sending = asyncio.ensure_future(caller.send("and?", taskId=run.run_id))
        await it.until(RunStatus.WAITING, steps=run.steps)
        assert not asking.done()
        it.gate.set()
        frames = await asking
        assert states(frames) == ["SUBMITTED", "WORKING", "COMPLETED"]
        assert artifact(frames) == "More."
        assert states(await watching) == ["WORKING", "COMPLETED"]
        assert (await sending)["id"] == run.run_id

    resting(scenario)


def test_an_mcp_call_answers_with_the_last_word_and_its_task_works_on() -> None:
    async def scenario(it: World) -> None:
        call = it.mcp("tools/call", name="default", arguments=ASKED)
        asking = asyncio.ensure_future(call)
        run = await it.rested()
        task = await it.mcp("tasks/get", taskId=run.run_id)
        assert task["status"] == "working"
        assert not task.keys() & {"inputRequests", "statusMessage"}
        it.gate.set()
        done = await asking
        if done["resultType"] == "task":
            await it.runtime.wait(run.run_id, timeout_ms=10_000)
            done = (await it.mcp("tasks/get", taskId=run.run_id))["result"]
        assert done["content"][0]["text"] == "All done."
        assert done["structuredContent"]["status"] == "completed"

    resting(scenario)


def test_an_mcp_client_is_not_told_of_an_end_before_the_last_word() -> None:
    async def scenario(it: World) -> None:
        seen: list[str | None] = []

        async def note(_progress: float, _total: float | None, message: str | None) -> None:
            seen.append(message)

        async with connected(it.url, LEGACY) as client:
            call = client.call_tool("default", ASKED, progress_callback=note)
            await it.while_resting(call)
        told = [text for text in seen if text in ("starting", "going on", "ended", WAITS)]
        assert told == ["starting", WAITS, "going on", "ended"]

    resting(scenario)


def test_a_turn_of_an_editor_ends_with_the_last_word() -> None:
    async def scenario() -> None:
        gate, editor = asyncio.Event(), Editor()
        async with asyncio.timeout(30), editing(busy(gate), editor) as client:
            session = (await client.new_session(cwd="/", mcp_servers=[])).session_id
            turn = asyncio.ensure_future(
                client.prompt(session_id=session, prompt=[text_block("go")])
            )
            await editor.until(lambda: editor.text() == "I wait.")
            gate.set()
            assert (await turn).stop_reason == "end_turn"
            assert editor.text() == "I wait.All done."

    asyncio.run(scenario())


def test_a_run_that_is_cancelled_while_it_waits_for_its_task_ends_its_stream() -> None:
    async def scenario(it: World) -> None:
        said = [{"id": "u", **GO}]
        body = {"threadId": "t", "runId": "r", "messages": said, "protocolVersion": "1.0"}
        asking = asyncio.ensure_future(it.post("/v1/ag-ui/run", body))
        await it.rested()
        async with it.session.post(f"{it.url}/v1/ag-ui/threads/t/cancel") as reply:
            assert reply.status == 202
        frames = await asking
        AgUiClient().read(frames)
        assert frames[-1].data["outcome"] == {"type": "cancelled"}
        assert kinds(frames).count("RUN_STARTED") == 1

    resting(scenario)


def test_a_run_that_waits_for_its_task_is_not_counted_as_finished_and_breaks_no_order() -> None:
    async def scenario(it: World) -> None:
        asking = it.begin()
        await it.rested()
        assert 'awaken_runs_total{outcome="natural_end"}' not in await _metrics(it)
        it.gate.set()
        await asking
        # Its task is a run, too.
        assert 'awaken_runs_total{outcome="natural_end"} 2' in await _metrics(it)
        events = await it.runtime.store.list_events("t", after=0)
        assert check_events(events) == []

    resting(scenario)


def test_an_upgrade_strands_no_run_because_it_waits_without_a_ticket() -> None:
    async def waits_for_task(it: World) -> None:
        asking = it.begin()
        await it.rested()
        report = await check_upgrade(it.runtime.store, [Agent("default", model="any")])
        assert (report.checked, report.stranded) == (2, ())
        gone = await check_upgrade(it.runtime.store, [Agent("other", model="any")])
        assert [run.thread_id for run in gone.stranded] == ["t"]
        it.gate.set()
        await asking

    async def waits_for_message() -> None:
        backend, runtime = remote()
        await runtime.run("default", "go")
        agent = Agent("default", endpoint=RemoteEndpoint(backend="fake", base_url="http://x"))
        report = await check_upgrade(runtime.store, [agent])
        assert (report.checked, report.stranded) == (1, ())
        assert backend.told == ["go"]

    resting(waits_for_task)
    asyncio.run(waits_for_message())


def test_a_worker_reports_a_run_when_it_waits_for_somebody_not_for_its_tasks() -> None:
    async def scenario(it: World) -> None:
        reported: list[RunRecord] = []
        bus = FinishedRuns(MemoryBus(), it.runtime.store, reported.append)
        asking = it.begin()
        run = await it.rested()
        kind = SignalKind.RUN_CHANGED
        signal = Signal(kind=kind, thread_id="t", run_id=run.run_id, is_resting=True)
        bus.tell(signal)
        await bus.close()
        assert reported == []
        it.gate.set()
        await asking
        bus.tell(signal)
        await bus.close()
        assert [run.status for run in reported] == [RunStatus.DONE]

    resting(scenario)


async def _metrics(it: World) -> str:
    async with it.session.get(f"{it.url}/metrics") as reply:
        return str(await reply.text())
