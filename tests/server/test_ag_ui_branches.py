"""A shorter or changed history over AG-UI: the conversation goes on with a branch."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from awaken.services import histories

from .ag_ui_oracle import Client
from .serving import Frame, read_stream
from .test_ag_ui_input import World, said, world


@pytest.fixture(autouse=True)
def _nothing_overlaps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histories, "OVERLAP_MS", 0)


def played(scenario: Callable[[World], Awaitable[None]], *script: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(20), world(*script) as it:
            await scenario(it)

    asyncio.run(main())


class Conversation:
    """What an official client keeps: its messages, and those that streams add."""

    def __init__(self, it: World) -> None:
        self._it = it
        self.messages: list[dict[str, Any]] = []
        self.frames: list[Frame] = []

    async def send(self, **body: Any) -> None:
        self.frames = await self._it.run(threadId="t", messages=self.messages, **body)
        client = Client()
        client.messages = list(self.messages)
        self.messages = client.read(self.frames).messages

    async def say(self, text: str, id_: str) -> None:
        self.messages = [*self.messages, said(text, id_)]
        await self.send()

    @property
    def texts(self) -> list[str]:
        return [it["content"] for it in self.messages]


async def stored(it: World, thread_id: str) -> list[str]:
    return [message.text for message in await it.stored(thread_id)]


def test_a_history_that_ends_with_an_answered_message_wants_another_answer() -> None:
    async def scenario(it: World) -> None:
        client = Conversation(it)
        await client.say("one", "u1")
        await client.say("two", "u2")
        client.messages.pop()
        await client.send(runId="again")
        assert client.texts == ["one", "1", "two", "other 2"]
        first, last = client.frames[0].data, client.frames[-1]
        assert (first["threadId"], first["runId"], last.data["threadId"]) == ("t", "again", "t")
        assert last.branch not in ("", "t")
        assert await stored(it, "t") == ["one", "1", "two", "2"]
        assert await stored(it, last.branch) == client.texts
        assert [text for _, text in await it.shown()] == client.texts
        # The same request once more is the same run.
        client.messages.pop()
        await client.send(runId="again")
        assert client.texts[-1] == "other 2"
        await client.say("three", "u3")
        assert client.texts == ["one", "1", "two", "other 2", "three", "3"]
        assert await stored(it, "t") == ["one", "1", "two", "2"]

    played(scenario, "1", "2", "other 2", "3")


def test_another_message_in_the_place_of_one_is_an_edit() -> None:
    async def scenario(it: World) -> None:
        client = Conversation(it)
        await client.say("one", "u1")
        await client.say("two", "u2")
        del client.messages[2:]
        await client.say("changed", "u3")
        assert client.texts == ["one", "1", "changed", "3"]
        assert [text for _, text in await it.shown()] == client.texts
        assert await stored(it, "t") == ["one", "1", "two", "2"]

    played(scenario, "1", "2", "3")


def test_what_was_said_a_moment_ago_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histories, "OVERLAP_MS", 3_600_000)

    async def scenario(it: World) -> None:
        client = Conversation(it)
        await client.say("one", "u1")
        before = list(client.messages)
        await client.say("two", "u2")
        client.messages = before
        await client.say("other two", "u3")
        assert await stored(it, "t") == ["one", "1", "two", "2", "other two", "3"]
        client.messages = before[:1]
        await client.send()
        assert client.texts == ["one", "1"]
        assert len(await it.runtime.list_runs()) == 3

    played(scenario, "1", "2", "3")


def test_a_reader_attaches_to_the_branch_and_not_with_a_cursor_of_another() -> None:
    async def scenario(it: World) -> None:
        client = Conversation(it)
        await client.say("one", "u1")
        old = client.frames[-1].id
        client.messages.pop()
        await client.send()
        last = client.frames[-1]
        stream = f"{it.url}/threads/t/stream"
        anew = await read_stream(it.session, stream)
        assert Client().read(anew).texts[-1] == ("assistant", "2")
        assert anew[0].data["threadId"] == "t"
        for cursor in (f"{old}", f"{last.id}", f"{last.id}@other"):
            async with it.session.get(stream, headers={"Last-Event-ID": cursor}) as reply:
                assert reply.status == 410
                assert (await reply.json())["code"] == "other_branch"
        cursor = f"{last.id}@{last.branch}"
        async with it.session.get(stream, headers={"Last-Event-ID": cursor}) as reply:
            assert reply.status == 204

    played(scenario, "1", "2")


def test_a_message_that_was_changed_under_its_id_is_an_edit() -> None:
    async def scenario(it: World) -> None:
        client = Conversation(it)
        await client.say("one", "u1")
        await client.say("two", "u2")
        client.messages = [*client.messages[:2], said("changed", "u2")]
        await client.send()
        assert client.texts == ["one", "1", "changed", "3"]
        assert [text for _, text in await it.shown()] == client.texts
        assert await stored(it, "t") == ["one", "1", "two", "2"]

    played(scenario, "1", "2", "3")


def test_a_user_cannot_take_the_id_of_an_answer() -> None:
    async def scenario(it: World) -> None:
        client = Conversation(it)
        await client.say("one", "u1")
        taken = client.messages[-1]["id"]
        for history in ([said("me", taken)], [*client.messages, said("me", taken)]):
            refused = await it.refused(threadId="t", messages=history)
            assert refused == (400, "invalid_input")
        assert await stored(it, "t") == ["one", "1"]

    played(scenario, "1", "2")
