"""State keys that tools use and no plugin declares: a crash at any commit costs no update."""

import asyncio
from typing import Any

from awaken import StateKey, ToolContext, tool
from awaken.plugins import StateScope
from awaken.testing import ToolCalls

from .crashes import Dead, Process, after_the_lease, history, input_of, points, shared_store
from .worlds import simulated

PAID: StateKey[int, int] = StateKey(
    "undeclared.paid",
    default=0,
    apply=lambda paid, more: paid + more,
    merge="commutative",
    scope=StateScope.THREAD,
)
LAST: StateKey[str, str] = StateKey("undeclared.last", default="", scope=StateScope.THREAD)
NAMESAKES = [StateKey("undeclared.twice", default=0, scope=StateScope.THREAD) for _ in range(2)]


class Bank:
    """Tools that pay once, whatever happens."""

    def __init__(self) -> None:
        self.payments = 0
        twice = NAMESAKES[1]

        @tool
        async def pay(amount: int, ctx: ToolContext) -> str:
            self.payments += 1
            ctx.state.update(PAID, amount)
            return "paid"

        @tool(effect="idempotent")
        async def note(text: str, ctx: ToolContext) -> str:
            # Slower than the others: their results are durable before they are settled.
            await asyncio.sleep(10)
            ctx.state.set(LAST, text)
            ctx.state.set(twice, ctx.state.get(twice) + 1)
            return "noted"

        self.tools = (pay, note)


def pay_call(amount: int, call_id: str) -> tuple[str, dict[str, Any], str]:
    return "pay", {"amount": amount}, call_id


SCRIPT = (
    ToolCalls([("note", {"text": "x"}, "c1"), pay_call(3, "c2"), pay_call(4, "c3")]),
    ToolCalls([("note", {"text": "y"}, "c4"), pay_call(5, "c5")]),
    "done",
)


def played(point: dict[str, int]) -> tuple[Any, int, int]:
    async def scenario() -> tuple[Any, int, int]:
        store, bank = shared_store(), Bank()
        await store.enqueue(input_of())
        first = Process(store, SCRIPT, tools=bank.tools, **point)
        try:
            await first.execute_next()
        except Dead:
            if await after_the_lease(store):
                await Process(store, SCRIPT, tools=bank.tools).execute_next()
        return await history(store), bank.payments, len(first.line.commits)

    return simulated(scenario)


def test_a_crash_at_any_commit_loses_no_update_of_a_finished_call() -> None:
    expected, payments, commits = played({})
    assert set(expected["state"]) == {"undeclared.last", "undeclared.paid", "undeclared.twice"}
    assert payments == 3
    compared = 0
    for point in points(commits):
        found, _, _ = played(point)
        if "may or may not" in str(found["messages"]):
            # It was under way: nobody can know, and the model is told so.
            continue
        compared += 1
        assert found["state"] == expected["state"], f"after a crash at {point}"
        assert found["messages"] == expected["messages"], f"after a crash at {point}"
    assert compared > commits
