"""What a step returns: the same when it is taken and in each replay, whatever the tool made."""

import copy
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awaken import (
    AgentRuntime,
    RunStatus,
    ToolContext,
    ToolError,
    WorkflowContext,
    tool,
    workflow,
)
from awaken.plugins import SetResult, ToolGateContext
from awaken.tools import StepRetry, ToolResult

from .each_store import NewStore, each_store, memory, sqlite
from .test_workflows import World, awaited, ended, ticket, until
from .worlds import Gate


class Line(msgspec.Struct):
    """A line of an order."""

    amount: Decimal


DATA: dict[str, tuple[Any, Any]] = {
    "a tuple": ((1, 2), [1, 2]),
    "a set": ({3}, [3]),
    "numbers as keys": ({1: 2}, {"1": 2}),
    "a date": (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00Z"),
    "a decimal": (Decimal("1.10"), "1.10"),
    "bytes": (b"x", "eA=="),
    "a struct": (Line(amount=Decimal(1)), {"amount": "1"}),
    "no number, far inside": ({"rows": [(float("nan"),)]}, {"rows": [[None]]}),
}


@pytest.mark.parametrize("by", ["its tool", "a gate"])
@pytest.mark.parametrize("kind", DATA)
@awaited
async def test_the_data_of_a_result_is_json_already_when_its_step_is_taken(
    kind: str, by: str, tmp_path: Path
) -> None:
    data, as_json = DATA[kind]
    seen: list[Any] = []
    result = ToolResult(tool_name="look", data=data)

    @tool(effect="idempotent")
    async def look() -> ToolResult:
        """Look something up."""
        return result

    async def answer(_: ToolGateContext) -> SetResult:
        return SetResult(result=result)

    @workflow(plugins=[Gate(answer)] if by == "a gate" else [])
    async def flow(ctx: WorkflowContext) -> None:
        seen.append(await ctx.call(look))
        await ctx.wait_for("go")

    world = World(sqlite, tmp_path)
    async with world.process(flow) as runtime:
        run = await runtime.run("flow", {})
    async with world.process(flow) as runtime:
        await runtime.send_event(run.run_id, "go", None)
        await ended(runtime, run.run_id)
    assert seen == [as_json, as_json]


@tool(effect="none")
async def find_any() -> Any:
    """Find anything."""
    return {"rows": [1]}


@tool(effect="none")
async def find_typed() -> dict[str, list[int]]:
    """Find rows."""
    return {"rows": [1]}


@workflow
async def child(ctx: WorkflowContext) -> dict[str, list[int]]:
    return {"rows": [1]}


@each_store
@awaited
async def test_what_code_does_with_a_result_changes_no_journal(
    new_store: NewStore, tmp_path: Path
) -> None:
    seen: list[list[Any]] = []

    @workflow
    async def flow(ctx: WorkflowContext) -> None:
        mine: list[Any] = []
        seen.append(mine)

        def note(found: Any) -> None:
            mine.append(copy.deepcopy(found))
            found["rows"].append("mine")

        note(await ctx.call(find_any))
        note(await ctx.call(find_typed))
        note(await ctx.ask(child))
        note((await ctx.approve("Rows?")).result)
        note(await ctx.wait_for("rows"))
        await ctx.wait_for("go")

    async with World(new_store, tmp_path).process(flow, child) as runtime:
        run = await runtime.run("flow", {})
        asked = await ticket(runtime, run.run_id, "approve")
        await runtime.decide(asked, "resume", result={"rows": [1]})
        await runtime.send_event(run.run_id, "rows", {"rows": [1]})
        await until(runtime, lambda: _waits_for_go(runtime, run.run_id))
        await runtime.send_event(run.run_id, "go", None)
        await ended(runtime, run.run_id)
    assert seen[-1] == [{"rows": [1]}] * 5
    assert all(seen[-1][: len(it)] == it for it in seen)


async def _waits_for_go(runtime: AgentRuntime, run_id: str) -> bool:
    run = await runtime.get_run(run_id)
    found = await runtime.store.list_run_tickets(run.thread_id, run_id)
    is_open = any((it.tool_name, it.status) == ("go", "open") for it in found)
    return is_open and run.status is RunStatus.WAITING


@awaited
async def test_all_attempts_of_a_call_have_one_key_and_each_its_own_child(tmp_path: Path) -> None:
    keys: list[str] = []
    children: list[str] = []

    @tool(effect="idempotent")
    async def pay(ctx: ToolContext) -> str:
        """Pay: the first time nothing is heard of it."""
        keys.append(ctx.idempotency_key)
        if len(keys) % 2:
            message = "no answer"
            raise ToolError(message)
        return "paid"

    @workflow
    async def below(ctx: WorkflowContext) -> str:
        children.append(ctx.run.run_id)
        if len(children) == 1:
            message = "not now"
            raise ToolError(message)
        return "done"

    quick = StepRetry(attempts=3, first_ms=1)

    @workflow
    async def flow(ctx: WorkflowContext) -> list[str]:
        first = await ctx.call(pay, retry=quick)
        second = await ctx.call(pay, retry=quick)
        return [first, second, await ctx.ask(below, retry=quick)]

    async with World(memory, tmp_path).process(flow, below) as runtime:
        assert (await runtime.run("flow", {})).output == ["paid", "paid", "done"]
    assert keys[0] == keys[1] != keys[2] == keys[3]
    assert len(set(children)) == 2
