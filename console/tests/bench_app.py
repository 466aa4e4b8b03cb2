"""The app of `bench_pages.ts`: a run with over 10,000 events, and an agent that speaks fast."""

from awaken import Agent, tool
from awaken.testing import Chunks, ScriptedModel, ToolCalls

STEPS = 300
CALLS = 11
_FAILING = 97


@tool(effect="none")
async def look_up(number: int) -> dict[str, object]:
    """Look a number up."""
    if number % _FAILING == 0:
        message = f"There is nothing at {number}."
        raise ValueError(message)
    return {"number": number, "text": f"What stands at {number}. " * 8}


def _calls(step: int) -> ToolCalls:
    return ToolCalls([("look_up", {"number": step * CALLS + it}) for it in range(CALLS)])


model = ScriptedModel([*map(_calls, range(STEPS)), "All were looked up."], cycle=True)
reader = Agent("reader", model=model, tools=[look_up], max_rounds=0)

words = Chunks([f"w{number} " for number in range(5_000)], delay_ms=2)
speaker = Agent("speaker", model=ScriptedModel([words], cycle=True))
