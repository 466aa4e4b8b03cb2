"""A stream that was lost is taken up again anywhere; only `cancel` stops a run."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from awaken import Agent, AgentRuntime, MailboxConfig
from awaken.testing import Chunks, ScriptedModel, ToolCalls, Turn

from .ai_sdk_world import (
    API,
    TOOLS,
    Chat,
    Held,
    chatted,
    chatting,
    kinds,
    one,
    projection,
    text_of,
)
from .serving import Frame, frames_of, serving

QUICK = MailboxConfig(poll_ms=10, lease_ms=20_000, renew_ms=500)
SCRIPT = [
    Turn(text=["let ", "me"], reasoning="hm", calls=[("add", {"a": 1, "b": 2}), ("fail", {})]),
    ToolCalls([("approve", {"what": "this"})]),
    Chunks(["th", "ree"]),
]


async def approve_last(chat: Chat, frames: list[Frame]) -> list[Frame]:
    asked = one(frames, "tool-approval-request")
    approval = {"id": asked["approvalId"], "approved": True}
    part = {"type": "tool-approve", "toolCallId": asked["toolCallId"]}
    chat.answer({**part, "state": "approval-responded", "approval": approval})
    return await chat.send()


def up_to(frames: list[Frame], cursor: int) -> list[Frame]:
    return frames[: 1 + next(place for place, it in enumerate(frames) if it.id == cursor)]


async def until(response: aiohttp.ClientResponse, mark: bytes) -> bytes:
    """Read a stream as far as some bytes."""
    found = b""
    while mark not in found:
        chunk = await response.content.readany()
        assert chunk, found
        found += chunk
    return found


@pytest.mark.parametrize("version", [6, 7])
def test_cut_anywhere_what_came_and_what_follows_are_the_whole(version: int) -> None:
    async def scenario(chat: Chat) -> None:
        chat.say("go")
        first = await chat.send(f"/chat?version={version}")
        chat.headers = {"x-ai-sdk-version": str(version)}
        whole = [*first, *await approve_last(chat, first)]
        stream = f"/chat/{chat.id}/stream?version={version}"
        last = whole[-1].id
        cursors = [it.id for it in whole if it.id is not None]
        for place in range(len(whole)):
            # What came after the latest id is told anew.
            known = max((it for it in cursors if it in {x.id for x in whole[:place]}), default=0)
            prefix = up_to(whole, known) if known else []
            status, suffix = await chat.get(stream, **{"last-event-id": str(known)})
            if known == last:
                assert status == 204
                continue
            while suffix[-1].id != last:
                # It ends where the run was suspended, and goes on from there.
                cursor = str(suffix[-1].id)
                suffix += (await chat.get(stream, **{"last-event-id": cursor}))[1]
            assert projection([*prefix, *suffix]) == projection(whole), place
        for cursor in range(1, last or 0):
            status, suffix = await chat.get(f"{stream}&cursor={cursor}")
            assert status == 200
            assert all(it.id > cursor for it in suffix if it.id is not None)

    chatted(ScriptedModel(SCRIPT), scenario)


def test_a_fresh_client_gets_the_executing_run_from_its_start() -> None:
    async def scenario() -> None:
        model = Held([Chunks(["Hel", "lo."]), "more"])
        async with chatting(model) as chat:
            chat.say("hi")
            first = asyncio.create_task(chat.send())
            await model.reached.wait()
            # Below every address that chats can be sent to.
            for path in (
                f"/chat/{chat.id}/stream",
                f"/threads/{chat.id}/stream",
                f"/agents/default/runs/{chat.id}/stream",
                f"/threads/{chat.id}/runs/whatever/stream",
            ):
                async with chat.session.get(chat.url + API + path) as response:
                    assert b'"Hel"' in await until(response, b'"Hel"')
            second = asyncio.create_task(chat.get(f"/chat/{chat.id}/stream"))
            third = chat.session.get(chat.url + API + f"/chat/{chat.id}/stream")
            async with third as response:
                begun = await until(response, b'"Hel"')
                model.released.set()
                rest = await response.read()
            whole = projection(await first)
            assert projection((await second)[1]) == whole
            assert projection(list(frames_of((begun + rest).decode()))) == whole
            assert text_of(await first) == "Hello."

    asyncio.run(scenario())


def test_a_run_of_another_process_is_taken_up_as_well(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = Held([ToolCalls([("add", {"a": 1, "b": 2})]), Chunks(["th", "ree"])])
        store = f"sqlite:///{tmp_path / 'a.db'}"
        agents = [Agent("default", model=model, tools=TOOLS)]
        here = AgentRuntime(agents, store=store, mailbox=QUICK)
        there = AgentRuntime(agents, store=store, mailbox=QUICK)
        session = aiohttp.ClientSession()
        async with asyncio.timeout(20), session, serving(here) as url, serving(there) as far:
            chat, other = Chat(session, url), Chat(session, far)
            chat.say("hi")
            first = asyncio.create_task(chat.send())
            await model.reached.wait()
            async with session.get(far + API + f"/chat/{other.id}/stream") as response:
                begun = await until(response, b"start-step")
                model.released.set()
                found = frames_of((begun + await response.read()).decode())
            assert projection(list(found)) == projection(await first)

    asyncio.run(scenario())


def test_nothing_to_resume_is_204() -> None:
    async def scenario(chat: Chat) -> None:
        path = f"/chat/{chat.id}/stream"
        assert await chat.get(path) == (204, [])
        chat.say("go")
        frames = await chat.send()
        assert await chat.get(path) == (204, [])
        assert await chat.get(path, **{"last-event-id": str(frames[-1].id)}) == (204, [])

    chatted(ScriptedModel([ToolCalls([("approve", {})])]), scenario)


@pytest.mark.parametrize("cursor", ["x", "-1", "1.5", "99999", "9" * 40, "9" * 5000, "²"])
def test_a_cursor_that_is_none_is_refused(cursor: str) -> None:
    async def scenario(chat: Chat) -> None:
        chat.say("hi")
        await chat.send()
        assert (await chat.get(f"/chat/{chat.id}/stream?cursor={cursor}"))[0] == 400

    chatted(ScriptedModel(["one"]), scenario)


def test_leaving_stops_nothing_and_cancel_keeps_what_was_said() -> None:
    async def scenario() -> None:
        model = Held([Chunks(["Hel", "lo."])])
        async with chatting(model) as chat:
            chat.say("hi")
            body = {"id": chat.id, "messages": chat.messages}
            async with chat.session.post(chat.url + API + "/chat", json=body) as response:
                await until(response, b'"Hel"')
            reading = asyncio.create_task(chat.get(f"/chat/{chat.id}/stream"))
            async with chat.session.get(chat.url + API + f"/chat/{chat.id}/stream") as response:
                await until(response, b'"Hel"')
                cancel = chat.url + API + f"/threads/{chat.id}/cancel"
                async with chat.session.post(cancel) as receipt:
                    assert receipt.status == 202
                    told = {"status": "cancel_requested", "thread_id": chat.id}
                    assert await receipt.json() == told
                await response.read()
            frames = (await reading)[1]
            assert kinds(frames)[-4:] == ["text-end", "finish-step", "abort", "finish"]
            assert frames[-1].data["finishReason"] == "stop"
            assert text_of(frames) == "Hel"
            _, answer = (await chat.history())["messages"]
            assert answer["parts"][-1]["text"] == "Hel"
            async with chat.session.post(cancel) as receipt:
                assert receipt.status == 404

    asyncio.run(scenario())


def test_interrupt_stops_what_waits() -> None:
    async def scenario(chat: Chat) -> None:
        url = chat.url + API + f"/threads/{chat.id}/interrupt"
        async with chat.session.post(url) as receipt:
            assert receipt.status == 404
        chat.say("go")
        await chat.send()
        async with chat.session.post(url) as receipt:
            assert receipt.status == 202
            assert (await receipt.json())["status"] == "interrupt_requested"
        async with chat.session.post(url) as receipt:
            assert receipt.status == 404

    chatted(ScriptedModel([ToolCalls([("approve", {})])]), scenario)


def test_a_new_message_waits_for_what_is_being_said() -> None:
    async def scenario() -> None:
        model = Held([Chunks(["Hel", "lo."]), "second"])
        async with chatting(model) as chat:
            chat.say("hi")
            first = asyncio.create_task(chat.send())
            await model.reached.wait()
            chat.say("wait")
            second = asyncio.create_task(chat.send())
            model.released.set()
            assert text_of(await first) == "Hello."
            assert text_of(await second) == "second"
            assert one(await second, "start") != one(await first, "start")

    asyncio.run(scenario())
