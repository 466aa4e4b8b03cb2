"""Stop rules: exactly as many inferences as allowed, and no answer or result is thrown away."""

import asyncio
from typing import Any

import pytest

from awaken import (
    ConsecutiveErrors,
    ContentMatch,
    LoopDetection,
    MaxRounds,
    NaturalEnd,
    RunStatus,
    StopOnTool,
    Stopped,
    Timeout,
    TokenBudget,
    ToolContext,
    tool,
)
from awaken.errors import InvalidSpec
from awaken.models import TokenUsage
from awaken.testing import Entry, ToolCalls, Turn

from .worlds import Story, World, play, simulated


@tool(effect="none")
async def echo(text: str = "a") -> str:
    return text


@tool(effect="none")
async def fail(times: int = 0) -> str:
    raise ValueError(str(times))


@tool(effect="none")
async def wait(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "done"


ECHO, FAIL = ToolCalls([("echo", {})]), ToolCalls([("fail", {})])
MIXED = ToolCalls([("fail", {}), ("echo", {})])
SPENT = TokenUsage(prompt_tokens=6, completion_tokens=4)


def said(*texts: str) -> list[Entry]:
    return [ToolCalls([("echo", {"text": text})], text=text) for text in texts]


@pytest.mark.parametrize(
    ("agent", "script", "rounds", "code"),
    [
        ({"max_rounds": 1}, [ECHO] * 3, 1, "max_rounds"),
        ({"max_rounds": 3}, [ECHO] * 5, 3, "max_rounds"),
        ({"stop": [MaxRounds(rounds=2)]}, [ECHO] * 5, 2, "max_rounds"),
        ({"max_rounds": 2}, [ECHO, "done"], 2, None),
        ({"max_rounds": 0}, [*[ECHO] * 30, "done"], 31, None),
        ({"max_rounds": 16}, [ECHO] * 20, 16, "max_rounds"),
        (
            {"stop": [TokenBudget(max_total=20)]},
            [Turn(calls=ECHO, usage=SPENT)] * 9,
            3,
            "token_budget",
        ),
        (
            {"stop": [Timeout(seconds=5)]},
            [ToolCalls([("wait", {"seconds": 2})])] * 9,
            3,
            "timeout",
        ),
        (
            {"stop": [ConsecutiveErrors(max=2)]},
            [FAIL, ECHO, FAIL, FAIL, ECHO],
            4,
            "consecutive_errors",
        ),
        ({"stop": [ConsecutiveErrors(max=2)]}, [MIXED, MIXED, MIXED, "done"], 4, None),
        ({"stop": [StopOnTool(tool_name="fail")]}, [ECHO, MIXED, ECHO], 2, "stop_on_tool"),
        (
            {"stop": [ContentMatch(pattern="(?i)enough")]},
            said("a", "ENOUGH!", "b"),
            2,
            "content_match",
        ),
        ({"stop": [LoopDetection(window=3)]}, said("a", "b", "b", "b", "b"), 4, "loop_detection"),
        ({"stop": [LoopDetection(window=0)]}, [*[ECHO] * 5, "done"], 6, None),
        (
            {"stop": [StopOnTool(tool_name="echo"), MaxRounds(rounds=1)]},
            [ECHO, ECHO],
            1,
            "stop_on_tool",
        ),
    ],
)
def test_a_run_stops_after_exactly_the_step_that_meets_its_rule(
    agent: dict[str, Any], script: list[Entry], rounds: int, code: str | None
) -> None:
    story = play(script, tools=[echo, fail, wait], **agent)

    if code is None:
        assert story.termination == NaturalEnd()
    else:
        assert isinstance(story.termination, Stopped)
        assert story.termination.reason.code == code
    assert len(story.requests) == rounds
    assert story.record is not None
    assert (story.record.steps, story.record.status) == (rounds, RunStatus.DONE)
    # The calls of the last step were executed, not interrupted.
    assert not [text for text in story.answers if "interrupted" in text]


def test_the_result_of_a_stopped_run_says_why_and_keeps_the_last_words() -> None:
    story = play(said("a", "b", "c"), tools=[echo], max_rounds=2)

    finish = story.events[-1]
    assert finish.result == {  # type: ignore[union-attr]
        "response": "b",
        "status": "done",
        "status_reason": "stopped:max_rounds",
    }
    assert story.result is not None
    assert story.result.text == "b"


def test_rules_count_over_a_suspension_and_afresh_in_the_next_run() -> None:
    @tool(effect="none")
    async def ask(ctx: ToolContext) -> object:
        return "yes" if ctx.resume else ctx.suspend("May I?")

    async def scenario() -> tuple[Any, Story]:
        script = [ECHO, ToolCalls([("ask", {})]), ECHO, ECHO, ECHO, ECHO, ECHO]
        tools = [echo, ask]
        async with World(script, tools=tools, stop=[MaxRounds(rounds=3)]) as world:
            first = await world.tell()
            assert first.result is not None
            receipt = await world.runtime.decide(first.result.tickets[0].ticket_id)
            resumed = await world.runtime.wait(receipt.run_id)
            return resumed, await world.tell()

    resumed, second = simulated(scenario)
    assert (resumed.steps, resumed.termination.reason.code) == (3, "max_rounds")
    assert second.record is not None
    assert second.record.steps == 3


@pytest.mark.parametrize(
    "rule",
    [ContentMatch(pattern="(unclosed"), LoopDetection(window=1), MaxRounds(rounds=-1)],
    ids=["pattern", "window", "negative"],
)
def test_a_rule_that_makes_no_sense_is_refused_when_it_is_written(rule: Any) -> None:
    with pytest.raises(InvalidSpec):
        World(["x"], stop=[rule])
