"""An agent of your own under two hundred schedules, and cancelled at every await.

A real event loop shows one order of events. The simulator shows many, on virtual time, so that
nothing waits. A failure names the seed that shows it again.
"""

import asyncio

import msgspec

from awaken import Agent, AgentRuntime, StateKey, ToolContext, tool
from awaken.models import InferenceRequest
from awaken.testing import (
    FakeClock,
    InjectionPoint,
    ScriptedModel,
    SequentialIds,
    ToolCalls,
    assert_valid_transcript,
    enumerate_awaits,
    simulate,
)

SEATS: StateKey[int, int] = StateKey("cinema.seats", default=3)


@tool(effect="idempotent")
async def book(name: str, ctx: ToolContext) -> str:
    """Book a seat for somebody, as long as there are seats."""
    seats = ctx.state.get(SEATS)
    await asyncio.sleep(0.1)
    if not seats:
        return f"no seat for {name}"
    ctx.state.set(SEATS, seats - 1)
    return f"seat {seats} for {name}"


def clerk(request: InferenceRequest) -> ToolCalls | str:
    """The model: books for everybody, reports, and is polite otherwise."""
    last = request.messages[-1]
    if last.role == "tool":
        return "Booked."
    if last.text != "Five seats, please.":
        return "Hello."
    return ToolCalls([("book", {"name": name}) for name in ("Ann", "Bob", "Cem", "Dan", "Eve")])


def cinema() -> AgentRuntime:
    """A fresh world: nothing is shared between two schedules."""
    agent = Agent("cinema", model=ScriptedModel([clerk], cycle=True), tools=[book])
    return AgentRuntime([agent], clock=FakeClock(), ids=SequentialIds())


async def transcript(runtime: AgentRuntime) -> list[str]:
    """Return the thread's messages as JSON, after checking that every call has one result."""
    messages = [record.message for record in await runtime.messages("t1")]
    assert_valid_transcript(messages)
    return [msgspec.json.encode(message).decode() for message in messages]


def every_schedule_gives_the_same_bytes() -> None:
    """Five parallel bookings of three seats, in two hundred different orders."""
    seen: set[str] = set()

    async def five_bookings() -> None:
        async with cinema() as runtime:
            await runtime.run("cinema", "Five seats, please.", thread_id="t1")
            seen.add("\n".join(await transcript(runtime)))

    report = simulate(five_bookings, seeds=range(200))
    print(f"{report.schedules} schedules, {report.interleavings} interleavings, {len(seen)} result")
    assert report.interleavings > 1
    (only,) = seen
    assert "seat 1 for Cem" in only
    assert "no seat for Dan" in only


def a_cancelled_run_leaves_a_valid_thread() -> None:
    """Cancel at every point of the run; afterwards the thread can be used again."""

    async def cancelled(point: InjectionPoint) -> None:
        async with cinema() as runtime:
            booking = runtime.run("cinema", "Five seats, please.", thread_id="t1")
            caller = asyncio.ensure_future(booking)
            point.arm(caller.cancel)
            await asyncio.wait({caller})
            point.disarm()
            await transcript(runtime)
            again = await runtime.run("cinema", "Still there?", thread_id="t1")
            assert again.text == "Hello."

    points = enumerate_awaits(cancelled)
    print(f"cancelled at {points} points")
    assert points > 10


def main() -> None:
    every_schedule_gives_the_same_bytes()
    a_cancelled_run_leaves_a_valid_thread()


if __name__ == "__main__":
    main()
