"""Regenerate and edit as the AI SDK's clients do it: the chat goes on with a branch."""

import asyncio
from typing import Any

import msgspec
import pytest

from awaken import Access, Message, RedactedString
from awaken.server import ServerConfig, TokenSpec
from awaken.services import histories
from awaken.testing import ScriptedModel, ToolCalls

from .ai_sdk_world import Chat, Held, chatted, one, text_of
from .serving import Frame

LATER: dict[str, Any] = {"trigger": "regenerate-message"}


@pytest.fixture(autouse=True)
def _nothing_overlaps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histories, "OVERLAP_MS", 0)


def shown(frames: list[Frame]) -> dict[str, Any]:
    """The UI message that a client makes of a stream."""
    parts = [{"type": "text", "text": text_of(frames)}]
    return {"id": one(frames, "start")["messageId"], "role": "assistant", "parts": parts}


async def turn(chat: Chat, text: str) -> None:
    chat.say(text)
    chat.messages.append(shown(await chat.send()))


def said(message: Message) -> str:
    return message.text


async def transcript(chat: Chat, thread_id: str) -> list[str]:
    async with chat.session.get(f"{chat.url}/v1/threads/{thread_id}/messages") as reply:
        page = await reply.json()
    return [it["message"]["content"][0]["text"] for it in page["items"]]


def thread_of(frames: list[Frame]) -> str:
    return str(one(frames, "data-run-info")["data"]["threadId"])


def history_texts(page: dict[str, Any]) -> list[str]:
    return [
        part["text"] for it in page["messages"] for part in it["parts"] if part["type"] == "text"
    ]


def test_regenerate_answers_the_last_message_anew_on_a_branch() -> None:
    model = ScriptedModel(["1", "2", "other 2", "3"])

    async def scenario(chat: Chat) -> None:
        await turn(chat, "one")
        await turn(chat, "two")
        answer = chat.messages.pop()
        frames = await chat.send(**LATER, messageId=answer["id"])
        assert text_of(frames) == "other 2"
        branch = thread_of(frames)
        assert branch != chat.id
        assert await transcript(chat, "chat") == ["one", "1", "two", "2"]
        assert await transcript(chat, branch) == ["one", "1", "two", "other 2"]
        assert history_texts(await chat.history()) == ["one", "1", "two", "other 2"]
        # The chat goes on with the branch.
        chat.messages.append(shown(frames))
        await turn(chat, "three")
        assert [said(it) for it in model.requests[-1].messages] == [
            "one", "1", "two", "other 2", "three",
        ]  # fmt: skip
        assert await transcript(chat, "chat") == ["one", "1", "two", "2"]

    chatted(model, scenario)


def test_regenerate_in_the_middle_drops_what_followed() -> None:
    async def scenario(chat: Chat) -> None:
        for text in ("one", "two", "three"):
            await turn(chat, text)
        del chat.messages[1:]
        frames = await chat.send(**LATER)
        assert history_texts(await chat.history()) == ["one", "other 1"]
        # Again, of the branch this time.
        frames = await chat.send(**LATER)
        assert await transcript(chat, thread_of(frames)) == ["one", "third 1"]
        assert history_texts(await chat.history()) == ["one", "third 1"]

    chatted(ScriptedModel(["1", "2", "3", "other 1", "third 1"]), scenario)


def test_an_edited_message_goes_on_from_where_it_stood() -> None:
    async def scenario(chat: Chat) -> None:
        for text in ("one", "two"):
            await turn(chat, text)
        chat.messages = chat.messages[:3]
        edited = chat.messages[2]
        edited["parts"][0]["text"] = "changed"
        frames = await chat.send(messageId=edited["id"])
        assert history_texts(await chat.history()) == ["one", "1", "changed", "3"]
        assert await transcript(chat, "chat") == ["one", "1", "two", "2"]
        # The same edit once more is the same message.
        again = await chat.send(messageId=edited["id"])
        assert one(again, "start") == one(frames, "start")

    chatted(ScriptedModel(["1", "2", "3"]), scenario)


def test_a_message_with_another_id_in_the_place_of_one_is_an_edit() -> None:
    """This is how assistant-ui edits: it sends a shorter history, and a new message."""

    async def scenario(chat: Chat) -> None:
        for text in ("one", "two"):
            await turn(chat, text)
        chat.messages = chat.messages[:2]
        chat.messages.append(
            {"id": "new", "role": "user", "parts": [{"type": "text", "text": "other"}]}
        )
        await chat.send()
        assert history_texts(await chat.history()) == ["one", "1", "other", "3"]

    chatted(ScriptedModel(["1", "2", "3"]), scenario)


def test_what_was_said_a_moment_ago_is_no_edit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histories, "OVERLAP_MS", 3_600_000)

    async def scenario(chat: Chat) -> None:
        for text in ("one", "two"):
            await turn(chat, text)
        chat.messages = chat.messages[:2]
        chat.messages.append(
            {"id": "new", "role": "user", "parts": [{"type": "text", "text": "other"}]}
        )
        await chat.send()
        assert history_texts(await chat.history()) == ["one", "1", "two", "2", "other", "3"]

    chatted(ScriptedModel(["1", "2", "3"]), scenario)


def test_a_cursor_of_another_branch_is_refused() -> None:
    async def scenario(chat: Chat) -> None:
        chat.say("one")
        old = (await chat.send())[-1].id
        last = (await chat.send(**LATER))[-1]
        place, branch = str(last.id), last.branch
        new = f"{place}@{branch}"
        for cursor in (str(old), place, f"{place}@other"):
            status, problem = await chat.get("/chat/chat/stream", **{"Last-Event-ID": cursor})
            assert (status, problem["code"]) == (410, "other_branch")
        assert (await chat.get("/chat/chat/stream", **{"Last-Event-ID": new}))[0] == 204
        begin = f"0@{branch}"
        status, frames = await chat.get("/chat/chat/stream", **{"Last-Event-ID": begin})
        assert (status, text_of(frames)) == (200, "2")
        # A branch under its own name has cursors like every thread.
        status, frames = await chat.get(f"/chat/{branch}/stream", **{"Last-Event-ID": "0"})
        assert (status, text_of(frames)) == (200, "2")

    chatted(ScriptedModel(["1", "2"]), scenario)


def test_a_run_that_goes_on_is_left_alone_by_a_branch() -> None:
    model = Held(["1", "2"])

    async def scenario(chat: Chat) -> None:
        chat.say("one")
        first = asyncio.create_task(chat.send())
        await model.reached.wait()
        second = asyncio.create_task(chat.send(**LATER))
        while len(model.requests) < 2:
            await asyncio.sleep(0)
        model.released.set()
        assert (text_of(await first), text_of(await second)) == ("1", "2")
        assert await transcript(chat, "chat") == ["one", "1"]
        assert history_texts(await chat.history()) == ["one", "2"]

    chatted(model, scenario)


def test_many_at_once_leave_whole_branches_and_one_of_them_is_the_chats() -> None:
    async def scenario(chat: Chat) -> None:
        chat.say("one")
        await chat.send()
        found = await asyncio.gather(*(chat.send(**LATER) for _ in range(8)))
        branches = {thread_of(it) for it in found}
        assert len(branches) == 8
        for branch in branches:
            assert await transcript(chat, branch) == ["one", "1"]
        assert await transcript(chat, "chat") == ["one", "1"]
        assert history_texts(await chat.history()) == ["one", "1"]

    chatted(ScriptedModel(["1"], cycle=True), scenario)


def test_a_refused_branch_leaves_the_chat_where_it_is() -> None:
    async def scenario(chat: Chat) -> None:
        chat.say("one")
        await chat.send()
        assert (await chat.post(**LATER, agentId="nobody"))[0] == 404
        assert history_texts(await chat.history()) == ["one", "1"]
        async with chat.session.get(f"{chat.url}/v1/threads") as reply:
            assert (await reply.json())["items"] == ["chat"]

    chatted(ScriptedModel(["1"]), scenario)


def test_a_chat_whose_branch_was_deleted_is_its_thread_again() -> None:
    async def scenario(chat: Chat) -> None:
        chat.say("one")
        await chat.send()
        branch = thread_of(await chat.send(**LATER))
        async with chat.session.delete(f"{chat.url}/v1/threads/{branch}") as reply:
            assert reply.status == 204
        assert history_texts(await chat.history()) == ["one", "1"]

    chatted(ScriptedModel(["1", "2"]), scenario)


def test_a_ticket_of_the_thread_waits_on_beside_the_branch() -> None:
    async def scenario(chat: Chat) -> None:
        chat.say("one")
        await chat.send()
        assert text_of(await chat.send(**LATER)) == "no tool"
        async with chat.session.get(f"{chat.url}/v1/tickets") as reply:
            (ticket,) = (await reply.json())["items"]
        assert ticket["thread_id"] == "chat"

    chatted(ScriptedModel([ToolCalls([("approve", {})]), "no tool"]), scenario)


def test_stopping_a_chat_stops_its_branch() -> None:
    model = Held(["1", "2"])
    model.released.set()

    async def scenario(chat: Chat) -> None:
        chat.say("one")
        await chat.send()
        model.released.clear()
        model.reached.clear()
        sending = asyncio.create_task(chat.send(**LATER))
        await model.reached.wait()
        async with chat.session.post(f"{chat.url}/v1/ai-sdk/threads/chat/cancel") as reply:
            assert reply.status == 202
        await sending

    chatted(model, scenario)


def test_the_branches_of_a_tenant_are_its_own() -> None:
    tokens = tuple(
        TokenSpec(
            id=name,
            token=RedactedString(f"{name}-secret-token"),
            tenant_id=name,
            access=frozenset({Access.INVOKE, Access.READ}),
        )
        for name in ("ann", "bob")
    )

    async def scenario(chat: Chat) -> None:
        chat.headers = {"Authorization": "Bearer ann-secret-token"}
        chat.say("one")
        await chat.send()
        branch = thread_of(await chat.send(**LATER))
        chat.headers = {"Authorization": "Bearer bob-secret-token"}
        bob = chat.headers
        assert (await chat.get("/threads/chat/messages", **bob))[0] == 404
        assert (await chat.get(f"/threads/{branch}/messages", **bob))[0] == 404

    chatted(ScriptedModel(["1", "2"]), scenario, config=ServerConfig(tokens=tokens))


def test_what_only_the_model_reads_is_not_told_twice() -> None:
    model = ScriptedModel(["1", "2"])

    async def scenario(chat: Chat) -> None:
        chat.say("one")
        await chat.send(state={"page": 1})
        await chat.send(**LATER, state={"page": 2})
        texts = [said(it) for it in model.requests[-1].messages]
        assert len(texts) == 2
        assert msgspec.json.decode(texts[0].split("\n")[1]) == {"page": 2}

    chatted(model, scenario)


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_single_new_message_is_an_edit_of_the_first_if_the_client_says_so(is_whole: bool) -> None:
    async def scenario(chat: Chat) -> None:
        await turn(chat, "one")
        other = {"id": "new", "role": "user", "parts": [{"type": "text", "text": "other"}]}
        chat.messages = [other]
        await chat.send(wholeHistory=is_whole)
        before = [] if is_whole else ["one", "1"]
        assert history_texts(await chat.history()) == [*before, "other", "2"]

    chatted(ScriptedModel(["1", "2"]), scenario)


def test_a_message_may_be_changed_before_it_is_answered_anew() -> None:
    async def scenario(chat: Chat) -> None:
        await turn(chat, "one")
        chat.messages.pop()
        chat.messages[0]["parts"][0]["text"] = "changed"
        await chat.send(**LATER)
        assert history_texts(await chat.history()) == ["changed", "2"]

    chatted(ScriptedModel(["1", "2"]), scenario)


def test_a_user_cannot_take_the_id_of_an_answer() -> None:
    async def scenario(chat: Chat) -> None:
        await turn(chat, "one")
        before = await chat.history()
        async with chat.session.get(f"{chat.url}/v1/threads/chat/messages") as reply:
            stored = [it["message_id"] for it in (await reply.json())["items"]]
        for taken in (chat.messages[1]["id"], stored[1]):
            forged = {"id": taken, "role": "user", "parts": [{"type": "text", "text": "me"}]}
            sent = {"id": "chat", "messages": [*chat.messages, forged]}
            async with chat.session.post(f"{chat.url}/v1/ai-sdk/chat", json=sent) as reply:
                told = await reply.json()
            assert (reply.status, told["code"]) == (400, "invalid_input")
        assert await chat.history() == before

    chatted(ScriptedModel(["1", "2"]), scenario)
