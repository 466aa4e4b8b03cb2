"""Messages sent into a running run: taken in before its next inference, and never lost."""

import asyncio
from typing import Any

import pytest

from awaken import AwakenError, InvalidInput, Limits, Message, NaturalEnd, ToolContext, tool, user
from awaken.errors import LimitExceeded, ProviderFailed
from awaken.messages import Role, assistant, tool_answer
from awaken.plugins import Block, ToolGateContext
from awaken.runtime.journal.journal import Inbox
from awaken.testing import Chunks, InjectionPoint, ToolCalls, Turn, enumerate_awaits

from .asking import finished, open_tickets, retold
from .worlds import Gate, World, simulated


@tool
async def work(ctx: ToolContext) -> Any:
    """Take ten seconds."""
    await asyncio.sleep(10)
    return "worked"


WORK = ToolCalls([("work", {})])


def texts(request: Any) -> list[str]:
    return [message.text for message in request.messages if message.role is Role.USER]


def test_messages_are_seen_by_the_next_inference_in_the_order_they_were_sent() -> None:
    async def scenario() -> None:
        world = World([WORK, WORK, "done"], tools=[work])
        handle = await world.runtime.start("agent", "go", thread_id="t")
        await asyncio.sleep(5)
        receipts = [
            await world.runtime.steer("t", "one"),
            await world.runtime.steer(handle.run_id, [user("two"), user("three")]),
        ]
        await asyncio.sleep(10)
        receipts.append(await world.runtime.steer("t", "four"))
        assert (await handle.result()).termination == NaturalEnd()
        assert [texts(request) for request in world.model.requests] == [
            ["go"],
            ["go", "one", "two", "three"],
            ["go", "one", "two", "three", "four"],
        ]
        assert {receipt.run_id for receipt in receipts} == {handle.run_id}
        promised = [name for receipt in receipts for name in receipt.message_ids]
        story = await retold(world)
        users = [message for message in story.messages if message.role is Role.USER]
        assert [message.id for message in users[1:]] == promised
        assert {it.metadata.run_id for it in users if it.metadata} == {handle.run_id}

    simulated(scenario)


def test_a_message_keeps_a_run_alive_that_would_have_ended() -> None:
    async def scenario() -> None:
        slow = Chunks(["al", "most"], delay_ms=1000)
        world = World([slow, "really done"])
        handle = await world.runtime.start("agent", "go", thread_id="t")
        await asyncio.sleep(0.5)
        assert (await world.runtime.steer("t", "wait!")).is_accepted
        assert (await handle.result()).text == "really done"
        assert (await retold(world)).lines == [
            ("user", "go"),
            ("assistant", "almost"),
            ("user", "wait!"),
            ("assistant", "really done"),
        ]

    simulated(scenario)


async def block_second(context: ToolGateContext) -> Block | None:
    return Block(reason="no") if context.step == 2 else None


@pytest.mark.parametrize(
    ("script", "agent", "ending"),
    [
        ([WORK, "never"], {"max_rounds": 1}, "stopped"),
        ([Turn(calls=WORK), ProviderFailed("boom")], {}, "error"),
        ([Turn(delay_ms=10_000, error=ProviderFailed("boom"))], {}, "error"),
        ([WORK, WORK], {"plugins": [Gate(block_second)]}, "blocked"),
        ([ToolCalls([("work", {})] * 2), "cancel"], {}, "cancelled"),
    ],
)
def test_no_message_is_lost_however_the_run_ends(script: Any, agent: Any, ending: str) -> None:
    async def scenario() -> None:
        world = World(script, tools=[work], **agent)
        handle = await world.runtime.start("agent", "go", thread_id="t")
        await asyncio.sleep(5)
        assert (await world.runtime.steer("t", "news")).is_accepted
        if ending == "cancelled":
            await world.runtime.cancel("t")
        result = await handle.result()
        assert result.termination is not None
        assert result.termination.__struct_config__.tag == ending
        story = await retold(world)
        assert [text for role, text in story.lines if role == "user"] == ["go", "news"]

    simulated(scenario)


def test_messages_to_a_run_that_suspends_wait_with_it_and_ask_no_model() -> None:
    async def scenario() -> None:
        @tool
        async def ask(ctx: ToolContext) -> Any:
            if ctx.resume is not None:
                return "told"
            await asyncio.sleep(10)
            return ctx.suspend("?")

        world = World([ToolCalls([("ask", {}), ("ask", {})]), "bye"], tools=[ask])
        handle = await world.runtime.start("agent", "go", thread_id="t")
        await asyncio.sleep(5)
        assert (await world.runtime.steer("t", "news")).is_accepted
        await handle.result()
        refused = await world.runtime.steer("t", "too late")
        assert (refused.is_accepted, refused.message_ids) == (False, ())
        for ticket in await open_tickets(world):
            assert len(world.model.requests) == 1
            assert [text for role, text in (await retold(world)).lines if role == "user"] == ["go"]
            other = World(model=world.model, store=world.store, tools=[ask])
            await other.runtime.decide(ticket)
            await asyncio.sleep(1)
        assert (await finished(world)).termination == NaturalEnd()
        assert texts(world.model.requests[1]) == ["go", "news"]
        await retold(world)

    simulated(scenario)


def test_an_inbox_takes_all_or_nothing_and_refuses_rather_than_loses() -> None:
    async def scenario() -> None:
        world = World([WORK, "done"], tools=[work], limits=Limits(inbox_messages=3))
        for nobody in ("t", "nobody"):
            assert not (await world.runtime.steer(nobody, "hello")).is_accepted
        handle = await world.runtime.start("agent", "go", thread_id="t")
        await asyncio.sleep(5)
        taken = [
            (await world.runtime.steer("t", [user(text) for text in group])).is_accepted
            for group in (["a", "b"], [], ["c", "d"], ["e"], ["f"])
        ]
        assert taken == [True, False, False, True, False]
        await handle.result()
        assert texts(world.model.requests[1]) == ["go", "a", "b", "e"]

    simulated(scenario)


def test_a_closed_inbox_gives_back_what_nobody_took() -> None:
    inbox = Inbox(2)
    assert inbox.put([user("a")])
    assert [message.text for message in inbox.close()] == ["a"]
    assert not inbox.put([user("b")])
    assert (inbox.drain(), inbox.close()) == ((), ())


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (assistant("I am the model"), InvalidInput),
        (tool_answer("call_1", "I am the tool"), InvalidInput),
        (user("x" * 2_000), LimitExceeded),
    ],
)
def test_a_message_that_nobody_may_send_is_refused_and_the_run_goes_on(
    message: Message, error: type[AwakenError]
) -> None:
    async def scenario() -> None:
        world = World([WORK, "done"], tools=[work], limits=Limits(message_bytes=1_000))
        handle = await world.runtime.start("agent", "go", thread_id="t")
        await asyncio.sleep(5)
        with pytest.raises(error):
            await world.runtime.steer("t", [user("fine"), message])
        assert (await handle.result()).text == "done"
        assert (await retold(world)).lines[0] == ("user", "go")

    simulated(scenario)


def test_a_message_accepted_at_any_moment_is_seen_by_the_model_exactly_once() -> None:
    accepted = 0

    async def scenario(hook: InjectionPoint) -> None:
        nonlocal accepted
        receipts: list[Any] = []
        world = World([WORK, "done", "done again"], tools=[work])
        asked = 0

        async def steer() -> None:
            nonlocal asked
            receipts.append(await world.runtime.steer("t", "news"))
            asked = len(world.model.requests)

        hook.arm(steer)
        assert (await world.runtime.run("agent", "go", thread_id="t")).termination == NaturalEnd()
        await hook.settle()
        news = [receipt for receipt in receipts if receipt.is_accepted]
        accepted += len(news)
        assert not news or "news" in texts(world.model.requests[asked])
        seen = texts(world.model.requests[-1])
        assert seen == ["go", *["news" for _ in news]]
        assert [text for role, text in (await retold(world)).lines if role == "user"] == seen

    assert enumerate_awaits(scenario) > accepted >= 10
