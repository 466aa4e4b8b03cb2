"""Agents that ask other agents, start tasks and write to each other, and those that they ask."""

from typing import Any

from tests.torture.agents import Keys, ask, bomb, ledger, model_of, pay, put, send, slow
from tests.torture.doomed import passing

from awaken import Agent, ToolContext, tool
from awaken.contracts.tasks import TaskContext
from awaken.extensions.background import BackgroundTasksPlugin
from awaken.testing import ToolCalls

OTHER = "other"
"""The thread that is written to."""
NEWS = "good news"
READER = "clerk"
"""The agent that every message names."""
_PEER = {"relation": "agent", "thread_id": OTHER, "agent_id": READER}


def _asks(prompt: str, call_id: str, agent: str = "helper") -> tuple[str, dict[str, Any], str]:
    return f"agent_run_{agent}", {"prompt": prompt}, call_id


def _starts(prompt: str) -> tuple[str, dict[str, Any], str]:
    return "spawn_agent", {"agent_id": "helper", "prompt": prompt, "name": "aide"}, "spawn"


ORDERS: dict[str, list[Any]] = {
    "delegate": [ToolCalls([_asks("errand", "help")]), "helped"],
    "delegates": [
        ToolCalls(
            [_asks("errand", "one"), _asks("chore", "two"), ("put", {"text": "b"}, "beside")]
        ),
        "both helped",
    ],
    "nested": [ToolCalls([_asks("pass on", "outer", "middle")]), "all passed on"],
    "pass on": [ToolCalls([_asks("errand", "inner")]), "passed on"],
    "question": [ToolCalls([_asks("ask", "first")]), "answered"],
    "slowly": [ToolCalls([_asks("slow", "slowly")]), "at last"],
    "nested slowly": [ToolCalls([_asks("pass on slowly", "outer", "middle")]), "all passed on"],
    "pass on slowly": [ToolCalls([_asks("slow", "inner")]), "passed on"],
    "fatally": [ToolCalls([_asks("bomb", "fatal")]), "?"],
    "bomb": [ToolCalls([("bomb", {}, "bomb")]), "?"],
    "tasks": [ToolCalls([_starts("errand"), ("calculate", {}, "calc")]), "waiting", "heard"],
    "slow task": [ToolCalls([_starts("slow")]), "waiting", "heard"],
    "tell": [ToolCalls([("send_message", {"to": _PEER, "message": NEWS}, "tell")]), "told"],
    "errand": [
        ToolCalls(
            [
                ("put", {"text": "e"}, "e-put"),
                ("send", {"text": "e"}, "e-send"),
                ("pay", {"text": "e"}, "e-pay"),
            ]
        ),
        "errand run",
    ],
    "chore": [ToolCalls([("pay", {"text": "c"}, "c-pay")]), "chore done"],
    "ask": [ToolCalls([("ask", {"text": "first"}, "first")]), "asked"],
    "slow": [
        ToolCalls([("slow", {}, "slow")]),
        ToolCalls([("send", {"text": "s"}, "s-send"), ("pay", {"text": "s"}, "s-pay")]),
        "slowly done",
    ],
}
"""What the models say, turn by turn, to a message or to what they are asked for."""


@tool(effect="idempotent")
async def calculate(ctx: ToolContext) -> str:
    """Start a function as a task."""
    return (await ctx.spawn(_calculated, name="calc")).task_id


async def _calculated(task: TaskContext) -> int:
    passing("work before")
    ledger().note(task.task_id, f"work calc {task.task_id}", 0, "start")
    passing("work after")
    return 42


def delegating() -> list[Agent]:
    """Fresh agents."""
    model = model_of(ORDERS)
    return [
        Agent(
            "boss",
            model=model,
            tools=[calculate, put],
            plugins=[Keys(), BackgroundTasksPlugin()],
            delegates=["helper", "middle", "clerk"],
        ),
        Agent("middle", model=model, delegates=["helper"]),
        Agent("helper", model=model, tools=[put, send, pay, ask, slow, bomb], plugins=[Keys()]),
    ]
