"""AG-UI streams: every event of its form and in its order, wherever a reader comes in."""

import asyncio
from typing import Any

import aiohttp

from awaken import Access, Agent, AgentRuntime, RedactedString, ToolContext, tool
from awaken.errors import TransportFailed
from awaken.server import ServerConfig, TokenSpec
from awaken.testing import Chunks, Reasoning, ScriptedModel, ToolCalls, Turn

from .ag_ui_oracle import Client
from .serving import Frame, frames_of, post_stream, read_stream, serving


class Doors:
    """A tool that shows what it does and waits at a door."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.opened = asyncio.Event()

    def tool(self) -> Any:
        @tool(effect="none")
        async def pass_through(way: str, ctx: ToolContext) -> dict[str, str]:
            """Go through a door."""
            ctx.report_activity("door", {"way": way})
            ctx.report_activity_delta("door", {"op": "add", "path": "/open", "value": True})
            ctx.emit_output("knock ")
            ctx.emit_output("knock")
            self.entered.set()
            await self.opened.wait()
            return {"went": way}

        return pass_through


def script() -> ScriptedModel:
    calls = ToolCalls([("pass_through", {"way": "in"}), ("pass_through", {"way": "out"})], split=3)
    first = Turn(text=["I ", "go."], reasoning=Reasoning("Which way?", "sig"), calls=calls)
    return ScriptedModel([first, Chunks(["Through ", "the ", "door."])])


def body(text: str = "hi", **fields: Any) -> dict[str, Any]:
    return {"agentId": "a", "messages": [{"role": "user", "content": text}], **fields}


TRANSCRIPT = [
    ("reasoning", "Which way?"),
    ("assistant", "I go."),
    ("tool", '{"went":"in"}'),
    ("tool", '{"went":"out"}'),
    ("assistant", "Through the door."),
]


def test_a_run_is_told_in_ag_ui_events_that_the_sdk_knows() -> None:
    async def scenario() -> None:
        doors = Doors()
        doors.opened.set()
        runtime = AgentRuntime([Agent("a", model=script(), tools=[doors.tool()])])
        async with serving(runtime) as url, aiohttp.ClientSession() as session:
            frames = await post_stream(session, f"{url}/v1/ag-ui/run", body())
            again = await read_stream(session, _stream(url, frames))
        client = Client().read(frames)
        assert client.texts == TRANSCRIPT
        assert client.messages[0]["encryptedValue"] == "sig"
        call = client.messages[1]["toolCalls"][0]
        assert call["function"] == {"name": "pass_through", "arguments": '{"way":"in"}'}
        steps = [it.data["stepName"] for it in frames if it.data["type"] == "STEP_STARTED"]
        assert steps == ["step_1", "step_2"]
        first, last = frames[0].data, frames[-1].data
        assert (first["type"], first["protocolVersion"]) == ("RUN_STARTED", "1.0")
        assert (last["type"], last["result"]["response"]) == ("RUN_FINISHED", "Through the door.")
        spent = {"model": "a:model", "inputTokens": 20, "outputTokens": 40, "totalTokens": 60}
        assert last["usage"] == [spent]
        assert client.kinds.count("STATE_SNAPSHOT") == 1
        assert client.kinds.count("STATE_DELTA") >= 1
        kept = client.state["extensions"]["__runtime.run_lifecycle"]
        assert (kept["status"], kept["step_count"]) == ("done", 2)
        shown = [it.data for it in frames if it.data["type"] == "ACTIVITY_DELTA"]
        assert [it["patch"][0]["value"] for it in shown[:3]] == [True, "knock ", "knock"]
        customs = [it.data["name"] for it in frames if it.data["type"] == "CUSTOM"]
        assert customs == ["inference_complete"] * 2
        assert Client().read(again).texts == [("user", "hi"), *TRANSCRIPT]

    asyncio.run(scenario())


def test_what_was_read_and_what_follows_the_cursor_are_the_whole() -> None:
    async def scenario() -> None:
        doors = Doors()
        runtime = AgentRuntime([Agent("a", model=script(), tools=[doors.tool()])])
        async with serving(runtime) as url, aiohttp.ClientSession() as session:
            running = asyncio.create_task(
                post_stream(session, f"{url}/v1/ag-ui/run", body(threadId="t"))
            )
            await asyncio.wait_for(doors.entered.wait(), 10)
            early = await _read_some(session, f"{url}/v1/ag-ui/threads/t/stream?cursor=1")
            early_id = max((it.id for it in early if it.id), default=1)
            doors.opened.set()
            frames = await asyncio.wait_for(running, 10)
            whole = Client().read(frames)
            for cut in range(len(frames)):
                seen = frames[: cut + 1]
                place = max((it.id for it in seen if it.id is not None), default=None)
                if place is None:
                    continue
                kept = seen[: max(i for i, it in enumerate(seen) if it.id == place) + 1]
                rest = await _rest(session, f"{url}/v1/ag-ui/threads/t/stream", place)
                joined = Client().read(kept + rest)
                assert joined.messages == whole.messages, cut
                assert _told(kept + rest) == _told(frames), cut
            rest = await _rest(session, f"{url}/v1/ag-ui/threads/t/stream", early_id)
            start = [it for it in frames if it.id == 1]
            assert Client().read(start + early + rest).texts == TRANSCRIPT

    asyncio.run(scenario())


def test_a_client_that_comes_back_gets_the_run_anew_and_drops_what_it_had() -> None:
    async def scenario() -> None:
        doors = Doors()
        script_ = script()
        runtime = AgentRuntime([Agent("a", model=script_, tools=[doors.tool()])])
        stream = "/v1/ag-ui/threads/t/stream"
        async with serving(runtime) as url, aiohttp.ClientSession() as session:
            running = asyncio.create_task(
                post_stream(session, f"{url}/v1/ag-ui/run", body(threadId="t"))
            )
            await asyncio.wait_for(doors.entered.wait(), 10)
            waiting = asyncio.create_task(read_stream(session, url + stream))
            doors.opened.set()
            frames = await asyncio.wait_for(running, 10)
            live = Client().read(await asyncio.wait_for(waiting, 10))
            assert live.texts == [("user", "hi"), *TRANSCRIPT]
            for cut in range(1, len(frames) + 1):
                client = Client()
                client.read(frames[:cut])
                client.read(await read_stream(session, url + stream))
                said = [it for it in client.texts if it[0] in ("user", "assistant", "tool")]
                expected = [("user", "hi"), *TRANSCRIPT[1:]]
                assert sorted(map(str, said)) == sorted(map(str, expected)), cut

    asyncio.run(scenario())


def test_what_users_said_during_a_run_is_in_its_place_when_it_is_told_anew() -> None:
    async def scenario() -> None:
        doors = Doors()
        model = ScriptedModel([ToolCalls([("pass_through", {"way": "in"})]), "Yes.", "Both."])
        runtime = AgentRuntime([Agent("a", model=model, tools=[doors.tool()])])
        stream = "/v1/ag-ui/threads/t/stream"
        async with serving(runtime) as url, aiohttp.ClientSession() as session:
            run = f"{url}/v1/ag-ui/run"
            running = asyncio.create_task(post_stream(session, run, body(threadId="t")))
            await asyncio.wait_for(doors.entered.wait(), 10)
            steered = {"mode": "steer", "messages": [{"role": "user", "content": "hurry"}]}
            async with session.post(f"{url}/v1/threads/t/messages", json=steered) as reply:
                assert reply.status in (200, 202), await reply.text()
            doors.opened.set()
            await asyncio.wait_for(running, 10)
            anew = Client().read(await read_stream(session, url + stream))
            async with session.get(f"{url}/v1/ag-ui/threads/t/messages") as reply:
                stored = (await reply.json())["messages"]
        assert ("user", "hurry") in anew.texts
        assert anew.texts == [(it["role"], it.get("content")) for it in stored]

    asyncio.run(scenario())


def test_an_answer_that_begins_again_is_not_doubled() -> None:
    async def scenario() -> None:
        broken = Turn('{"a": 1', error=TransportFailed("gone"))
        model = ScriptedModel(["[0]", broken, "[1, 2]"])
        runtime = AgentRuntime([Agent("a", model=model, output_type=list[int])])
        async with serving(runtime) as url, aiohttp.ClientSession() as session:
            run = f"{url}/v1/ag-ui/threads/t/runs"
            client = Client()
            client.messages.append({"id": "u1", "role": "user", "content": "first"})
            client.read(await post_stream(session, run, _named("first", "u1")))
            client.messages.append({"id": "u2", "role": "user", "content": "second"})
            client.read(await post_stream(session, run, _named("second", "u2")))
        assert [it for it in client.kinds if it == "MESSAGES_SNAPSHOT"] == ["MESSAGES_SNAPSHOT"]
        assert client.texts == [
            ("user", "first"), ("assistant", "[0]"), ("user", "second"), ("assistant", "[1, 2]"),
        ]  # fmt: skip

    asyncio.run(scenario())


def test_how_a_run_ends_is_how_its_stream_ends() -> None:
    async def scenario() -> None:
        doors = Doors()
        model = ScriptedModel([ValueError("secret"), ToolCalls([("pass_through", {"way": "x"})])])
        runtime = AgentRuntime([Agent("a", model=model, tools=[doors.tool()])])
        async with serving(runtime) as url, aiohttp.ClientSession() as session:
            failed = await post_stream(session, f"{url}/v1/ag-ui/run", body(threadId="f"))
            running = asyncio.create_task(
                post_stream(
                    session, f"{url}/v1/ag-ui/run", body(threadId="t", protocolVersion="1.0")
                )
            )
            await asyncio.wait_for(doors.entered.wait(), 10)
            async with session.post(f"{url}/v1/ag-ui/threads/t/cancel") as reply:
                assert reply.status == 202
                assert await reply.json() == {"status": "cancel_requested", "thread_id": "t"}
            stopped = await asyncio.wait_for(running, 10)
            for what in ("cancel", "interrupt"):
                async with session.post(f"{url}/v1/ag-ui/threads/t/{what}") as reply:
                    assert reply.status == 404
        Client().read(failed)
        assert failed[-1].data["type"] == "RUN_ERROR"
        assert failed[-1].data["code"]
        assert Client().read(stopped).finished[-1]["outcome"] == {"type": "cancelled"}

    asyncio.run(scenario())


def test_places_to_read_on_from_are_checked_and_nothing_to_read_is_said() -> None:
    async def scenario() -> None:
        runtime = AgentRuntime([Agent("a", model=ScriptedModel(["One.", "Two."]))])
        async with serving(runtime) as url, aiohttp.ClientSession() as session:
            stream = f"{url}/v1/ag-ui/threads/t/stream"
            assert await _status(session, stream) == 404
            async with session.post(f"{url}/v1/threads", json={"title": "x"}) as reply:
                empty = (await reply.json())["id"]
            assert await _status(session, f"{url}/v1/ag-ui/threads/{empty}/stream") == 204
            first = await post_stream(session, f"{url}/v1/ag-ui/run", body(threadId="t"))
            for bad in ("x", "-1", "1.5", "9" * 30, "٣", "99"):
                assert await _status(session, f"{stream}?cursor={bad}") == 400, bad
                if bad.isascii():
                    headers = {"Last-Event-ID": bad}
                    assert await _status(session, stream, headers=headers) == 400, bad
            end = first[-1].id
            assert await _status(session, f"{stream}?cursor={end}") == 204
            middle = next(it.id for it in first if it.id and it.id != 1)
            await post_stream(session, f"{url}/v1/ag-ui/run", body("more", threadId="t"))
            rest = await read_stream(session, f"{stream}?cursor={middle}")
            assert rest[-1].id == end
            next_run = await read_stream(session, f"{stream}?cursor={end}")
            assert Client().read(next_run).texts == [("assistant", "Two.")]

    asyncio.run(scenario())


def test_who_may_not_read_does_not_get_a_run_again() -> None:
    @tool(effect="none")
    async def ask(ctx: ToolContext) -> Any:
        return ctx.suspend("Sure?") if ctx.resume is None else "yes"

    async def scenario() -> None:
        machine = frozenset({Access.INVOKE, Access.DECIDE})
        token = TokenSpec(id="machine", token=RedactedString("machine"), access=machine)
        agent = Agent("a", model=ScriptedModel([ToolCalls([("ask", {})]), "Secret."]), tools=[ask])
        config, named = ServerConfig(tokens=(token,)), {"Authorization": "Bearer machine"}
        async with (
            serving(AgentRuntime([agent]), config) as url,
            aiohttp.ClientSession(headers=named) as session,
        ):
            said = {"id": "u1", "role": "user", "content": "go"}
            answer = {"interruptId": "call_1", "payload": True}
            bodies = (
                ({"messages": [said]}, 200),
                ({"messages": [said]}, 403),
                ({"resume": answer}, 200),
                ({"resume": answer}, 403),
                ({}, 403),
            )
            for body, status in bodies:
                whole = {"agentId": "a", "threadId": "t", "runId": "r", **body}
                async with session.post(f"{url}/v1/ag-ui/run", json=whole) as reply:
                    assert reply.status == status, body
                    text = await reply.text()
                    assert (status == 200) or ("Secret." not in text and "go" not in text)

    asyncio.run(scenario())


def _named(text: str, id_: str) -> dict[str, Any]:
    return {"agentId": "a", "messages": [{"id": id_, "role": "user", "content": text}]}


def _told(frames: list[Frame]) -> list[Any]:
    """What the log says: without what is only shown while it happens, with pieces joined.

    Arguments are told where their call ends, because the log has them whole.
    """
    lines: list[Any] = []
    arguments: dict[str, str] = {}
    for it in frames:
        event, kind = it.data, it.data["type"]
        if kind == "TOOL_CALL_ARGS":
            name = event["toolCallId"]
            arguments[name] = arguments.get(name, "") + event["delta"]
        elif kind == "TOOL_CALL_END":
            lines.append(event | {"arguments": arguments[event["toolCallId"]]})
        elif kind == "TEXT_MESSAGE_CONTENT" and lines[-1]["type"] == kind:
            lines[-1] = lines[-1] | {"delta": lines[-1]["delta"] + event["delta"]}
        elif not kind.startswith(("STATE_", "ACTIVITY_")):
            lines.append(event)
    return lines


def _stream(url: str, frames: list[Frame]) -> str:
    return f"{url}/v1/ag-ui/threads/{frames[0].data['threadId']}/stream"


async def _rest(session: aiohttp.ClientSession, url: str, place: int) -> list[Frame]:
    async with session.get(url, headers={"Last-Event-ID": str(place)}) as reply:
        assert reply.status in (200, 204)
        return list(frames_of(await reply.text()))


async def _read_some(session: aiohttp.ClientSession, url: str) -> list[Frame]:
    """What a live stream has shown up to the output of the tool, and then leave."""
    text = ""
    async with session.get(url) as reply:
        async for chunk in reply.content.iter_any():
            text += chunk.decode()
            if "TOOL_CALL_END" in text:
                break
    whole = list(frames_of(text[: text.rindex("\n\n")]))
    last = max((i for i, it in enumerate(whole) if it.id), default=-1)
    return whole[: last + 1]


async def _status(session: aiohttp.ClientSession, url: str, **options: Any) -> int:
    async with session.get(url, **options) as reply:
        return reply.status
