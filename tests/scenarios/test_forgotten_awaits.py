"""Operations of a context that are not awaited: no answer, no silence, and the line is named."""

import asyncio
import json
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from awaken import AgentRuntime, WorkflowContext, tool, workflow
from awaken.errors import RunFailed, WorkflowMisuse

PAID: list[int] = []


@tool(effect="once")
async def pay(x: int) -> int:
    """Pay."""
    PAID.append(x)
    return x


def fail(code: Any) -> str:
    """Run a workflow that fails, and return why."""
    PAID.clear()

    async def story() -> str:
        async with AgentRuntime([workflow(id="w", tools=[pay])(code)]) as runtime:
            with pytest.raises(RunFailed) as caught:
                await runtime.run("w", {})
            assert caught.value.cause_code == "workflow_misuse", str(caught.value)
            return str(caught.value)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return asyncio.run(story())


USES: dict[str, Callable[[Any], Any]] = {
    "true": lambda it: bool(it),
    "not": lambda it: not it,
    "equal": lambda it: it == 1,
    "different": lambda it: it != 1,
    "less": lambda it: it < 1,
    "attribute": lambda it: it.is_approved,
    "item": lambda it: it["a"],
    "iteration": lambda it: list(it),
    "membership": lambda it: 1 in it,
    "length": lambda it: len(it),
    "text": lambda it: str(it),
    "f-string": lambda it: f"{it}",
    "sum": lambda it: it + 1,
    "sum the other way": lambda it: 1 + it,
    "number": lambda it: int(it),
    "negation": lambda it: -it,
}


@pytest.mark.parametrize("use", USES)
def test_what_is_not_awaited_is_no_value(use: str) -> None:
    async def code(ctx: WorkflowContext) -> Any:
        if not USES[use](ctx.approve("Pay?")):
            return "no"
        return await ctx.call(pay, 1)

    why = fail(code)
    assert "ctx.approve(…) in code (test_forgotten_awaits.py:" in why
    assert "await ctx.approve(…)" in why
    assert PAID == []


MADE: dict[str, Callable[[WorkflowContext], Any]] = {
    "call": lambda ctx: ctx.call(pay, 1),
    "ask": lambda ctx: ctx.ask("w"),
    "start": lambda ctx: ctx.start("w"),
    "gather": lambda ctx: ctx.gather(ctx.sleep(1)),
    "race": lambda ctx: ctx.race(ctx.sleep(1)),
    "sleep": lambda ctx: ctx.sleep(1),
    "wait_for": lambda ctx: ctx.wait_for("e"),
    "approve": lambda ctx: ctx.approve("a?"),
    "now": lambda ctx: ctx.now(),
    "random": lambda ctx: ctx.random(),
    "uuid": lambda ctx: ctx.uuid(),
}


@pytest.mark.parametrize("name", MADE)
def test_nothing_happens_after_an_operation_that_was_dropped(name: str) -> None:
    async def code(ctx: WorkflowContext) -> None:
        MADE[name](ctx)
        await ctx.call(pay, 1)

    assert f"ctx.{name}(…) in <lambda> (test_forgotten_awaits.py:" in fail(code)
    assert PAID == []


@pytest.mark.parametrize("name", MADE)
def test_an_operation_that_is_kept_and_never_awaited_fails_the_run(name: str) -> None:
    async def code(ctx: WorkflowContext) -> None:
        kept = MADE[name](ctx)
        await ctx.call(pay, 1)
        assert kept is not None

    assert f"ctx.{name}(…)" in fail(code)


def test_it_fails_a_run_that_swallows_the_refusal_or_goes_on_as_new() -> None:
    async def swallow(ctx: WorkflowContext) -> str:
        try:
            return "yes" if ctx.approve("Pay?") else "no"
        except WorkflowMisuse:
            return "fine"

    async def go_on(ctx: WorkflowContext) -> None:
        kept = [ctx.sleep(1)]
        ctx.continue_as_new({"n": len(kept)})

    async def below(ctx: WorkflowContext) -> None:
        async def branch() -> None:
            ctx.set_status(len([ctx.sleep(1)]))

        await ctx.gather(branch())

    for code in (swallow, below):
        assert "was never awaited" in fail(code)


@pytest.mark.parametrize("wrap", [lambda it: it, lambda it: {"answer": it}, lambda it: [it]])
def test_it_is_no_result_and_no_argument(wrap: Callable[[Any], Any]) -> None:
    async def result(ctx: WorkflowContext) -> Any:
        return wrap(ctx.now())

    async def argument(ctx: WorkflowContext) -> Any:
        return await ctx.call(pay, wrap(ctx.now()))

    async def status(ctx: WorkflowContext) -> Any:
        ctx.set_status(wrap(ctx.now()))

    assert "ctx.now(…)" in fail(result)
    for code in (argument, status):
        assert "now" in fail(code)
        assert PAID == []


def test_it_is_awaited_once() -> None:
    async def code(ctx: WorkflowContext) -> None:
        once = ctx.now()
        await once
        await once

    assert "was awaited before" in fail(code)


def test_what_is_awaited_later_or_elsewhere_is_fine() -> None:
    @workflow(tools=[pay])
    async def later(ctx: WorkflowContext) -> Any:
        first, second = ctx.call(pay, 1), ctx.call(pay, 2)
        made = [ctx.call(pay, it) for it in range(3, 6)]

        async def make() -> list[Any]:
            return [ctx.call(pay, 6)]

        async def lose() -> None:
            kept = ctx.call(pay, 99)
            await ctx.sleep(60)
            await kept

        async def fail_early() -> None:
            kept = ctx.call(pay, 99)
            await ctx.call("unknown")
            await kept

        found = [await second, await first, *(await ctx.gather(*made))]
        (handed,) = (await ctx.gather(make()))[0]
        found.append(await handed)
        await ctx.race(lose(), ctx.sleep(0))
        try:
            await ctx.gather(fail_early())
        except Exception:  # noqa: BLE001 - whatever it is
            return found
        return None

    async def story() -> Any:
        async with AgentRuntime([later]) as runtime:
            return json.loads((await runtime.run("later", {})).text)

    assert asyncio.run(story()) == [2, 1, 3, 4, 5, 6]


def run(code: Any) -> tuple[str, list[int]]:
    """Run a workflow; returns its answer or why it failed, and what was paid."""
    PAID.clear()

    async def story() -> str:
        async with AgentRuntime([workflow(id="w", tools=[pay])(code)]) as runtime:
            try:
                return (await runtime.run("w", {})).text
            except RunFailed as error:
                return str(error)

    return asyncio.run(story()), list(PAID)


def test_what_an_error_beside_it_has_lost_keeps_no_handler_from_its_steps() -> None:
    async def compensate(ctx: WorkflowContext) -> None:
        try:
            await ctx.gather(ctx.call(pay, 1), ctx.call(pay, int("x")))
        finally:
            await ctx.call(pay, 7)

    async def catch(ctx: WorkflowContext) -> int:
        try:
            await ctx.gather(*[ctx.call(pay, 2 // (1 - n)) for n in range(2)])
        except ZeroDivisionError:
            await ctx.call(pay, 8)
        return int(await ctx.call(pay, 9))

    async def chain(ctx: WorkflowContext) -> None:
        try:
            try:
                await ctx.gather(ctx.call(pay, 1), ctx.call(pay, int("x")))
            except ValueError as error:
                raise KeyError from error
        finally:
            await ctx.call(pay, 7)

    said, paid = run(compensate)
    assert "ValueError: invalid literal" in said
    assert paid == [7]
    assert run(catch) == ("9", [8, 9])
    said, paid = run(chain)
    assert "KeyError" in said
    assert paid == [7]


def test_an_error_excuses_no_statement_without_await() -> None:
    async def drop(ctx: WorkflowContext) -> None:
        try:
            ctx.approve("Pay?")
            raise KeyError
        except KeyError:
            await ctx.call(pay, 1)

    said, paid = run(drop)
    assert "ctx.approve(…) in drop" in said
    assert paid == []


@pytest.mark.parametrize("how", ["gather", "race"])
def test_an_operation_is_one_branch_once(how: str) -> None:
    async def twice(ctx: WorkflowContext) -> None:
        once = ctx.call(pay, 1)
        await getattr(ctx, how)(once, once)

    async def again(ctx: WorkflowContext) -> None:
        once = ctx.call(pay, 1)
        await once
        await getattr(ctx, how)(ctx.call(pay, 2), once)

    assert "two branches of ctx.gather or ctx.race" in fail(twice)
    assert PAID == []
    assert "was awaited before" in fail(again)
    assert PAID == [1]
