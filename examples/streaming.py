"""What happens in a run, event by event.

`stream` runs an agent and yields typed events. Each of them has a JSON form, and the ones that
are not live-only can be read again from the log.
"""

import asyncio

from awaken import (
    Agent,
    AgentEvent,
    AgentRuntime,
    RunFinish,
    TextDelta,
    ToolCallDone,
    ToolCallReady,
    ToolContext,
    tool,
)
from awaken.events import ActivitySnapshot, ToolCallStreamDelta, decode_event, encode_event
from awaken.testing import Chunks, ScriptedModel, ToolCalls


@tool(effect="none")
async def build(target: str, ctx: ToolContext) -> str:
    """Build a target, and show how it goes."""
    for number in (1, 2):
        ctx.progress("running", f"stage {number} of 2", number / 2)
        ctx.emit_output(f"compiling {target} ({number})")
    return f"{target} is built"


def show(event: AgentEvent) -> None:
    """Print what a person wants to see."""
    match event:
        case TextDelta(delta=delta):
            print(delta, end="", flush=True)
        case ToolCallReady(name=name, arguments=arguments):
            print(f"-> {name} {arguments}")
        case ActivitySnapshot(content=content):
            print(f"   {content['message']}")
        case ToolCallStreamDelta(delta=delta):
            print(f"   | {delta}")
        case ToolCallDone(result=result, outcome=outcome):
            print(f"<- {outcome}: {result.data}")
        case RunFinish(termination=termination):
            print(f"\n{termination}")


async def main() -> None:
    model = ScriptedModel(
        [
            ToolCalls([("build", {"target": "app"})]),
            Chunks(["The app ", "is ", "built."], delay_ms=5),
        ]
    )
    agent = Agent("builder", model=model, tools=[build])

    events: list[AgentEvent] = []
    async with AgentRuntime([agent]) as runtime:
        async for event in runtime.stream("builder", "Build the app.", thread_id="t1"):
            show(event)
            events.append(event)
        log = [entry.event for entry in await runtime.store.list_events("t1")]

    assert "".join(event.delta for event in events if isinstance(event, TextDelta)) == (
        "The app is built."
    )
    assert isinstance(events[-1], RunFinish)
    assert all(decode_event(encode_event(event)) == event for event in events)
    # The log keeps a step's text whole, and no live-only events.
    assert [event.delta for event in log if isinstance(event, TextDelta)] == ["The app is built."]
    assert not any(isinstance(event, ToolCallStreamDelta) for event in log)


if __name__ == "__main__":
    asyncio.run(main())
