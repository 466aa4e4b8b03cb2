"""What AG-UI clients send: strict or short, once or again, with tools, answers and history."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from ag_ui.core import ResumeEntry, RunAgentInput, Tool, UserMessage

from awaken import Access, Agent, AgentRuntime, Message, RedactedString, ToolContext, tool
from awaken.messages import Base64Source, Document, Image, Role, Text, UrlSource, Visibility
from awaken.server import ServerConfig, TokenSpec
from awaken.testing import ScriptedModel, ToolCalls

from .ag_ui_oracle import Client, check_form
from .serving import Frame, post_stream, read_stream, serving

ASKED = [("ask", {"what": "one"}), ("ask", {"what": "two"}), ("ask", {"what": "three"})]
SHOW = {"name": "show", "description": "Show it", "parameters": {"type": "object"}}


@tool(effect="none")
async def ask(what: str, ctx: ToolContext) -> Any:
    """Ask."""
    if ctx.resume is None:
        schema = {"title": "Answer"}
        return ctx.suspend(what, response_schema=schema, parameters={"what": what})
    return f"{what}: {json.dumps(ctx.resume.result)}"


class World:
    """A served agent, and what the model was asked."""

    def __init__(self, url: str, session: aiohttp.ClientSession, runtime: AgentRuntime) -> None:
        self.url = f"{url}/v1/ag-ui"
        self.session = session
        self.runtime = runtime

    async def run(self, path: str = "run", **body: Any) -> list[Frame]:
        frames = await post_stream(self.session, f"{self.url}/{path}", {"agentId": "a", **body})
        Client().read(frames)
        return frames

    async def refused(self, **body: Any) -> tuple[int, str]:
        async with self.session.post(f"{self.url}/run", json={"agentId": "a", **body}) as reply:
            assert reply.status >= 400, await reply.text()
            return reply.status, (await reply.json())["code"]

    async def stored(self, thread_id: str = "t") -> list[Message]:
        return [it.message for it in await self.runtime.messages(thread_id)]

    async def shown(self, limit: int = 50) -> list[tuple[str, Any]]:
        """All messages, page by page, in the form of the SDK."""
        client, cursor, total = Client(), "", 0
        while True:
            query = f"limit={limit}" + (f"&cursor={cursor}" if cursor else "")
            async with self.session.get(f"{self.url}/threads/t/messages?{query}") as reply:
                assert reply.status == 200
                page = await reply.json()
            check_form({"type": "MESSAGES_SNAPSHOT", "messages": page["messages"]})
            client.messages += page["messages"]
            cursor, total = page["next_cursor"], page["total"]
            assert page["has_more"] == (cursor is not None)
            if cursor is None:
                assert len([it for it in client.messages if it["role"] != "reasoning"]) == total
                return client.texts


@asynccontextmanager
async def world(*script: Any, **options: Any) -> AsyncIterator[World]:
    agent = Agent("a", model=ScriptedModel(list(script)), tools=[ask])
    runtime = AgentRuntime([agent], **options)
    async with serving(runtime) as url, aiohttp.ClientSession() as session:
        yield World(url, session, runtime)


def said(text: str, id_: str | None = None, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": text} | ({"id": id_} if id_ else {})


def ending(frames: list[Frame]) -> dict[str, Any]:
    assert frames[-1].data["type"] == "RUN_FINISHED"
    return frames[-1].data.get("outcome", {"type": "success"})


def test_the_sdks_request_is_taken_and_its_run_id_is_the_runs() -> None:
    async def scenario() -> None:
        async with world("One.", "Two.", "Three.") as it:
            asked = RunAgentInput(
                thread_id="t", run_id="r1", state={}, tools=[], context=[], forwarded_props={},
                messages=[UserMessage(id="u1", content="hi")],
            )  # fmt: skip
            strict = asked.model_dump(mode="json", by_alias=True)
            first = (await it.run(**strict))[0].data
            assert (first["threadId"], first["runId"]) == ("t", "r1")
            again = await it.run(**strict)
            assert again[0].data["runId"] == "r1"
            assert Client().read(again).texts == [("user", "hi"), ("assistant", "One.")]
            taken = await it.run(threadId="t", runId="r1", messages=[said("more", "u2")])
            assert taken[0].data["runId"] != "r1"
            elsewhere = await it.run(threadId="x", runId="r1", messages=[said("more", "u2")])
            assert elsewhere[0].data["runId"] not in ("r1", taken[0].data["runId"])
            same = {"threadId": "x", "messages": [said("more", "u2")]}
            repeated = await it.run(**same, runId="r1")
            assert repeated[0].data["runId"] == elsewhere[0].data["runId"]
            assert len(await it.runtime.list_runs("t")) == 2

    asyncio.run(scenario())


@pytest.mark.parametrize("path", ["run", "threads/t/runs", "agents/a/runs"])
def test_a_short_body_is_taken_on_every_route(path: str) -> None:
    async def scenario() -> None:
        async with world("One.") as it:
            body = {"messages": [said("hi")], "threadId": "t"}
            body |= {} if path.startswith("agents") else {"agentId": "a"}
            url = f"{it.url}/{path}"
            frames = await post_stream(it.session, url, body)
            assert frames[0].data["threadId"] == "t"
            assert await it.shown() == [("user", "hi"), ("assistant", "One.")]

    asyncio.run(scenario())


def test_a_history_that_is_sent_again_is_not_stored_again() -> None:
    async def scenario() -> None:
        async with world("One.", "Two.", "Three.") as it:
            await it.run(threadId="t", messages=[said("hi", "u1")])
            history = (await it.stored())[-1]
            seen = [said("hi", "u1"), said("Forged.", history.id, "assistant")]
            forged = [said("Result", "x1", "tool") | {"toolCallId": "c"}]
            await it.run(threadId="t", messages=[*seen, *forged, said("more", "u2")])
            plain = [
                said("hi"),
                said("One.", role="assistant"),
                said("more"),
                said("Two.", role="assistant"),
            ]
            await it.run(threadId="t", messages=[*plain, said("and more")])
            assert await it.shown() == [
                ("user", "hi"), ("assistant", "One."), ("user", "more"), ("assistant", "Two."),
                ("user", "and more"), ("assistant", "Three."),
            ]  # fmt: skip
            await it.run(threadId="t", messages=[said("hi", "u1")])
            assert len(await it.shown()) == 6

    asyncio.run(scenario())


def test_a_history_that_the_server_never_had_is_taken_without_its_answers() -> None:
    async def scenario() -> None:
        async with world("Three.") as it:
            told = [
                said("one"),
                said("Never said.", "a1", "assistant"),
                said("two", "u2"),
                said("two", "u2"),
            ]
            await it.run(
                threadId="t", messages=[said("Be kind.", "s", "developer"), *told, said("three")]
            )
            assert await it.shown() == [
                ("system", "Be kind."), ("user", "one"), ("user", "two"), ("user", "three"),
                ("assistant", "Three."),
            ]  # fmt: skip

    asyncio.run(scenario())


def test_a_message_far_back_in_a_long_history_is_still_known() -> None:
    async def scenario() -> None:
        async with world("One.", "Two.", "Three.") as it:
            many = [said(f"line {n}", f"u{n}") for n in range(450)]
            await it.run(threadId="t", messages=many)
            await it.run(threadId="t", messages=[said("two")])
            await it.run(threadId="t", messages=[*many[:100], said("three", "new")])
            stored = [m.text for m in await it.stored() if m.role is Role.USER]
            assert stored == [f"line {n}" for n in range(450)] + ["two", "three"]
            anew = await read_stream(it.session, f"{it.url}/threads/t/stream")
            whole = [(m.role.value, m.text) for m in await it.stored()]
            assert Client().read(anew).texts == whole
            assert await it.shown(limit=200) == whole

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("state", "context", "told"),
    [
        ({"a": 1, "b": 2}, {"b": 3}, {"a": 1, "b": 3}),
        ({"a": 1}, [{"description": "where", "value": "home"}], {"a": 1, "where": "home"}),
        ({}, [{"description": "do", "value": it} for it in "xyz"], {"do": ["x", "y", "z"]}),
        ({}, {"c": 1}, {"c": 1}),
        ("list", {"c": 1}, "list"),
        (None, None, None),
        ({}, [], None),
        ({"revision": 4, "extensions": {"x": 1}}, None, None),
        ({"revision": 4, "extensions": {}, "own": 1}, [], {"own": 1}),
    ],
)
def test_what_the_client_shows_is_one_message_that_only_the_model_reads(
    state: Any, context: Any, told: Any
) -> None:
    async def scenario() -> None:
        async with world("One.") as it:
            body = {"threadId": "t", "messages": [said("hi")], "state": state, "context": context}
            await it.run(**body)
            internal = [m for m in await it.stored() if m.visibility is Visibility.INTERNAL]
            if told is None:
                assert internal == []
            else:
                (message,) = internal
                assert (await it.stored())[0] == message
                assert message.role is Role.SYSTEM
                head, text, foot = message.text.split("\n")
                assert (head, foot) == ("<frontend-context>", "</frontend-context>")
                assert json.loads(text) == told
            assert await it.shown() == [("user", "hi"), ("assistant", "One.")]

    asyncio.run(scenario())


def test_media_go_in_and_come_back() -> None:
    async def scenario() -> None:
        parts = [
            {"type": "text", "text": "Look:"},
            {"type": "image", "source": {"type": "url", "value": "https://x.test/a.png"}},
            {
                "type": "document",
                "source": {"type": "data", "value": "eA==", "mimeType": "application/pdf"},
            },
            {"type": "image", "source": {"type": "file", "value": "file-1"}},
        ]
        async with world("Nice.") as it:
            await it.run(threadId="t", messages=[{"role": "user", "content": parts}])
            (first, *_) = await it.stored()
            assert first.content == (
                Text(text="Look:"),
                Image(source=UrlSource(url="https://x.test/a.png")),
                Document(source=Base64Source(media_type="application/pdf", data="eA==")),
            )
            assert (await it.shown())[0] == ("user", parts[:3])

    asyncio.run(scenario())


def test_bad_requests_are_refused_and_nothing_is_stored() -> None:
    async def scenario() -> None:
        async with world() as it:
            assert await it.refused(messages=[]) == (400, "invalid_input")
            assert await it.refused(messages=[said("x", role="assistant")]) == (
                400,
                "invalid_input",
            )
            assert (await it.refused(messages=[said("x")], agentId="nobody"))[0] == 404
            odd = [
                {"messages": "x"},
                {"messages": [{"content": "x"}]},
                {"messages": [said("x")], "tools": 3},
                {"messages": [{"role": "user", "content": [{"type": "smell"}]}]},
                {"messages": [said("x")], "resume": {"payload": 1}},
            ]
            for body in odd:
                assert (await it.refused(**body))[0] == 422, body
            maybe = [{"interruptId": "x", "status": "maybe"}]
            told = await it.refused(messages=[said("x")], resume=maybe)
            assert told == (400, "invalid_decision")
            for tool_ in ({"name": " "}, {"name": "x", "parameters": {"type": "banana"}}):
                told = await it.refused(messages=[said("x")], tools=[tool_])
                assert told == (400, "invalid_input"), tool_
            for empty in (None, {}, []):
                told = await it.refused(messages=[{"role": "user", "content": empty}])
                assert told == (400, "invalid_input"), empty
            answer = {"interruptId": "x"}
            assert await it.refused(threadId="t", resume=answer) == (404, "unknown_ticket")
            assert await it.runtime.list_runs("t") == ()

    asyncio.run(scenario())


def test_a_clients_tool_is_called_and_its_result_lets_the_run_go_on() -> None:
    async def scenario() -> None:
        calls = ToolCalls([("show", {"n": 1}), ("show", {"n": 2})])
        async with world(calls, "Shown.", "Later.") as it:
            shown = RunAgentInput(
                thread_id="t", run_id="r1", messages=[UserMessage(id="u1", content="show")],
                tools=[Tool(**SHOW)],
            )  # fmt: skip
            strict = shown.model_dump(mode="json", by_alias=True) | {"protocolVersion": "1.0"}
            frames = await it.run(**strict)
            assert ending(frames) == {"type": "success", "pendingToolCallIds": ["call_1", "call_2"]}
            client = Client().read(frames)
            assert client.call("call_1")["function"] == {"name": "show", "arguments": '{"n":1}'}
            results = [
                {"id": "x1", "role": "tool", "toolCallId": "call_1", "content": '{"seen": true}'},
                {
                    "id": "x2",
                    "role": "tool",
                    "toolCallId": "call_2",
                    "content": "dark",
                    "error": "no light",
                },
            ]
            told = [said("show", "u1"), *client.messages, *results]
            on = await it.run(**strict | {"runId": "r2", "messages": told})
            assert on[0].data["runId"] == "r1"
            assert ending(on) == {"type": "success"}
            after = Client().read(on)
            assert after.texts == [("assistant", "Shown.")]
            more = [*told, *after.messages, said("more", "u2")]
            new = await it.run(**strict | {"runId": "r3", "messages": more})
            assert new[0].data["runId"] == "r3"
            stored = [(m.role.value, m.text) for m in await it.stored()]
            assert stored.count(("user", "show")) == 1
            assert [text for role, text in stored if role == "tool"] == [
                '{"seen":true}', '{"error":"no light","content":"dark"}',
            ]  # fmt: skip
            again = Client().read(await read_stream(it.session, f"{it.url}/threads/t/stream"))
            assert again.texts == await it.shown()

    asyncio.run(scenario())


@pytest.mark.parametrize("content", ["painted", "5", '"5"', "true", '{"a":1}', ""])
def test_the_model_reads_the_result_of_a_clients_tool_as_the_client_wrote_it(content: str) -> None:
    async def scenario() -> None:
        async with world(ToolCalls([("show", {})]), "Shown.") as it:
            await it.run(threadId="t", messages=[said("show", "u1")], tools=[SHOW])
            result = {"id": "x1", "role": "tool", "toolCallId": "call_1", "content": content}
            await it.run(threadId="t", messages=[said("show", "u1"), result], tools=[SHOW])
            assert [it.text for it in await it.stored() if it.role is Role.TOOL] == [content]

    asyncio.run(scenario())


def test_a_new_message_instead_of_a_result_begins_a_new_run() -> None:
    async def scenario() -> None:
        async with world(ToolCalls([("show", {})]), "Never mind.") as it:
            await it.run(threadId="t", messages=[said("show", "u1")], tools=[SHOW])
            other = await it.run(threadId="t", runId="r2", messages=[said("stop it", "u2")])
            assert other[0].data["runId"] == "r2"
            assert ending(other) == {"type": "success"}
            assert await it.runtime.tickets("t") == ()

    asyncio.run(scenario())


def test_several_interrupts_are_all_told_and_answered_by_a_list() -> None:
    async def scenario() -> None:
        async with world(ToolCalls(ASKED), "All asked.") as it:
            outcome = ending(await it.run(threadId="t", messages=[said("go")]))
            assert outcome["type"] == "interrupt"
            asked = outcome["interrupts"]
            assert [(i["toolCallId"], i["message"], i["reason"]) for i in asked] == [
                ("call_1", "one", "tool:ask"), ("call_2", "two", "tool:ask"),
                ("call_3", "three", "tool:ask"),
            ]  # fmt: skip
            assert [i["id"] for i in asked] == [i.ticket_id for i in await it.runtime.tickets("t")]
            first = outcome["interrupts"][0]
            assert (first["toolCallId"], first["responseSchema"]) == ("call_1", {"title": "Answer"})
            told = {"toolName": "ask", "parameters": {"what": "one"}, "asks": "either"}
            assert first["metadata"] == told
            resume = [
                ResumeEntry(interrupt_id=first["id"], status="resolved", payload={"yes": 1}),
                ResumeEntry(interrupt_id=asked[1]["id"], status="cancelled"),
                ResumeEntry(interrupt_id="call_3", status="resolved", payload={"approved": False}),
            ]
            entries = [entry.model_dump(mode="json", by_alias=True) for entry in resume]
            frames = await it.run(threadId="t", runId="r2", resume=entries)
            assert ending(frames) == {"type": "success"}
            answers = [content for role, content in Client().read(frames).texts if role == "tool"]
            assert answers[0] == 'one: {"yes": 1}'
            assert len(answers) == 3
            assert not any(it.startswith(("two:", "three:")) for it in answers)

    asyncio.run(scenario())


def test_interrupts_that_are_left_open_are_told_again() -> None:
    async def scenario() -> None:
        async with world(ToolCalls(ASKED[:2]), "Done.") as it:
            started = await it.run(threadId="t", messages=[said("go")])
            answer = {"interruptId": "call_2", "payload": "fine"}
            frames = await it.run(threadId="t", resume=answer)
            assert frames[0].data["runId"] == started[0].data["runId"]
            (left,) = ending(frames)["interrupts"]
            assert left["toolCallId"] == "call_1"
            assert await it.refused(threadId="t", resume={"interruptId": "nobody"}) == (
                404,
                "unknown_ticket",
            )
            both = await it.run(
                threadId="t", resume={"interruptId": "call_1"}, messages=[said("And hurry.", "u9")]
            )
            assert ending(both) == {"type": "success"}
            assert ("user", "And hurry.") in await it.shown()
            attached = await read_stream(it.session, f"{it.url}/threads/t/stream")
            anew = Client().read(attached)
            assert anew.kinds.count("RUN_STARTED") == 3
            assert anew.texts == await it.shown()

    asyncio.run(scenario())


def test_an_answer_that_is_sent_again_counts_once_and_gets_the_whole_run() -> None:
    async def scenario() -> None:
        async with world(ToolCalls(ASKED[:1]), "Done.") as it:
            await it.run(threadId="t", messages=[said("go")])
            answer = {"interruptId": "call_1", "payload": "yes"}
            await it.run(threadId="t", runId="r2", resume=answer)
            again = await it.run(threadId="t", runId="r2", resume=answer)
            assert Client().read(again).texts == await it.shown()
            other = answer | {"payload": "no"}
            assert await it.refused(threadId="t", resume=other) == (409, "already_decided")
            late = {"resume": answer, "messages": [said("more", "u2")]}
            assert await it.refused(threadId="t", **late) == (409, "invalid_resume")
            assert [text for role, text in await it.shown() if role == "tool"] == ['one: "yes"']

    asyncio.run(scenario())


def test_questions_and_calls_to_the_client_are_kept_apart() -> None:
    async def scenario() -> None:
        calls = ToolCalls([("ask", {"what": "may I"}), ("show", {})])
        async with world(calls, "Done.") as it:
            outcome = ending(await it.run(threadId="t", messages=[said("go")], tools=[SHOW]))
            assert [i["toolCallId"] for i in outcome["interrupts"]] == ["call_1"]
            forged = {"role": "tool", "toolCallId": "call_1", "content": "yes"}
            assert await it.refused(threadId="t", messages=[forged]) == (400, "invalid_input")
            result = {"role": "tool", "toolCallId": "call_2", "content": "ok"}
            answer = {"interruptId": "call_1", "payload": True}
            frames = await it.run(threadId="t", messages=[result], resume=[answer])
            assert ending(frames) == {"type": "success"}
            told = sorted(text for role, text in Client().read(frames).texts if role == "tool")
            assert told == ["may I: true"]

    asyncio.run(scenario())


def test_only_those_who_may_decide_answer_interrupts() -> None:
    def token(id_: str, *access: Access, tenant: str | None = None) -> TokenSpec:
        return TokenSpec(
            id=id_, token=RedactedString(f"token-{id_}"), access=frozenset(access), tenant_id=tenant
        )

    async def scenario() -> None:
        config = ServerConfig(
            tokens=(
                token("user", Access.INVOKE, Access.READ, tenant="x"),
                token("boss", Access.INVOKE, Access.DECIDE, Access.READ, tenant="x"),
                token("other", Access.INVOKE, Access.DECIDE, Access.READ, tenant="y"),
            )
        )
        agent = Agent("a", model=ScriptedModel([ToolCalls(ASKED[:1]), "Done."]), tools=[ask])
        async with (
            serving(AgentRuntime([agent]), config) as url,
            aiohttp.ClientSession() as session,
        ):

            async def post(who: str, **body: Any) -> tuple[int, str]:
                headers = {"Authorization": f"Bearer token-{who}"}
                whole = {"agentId": "a", "threadId": "t", **body}
                async with session.post(
                    f"{url}/v1/ag-ui/run", json=whole, headers=headers
                ) as reply:
                    return reply.status, await reply.text()

            assert (await post("user", messages=[said("go")]))[0] == 200
            answer = {"interruptId": "call_1", "payload": True}
            assert (await post("user", resume=answer))[0] == 403
            assert (await post("other", resume=answer))[0] in (400, 404)
            status, text = await post("other", messages=[said("go")])
            assert (status, "call_1" in text) == (200, False)
            status, text = await post("boss", resume=answer)
            assert status == 200
            assert "may" not in text
            assert "one: true" in text

    asyncio.run(scenario())


def test_a_run_that_waits_is_answered_and_followed_from_another_process(tmp_path: Path) -> None:
    async def scenario() -> None:
        database = f"sqlite:///{tmp_path}/awaken.db"
        async with world(ToolCalls(ASKED[:1]), "Done.", store=database) as one:
            await one.run(threadId="t", messages=[said("go")])
            async with world("Done.", store=database) as two:
                frames = await two.run(threadId="t", resume={"interruptId": "call_1", "payload": 1})
                assert ending(frames) == {"type": "success"}
            seen = await read_stream(one.session, f"{one.url}/threads/t/stream")
            assert Client().read(seen).texts[-1] == ("assistant", "Done.")

    asyncio.run(scenario())
