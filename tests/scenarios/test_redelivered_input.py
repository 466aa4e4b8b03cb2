"""Input that is delivered again, because its process died, is in the thread once and fails nothing.

What a waiting run takes in is durable with the first commit of its delivery. The delivery is made
again after a crash, perhaps after another one has let the run go on and wait for something else.
"""

import asyncio
from typing import Any

import msgspec
import pytest

from awaken import InputMode, Message, NaturalEnd, RunRequest, RunStatus, ToolContext, tool, user
from awaken.messages import Sender, SenderKind
from awaken.stores import DispatchStatus, MemoryStore, RunDispatch
from awaken.testing import ToolCalls, assert_valid_transcript
from awaken.tools import ToolCallResume

from .crashes import Dead, Process, after_the_lease, input_of, shared_store
from .worlds import simulated

FROM_AGENT = Sender(kind=SenderKind.AGENT, agent_id="other", thread_id="elsewhere", run_id="x")
SENDERS = pytest.mark.parametrize("sender", [FROM_AGENT, None], ids=["agent", "person"])


class Asking:
    """A tool that asks and one that pays once; the model asks twice, pays, and ends."""

    def __init__(self) -> None:
        self.paid = 0

        @tool
        async def ask(ctx: ToolContext) -> Any:
            return ctx.suspend("?") if ctx.resume is None else f"told {ctx.resume.result}"

        @tool
        async def pay() -> str:
            self.paid += 1
            return "paid"

        self.tools = (ask, pay)

    def process(self, store: MemoryStore, **options: Any) -> Process:
        entries = (
            ToolCalls([("ask", {}, "c1")]),
            ToolCalls([("ask", {}, "c2")]),
            ToolCalls([("pay", {}, "c3")]),
            "done",
        )
        return Process(store, entries, tools=self.tools, **options)


def news(sender: Sender | None, *, run_id: str | None = None) -> RunDispatch:
    """What delivers a message; it comes after everything that people send."""
    said = Message(role=user("").role, id="said", content=user("listen").content, sender=sender)
    return RunDispatch(
        dispatch_id="letter",
        thread_id="t",
        run_id=run_id or "of the letter",
        request=RunRequest(thread_id="t", continue_run_id=run_id, messages=(said,)),
        mode=InputMode.STEER,
        priority=255,
    )


async def decided(store: MemoryStore, number: int) -> RunDispatch:
    (ticket,) = await store.list_tickets("t")
    given = ToolCallResume(decision_id=f"decision {number}", result=number)
    request = RunRequest(thread_id="t", continue_run_id="r", decisions=((ticket.ticket_id, given),))
    dispatch = RunDispatch(
        dispatch_id=f"decided {number}",
        thread_id="t",
        run_id="r",
        request=request,
        mode=InputMode.RESUME,
    )
    return await store.enqueue(dispatch)


async def messages_said(store: MemoryStore) -> list[str]:
    checkout = await store.checkout("t")
    assert checkout is not None
    asked = {it.call_id for it in await store.list_tickets("t")}
    assert_valid_transcript(list(checkout.messages), asked)
    return [it.text for it in checkout.messages if it.text == "listen"]


@SENDERS
@pytest.mark.parametrize("run_id", [None, "r"], ids=["to the thread", "to the run"])
def test_a_message_that_another_delivery_has_brought_in_is_not_brought_again(
    sender: Sender | None, run_id: str | None
) -> None:
    async def scenario() -> None:
        store, world = shared_store(), Asking()
        await store.enqueue(input_of())
        await world.process(store).execute_next()
        await store.enqueue(news(sender, run_id=run_id))
        with pytest.raises(Dead):
            # The run holds the message, and its process is gone.
            await world.process(store, cut_after=1).execute_next()
        await after_the_lease(store)
        alive = world.process(store)
        if sender is not None:
            # First what a person decides: the run goes on, reads the message, and asks again.
            await decided(store, 1)
            await alive.execute_next()
            assert len(await messages_said(store)) == 1
        await alive.execute_next()
        letter = await store.find_dispatch("letter")
        assert letter is not None
        assert letter.status is DispatchStatus.ACKED
        while await store.list_tickets("t"):
            await decided(store, 2)
            await alive.execute_next()
        run = await store.load_run("r")
        assert run is not None
        assert (run.status, run.termination) == (RunStatus.DONE, NaturalEnd())
        assert (world.paid, len(await messages_said(store))) == (1, 1)

    simulated(scenario)


@pytest.mark.parametrize("run_id", [None, "r"], ids=["to the thread", "to the run"])
def test_a_message_that_comes_again_while_it_is_held_is_held_once(run_id: str | None) -> None:
    async def scenario() -> None:
        store, world = shared_store(), Asking()
        await store.enqueue(input_of())
        alive, number = world.process(store), 0
        await alive.execute_next()
        letter = news(FROM_AGENT, run_id=run_id)
        for name in ("letter", "the same letter"):
            await store.enqueue(msgspec.structs.replace(letter, dispatch_id=name))
            await alive.execute_next()
        while await store.list_tickets("t"):
            number += 1
            await decided(store, number)
            await alive.execute_next()
        assert (world.paid, len(await messages_said(store))) == (1, 1)
        run = await store.load_run("r")
        assert run is not None
        assert run.termination == NaturalEnd()

    simulated(scenario)


@SENDERS
def test_a_message_that_is_held_is_not_taken_from_the_queue_as_well(
    sender: Sender | None,
) -> None:
    """The run that holds it is recovered under another input's claim, and looks for input."""

    async def scenario() -> None:
        store, world = shared_store(), Asking()
        await store.enqueue(input_of())
        await world.process(store).execute_next()
        await store.enqueue(news(sender))
        with pytest.raises(Dead):
            await world.process(store, cut_after=1).execute_next()
        await after_the_lease(store)
        await store.enqueue(input_of("first", run_id="later"))
        alive = world.process(store)
        execution = asyncio.create_task(alive.execute_next())
        while not execution.done():
            await asyncio.sleep(0)
            for active in list(alive.engine.active):
                active.notify_input()
        while await store.list_tickets("t"):
            await decided(store, 2)
            await alive.execute_next()
        assert (world.paid, len(await messages_said(store))) == (1, 1)
        for run_id in ("r", "later"):
            run = await store.load_run(run_id)
            assert run is None or run.termination == NaturalEnd()

    simulated(scenario)
