"""A chat that is loaded again: the same messages that were streamed, with calls as they stand."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from awaken import Message, user
from awaken.errors import CursorExpired
from awaken.messages import MessageMetadata, assistant
from awaken.server import TenantView
from awaken.stores import LIMIT_MAX, Commit, MemoryStore, MessageQuery, MessageRecord, Page, Thread
from awaken.testing import Chunks, ScriptedModel, ToolCalls, Turn

from .ai_sdk_world import PICK, Chat, Held, chatted, chatting, one, text_of

PIXEL = "data:image/png;base64,aGk="


def parts(message: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [it for it in message["parts"] if it["type"] == kind]


async def paged(chat: Chat, limit: int, order: str = "asc") -> list[dict[str, Any]]:
    """All messages, page by page, oldest first."""
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = await chat.history(f"?limit={limit}&order={order}{cursor}")
        assert len(page["messages"]) <= limit
        found += page["messages"]
        if not page["has_more"]:
            return found if order == "asc" else found[::-1]
        cursor = f"&cursor={page['next_cursor']}"


def test_a_run_is_one_message_with_its_calls_folded_in() -> None:
    script = [
        Turn(text="let me", reasoning="hm", calls=[("add", {"a": 1, "b": 2}), ("fail", {})]),
        "three",
        "bye",
    ]

    async def scenario(chat: Chat) -> None:
        chat.say("hi")
        frames = await chat.send()
        chat.say("more")
        await chat.send()
        page = await chat.history()
        assert [it["role"] for it in page["messages"]] == ["user", "assistant"] * 2
        assert (page["has_more"], page["next_cursor"]) == (False, None)
        said, answer, *_ = page["messages"]
        assert said == {
            "id": "chat-0",
            "role": "user",
            "parts": [{"type": "text", "text": "hi", "state": "done"}],
        }
        assert answer["id"] == one(frames, "start")["messageId"]
        assert [it["type"] for it in answer["parts"]] == [
            "step-start", "reasoning", "text", "tool-add", "tool-fail", "step-start", "text",
        ]  # fmt: skip
        assert answer["parts"][1]["text"] == "hm"
        (added,), (failed,) = parts(answer, "tool-add"), parts(answer, "tool-fail")
        assert added == {
            "type": "tool-add",
            "toolCallId": "call_1",
            "state": "output-available",
            "input": {"a": 1, "b": 2},
            "output": 3,
            "providerExecuted": True,
        }
        assert failed["state"] == "output-error"
        assert "it failed" in failed["errorText"]

    chatted(ScriptedModel(script), scenario)


def test_media_come_back() -> None:
    async def scenario(chat: Chat) -> None:
        chat.say(
            "look",
            {"type": "file", "url": PIXEL, "mediaType": "image/png"},
            {"type": "file", "url": "https://a.example/b.pdf?x", "mediaType": "application/pdf",
             "filename": "b.pdf"},
            {"type": "file", "url": "https://a.example/b", "mediaType": "image/webp"},
        )  # fmt: skip
        await chat.send()
        said, _ = (await chat.history())["messages"]
        assert parts(said, "file") == [
            {"type": "file", "mediaType": "image/png", "url": PIXEL},
            {
                "type": "file",
                "mediaType": "application/pdf",
                "url": "https://a.example/b.pdf?x",
                "filename": "b.pdf",
            },
            {"type": "file", "mediaType": "image/*", "url": "https://a.example/b"},
        ]

    chatted(ScriptedModel(["nice"]), scenario)


@pytest.mark.parametrize("is_approved", [True, False])
def test_a_call_that_waits_can_be_decided_after_a_reload(is_approved: bool) -> None:
    async def scenario(chat: Chat) -> None:
        chat.say("do it")
        request = one(await chat.send(), "tool-approval-request")
        _, answer = (await chat.history())["messages"]
        (call,) = parts(answer, "tool-approve")
        assert call["state"] == "approval-requested"
        assert call["approval"] == {"id": request["approvalId"]}
        call["state"] = "approval-responded"
        call["approval"]["approved"] = is_approved
        chat.messages.append(answer)
        await chat.send()
        _, answer = (await chat.history())["messages"]
        (call,) = parts(answer, "tool-approve")
        if is_approved:
            assert (call["state"], call["output"]) == ("output-available", "did it")
        else:
            assert call["state"] == "output-denied"
            assert call["approval"]["approved"] is False
            assert call["approval"]["id"] == request["approvalId"]
        assert len(answer["parts"]) == 4

    chatted(ScriptedModel([ToolCalls([("approve", {})]), "done"]), scenario)


def test_a_call_of_the_clients_own_tool_waits_as_input() -> None:
    async def scenario(chat: Chat) -> None:
        chat.say("choose")
        await chat.send(tools={"pick": PICK})
        _, answer = (await chat.history())["messages"]
        (call,) = parts(answer, "tool-pick")
        assert (call["state"], call["input"]) == ("input-available", {"from": 3})
        assert "approval" not in call

    chatted(ScriptedModel([ToolCalls([("pick", {"from": 3})])]), scenario)


def test_a_result_that_looks_like_a_refusal_is_a_result() -> None:
    async def scenario(chat: Chat) -> None:
        chat.say("go")
        output = {"approved": False, "error": "suspended"}
        assert one(await chat.send(), "tool-output-available")["output"] == output
        _, answer = (await chat.history())["messages"]
        (call,) = parts(answer, "tool-ballot")
        assert (call["state"], call["output"]) == ("output-available", output)

    chatted(ScriptedModel([ToolCalls([("ballot", {})]), "counted"]), scenario)


def test_what_the_log_has_forgotten_is_told_from_the_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def forgotten(*_: Any) -> None:
        raise CursorExpired(thread_id="chat", purged_seq=1)

    async def scenario(chat: Chat) -> None:
        chat.say("go")
        await chat.send()
        monkeypatch.setattr(TenantView, "run_events", forgotten)
        _, answer = (await chat.history())["messages"]
        outputs = [it["output"] for it in answer["parts"] if "output" in it]
        assert outputs == [3, {"approved": False, "error": "suspended"}]

    calls = ToolCalls([("add", {"a": 1, "b": 2}), ("ballot", {})])
    chatted(ScriptedModel([calls, "counted"]), scenario)


def test_what_executes_is_left_out_because_resuming_tells_it() -> None:
    async def scenario() -> None:
        model = Held([ToolCalls([("add", {"a": 1, "b": 2})]), Chunks(["th", "ree"])])
        async with chatting(model) as chat:
            chat.say("hi")
            sending = asyncio.create_task(chat.send())
            await model.reached.wait()
            page = await chat.history()
            assert [it["id"] for it in page["messages"]] == ["chat-0"]
            assert page["executing_run_id"]
            model.released.set()
            run_id = one(await sending, "start")["messageId"]
            assert page["executing_run_id"] == run_id
            page = await chat.history()
            assert [it["id"] for it in page["messages"]] == ["chat-0", run_id]
            assert page["executing_run_id"] is None

    asyncio.run(scenario())


def test_pages_are_cut_after_folding() -> None:
    script = [ToolCalls([("add", {"a": it, "b": it})]) if it % 2 else "ok" for it in range(1, 7)]

    async def scenario(chat: Chat) -> None:
        for text in ("one", "two", "three"):
            chat.say(text)
            await chat.send()
        whole = (await chat.history())["messages"]
        assert len(whole) == 6
        found = await paged(chat, 4)
        assert found == whole
        assert [parts(it, "tool-add")[0]["output"] for it in found[1::2]] == [2, 6, 10]
        newest = await chat.history("?limit=1&order=desc")
        assert newest["messages"] == whole[-1:]
        assert (await chat.history("?limit=2&offset=2"))["messages"] == whole[2:4]
        run_id = whole[3]["id"]
        assert (await chat.history(f"?run_id={run_id}"))["messages"] == whole[2:4]

    chatted(ScriptedModel(script), scenario)


def test_long_threads_are_read_whole() -> None:
    async def scenario(chat: Chat) -> None:
        for place in range(210):
            chat.say(f"n{place}")
        await chat.send()
        page = await chat.history("?limit=200&offset=200")
        assert (page["has_more"], len(page["messages"])) == (False, 11)
        assert text_of(await chat.send()) == "ok"

    chatted(ScriptedModel(["ok"]), scenario)


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("limit", [1, 2, 3, 200])
def test_every_page_shows_what_the_whole_shows(order: str, limit: int) -> None:
    """Also where a cut goes through a run that was asked something and told something else."""
    ask = ToolCalls([("approve", {}), ("fail", {})])
    script = [ask, "fine", ToolCalls([("add", {"a": 1, "b": 2})]), "three", ask, "done"]

    async def scenario(chat: Chat) -> None:
        for texts in (["do it"], ["well", "no", "never mind"], ["add"], ["do that"], ["or", "not"]):
            for text in texts:
                chat.say(text)
            await chat.send()
        whole = (await chat.history("?limit=200"))["messages"]
        assert len({it["id"] for it in whole}) == len(whole) == 13
        assert parts(whole[1], "tool-approve")[0]["state"] == "output-error"
        assert await paged(chat, limit, order) == whole

    chatted(ScriptedModel(script), scenario)


class OldStore(MemoryStore):
    """Counts the messages that are read, and has forgotten the beginning of the log."""

    read = forgotten = 0

    async def list_messages(self, thread_id: str, query: MessageQuery) -> Page[MessageRecord]:
        page = await super().list_messages(thread_id, query)
        self.read += len(page.items)
        return page

    async def list_events(self, thread_id: str, *, after: int = 0, limit: int = 1000) -> Any:
        if after < self.forgotten:
            raise CursorExpired(thread_id=thread_id, purged_seq=self.forgotten)
        return await super().list_events(thread_id, after=after, limit=limit)


@pytest.mark.parametrize("runs", [None, "imported"])
def test_the_newest_page_is_shown_without_reading_a_long_thread(runs: str | None) -> None:
    store, turns = OldStore(), 1000

    async def scenario(chat: Chat) -> None:
        history: list[Message] = []
        for turn in range(turns):
            metadata = MessageMetadata(run_id=f"{runs}-{turn}") if runs else None
            history.append(replace(user("hi"), id=f"u{turn}", metadata=metadata))
            history.append(replace(assistant("ho"), id=f"a{turn}", metadata=metadata))
        seeded = Commit(
            commit_id="c",
            thread_id=chat.id,
            expected_version=0,
            committed_at=1,
            thread=Thread(id=chat.id),
            messages=tuple(history),
        )
        await store.commit(seeded)
        cursor = ""
        for at in range(3):
            store.read = 0
            page = await chat.history(f"?limit=20&order=desc{cursor}")
            users = [it["id"] for it in page["messages"] if it["role"] == "user"]
            assert users == [f"u{turns - 1 - 10 * at - it}" for it in range(10)]
            assert store.read <= 2 * LIMIT_MAX
            cursor = f"&cursor={page['next_cursor']}"

    chatted(ScriptedModel([]), scenario, store=store)


def test_a_run_that_the_log_has_forgotten_does_not_change_a_newer_one() -> None:
    store = OldStore()

    async def scenario(chat: Chat) -> None:
        for text in ("one", "two"):
            chat.say(text)
            await chat.send()
        store.forgotten = 5
        first, second = (it for it in (await chat.history())["messages"] if it["role"] != "user")
        assert parts(first, "tool-fail")[0]["state"] == "output-available"
        assert parts(second, "tool-fail")[0]["state"] == "output-error"

    fail = ToolCalls([("fail", {})])
    chatted(ScriptedModel([fail, "oh", fail, "no"]), scenario, store=store)


@pytest.mark.parametrize("cursor", [-5, 0, 10**30])
def test_a_cursor_from_nowhere_finds_a_page(cursor: int) -> None:
    async def scenario(chat: Chat) -> None:
        chat.say("hi")
        await chat.send()
        for order in ("asc", "desc"):
            page = await chat.history(f"?order={order}&cursor={cursor}")
            assert len(page["messages"]) in (0, 2)

    chatted(ScriptedModel(["ho"]), scenario)


def test_a_thread_that_is_not_there_is_not_found() -> None:
    async def scenario(chat: Chat) -> None:
        assert (await chat.get("/threads/nobody/messages"))[0] == 404

    chatted(ScriptedModel([]), scenario)


def test_after_a_message_in_between_a_run_goes_on_in_a_new_message() -> None:
    async def scenario(chat: Chat) -> None:
        chat.say("do it")
        first = one(await chat.send(), "start")["messageId"]
        chat.say("never mind")
        await chat.send()
        ids = [it["id"] for it in (await chat.history())["messages"]]
        assert ids[1] == first
        assert len(set(ids)) == 4

    chatted(ScriptedModel([ToolCalls([("approve", {})]), "fine"]), scenario)
