"""A report that is written every morning, by schedule."""

import os
from datetime import date

from awaken import Agent, AgentRuntime, tool
from awaken.testing import ScriptedModel, ToolCalls

SALES = {date(2026, 3, 28): 120, date(2026, 3, 29): 80, date(2026, 3, 30): 95}


@tool(effect="none")
def read_sales(days: int) -> dict[str, int]:
    """Sales of the last days.

    Args:
        days: How many days.
    """
    return {str(day): count for day, count in sorted(SALES.items())[-days:]}


def scripted_reporter() -> ScriptedModel:
    """Stands in for a model, so that the example needs no key."""
    return ScriptedModel(
        [ToolCalls([("read_sales", {"days": 3})]), "Sales fell, and recovered."], cycle=True
    )


reporter = Agent(
    "reporter",
    model=os.environ.get("AGENT_MODEL") or scripted_reporter(),
    instructions="Write a report of two sentences.",
    tools=[read_sales],
)


async def plan_report(runtime: AgentRuntime) -> None:
    """Plan the report for eight o'clock in Berlin, on its own thread."""
    await runtime.schedules.create(
        "reporter",
        "Write the report of the day.",
        schedule_id="daily-report",
        cron="0 8 * * *",
        zone="Europe/Berlin",
        thread_id="reports",
        catch_up=1,
    )
