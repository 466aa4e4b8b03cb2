"""Validators of the final answer and of arguments, their limits, and what ends a run beyond."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from awaken import (
    Agent,
    AgentRuntime,
    Failed,
    Limits,
    Retry,
    RunContext,
    RunFailed,
    ToolContext,
    tool,
)
from awaken.errors import InvalidSpec
from awaken.messages import Role
from awaken.testing import ScriptedModel, ToolCalls


class Total(msgspec.Struct):
    sum: int


@dataclass
class Bound:
    most: int


def play(scenario: Callable[[], Any]) -> Any:
    return asyncio.run(scenario())


def check_plain(total: Total) -> None:
    if total.sum > 10:
        raise Retry("at most 10")


async def check_async(total: Total) -> Total:
    if total.sum > 10:
        raise ValueError("at most 10")
    return Total(99)


def check_context(ctx: RunContext[Any, Bound], total: Total) -> None:
    if total.sum > ctx.context.most:
        raise Retry(f"at most {ctx.context.most}")


@pytest.mark.parametrize("validator", [check_plain, check_async, check_context])
def test_a_refused_answer_goes_back_to_the_model_with_the_reason(validator: Any) -> None:
    model = ScriptedModel(['{"sum": 11}', '{"sum": 10}'])
    agent = Agent(
        "a", model=model, output_type=Total, output_validators=[validator], context_type=Bound
    )

    async def scenario() -> None:
        async with AgentRuntime([agent]) as runtime:
            result = await runtime.run(agent, "go", context=Bound(10))
            assert result.output == Total(10)
            assert (await runtime.wait(result.run_id)).output == Total(10)

    play(scenario)
    assert "at most 10" in model.requests[1].messages[-1].text


def test_without_an_output_type_a_validator_gets_the_text() -> None:
    def check(text: str) -> None:
        if "please" not in text:
            raise Retry("say please")

    agent = Agent("a", model=ScriptedModel(["No.", "Yes, please."]), output_validators=[check])
    assert agent.run_sync("go").text == "Yes, please."


@pytest.mark.parametrize(("retries", "steps"), [(0, 1), (1, 2), (None, 3)])
def test_a_validator_that_never_accepts_ends_the_run_with_a_typed_failure(
    retries: int | None, steps: int
) -> None:
    def never(_: str) -> None:
        raise Retry("never")

    model = ScriptedModel(["Again."], cycle=True)
    agent = Agent("a", model=model, output_validators=[never], output_retries=retries)

    async def scenario() -> None:
        async with AgentRuntime([agent]) as runtime:
            with pytest.raises(RunFailed) as caught:
                await runtime.run("a", "go")
            assert caught.value.cause_code == "output_rejected"
            assert "never" in caught.value.cause
            assert caught.value.result.output is None
            assert caught.value.result.steps == steps

    play(scenario)


async def hang(_: str) -> None:
    await asyncio.Event().wait()


def crash(_: str) -> None:
    raise KeyError("oops")


@pytest.mark.parametrize("validator", [hang, crash])
def test_a_validator_that_fails_ends_the_run_with_its_name(validator: Any) -> None:
    agent = Agent("a", model=ScriptedModel(["x"]), output_validators=[validator])

    async def scenario() -> None:
        async with AgentRuntime([agent], limits=Limits(hook_ms=50)) as runtime:
            with pytest.raises(RunFailed) as caught:
                await runtime.run("a", "go")
            assert caught.value.cause_code == "validator_failed"
            assert validator.__name__ in caught.value.cause

    play(scenario)


@pytest.mark.parametrize("validators", [[lambda: None], [lambda a, b, c: None], "text", [7]])
def test_a_validator_takes_the_output_or_a_context_and_the_output(validators: Any) -> None:
    with pytest.raises(InvalidSpec, match="output_validators"):
        Agent("a", model=ScriptedModel([]), output_validators=validators)


@pytest.mark.parametrize("retries", [-1, True, "2"])
def test_output_retries_are_a_whole_number(retries: Any) -> None:
    with pytest.raises(InvalidSpec, match="output_retries"):
        Agent("a", model=ScriptedModel([]), output_retries=retries)


def check_even(number: int) -> None:
    if number % 2:
        raise Retry("an even number, please")


@tool(effect="none", retries=1, check=check_even)
async def halve(number: int) -> int:
    """Halve an even number."""
    if number > 100:
        raise Retry("that is too large")
    if number < 0:
        raise OSError("broken")
    return number // 2


def halving(*numbers: Any) -> tuple[Any, list[str]]:
    """How a run ends whose model asks for these, one after another, and what it read."""
    script = [ToolCalls([("halve", {"number": number})]) for number in numbers]
    agent = Agent("a", model=ScriptedModel([*script, "Done."]), tools=[halve])

    async def scenario() -> tuple[Any, list[str]]:
        async with AgentRuntime([agent]) as runtime:
            handle = await runtime.start("a", "go", thread_id="t")
            result = await handle.result()
            found = await runtime.messages("t")
            return result.termination, [
                it.message.text for it in found if it.message.role is Role.TOOL
            ]

    ended: tuple[Any, list[str]] = play(scenario)
    return ended


def test_a_refused_call_goes_back_to_the_model_with_the_reason() -> None:
    ended, texts = halving(3, 4)
    assert not isinstance(ended, Failed)
    assert texts == ["Invalid arguments: an even number, please", "2"]


@pytest.mark.parametrize("numbers", [(3, 5), ("x", 7), (102, 104), (3, 102)])
def test_refusals_in_a_row_beyond_the_limit_end_the_run(numbers: Any) -> None:
    ended, texts = halving(*numbers)
    assert isinstance(ended, Failed)
    assert ended.code == "tool_retries_exceeded"
    assert "halve" in ended.message
    assert len(texts) == 2


def test_a_call_that_is_accepted_begins_a_new_row() -> None:
    ended, texts = halving(3, 4, 5, 6)
    assert not isinstance(ended, Failed)
    assert len(texts) == 4


def test_a_failure_is_no_refusal_and_breaks_no_row() -> None:
    ended, texts = halving(3, -2, 5)
    assert isinstance(ended, Failed)
    assert len(texts) == 3


def test_refusals_of_one_step_count_once_and_the_model_may_try_again() -> None:
    calls = ToolCalls([("halve", {"number": 3}), ("halve", {"number": 5})])
    agent = Agent("a", model=ScriptedModel([calls, "Done."]), tools=[halve])
    assert agent.run_sync("go").text == "Done."
    again = Agent("a", model=ScriptedModel([calls, calls, "Done."]), tools=[halve])
    with pytest.raises(RunFailed) as caught:
        again.run_sync("go")
    assert caught.value.cause_code == "tool_retries_exceeded"


@tool(effect="none")
async def ask(ctx: ToolContext) -> Any:
    """Ask."""
    return ctx.suspend("sure?")


def test_a_run_that_ends_by_refusals_waits_for_no_decision() -> None:
    first = ToolCalls([("halve", {"number": 3})])
    calls = ToolCalls([("ask", {}), ("halve", {"number": 5})])
    agent = Agent("a", model=ScriptedModel([first, calls, "Done."]), tools=[halve, ask])

    async def scenario() -> Any:
        async with AgentRuntime([agent]) as runtime:
            handle = await runtime.start("a", "go", thread_id="t")
            result = await handle.result()
            assert await runtime.tickets() == ()
            return result.termination

    ended = play(scenario)
    assert isinstance(ended, Failed)
    assert ended.code == "tool_retries_exceeded"


def test_retries_are_not_negative() -> None:
    with pytest.raises(InvalidSpec, match="retries"):

        @tool(retries=-1)
        async def never() -> None:
            """Never."""
