"""The official SDK on both sides of our runtimes: its servers behind them, its clients before."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from a2a.helpers.proto_helpers import new_text_message, new_text_part
from a2a.types.a2a_pb2 import CancelTaskRequest, GetTaskRequest
from google.protobuf.json_format import MessageToDict

from awaken import (
    Agent,
    AgentRuntime,
    Cancelled,
    NaturalEnd,
    RemoteEndpoint,
    RunFinish,
    RunStatus,
    Suspended,
)
from awaken.events import ActivitySnapshot
from awaken.testing import ScriptedModel, ToolCalls

from .a2a_peers import Executor, official_peer
from .a2a_world import BINDINGS, artifact, ask, official, official_sending, states, told
from .serving import serving

DELEGATING = ToolCalls([("agent_run_far", {"prompt": "over to you"})])


def before(url: str, target: str | None = None, *script: Any) -> AgentRuntime:
    """A runtime with an agent at a server, and one that delegates to it."""
    far = Agent("far", endpoint=RemoteEndpoint(base_url=url, target=target))
    boss = Agent(
        "boss", model=ScriptedModel(list(script or (DELEGATING, "done"))), delegates=["far"]
    )
    return AgentRuntime([boss, far])


def streaming(gate: asyncio.Event | None = None) -> Any:
    """Works on an artifact in pieces; after the first one it works on until a gate is open."""

    async def streams(_: Any, updater: Any) -> None:
        await updater.start_work()
        for it, text in enumerate(("One ", "two ", "three.")):
            await updater.add_artifact(
                [new_text_part(text)], artifact_id="out", append=it > 0, last_chunk=it == 2
            )
            while gate is not None and not gate.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(gate.wait(), 0.05)
                await updater.start_work()
        await updater.complete()

    return streams


async def asks(context: Any, updater: Any) -> None:
    """Asks once, and takes what comes."""
    said = context.message.parts[0].text
    if said == "hi":
        await updater.requires_input(new_text_message("which one?"))
    else:
        await updater.complete(new_text_message(f"took {said}"))


class Hanging(Executor):
    """Works without an end, and tells when it has begun and when it was cancelled."""

    def __init__(self) -> None:
        super().__init__(self._works)
        self.has_begun, self.was_cancelled = asyncio.Event(), asyncio.Event()

    async def _works(self, _: Any, updater: Any) -> None:
        await updater.start_work()
        self.has_begun.set()
        await asyncio.Event().wait()

    async def cancel(self, context: Any, event_queue: Any) -> None:
        """Stop, and tell."""
        await super().cancel(context, event_queue)
        self.was_cancelled.set()


@asynccontextmanager
async def chain(runtime_of: Any, binding: str, behind: Any) -> AsyncIterator[Any]:
    """The official client of a runtime that has an agent at a server behind it."""
    async with (
        behind as url,
        serving(runtime_of(url)) as front,
        official(front, binding) as client,
    ):
        yield client


# --- its server behind our runtime


@pytest.mark.parametrize("binding", BINDINGS)
def test_a_streamed_artifact_of_the_official_server_is_the_answer_of_the_run(binding: str) -> None:
    async def scenario() -> None:
        gate, seen = asyncio.Event(), []
        executor = Executor(streaming(gate))
        async with official_peer(executor, binding) as url, before(f"{url}/a2a") as ours:
            async for event in ours.stream("far", "hi"):
                if isinstance(event, ActivitySnapshot):
                    seen.append((event.content["state"], event.content["text"]))
                    if event.content["text"] == "One ":
                        gate.set()
            assert isinstance(event, RunFinish)
            assert event.termination == NaturalEnd()
            assert event.result["response"] == "One two three."
            (made,) = event.result["output"]["artifacts"]
            assert (made["id"], made["content"]) == ("out", [{"text": "One two three."}])
            assert seen[-1] == ("TASK_STATE_COMPLETED", "One two three.")

    asyncio.run(scenario())


@pytest.mark.parametrize("binding", BINDINGS)
def test_a_message_of_the_official_server_is_the_answer_of_the_run(binding: str) -> None:
    async def scenario() -> None:
        async with (
            official_peer(Executor(streaming()), binding) as url,
            before(f"{url}/a2a") as ours,
        ):
            done = await ours.run("far", "direct")
            assert (done.status, done.text) == (RunStatus.DONE, "at once")

    asyncio.run(scenario())


@pytest.mark.parametrize("binding", BINDINGS)
def test_a_question_of_the_official_server_is_answered_by_the_next_run(binding: str) -> None:
    async def scenario() -> None:
        executor = Executor(asks)
        async with official_peer(executor, binding) as url, before(f"{url}/a2a") as ours:
            asked = await ours.run("far", "hi", thread_id="t")
            assert (asked.status, asked.termination) == (RunStatus.WAITING, Suspended())
            done = await ours.run("far", "blue", thread_id="t")
            assert (done.status, done.text) == (RunStatus.DONE, "took blue")
            assert len(executor.messages) == 2

    asyncio.run(scenario())


@pytest.mark.parametrize("agent_id", ["far", "boss"])
@pytest.mark.parametrize("binding", BINDINGS)
def test_a_cancel_of_our_run_reaches_the_agent_of_the_official_server(
    binding: str, agent_id: str
) -> None:
    async def scenario() -> None:
        executor = Hanging()
        async with official_peer(executor, binding) as url, before(f"{url}/a2a") as ours:
            handle = await ours.start(agent_id, "hi")
            async with asyncio.timeout(20):
                await executor.has_begun.wait()
                assert await ours.cancel(handle.run_id)
                assert isinstance((await ours.wait(handle.run_id)).termination, Cancelled)
                await executor.was_cancelled.wait()
            assert len(executor.cancelled) == 1

    asyncio.run(scenario())


# --- its client before our runtime, and a server behind


@pytest.mark.parametrize("binding", BINDINGS)
def test_the_official_client_hears_what_a_delegate_at_the_official_server_made(
    binding: str,
) -> None:
    async def scenario() -> None:
        def boss(url: str) -> AgentRuntime:
            return before(f"{url}/a2a")

        behind = official_peer(Executor(streaming()), binding)
        async with chain(boss, binding, behind) as client:
            heard = await told(client, official_sending("hi"))
            assert states(heard) == ["SUBMITTED", "WORKING", "COMPLETED"]
            assert artifact(heard) == "done"

    asyncio.run(scenario())


@pytest.mark.parametrize("binding", BINDINGS)
def test_a_cancel_of_the_official_client_reaches_the_official_server_behind_us(
    binding: str,
) -> None:
    async def scenario() -> None:
        executor = Hanging()
        behind = official_peer(executor, binding)
        async with chain(lambda url: before(f"{url}/a2a"), binding, behind) as client:
            await cancelled(client, executor.has_begun)
            async with asyncio.timeout(20):
                await executor.was_cancelled.wait()

    asyncio.run(scenario())


@pytest.mark.parametrize("binding", BINDINGS)
def test_a_cancel_of_the_official_client_reaches_the_runtime_behind_ours(binding: str) -> None:
    async def scenario() -> None:
        begun = asyncio.Event()

        async def works(_: Any) -> str:
            begun.set()
            await asyncio.Event().wait()
            return "never"

        far = AgentRuntime([Agent("far", model=ScriptedModel([works]))])
        async with chain(
            lambda url: before(f"{url}/v1/a2a", "far"), binding, serving(far)
        ) as client:
            await cancelled(client, begun)
            async with asyncio.timeout(20):
                (record,) = await far.list_runs()
                ended = await far.wait(record.run_id)
            assert isinstance(ended.termination, Cancelled)

    asyncio.run(scenario())


async def cancelled(client: Any, begun: asyncio.Event) -> None:
    """Send as the official client does, and cancel once the work at the far end has begun."""
    heard = client.send_message(official_sending("hi"))
    async with asyncio.timeout(20):
        first = MessageToDict(await anext(heard))
        await begun.wait()
        task = await client.cancel_task(CancelTaskRequest(id=first["task"]["id"]))
        assert MessageToDict(task)["status"]["state"] == "TASK_STATE_CANCELED"
        rest = [MessageToDict(it) async for it in heard]
    assert states(rest)[-1] == "CANCELED"


@pytest.mark.parametrize("binding", BINDINGS)
def test_a_question_two_runtimes_away_is_answered_by_the_official_client(binding: str) -> None:
    async def scenario() -> None:
        far = AgentRuntime(
            [
                Agent(
                    "far",
                    model=ScriptedModel(
                        [ToolCalls([("ask", {"question": "which one?"})]), "the blue one it is"]
                    ),
                    tools=[ask],
                )
            ]
        )
        async with chain(
            lambda url: before(f"{url}/v1/a2a", "far"), binding, serving(far)
        ) as client:
            heard = await told(client, official_sending("hi"))
            assert states(heard)[-1] == "INPUT_REQUIRED"
            first = heard[0]["task"]
            again = official_sending("blue", task_id=first["id"], context_id=first["contextId"])
            assert states(await told(client, again))[-1] == "COMPLETED"
            whole = MessageToDict(await client.get_task(GetTaskRequest(id=first["id"])))
            assert whole["status"]["message"]["parts"] == [{"text": "done"}]
            (record,) = await far.list_runs()
            assert record.termination == NaturalEnd()

    asyncio.run(scenario())
