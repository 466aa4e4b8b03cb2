"""The service desk of an airline, ported from OpenAI Agents.

Original: `examples/customer_service/main.py` of `openai/openai-agents-python` at commit
7f7a44f8dc0650296bd5ab6c745c9bcbaa6ac3b7: 157 lines that are not blank. Nothing is copied.
`MODEL=openai:gpt-5-mini` runs it with a real model.
A front desk hands over to an agent that answers questions and to one that changes seats; both can
hand back. There, the program keeps the history, the active agent and a shared object. Here, the
thread keeps all three: what tools learn is typed state of the thread.
"""

import asyncio
import os
import sys
from zlib import crc32

from awaken import Agent, AgentRuntime, StateKey, ToolCallDone, ToolCallReady, ToolContext, tool
from awaken.extensions.handoff import Handoff, HandoffPlugin
from awaken.testing import ScriptedModel, ToolCalls

FLIGHT: StateKey[str, str] = StateKey("airline.flight", default="", scope="thread")
SEAT: StateKey[str, str] = StateKey("airline.seat", default="", scope="thread")
ANSWERS = {
    ("suitcase", "bag", "luggage"): "One piece of up to 20 kg is included.",
    ("wifi", "internet", "online"): "The network on board is called Cloud. It is free.",
    ("legroom", "exit", "row"): "Rows 3 to 6 have more room. The exits are in rows 2 and 14.",
}


@tool(effect="none")
async def look_up_answer(question: str) -> str:
    """Look up what the airline says about a subject."""
    asked = question.lower()
    found = [it for words, it in ANSWERS.items() if any(word in asked for word in words)]
    return " ".join(found) or "The airline says nothing about this."


@tool
async def change_seat(booking: str, seat: str, ctx: ToolContext) -> str:
    """Move the passenger of a booking, such as `K4`, to another seat, such as `5A`."""
    if not (flight := ctx.state.get(FLIGHT)):
        raise ValueError("no flight is known yet")
    ctx.state.set(SEAT, seat)
    return f"{booking}: seat {seat} on {flight}"


def find_flight(ctx: ToolContext) -> None:
    ctx.state.set(FLIGHT, f"AW{crc32(ctx.run.thread_id.encode()) % 900 + 100}")


SCRIPT = ScriptedModel(
    [
        ToolCalls([("transfer_to_agent", {"agent_id": "questions"})]),
        ToolCalls([("look_up_answer", {"question": "How heavy may a bag be?"})]),
        "One piece of up to 20 kg.",
        ToolCalls([("transfer_to_agent", {"agent_id": "front_desk"})]),
        ToolCalls([("transfer_to_agent", {"agent_id": "seats"})]),
        "Which booking, and which seat?",
        ToolCalls([("change_seat", {"booking": "K4", "seat": "5A"})]),
        "You are in 5A.",
    ]
)
MODEL = os.environ.get("MODEL") or SCRIPT
back = HandoffPlugin([Handoff("front_desk", "everything else")])
questions = Agent(
    "questions",
    model=MODEL,
    description="Answers questions about flying with us.",
    instructions="Answer from look_up_answer only. Hand back what it does not answer.",
    tools=[look_up_answer],
    plugins=[back],
)
seats = Agent(
    "seats",
    model=MODEL,
    description="Changes seats.",
    instructions="Ask for the booking and the seat, then change it. Hand back everything else.",
    tools=[change_seat],
    plugins=[back],
)
front_desk = Agent(
    "front_desk",
    model=MODEL,
    instructions="Find out what the passenger needs, and hand over.",
    plugins=[HandoffPlugin([Handoff(questions), Handoff(seats, on_handoff=find_flight)])],
)


async def answer(runtime: AgentRuntime, agent_id: str | None, message: str) -> None:
    run = await runtime.start(agent_id, message, thread_id="passenger")
    async for event in run.events():
        match event:
            case ToolCallReady():
                print(f"  calls {event.name} {event.arguments}")
            case ToolCallDone():
                print(f"  gets {event.result.data}")
    result = await run.result()
    print(f"{result.agent_id}: {result.text}")


async def main() -> None:
    messages = sys.argv[1:] or ["May I bring a suitcase?", "Another seat, please.", "K4, 5A."]
    async with AgentRuntime([front_desk, questions, seats]) as runtime:
        for place, message in enumerate(messages):
            # The thread remembers its active agent; only the first message names one.
            await answer(runtime, None if place else "front_desk", message)
        thread = await runtime.store.checkout("passenger")
        if thread is not None and SEAT.name in thread.state:
            print("seat:", SEAT.decode(thread.state[SEAT.name]))


if __name__ == "__main__":
    asyncio.run(main())
