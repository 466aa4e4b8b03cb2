"""Texts and numbers that no store and no clock can keep: a typed error names the thing."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, WorkflowContext, tool, workflow
from awaken.contracts.workflows.steps import LONGEST_S
from awaken.errors import RunFailed, ToolError
from awaken.testing import ScriptedModel, make_virtual_runtime, run_in_virtual_time, wait_for_end
from awaken.tools import StepRetry

HALF = "a\ud800b"


def fail(code: Callable[[WorkflowContext], Any]) -> str:
    """Run a workflow that fails for how it uses its context, and return why."""

    @workflow
    async def odd(ctx: WorkflowContext) -> Any:
        return await code(ctx)

    async def main() -> str:
        helper = Agent("helper", model=ScriptedModel(["Fine."], cycle=True))
        async with AgentRuntime([odd, helper]) as runtime:
            with pytest.raises(RunFailed) as caught:
                await runtime.run("odd", {})
            assert caught.value.cause_code == "workflow_misuse", str(caught.value)
            return str(caught.value)

    return asyncio.run(main())


async def set_patched(ctx: WorkflowContext) -> None:
    ctx.patched(HALF)


async def go_on(ctx: WorkflowContext) -> None:
    ctx.continue_as_new({"name": HALF})


TEXTS: dict[str, tuple[Callable[[WorkflowContext], Any], str]] = {
    "call": (lambda ctx: ctx.call(HALF), "ctx.call: the tool's id"),
    "ask": (lambda ctx: ctx.ask("helper", HALF), "what is given to 'helper'"),
    "ask by data": (lambda ctx: ctx.ask("helper", {"x": HALF}), "what is given to 'helper'"),
    "ask whom": (lambda ctx: ctx.ask(HALF, "Go."), "the agent's id"),
    "start": (lambda ctx: ctx.start("helper", HALF), "what is given to 'helper'"),
    "start whom": (lambda ctx: ctx.start(HALF, "Go."), "the agent's id"),
    "wait_for": (lambda ctx: ctx.wait_for(HALF), "ctx.wait_for: the event's name"),
    "approve": (lambda ctx: ctx.approve(HALF), "ctx.approve: the message"),
    "deciders": (lambda ctx: ctx.approve("Go?", deciders=(HALF,)), "ctx.approve: a decider"),
    "patched": (set_patched, "ctx.patched: the id"),
    "continue_as_new": (go_on, "what is given to 'odd'"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_half_of_a_surrogate_pair_is_refused_by_name(name: str) -> None:
    code, said = TEXTS[name]
    assert said in fail(code)


@pytest.mark.parametrize(
    "policy",
    [
        StepRetry(first_ms=-1),
        StepRetry(factor=float("nan")),
        StepRetry(factor=-2.0),
        StepRetry(longest_ms=-1),
    ],
)
def test_a_pause_that_is_no_time_is_refused(policy: StepRetry) -> None:
    assert "StepRetry." in fail(lambda ctx: ctx.call("any", retry=policy))


def test_a_step_is_tried_thousands_of_times() -> None:
    calls = 0

    @tool(effect="idempotent")
    async def poll() -> str:
        """Look whether it is ready."""
        nonlocal calls
        calls += 1
        if calls < 1_200:
            raise ToolError("Not yet.")
        return "ready"

    @workflow(tools=[poll])
    async def watch(ctx: WorkflowContext) -> str:
        policy = StepRetry(attempts=5_000, first_ms=1, longest_ms=1_000)
        return str(await ctx.call(poll, retry=policy))

    async def main() -> str:
        async with make_virtual_runtime([watch]) as runtime:
            started = await runtime.run("watch", {})
            return (await wait_for_end(runtime, started.run_id)).text

    assert run_in_virtual_time(main) == "ready"


@pytest.mark.parametrize(
    ("policy", "failures", "pause_ms"),
    [
        (StepRetry(), 1, 1_000),
        (StepRetry(), 3, 4_000),
        (StepRetry(), 5_000, 3_600_000),
        (StepRetry(first_ms=0), 5_000, 0),
        (StepRetry(factor=0.5), 5_000, 0),
        (StepRetry(first_ms=10**20, longest_ms=10**20), 1, LONGEST_S * 1000),
    ],
)
def test_pauses_grow_to_the_longest(policy: StepRetry, failures: int, pause_ms: int) -> None:
    assert policy.pause_ms(failures) == pause_ms


def test_a_result_without_a_json_form_is_an_invalid_result_and_no_internal_error() -> None:
    @workflow
    async def leak(ctx: WorkflowContext) -> Any:
        return object()

    async def main() -> None:
        async with AgentRuntime([leak]) as runtime:
            with pytest.raises(RunFailed, match="type 'object' has no JSON form") as caught:
                await runtime.run("leak", {})
            assert caught.value.cause_code == "workflow_result_invalid"

    asyncio.run(main())
    said = fail(lambda ctx: ctx.call("any", x=object()))
    assert "has no JSON form: values of type 'object'" in said
