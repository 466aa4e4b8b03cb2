"""Which parameters make a step what it is: a change of one of them strands open runs, by name."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from awaken import RunStatus, ToolError, WorkflowContext, tool, workflow
from awaken.bootstrap.upgrade import check_upgrade
from awaken.errors import StepFailed
from awaken.tools import StepRetry

from .each_store import memory, sqlite
from .test_workflows import World, awaited, ended, until

Step = Callable[[WorkflowContext], Any]


@tool(effect="none")
async def look(x: int = 0) -> int:
    """Look something up."""
    return x


@tool(effect="none")
async def other(x: int = 0) -> int:
    """Look something else up."""
    return x


@tool(effect="none")
async def broken() -> int:
    """Fail."""
    message = "broken"
    raise ToolError(message)


QUICK = StepRetry(attempts=3, first_ms=1)
SLOW = StepRetry(attempts=3, first_ms=60_000)


async def fail_and_wait(ctx: WorkflowContext, retry: StepRetry) -> Any:
    """Try in vain, and go on."""
    try:
        await ctx.call(broken, retry=retry)
    except StepFailed:
        return await ctx.wait_for("more")


@workflow
async def child(ctx: WorkflowContext, x: int = 0) -> Any:
    await ctx.wait_for("never")


@workflow
async def sibling(ctx: WorkflowContext, x: int = 0) -> Any:
    await ctx.wait_for("never")


CHANGES: dict[str, tuple[Step, Step, str]] = {
    "the question": (lambda c: c.approve("a"), lambda c: c.approve("b"), '"b"'),
    "what is shown": (
        lambda c: c.approve("a", parameters={"sum": 1}),
        lambda c: c.approve("a", parameters={"sum": 2}),
        '"sum":2',
    ),
    "who may decide": (
        lambda c: c.approve("a", deciders=("ann", "bob")),
        lambda c: c.approve("a", deciders=("bob",)),
        '{"deciders":["bob"]}',
    ),
    "that only some may decide": (
        lambda c: c.approve("a"),
        lambda c: c.approve("a", deciders=("bob",)),
        '{"deciders":["bob"]}',
    ),
    "that all may decide": (
        lambda c: c.approve("a", deciders=("bob",)),
        lambda c: c.approve("a"),
        "approve with {}",
    ),
    "that none may decide": (
        lambda c: c.approve("a"),
        lambda c: c.approve("a", deciders=()),
        '{"deciders":[]}',
    ),
    "until when is asked": (
        lambda c: c.approve("a", timeout=1e6),
        lambda c: c.approve("a", timeout=2e6),
        '{"timeout_ms":2000000000}',
    ),
    "how long it sleeps": (lambda c: c.sleep(1e6), lambda c: c.sleep(2e6), '"ms":2000000000'),
    "the name of an event": (lambda c: c.wait_for("a"), lambda c: c.wait_for("b"), "wait_for b"),
    "the schema of an event": (
        lambda c: c.wait_for("a", int),
        lambda c: c.wait_for("a", str),
        "string",
    ),
    "until when an event may come": (
        lambda c: c.wait_for("a", timeout=1e6),
        lambda c: c.wait_for("a", timeout=2e6),
        '{"timeout_ms":2000000000}',
    ),
    "the tool": (lambda c: c.call(look, 1), lambda c: c.call(other, 1), "call other"),
    "an argument": (lambda c: c.call(look, 1), lambda c: c.call(look, 2), '{"x":2}'),
    "what is tried again": (
        lambda c: c.call(look, 1, retry=2),
        lambda c: c.call(other, 1, retry=2),
        "retry other",
    ),
    "the agent": (lambda c: c.ask(child), lambda c: c.ask(sibling), "sibling"),
    "the prompt": (
        lambda c: c.ask(child, {"x": 1}),
        lambda c: c.ask(child, {"x": 2}),
        "prompt",
    ),
    "the type of an answer": (
        lambda c: c.ask(child, {}, int),
        lambda c: c.ask(child, {}, list[int]),
        "array",
    ),
    "the agent that is started": (
        lambda c: c.start(child),
        lambda c: c.start(sibling),
        "start",
    ),
    "the number of branches": (
        lambda c: c.gather(c.sleep(1e6)),
        lambda c: c.gather(c.sleep(1e6), c.sleep(1e6)),
        "2 branches",
    ),
    "a race": (
        lambda c: c.gather(c.sleep(1e6)),
        lambda c: c.race(c.sleep(1e6)),
        "race 1 branches",
    ),
}
SAME: dict[str, tuple[Step, Step]] = {
    "the time of a call": (lambda c: c.call(look, 1), lambda c: c.call(look, 1, timeout=5)),
    "the time of a question to an agent": (
        lambda c: c.ask(child),
        lambda c: c.ask(child, timeout=5),
    ),
    "how often it is tried": (
        lambda c: c.call(look, 1, retry=2),
        lambda c: c.call(look, 1, retry=StepRetry(attempts=9, first_ms=1)),
    ),
    "that it is tried again": (
        lambda c: c.call(look, 1),
        lambda c: c.call(look, 1, retry=2),
    ),
    "that it is tried once": (lambda c: c.call(look, 1, retry=2), lambda c: c.call(look, 1)),
    "that a question is tried again": (
        lambda c: c.ask(child),
        lambda c: c.ask(child, retry=2),
    ),
    "that it is tried no longer, between two attempts": (
        lambda c: c.call(broken, retry=SLOW),
        lambda c: c.call(broken),
    ),
    "how long it pauses, in a pause": (
        lambda c: c.call(broken, retry=SLOW),
        lambda c: c.call(broken, retry=StepRetry(attempts=3, first_ms=70_000)),
    ),
    "that it hardly pauses, in a pause": (
        lambda c: c.call(broken, retry=SLOW),
        lambda c: c.call(broken, retry=QUICK),
    ),
    "how often it was tried in vain": (
        lambda c: fail_and_wait(c, QUICK),
        lambda c: fail_and_wait(c, StepRetry(attempts=9, first_ms=1)),
    ),
    "how often it was tried in vain, now less": (
        lambda c: fail_and_wait(c, QUICK),
        lambda c: fail_and_wait(c, StepRetry(attempts=1)),
    ),
    "how long it had paused": (
        lambda c: fail_and_wait(c, QUICK),
        lambda c: fail_and_wait(c, SLOW),
    ),
    "the order of deciders": (
        lambda c: c.approve("a", deciders=("ann", "bob", "bob")),
        lambda c: c.approve("a", deciders=("bob", "ann")),
    ),
    "a default that is given": (lambda c: c.call(look, 0), lambda c: c.call("look", x=0)),
}


def stranded(old: Step, new: Step, folder: Path) -> tuple[str, ...]:
    """Park a run at a step, and return what the check says of the new code."""

    def make(step: Step) -> Any:
        @workflow(id="changed", tools=[look, other, broken])
        async def changed(ctx: WorkflowContext) -> Any:
            return await ctx.gather(step(ctx), ctx.wait_for("end"))

        return changed

    async def story() -> tuple[str, ...]:
        agents = [child, sibling]
        async with World(memory, folder).process(make(old), *agents) as runtime:
            run_id = (await runtime.run("changed", {})).run_id

            async def is_parked() -> bool:
                return (await runtime.get_run(run_id)).waiting is not None

            await until(runtime, is_parked)
            assert (await check_upgrade(runtime.store, [make(old), *agents])).is_safe
            report = await check_upgrade(runtime.store, [make(new), *agents])
            return tuple(problem for it in report.stranded for problem in it.problems)

    return asyncio.run(story())


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_parameter_is_named_before_the_deployment(name: str, tmp_path: Path) -> None:
    old, new, found = CHANGES[name]
    (problem,) = stranded(old, new, tmp_path)
    assert "step 1" in problem
    assert found in problem.split("the code does")[1]


@pytest.mark.parametrize("name", SAME)
def test_how_a_step_is_tried_is_no_part_of_it(name: str, tmp_path: Path) -> None:
    assert stranded(*SAME[name], tmp_path) == ()


@pytest.mark.parametrize("retries", [(None, 3), (3, None), (2, 5)])
@awaited
async def test_a_run_goes_on_with_a_new_retry(retries: tuple[Any, Any], tmp_path: Path) -> None:
    def make(retry: int | None) -> Any:
        @workflow(id="changed")
        async def changed(ctx: WorkflowContext) -> int:
            first = int(await ctx.call(look, 1, retry=retry))
            await ctx.wait_for("go")
            return first + int(await ctx.call(look, 2, retry=retry))

        return changed

    world, (old, new) = World(sqlite, tmp_path), retries
    async with world.process(make(old)) as runtime:
        run = await runtime.run("changed", {})
        assert run.status is RunStatus.WAITING
    async with world.process(make(new)) as runtime:
        await runtime.send_event(run.run_id, "go", None)
        assert (await ended(runtime, run.run_id)).output == 3
